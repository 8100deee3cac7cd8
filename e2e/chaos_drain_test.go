package e2e

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// heal waits until all is up and every dead letter that was produced is stored.
func (c *chaos) heal() {
	c.journal.note("--- heal")
	c.waitUntil("all programs are ready", 3*time.Minute, c.allReady)
	produced := 0
	for _, topic := range chaosTopics {
		for _, end := range c.ends(topic.dlq) {
			produced += int(end)
		}
	}
	c.journal.note("%d dead letters were produced", produced)
	c.waitUntil("every dead letter is stored", 3*time.Minute, func() bool { return c.stored() >= produced })
}

// drain lets every job end, and then retries what is left until nothing is.
func (c *chaos) drain() {
	c.journal.note("--- drain")
	ctx := c.t.Context()
	c.waitUntil("every job has ended", 5*time.Minute, func() bool { return c.hurryJobs(ctx) })
	c.waitUntil("nothing is PENDING or RETRYING", 5*time.Minute, func() bool {
		if c.countRows("status IN ('PENDING', 'RETRYING')") == 0 {
			return true
		}
		for _, topic := range chaosTopics {
			if running, known := c.liveJob(ctx, topic); known && running == nil && c.countRows("status = 'PENDING' AND dlq_topic = '"+topic.dlq+"'") > 0 {
				c.startFinal(ctx, topic)
			}
		}
		return false
	})
	c.waitUntil("every job has ended", 5*time.Minute, func() bool { return c.hurryJobs(ctx) })
}

// hurryJobs resumes what is paused and lifts every limit. It reports whether no
// job is left.
func (c *chaos) hurryJobs(ctx context.Context) bool {
	jobs, known := c.jobs(ctx)
	for _, j := range jobs {
		if !j.live() {
			continue
		}
		known = false
		if j.RateLimit != 0 {
			c.ask(ctx, "rate", "PATCH", "/api/v1/bulk-retries/"+j.ID, map[string]any{"rate_limit": 0})
		}
		if j.State == "PAUSED" {
			c.steer(ctx, j.Topic, j.ID, "resume", 0)
		}
	}
	return known
}

func (c *chaos) startFinal(ctx context.Context, topic chaosTopic) {
	c.ask(ctx, "start", "POST", "/api/v1/dlq/"+topic.dlq+"/retry-all", nil)
}

// ends are the end offsets of a topic's partitions.
func (c *chaos) ends(topic string) map[int32]int64 {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.Brokers()...))
	require.NoError(c.t, err)
	defer client.Close()
	offsets, err := kadm.NewClient(client).ListEndOffsets(c.t.Context(), topic)
	require.NoError(c.t, err)
	require.NoError(c.t, offsets.Error())
	ends := map[int32]int64{}
	offsets.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends
}

// place is where a record is.
type place struct {
	topic     string
	partition int32
	offset    int64
}

// read returns every record of a topic, in the order of each partition.
func (c *chaos) read(topic string) []*kgo.Record {
	ends := c.ends(topic)
	from := map[int32]kgo.Offset{}
	left := int64(0)
	for partition, end := range ends {
		from[partition] = kgo.NewOffset().AtStart()
		left += end
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.Brokers()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	require.NoError(c.t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	var records []*kgo.Record
	for left > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(c.t, ctx.Err(), "%d records of %s are missing", left, topic)
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			left--
		})
	}
	return records
}
