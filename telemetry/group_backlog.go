package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

var (
	groupsPending = prometheus.NewDesc("dlq_groups",
		"Groups that have PENDING messages, by dead-letter topic and state: new (its first message is less than an hour old), "+
			"regressed (failed again after its fix), open, held or fixed. Every replica has the same value.", []string{"topic", "state"}, nil)
	groupMessages = prometheus.NewDesc("dlq_group_pending_messages",
		"PENDING messages of these groups. Messages without a group are only in dlq_messages.", []string{"topic", "state"}, nil)
	causeMessages = prometheus.NewDesc("dlq_cause_pending_messages",
		"PENDING messages of each group that is new, regressed or open. cause is its title. Groups beyond ten of a topic and a "+
			"state share the cause other: the latest ones, and of open groups the smallest.", []string{"topic", "state", "cause"}, nil)
	groupOldest = prometheus.NewDesc("dlq_group_oldest_pending_age_seconds",
		"Age of the oldest PENDING message of these groups. Present only for topics that have a held group.", []string{"topic", "state"}, nil)
)

// NewGroupCollector exports the groups by state, so that alerts can leave out held groups. The collector
// reads the counts with read, which is Store.GroupBacklogs. The caller registers the collector.
func NewGroupCollector(read func(context.Context) ([]dlq.GroupBacklog, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the groups", backlogInterval, read, logger, exportGroups, groupsPending, groupMessages, groupOldest, causeMessages)
}

func exportGroups(backlogs []dlq.GroupBacklog, _ time.Time, set gauge) {
	// By topic and state; the topics beyond the limit are added up.
	type place struct{ topic, state string }
	sums := map[place]dlq.GroupBacklog{}
	causes := map[cause]int64{}
	var topics dlq.TopicLabels // the backlogs are sorted by topic, so each scrape gives the same labels
	for _, b := range backlogs {
		at := place{topics.Of(b.DLQTopic), string(b.State)}
		sum := sums[at]
		sum.Groups, sum.Pending = sum.Groups+b.Groups, sum.Pending+b.Pending
		sum.OldestPending = earlier(sum.OldestPending, b.OldestPending)
		sums[at] = sum
		if b.State.HasCauses() {
			addCauses(causes, at.topic, &b)
		}
	}
	for of, pending := range causes {
		set(causeMessages, float64(pending), of.topic, of.state, of.cause)
	}
	for at, sum := range sums {
		set(groupsPending, float64(sum.Groups), at.topic, at.state)
		set(groupMessages, float64(sum.Pending), at.topic, at.state)
		if sum.OldestPending != nil {
			set(groupOldest, ageOf(*sum.OldestPending), at.topic, at.state)
		}
	}
}

// cause is a group in the metrics, by its title.
type cause struct{ topic, state, cause string }

// otherCause are the groups that are not named.
const otherCause = "other"

// addCauses counts the messages of the groups. Groups of topics without a label of their own are
// not named.
func addCauses(causes map[cause]int64, topic string, b *dlq.GroupBacklog) {
	rest := b.Pending
	if topic != dlq.OtherTopics {
		for _, c := range b.Causes {
			causes[cause{topic, string(b.State), c.Title}] += c.Pending
			rest -= c.Pending
		}
	}
	if rest > 0 {
		causes[cause{topic, string(b.State), otherCause}] += rest
	}
}

func ageOf(at time.Time) float64 { return max(time.Since(at), 0).Seconds() }

// earlier is the earlier of two times of which each may be nil.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}
