package e2e

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// closeTarget makes one of the topic's two targets refuse every record, as partitions with
// too few in-sync replicas do. Messages for the other target must still be sent.
func (c *chaos) closeTarget(d *dice) bool {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.Brokers()...))
	require.NoError(c.t, err)
	defer client.Close()
	shut, free := d.topic.targets[d.number%2], d.topic.targets[(d.number+1)%2]
	from := time.Now()
	if err := setMinISR(c.t.Context(), client, shut, "2"); err != nil {
		c.journal.note("minisr: %v", err)
		return false
	}
	defer func() { c.windows.add("minisr", from, time.Now()) }()
	before, freeBefore, waiting := c.length(shut), c.length(free), c.stillToSend(d.topic, free)
	c.journal.note("minisr: %s is closed, %d messages wait for %s", shut, waiting, free)
	running, known := c.liveJob(c.t.Context(), d.topic.dlq)
	pause(c.t.Context(), d.closed)
	written, flowed := c.length(shut)-before, c.length(free)-freeBefore
	after, stillKnown := c.liveJob(c.t.Context(), d.topic.dlq)
	for i := 0; ; i++ {
		if err = setMinISR(c.t.Context(), client, shut, "1"); err == nil {
			break
		}
		require.Less(c.t, i, 30, "%s stays closed: %v", shut, err)
		pause(c.t.Context(), time.Second)
	}
	c.journal.note("minisr: %s took %d records while it was closed, %s took %d", shut, written, free, flowed)
	if flowed > 0 {
		c.journal.count("variant: minisr, and the other target's messages flowed")
	}
	steady := known && stillKnown && running != nil && after != nil && running.ID == after.ID &&
		running.State == "RUNNING" && after.State == "RUNNING"
	if after != nil {
		c.journal.note("minisr: bulk retry %s is %s: %q", after.ID, after.State, after.Reason)
	}
	if steady && flowed == 0 && c.stillToSend(d.topic, free) >= waiting && waiting > 0 && !c.windows.anyIn(from, time.Now()) {
		c.journal.violate("%s was closed for %s, and none of %d messages for %s were sent by bulk retry %s", shut, d.closed, waiting, free, running.ID)
	}
	return written == 0
}

func setMinISR(ctx context.Context, client *kgo.Client, topic, n string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	answers, err := kadm.NewClient(client).AlterTopicConfigs(ctx,
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: &n}}, topic)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return answer.Err
		}
	}
	return nil
}

// length is how many records a topic has received.
func (c *chaos) length(topic string) int64 {
	var n int64
	for _, end := range c.ends(topic) {
		n += end
	}
	return n
}

// stillToSend is how many messages the topic's running job has left for a target.
func (c *chaos) stillToSend(topic chaosTopic, target string) int {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	var n int
	if c.pool.QueryRow(ctx, `
		SELECT count(*) FROM dlq.dlq_messages m
		JOIN dlq.dlq_jobs b ON b.topic = m.dlq_topic AND b.state = 'RUNNING'
		WHERE m.status = 'PENDING' AND m.dlq_topic = $1 AND m.original_topic = $2
			AND m.updated_at <= b.started_at AND m.owner_token <> b.id::text`, topic.dlq, target).Scan(&n) != nil {
		return 0
	}
	return n
}
