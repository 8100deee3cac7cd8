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
