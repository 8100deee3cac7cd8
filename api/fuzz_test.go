package api

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// FuzzCursor searches for a cursor that can be written in two ways, and for a position that a cursor does not keep.
func FuzzCursor(f *testing.F) {
	f.Add("v7YpVQAGSz7nPzoAAAAAAAAAAII", int64(0), int64(1), false)
	f.Add("9WFaqAAGSz7PnzoAAZnA3nAAcACAAAAAAAAABw", int64(0), int64(1), false)
	f.Add("JM5MwgAGSz7nPzoAAAAAAAAAAIM", int64(-1<<63), int64(1<<63-1), true)
	f.Add("v7YpVQAGSz7nPzoA__________8", int64(1<<63-1), int64(0), false)
	f.Add("_cAn-gAGSz7nPzoAXyscnnpBjT-cDktqLY4fcA", int64(253402300800000000), int64(7), false)
	f.Add("v7YpVQAGSz7nPzoAAAAAAAAAAII\n", int64(253402300800000000), int64(0), true)
	f.Fuzz(func(t *testing.T, cursor string, micros, seq int64, oldestFirst bool) {
		for _, list := range []string{messageList(oldestFirst), auditList, groupList(&dlq.GroupQuery{Sort: dlq.GroupsByLastSeen})} {
			var ofMessage messagePlace
			if decodeCursor(cursor, list, &ofMessage) {
				require.Equal(t, cursor, encodeCursor(list, ofMessage))
			}
			var place dlq.Place
			if decodeCursor(cursor, list, &place) {
				require.Equal(t, cursor, encodeCursor(list, place))
			}
		}
		place := dlq.Place{Rank: micros, ID: dlq.ID{15: byte(seq)}}
		groups := readQuery("sort=last_seen&cursor="+encodeCursor(groupList(&dlq.GroupQuery{Sort: dlq.GroupsByLastSeen}), place), groupParameters)
		if got := groups.groups(); groups.err() == nil {
			require.Equal(t, &place, got.After)
		} else {
			require.True(t, micros < 0 || micros > lastTime.UnixMicro())
		}
		position := dlq.Keyset{CreatedAt: time.UnixMicro(micros).UTC(), Seq: seq &^ (-1 << 63)}
		messages := readQuery("cursor="+messageCursor(position, oldestFirst), listParameters)
		require.Equal(t, &position, messages.keyset(oldestFirst))
		require.NoError(t, messages.err())
		messages.keyset(!oldestFirst)
		require.Error(t, messages.err())
	})
}

// FuzzQuery searches for accepted parameters of a list that the store cannot use, or that the caller did not mean.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"", "page=3&page_size=200&sort=created_at", "status=PENDING&status=DEAD,RETRYING", "status=%C3&status=%A9", "key=", "key=%00",
		"error=%ff", "error=%ED%A0%80", "error=a;b", "%ff=1", "page=+1", "page=1e0", "page=%EF%BC%91", "page_size=" + strings.Repeat("9", 400),
		"created_from=1969-12-31T23:59:59.999999999Z&created_to=9999-12-31T23:59:59Z", "created_to=9999-12-31T23:59:59-01:00",
		"created_from=0002-01-01T00:00:00+23:59", "created_from=2026-02-20T10:30:00 00:00", "created_to=2026-02-29T00:00:00Z",
		"cursor=v7YpVQAGSz7nPzoAAAAAAAAAAII", "cursor=JM5MwgAGSz7nPzoAAAAAAAAAAII&sort=created_at",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q := readQuery(raw, listParameters)
		wanted := q.list(dlq.Filter{Topic: "orders.dlq"})
		if err := q.err(); err != nil {
			requirePrintable(t, err)
			return
		}
		require.True(t, 1 <= wanted.Page && wanted.Page <= maxPage && 1 <= wanted.PageSize && wanted.PageSize <= maxPageSize)
		requireUsable(t, &wanted.Filter)
	})
}

