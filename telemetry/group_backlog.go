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

// NewGroupCollector exports the groups by state, so that alerts can exclude held groups. read is Store.GroupBacklogs. The
// caller must register the collector.
func NewGroupCollector(read func(context.Context) ([]dlq.GroupBacklog, error), logger *zap.Logger) prometheus.Collector {
	return newCollector("the groups", backlogInterval, read, logger, exportGroups, groupsPending, groupMessages, groupOldest, causeMessages)
}

func exportGroups(backlogs []dlq.GroupBacklog, _ time.Time, to gauges) {
	var topics dlq.TopicLabels // the backlogs are sorted by topic, so a topic gets the same label in every scrape
	for _, b := range backlogs {
		topic, state := topics.Of(b.DLQTopic), string(b.State)
		to.add(groupsPending, float64(b.Groups), topic, state)
		to.add(groupMessages, float64(b.Pending), topic, state)
		if b.OldestPending != nil {
			to.raise(groupOldest, ageOf(*b.OldestPending), topic, state)
		}
		if b.State.HasCauses() {
			exportCauses(&b, topic, to)
		}
	}
}

// otherCause is the label for the messages of all groups that have no label of their own.
const otherCause = "other"

// exportCauses exports the messages of each group with the title of the group as a label. Topics that share the label
// OtherTopics have no titles.
func exportCauses(b *dlq.GroupBacklog, topic string, to gauges) {
	rest := b.Pending
	if topic != dlq.OtherTopics {
		for _, c := range b.Causes {
			to.add(causeMessages, float64(c.Pending), topic, string(b.State), c.Title)
			rest -= c.Pending
		}
	}
	if rest > 0 {
		to.add(causeMessages, float64(rest), topic, string(b.State), otherCause)
	}
}
