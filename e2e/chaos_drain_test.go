package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// heal waits until all parts are ready and every produced dead letter is stored.
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

// toSend is the condition of the rows that a retry may claim.
const toSend = "status = 'PENDING' AND retry_count < max_retries"

// drain lets every job end, and then retries the remaining messages until none is left. If messages or jobs
// are left at a time limit, it records a violation and returns, so that the proof can find further
// violations.
func (c *chaos) drain() {
	c.journal.note("--- drain")
	ctx := c.t.Context()
	settled := func(what string, limit time.Duration, condition func() bool) {
		if !c.eventually(what, limit, condition) {
			c.journal.violate("stuck: not so after %s: %s; %s", limit, what, c.stuck())
		}
	}
	settled("every job has ended", drainLimit, func() bool { return c.hurryJobs(ctx) })
	settled("nothing is RETRYING, or PENDING with retries left", drainLimit, func() bool {
		if c.countRows("status = 'RETRYING' OR "+toSend) == 0 {
			return true
		}
		for _, topic := range append(chaosTopicNames(), handTopic, cancelTopic) {
			running, known := c.liveJob(ctx, topic)
			if known && running == nil && c.countRows(toSend+" AND '"+topic+"' IN (dlq_topic, original_topic)") > 0 {
				c.ask(ctx, "start", "POST", "/api/v1/dlq/"+topic+"/retry-all", nil)
			}
		}
		return false
	})
	settled("every job has ended", drainLimit, func() bool { return c.hurryJobs(ctx) })
	settled("every single retry has ended", drainLimit, func() bool { return c.openRetries() == 0 })
}

// drainLimit is longer than any justified wait of the product.
const drainLimit = 3 * time.Minute

// stuck describes the remaining messages and jobs.
func (c *chaos) stuck() string {
	rows, err := c.pool.Query(c.t.Context(), `
		SELECT format('%s × %s of %s by %s %s', count(*), status, original_topic, left(workflow_id, 13), CASE owner_token WHEN '' THEN 'no owner' ELSE 'a token' END)
		FROM dlq.dlq_messages WHERE status = 'RETRYING' OR `+toSend+`
		GROUP BY status, original_topic, left(workflow_id, 13), owner_token = '', CASE owner_token WHEN '' THEN 'no owner' ELSE 'a token' END
		ORDER BY 1 LIMIT 20`)
	if err != nil {
		return err.Error()
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d single retries run; %s", c.openRetries(), strings.Join(lines, ", "))
}

// hurryJobs resumes paused jobs and lifts every limit. It returns true if no job is left.
func (c *chaos) hurryJobs(ctx context.Context) bool {
	jobs, known := c.jobs(ctx)
	for _, j := range jobs {
		if !j.live() {
			continue
		}
		known = false
		if j.RateLimit != 0 {
			c.ask(ctx, "rate", "PATCH", "/api/v1/jobs/"+j.ID, map[string]any{"rate_limit": 0})
		}
		if j.isPaused() {
			c.steer(ctx, j.ID, "resume", 0)
		}
	}
	return known
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

// recordID identifies a record of a topic.
type recordID struct {
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