// FuzzBody searches for an accepted body of a bulk retry that another JSON reader understands in another way.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"retry","topic":"orders.dlq"}`, `{"kind":"retry","topic":"orders.dlq","topic":"pay.dlq"}`, `{"kind":"retry","topic":"` + strings.Repeat("a", 249) + `"}`, `{"Topic":"a"}`,
		`{"kind":"retry","topic":"a","rate_limit":1e3}`, `{"kind":"retry","topic":"a","rate_limit":0.5e1}`, `{"kind":"retry","topic":"a","rate_limit":-0.0}`,
		`{"kind":"retry","topic":"a","rate_limit":1.00000000000000000000000001}`, `{"kind":"retry","topic":"a","rate_limit":` + strings.Repeat("9", 400) + `}`,
		`{"kind":"retry","topic":"a","rate_limit":1e-9223372036854775808}`, `{"kind":"retry","topic":"a","rate_limit":0.` + strings.Repeat("0", 400) + `1e401}`,
		`{"kind":"retry","topic":"a","error":"\u0000"}`, `{"kind":"retry","topic":"a","error":"\ud800"}`, "{\"topic\":\"a\",\"key\":\"\xff\"}", `{"kind":"retry","topic":"a","reason":null}`,
		`{"kind":"retry","topic":"a","created_from":"1969-12-31T23:59:59Z","created_to":"10000-01-01T00:00:00Z"}`,
		`{"kind":"retry","topic":"a","ids":["550e8400-e29b-41d4-a716-446655440000","550E8400-E29B-41D4-A716-446655440000"]}`,
		`{"kind":"retry","topic":"a","ramp":{"steps":[1,1e2],"wait":"1h0.5s","max_came_back":1e-400}}`, `{"kind":"retry","topic":"a","ramp":{"steps":[1],"wait":"1e3s"}}`,
		strings.Repeat("[", 10_000), strings.Repeat(`{"kind":"retry","topic":`, 10_000), `{"kind":"retry","topic":"a"} x`, `{"kind":"retry","topic":"a","status":["PENDING","PENDING"]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := &body{fieldErrors: &fieldErrors{}}
		b.parse(raw, jobFields)
		spec := b.spec()
		if err := b.err(); err != nil {
			requirePrintable(t, err)
			return
		}
		var other struct {
			Topic, Error, Key, Reason string
			Ids                       []dlq.ID
			RateLimit                 json.Number `json:"rate_limit"`
			Ramp                      *struct{ Steps []json.Number }
		}
		require.NoError(t, json.Unmarshal(raw, &other))
		require.True(t, dlq.IsTopicName(spec.Topic))
		require.Equal(t, []string{other.Topic, other.Error, other.Key, other.Reason}, []string{spec.Topic, spec.ErrorContains, string(spec.Key), spec.Reason})
		require.ElementsMatch(t, other.Ids, spec.IDs)
		requireSameInteger(t, string(other.RateLimit), spec.RateLimit)
		require.True(t, 0 <= spec.RateLimit && spec.RateLimit <= maxRate)
		requireUsable(t, &spec.Filter)
		require.Equal(t, spec.Storable(), spec)
		if spec.Ramp != nil {
			for i, step := range other.Ramp.Steps {
				requireSameInteger(t, string(step), spec.Ramp.Steps[i])
			}
			require.True(t, minRampWait <= spec.Ramp.Wait && spec.Ramp.Wait <= maxRampWait, spec.Ramp.Wait)
			require.True(t, 0 <= spec.Ramp.MaxCameBack && spec.Ramp.MaxCameBack <= 1)
		}
	})
}

// requireSameInteger compares with exact arithmetic. It skips large exponents, with which exact arithmetic would not end.
func requireSameInteger(t *testing.T, text string, read int) {
	t.Helper()
	if text == "" || len(text) > 1000 || regexp.MustCompile(`[eE][+-]?\d{5}`).MatchString(text) {
		return
	}
	exact, ok := new(big.Rat).SetString(text)
	require.True(t, ok)
	require.Zero(t, exact.Cmp(big.NewRat(int64(read), 1)), text)
}

// FuzzPrefer searches for waits above the limit, and for text that is lost between two preferences.
func FuzzPrefer(f *testing.F) {
	for _, seed := range []string{
		"wait=5", `respond-async, wait="10"; x=1`, `wait=` + strings.Repeat("9", 400), `a="b,wait=3", WAIT = 4`, `"\`, "wait=-1", "wait=٣", "respond-async=no",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		wait, _ := parsePrefer(line)
		require.True(t, -1 <= wait && wait <= 999_999_999, wait)
		require.Equal(t, line, strings.Join(splitQuoted(line, ','), ","))
	})
}

// requireUsable requires that PostgreSQL accepts the filter, and that the filter can match a message.
func requireUsable(t *testing.T, filter *dlq.Filter) {
	t.Helper()
	require.True(t, isText(filter.ErrorContains) && isText(string(filter.Key)))
	for _, status := range filter.Statuses {
		require.Contains(t, dlq.Statuses, status)
	}
	for _, at := range []time.Time{filter.CreatedFrom, filter.CreatedTo} {
		require.True(t, at.IsZero() || 2 <= at.Year() && at.Year() <= 9999, at)
	}
	require.True(t, filter.CreatedFrom.IsZero() || filter.CreatedTo.IsZero() || filter.CreatedFrom.Before(filter.CreatedTo))
}

// requirePrintable requires an error whose text can be in an answer unchanged.
func requirePrintable(t *testing.T, err error) {
	t.Helper()
	answer := translate(err)
	require.Equal(t, codeValidation, answer.code)
	require.Less(t, len(answer.message), 1<<16)
	require.Equal(t, dlq.StorableText(answer.message), answer.message)
	for _, d := range answer.details {
		require.NotEmpty(t, d.Message)
		require.Equal(t, []string{dlq.StorableText(d.Field), dlq.StorableText(d.Message)}, []string{d.Field, d.Message})
		require.Less(t, len(d.Field)+len(d.Message), 1000)
	}
}
