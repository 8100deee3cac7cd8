package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
)

// flood stops the taking in while too many messages are PENDING: of all topics, or of
// one. Kafka keeps the rest.
type flood struct {
	// room is how many more messages may be stored before they are counted again, of
	// each topic that has been counted, and of all.
	room map[string]int64
	all  int64
	held map[string]bool
}

// limits reports whether there is anything to keep to.
func (in *Ingest) limits() bool { return in.o.MaxPending > 0 || in.o.MaxPendingPerTopic > 0 }

// fill notes what was stored, and reports whether there is no room for more.
func (f *flood) fill(batch []received, in *Ingest) (full bool) {
	for i := range batch {
		topic := batch[i].claim.topic
		f.room[topic]--
		f.all--
		full = full || in.o.MaxPending > 0 && f.all <= 0 || in.o.MaxPendingPerTopic > 0 && f.room[topic] <= 0
	}
	return full
}

// regulate counts the PENDING messages, and holds the topics that have too many or lets
// them go again. When they cannot be counted, everything stays as it is.
func (in *Ingest) regulate(ctx context.Context) {
	if !in.limits() {
		return
	}
	topics := slices.Sorted(maps.Keys(in.owned.positions()))
	limit, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	counts, pending, err := in.store.Pending(limit, topics)
	if err != nil {
		if ctx.Err() == nil {
			in.log.Warn("cannot count the PENDING messages", zap.Error(err))
		}
		return
	}
	room, all, held := map[string]int64{}, in.o.MaxPending-pending, map[string]bool{}
	for i, topic := range topics {
		room[topic] = in.o.MaxPendingPerTopic - counts[i]
		if in.o.MaxPending > 0 && all <= 0 || in.o.MaxPendingPerTopic > 0 && room[topic] <= 0 {
			held[topic] = true
		}
	}
	in.flood.room, in.flood.all = room, all
	in.hold(held)
}

// hold stops the fetching of these topics and lets the others go on.
func (in *Ingest) hold(held map[string]bool) {
	before := in.flood.held
	in.flood.held = held
	if maps.Equal(before, held) {
		return
	}
	names := slices.Sorted(maps.Keys(held))
	in.client.ResumeFetchTopics(slices.Collect(maps.Keys(before))...)
	in.client.PauseFetchTopics(names...)
	in.metrics.held.Reset()
	for _, name := range names {
		in.metrics.held.WithLabelValues(name).Set(1)
	}
	if len(held) == 0 {
		in.status.flooded(nil)
		in.log.Info("fewer messages are PENDING; ingest goes on")
		return
	}
	in.status.flooded(fmt.Errorf("too many messages are PENDING (ingest.max_pending %d, ingest.max_pending_per_topic %d): nothing is taken in of %s",
		in.o.MaxPending, in.o.MaxPendingPerTopic, strings.Join(names, ", ")))
	in.log.Warn("too many messages are PENDING; Kafka keeps the rest",
		zap.Strings("topics", names), zap.Int64("max_pending", in.o.MaxPending), zap.Int64("max_pending_per_topic", in.o.MaxPendingPerTopic))
}
