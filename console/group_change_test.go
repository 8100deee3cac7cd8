package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

func TestAPersonHoldsACause(t *testing.T) {
	t.Parallel()
	b := open(t, groupAPI(aGroup()))
	b.api["PATCH /api/v1/groups/"+groupID] = aGroup()
	form := url.Values{"do": {"hold"}, "for": {"8h"}, "rate": {"100"}, "owner": {"ann"}, "reason": {"release\r\non Monday"}, "seen": {seenIn(t, b.get(groupPath))}}
	answer := b.post(groupPath, form)
	require.Equal(t, http.StatusSeeOther, answer.Code)
	require.Equal(t, groupPath, answer.Header().Get("Location"))
	require.Len(t, b.calls, 1)
	_, body, _ := strings.Cut(b.calls[0], "{")
	var sent client.GroupChange
	require.NoError(t, json.Unmarshal([]byte("{"+body), &sent))
	require.Equal(t, "held", string(*sent.State))
	require.Equal(t, int64(100), *sent.Until.Rate)
	require.WithinDuration(t, time.Now().Add(8*time.Hour), *sent.Until.At, time.Minute)
	require.Equal(t, []string{"ann", "release\non Monday"}, []string{*sent.Owner, *sent.Reason})
	require.Contains(t, b.get(groupPath).text, "The cause is held: its alerts are quiet.")
}

func TestAHoldWithoutAnEndKeepsTheForm(t *testing.T) {
	t.Parallel()
	b := open(t, groupAPI(aGroup()))
	for name, value := range map[string]string{"rate": "many", "count": "0", "at": "tomorrow", "reason": "because"} {
		form := url.Values{"do": {"hold"}, "for": {""}, "seen": {seenIn(t, b.get(groupPath))}, name: {value}}
		answer := b.post(groupPath, form)
		require.Equal(t, http.StatusBadRequest, answer.Code)
		require.Contains(t, answer.text, `<details id="hold" class="act" open>`)
		require.Contains(t, answer.text, `value="`+value+`"`)
	}
	require.Empty(t, b.calls)
}

func TestTheSecondOfTwoPeopleIsToldWhoWasQuicker(t *testing.T) {
	t.Parallel()
	b := open(t, groupAPI(aGroup()))
	seen := seenIn(t, b.get(groupPath))
	b.api["GET /api/v1/groups/"+groupID] = aGroup(func(g *client.Group) { g.State, g.StateAt = "held", noon.Add(time.Hour) })
	b.api["GET /api/v1/audit"] = map[string]any{"operations": []any{map[string]any{
		"id": "1", "at": noon.Add(time.Hour), "subject": "ann", "outcome": "done", "detail": map[string]any{"state": "held", "owner": "ann"}}}}
	answer := b.post(groupPath, url.Values{"do": {"fix"}, "reason": {"release 42"}, "seen": {seen}})
	require.Equal(t, http.StatusConflict, answer.Code)
	require.Contains(t, answer.text, "Nothing was changed")
	require.Contains(t, answer.text, "ann at 13:00:00 UTC: Held, Owner: ann.")
	require.Contains(t, answer.text, `value="release 42"`)
	require.Empty(t, b.calls)
	require.NotEqual(t, seen, seenIn(t, answer), "whoever sends the form again means the new state")
}

func TestAnArrivalDoesNotStopAForm(t *testing.T) {
	t.Parallel()
	held := func(rest int64) client.Group {
		return aGroup(func(g *client.Group) {
			g.State, g.Hold, g.Arrived = "held", &client.Group_Hold{Count: &rest}, new(1000-rest)
		})
	}
	require.Equal(t, seenOf(held(9)), seenOf(held(8)))
}

func TestAFixSaysWhichTopicsHaveNoMark(t *testing.T) {
	t.Parallel()
	b := open(t, groupAPI(aGroup()))
	b.api["POST /api/v1/groups/"+groupID+"/fixed"] = client.GroupFixed{
		Group: aGroup(), FixedAt: noon, Note: "", Marks: []client.GroupFixed_Marks{{Topic: "orders", Partitions: 3, Ends: []client.GroupFixed_Marks_Ends{}}},
		Unmarked: []client.GroupFixed_Unmarked{{Topic: "orders.v0", Reason: "it does not exist in Kafka"}},
	}
	b.post(groupPath, url.Values{"do": {"fix"}, "reason": {"release 42"}, "ticket": {"https://t.example/1"}, "seen": {seenIn(t, b.get(groupPath))}})
	require.Equal(t, []string{`POST /api/v1/groups/` + groupID + `/fixed {"reason":"release 42","ticket":"https://t.example/1"}`}, b.calls)
	text := b.get(groupPath).text
	require.Contains(t, text, "The ends of 3 partitions of orders are noted.")
	require.Contains(t, text, "No end of orders.v0 could be noted (it does not exist in Kafka)")
}

func TestNotesSendOnlyWhatIsDifferent(t *testing.T) {
	t.Parallel()
	b := open(t, groupAPI(aGroup(func(g *client.Group) { g.Owner, g.Note = new("ann"), new("old\nnote") })))
	b.api["PATCH /api/v1/groups/"+groupID] = aGroup()
	form := url.Values{"do": {"notes"}, "owner": {""}, "ticket": {""}, "note": {"old\r\nnote"}, "seen": {seenIn(t, b.get(groupPath))}}
	b.post(groupPath, form)
	require.Equal(t, []string{`PATCH /api/v1/groups/` + groupID + ` {"owner":""}`}, b.calls)
	form.Set("owner", "ann")
	b.post(groupPath, form)
	require.Len(t, b.calls, 1, "nothing is different")
}

func TestARefusalOfTheAPIKeepsTheForm(t *testing.T) {
	t.Parallel()
	b := open(t, groupAPI(aGroup()))
	b.api["PATCH /api/v1/groups/"+groupID] = apiError{http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "not for all its topics"}
	answer := b.post(groupPath, url.Values{"do": {"notes"}, "note": {"long thoughts"}, "seen": {seenIn(t, b.get(groupPath))}})
	require.Equal(t, http.StatusForbidden, answer.Code)
	require.Contains(t, answer.text, "not for all its topics")
	require.Contains(t, answer.text, "\nlong thoughts</textarea>")
}
