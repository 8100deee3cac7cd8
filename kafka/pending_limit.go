package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// pendingLimit pauses a topic that has too many PENDING messages, and pauses all topics while they together
// have too many. Kafka keeps the remaining records.
type pendingLimit struct {
	// remaining is how many more messages of each counted topic may be stored before the next count.
	// remainingTotal is the same number for all topics together.
	remaining      map[string]int64
	remainingTotal int64
	paused         map[string]bool
}

func newPendingLimit() pendingLimit { return pendingLimit{remaining: map[string]int64{}} }

func (in *Ingest) hasPendingLimit() bool {
	return in.o.MaxPending > 0 || in.o.MaxPendingPerTopic > 0
}

// subtract counts a stored batch, and reports whether a limit is reached.
func (l *pendingLimit) subtract(arrivals []*dlq.Arrival, in *Ingest) (reached bool) {
	for _, a := range arrivals {
		l.remaining[a.DLQTopic]--
		l.remainingTotal--
		reached = reached || in.o.MaxPending > 0 && l.remainingTotal <= 0 || in.o.MaxPendingPerTopic > 0 && l.remaining[a.DLQTopic] <= 0
	}
	return reached
}

// enforcePendingLimit counts the PENDING messages, pauses the topics that have too many,
// and resumes all other topics. If the count fails, nothing changes.
func (in *Ingest) enforcePendingLimit(ctx context.Context) {
	if !in.hasPendingLimit() {
		return
	}
	topics := slices.Sorted(maps.Keys(in.assignments.positions()))
	limit, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	counts, pending, err := in.store.Pending(limit, topics)
	if err != nil {
		if ctx.Err() == nil {
			in.log.Warn("cannot count the PENDING messages", zap.Error(err))
		}
		return
	}
	remaining, total, paused := map[string]int64{}, in.o.MaxPending-pending, map[string]bool{}
	for i, topic := range topics {
		remaining[topic] = in.o.MaxPendingPerTopic - counts[i]
		if in.o.MaxPending > 0 && total <= 0 || in.o.MaxPendingPerTopic > 0 && remaining[topic] <= 0 {
			paused[topic] = true
		}
	}
	in.pendingLimit.remaining, in.pendingLimit.remainingTotal = remaining, total
	in.pauseTopics(paused)
}

// pauseTopics stops fetching these topics and resumes all other topics.
func (in *Ingest) pauseTopics(paused map[string]bool) {
	before := in.pendingLimit.paused
	in.pendingLimit.paused = paused
	if maps.Equal(before, paused) {
		return
	}
	names := slices.Sorted(maps.Keys(paused))
	in.client.ResumeFetchTopics(slices.Collect(maps.Keys(before))...)
	in.client.PauseFetchTopics(names...)
	in.metrics.held.Reset()
	for _, name := range names {
		in.metrics.held.WithLabelValues(in.metrics.topics.Of(name)).Set(1)
	}
	if len(paused) == 0 {
		in.status.setError(tooManyPending, nil)
		in.log.Info("fewer messages are PENDING; ingest continues")
		return
	}
	in.status.setError(tooManyPending, fmt.Errorf(
		"too many messages are PENDING (ingest.max_pending %d, ingest.max_pending_per_topic %d): nothing is ingested from %s",
		in.o.MaxPending, in.o.MaxPendingPerTopic, strings.Join(names, ", ")))
	in.log.Warn("too many messages are PENDING; Kafka keeps the remaining records",
		zap.Strings("topics", names), zap.Int64("max_pending", in.o.MaxPending), zap.Int64("max_pending_per_topic", in.o.MaxPendingPerTopic))
}
