package client_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// An answer that sends on is no success, whatever its body is.
func TestAnAnswerThatSendsOnIsAnError(t *testing.T) {
	t.Parallel()
	stay := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c := serve(t, client.Config{HTTP: stay}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://elsewhere.example.com/")
		answer(w, http.StatusPermanentRedirect, `{}`)
	})
	_, err := c.GetMe(t.Context(), nil)
	require.ErrorContains(t, err, "sends on to https://elsewhere.example.com/")
}

func TestAnAnswerThatWasCutSaysSo(t *testing.T) {
	t.Parallel()
	c := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, `{"subject":`) })
	_, err := c.GetMe(t.Context(), nil)
	require.ErrorContains(t, err, "broken or cut JSON")
}

// A poll would otherwise repeat the request for ever.
func TestATokenOfSeveralLinesIsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t, client.Config{Token: client.StaticToken("a\r\nb")}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	_, err := c.WaitForJob(t.Context(), "id", nil)
	require.ErrorContains(t, err, "line break")
}

func TestAFileThatIsTooLongIsNoToken(t *testing.T) {
	t.Parallel()
	_, err := client.FileToken("/dev/zero").Token(t.Context())
	require.ErrorContains(t, err, "is no token")
}

// A job that was seen is there, whatever a proxy says while the server is replaced.
func TestFollowingOutlastsAnUpgradeBehindAProxy(t *testing.T) {
	t.Parallel()
	looks := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { answer(w, http.StatusOK, `{"kind": "dead", "state": "RUNNING"}`) },
		func(w http.ResponseWriter) { http.Error(w, "default backend", http.StatusNotFound) },
		func(w http.ResponseWriter) {
			answer(w, http.StatusInternalServerError, `{"error": {"code": "SYS_DLQ_INTERNAL", "message": "m", "request_id": "r", "details": []}}`)
		},
		func(w http.ResponseWriter) { answer(w, http.StatusOK, `{"kind": "dead", "state": "COMPLETED"}`) },
	}
	next := func(w http.ResponseWriter, _ *http.Request) { looks[0](w); looks = looks[1:] }
	config := client.Config{LongestDelay: time.Millisecond, PollEvery: time.Millisecond}
	_, err := serve(t, config, next).WaitForJob(t.Context(), "j", nil)
	require.NoError(t, err)
	require.Empty(t, looks)

	looks = []func(http.ResponseWriter){func(w http.ResponseWriter) { http.Error(w, "default backend", http.StatusNotFound) }}
	_, err = serve(t, config, next).WaitForJob(t.Context(), "j", nil)
	require.ErrorContains(t, err, "check the address of the server", "nothing says that there is a job")
}

func TestAnAgentOfATokenCommandHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	token, err := client.CommandToken("sh", "-c", "echo t; sleep 30 &").Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "t", token)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = client.CommandToken("sh", "-c", "sleep 30 & wait").Token(ctx)
	require.Error(t, err)
	require.Less(t, time.Since(begin), 10*time.Second)
}
