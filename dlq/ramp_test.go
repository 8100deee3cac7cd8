package dlq_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestEarlierVersionsCannotReadARampThatWaitsForVerification(t *testing.T) {
	t.Parallel()
	type earlier struct {
		Steps       []int         `json:"steps,omitempty"`
		Wait        time.Duration `json:"wait_ns,omitempty"`
		MaxCameBack float64       `json:"max_came_back,omitempty"`
	}
	ramp := dlq.Ramp{Steps: []int{1, 10}, Wait: time.Second, MaxCameBack: 0.5}
	for confirm, readable := range map[string]bool{"": true, dlq.ConfirmVerified: false} {
		ramp.Confirm = confirm
		encoded, err := json.Marshal(dlq.BulkSpec{Ramp: &ramp})
		require.NoError(t, err)
		var spec dlq.BulkSpec
		require.NoError(t, json.Unmarshal(encoded, &spec))
		require.Equal(t, &ramp, spec.Ramp)
		var old struct{ Ramp earlier }
		require.Equal(t, readable, json.Unmarshal(encoded, &old) == nil)
	}
	require.Error(t, json.Unmarshal([]byte(`{"ramp":{"steps":[1],"later":1}}`), &dlq.BulkSpec{}))
}
