package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Temporal lists the pollers of a killed worker for minutes.
func TestAWorkerThatPolledLongAgoDoesNotCount(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	polled := func(identity string, age time.Duration) *taskqueuepb.PollerInfo {
		return &taskqueuepb.PollerInfo{Identity: identity, LastAccessTime: timestamppb.New(now.Add(-age))}
	}
	for name, c := range map[string]struct {
		pollers []*taskqueuepb.PollerInfo
		want    Installation
	}{
		"none":                        {nil, Installation{}},
		"one of two, in both queues":  {[]*taskqueuepb.PollerInfo{polled("a", time.Minute), polled("a", 5*time.Second), polled("b", 2*time.Minute)}, Installation{Pollers: 1, LastPoll: now.Add(-5 * time.Second)}},
		"a killed one":                {[]*taskqueuepb.PollerInfo{polled("a", 3*time.Minute)}, Installation{LastPoll: now.Add(-3 * time.Minute)}},
		"two, by a clock that is off": {[]*taskqueuepb.PollerInfo{polled("a", -time.Minute), polled("b", 0)}, Installation{Pollers: 2, LastPoll: now.Add(time.Minute)}},
	} {
		var s Installation
		s.setPollers(c.pollers, now)
		require.Equal(t, c.want, s, name)
	}
}
