package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTheReasonOfAJobHasNoAnswerOfAnEndpointIfPartsOfMessagesAreHidden(t *testing.T) {
	t.Parallel()
	masking, err := dlq.NewMasking([]dlq.MaskRule{{Topics: []string{"orders.*"}, Value: []string{"email"}, As: "mask"}}, nil)
	require.NoError(t, err)
	for reason, want := range map[string]string{
		"http:shop answered 503 Service Unavailable: no alice@example.com": "http:shop answered 503 Service Unavailable: ***",
		"http:shop answered 503 Service Unavailable":                       "http:shop answered 503 Service Unavailable",
		"paused by ann": "paused by ann", "": "",
	} {
		require.Equal(t, want, guard{masking: masking}.shownReason(reason))
		require.Equal(t, reason, guard{}.shownReason(reason))
	}
}
