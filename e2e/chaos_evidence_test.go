package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// letter is one dead letter, with all that the topics and tables tell of it.
type letter struct {
	id         string
	source     place
	seq        int64
	status     string
	retryCount int
	workflowID string
	runID      string
	failures   int  // attempts that are written down
	bySingle   bool // a single retry sent it, or tried to
	byNone     bool // a job without order tried in vain
	key        []byte
	value      []byte
	copies     []sent
}

// sent is one copy in the target topic. at is when the producer was given it;
// the client's own repetitions of a request keep it.
type sent struct {
	place
	at    time.Time
	count string // the retry count that it was sent with
}

// lane totals and spec of a bulk retry, from the tables.
type ended struct {
	id, topic, state, order                 string
	lanes                                   int
	bound                                   int64
	matched, retried, failed, dead, skipped int64
	cameBack                                int64
	startedAt                               time.Time
	endedAt                                 *time.Time
}

// evidence is everything that the proof rests on.
type evidence struct {
	letters []*letter // by topic, partition and offset
	byID    map[string]*letter
	jobs    []*ended
	jobByID map[string]*ended
}

func (c *chaos) gather() *evidence {
	e := &evidence{byID: map[string]*letter{}, jobByID: map[string]*ended{}}
	bySource := map[place]*letter{}
	for _, l := range c.readLetters() {
		if other := bySource[l.source]; other != nil {
			c.journal.violate("record %v is stored twice: %s and %s", l.source, other.id, l.id)
		}
		bySource[l.source], e.byID[l.id] = l, l
		e.letters = append(e.letters, l)
	}
	e.jobs = c.readJobs()
	for _, j := range e.jobs {
		e.jobByID[j.id] = j
	}
	c.readAttempts(e)
	c.matchSources(e, bySource)
	for _, topic := range chaosTopics {
		for _, r := range c.read(topic.target) {
			c.matchCopy(e, topic, r)
		}
	}
	return e
}

func (c *chaos) readLetters() []*letter {
	rows, err := c.pool.Query(c.t.Context(), `
		SELECT m.id::text, m.dlq_topic, b.partition, b.record_offset, m.seq, m.status, m.retry_count, m.workflow_id, m.owner_token
		FROM (SELECT id, dlq_topic, seq, status, retry_count, workflow_id, owner_token FROM dlq.dlq_messages
			UNION ALL SELECT id, dlq_topic, seq, status, retry_count, workflow_id, owner_token FROM dlq.dlq_messages_archive) AS m
		JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
		ORDER BY m.dlq_topic, b.partition, b.record_offset`)
	require.NoError(c.t, err)
	letters, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*letter, error) {
		l := &letter{}
		err := row.Scan(&l.id, &l.source.topic, &l.source.partition, &l.source.offset, &l.seq, &l.status, &l.retryCount, &l.workflowID, &l.runID)
		l.bySingle = strings.HasPrefix(l.workflowID, "retry-message-")
		return l, err
	})
	require.NoError(c.t, err)
	return letters
}

func (c *chaos) readJobs() []*ended {
	rows, err := c.pool.Query(c.t.Context(), `
		SELECT b.id::text, b.topic, b.state, COALESCE(b.spec->>'order', ''), b.lanes, b.bound, b.matched,
			sum(l.retried)::bigint, sum(l.failed)::bigint, sum(l.dead)::bigint, sum(l.skipped)::bigint + b.skipped,
			b.came_back, b.started_at, b.ended_at
		FROM dlq.dlq_bulk_retries b JOIN dlq.dlq_bulk_retry_lanes l ON l.bulk_id = b.id
		GROUP BY b.id ORDER BY b.started_at`)
	require.NoError(c.t, err)
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ended, error) {
		j := &ended{}
		return j, row.Scan(&j.id, &j.topic, &j.state, &j.order, &j.lanes, &j.bound, &j.matched,
			&j.retried, &j.failed, &j.dead, &j.skipped, &j.cameBack, &j.startedAt, &j.endedAt)
	})
	require.NoError(c.t, err)
	for _, j := range jobs {
		require.Contains(c.t, []string{"", "key", "none"}, j.order, "an order that this proof knows")
	}
	return jobs
}

func (c *chaos) readAttempts(e *evidence) {
	rows, err := c.pool.Query(c.t.Context(), "SELECT message_id::text, workflow_id, owner_token FROM dlq.dlq_retry_attempts")
	require.NoError(c.t, err)
	var id, workflowID, runID string
	_, err = pgx.ForEachRow(rows, []any{&id, &workflowID, &runID}, func() error {
		l := e.byID[id]
		if l == nil {
			c.journal.violate("an attempt of message %s, which is not stored", id)
			return nil
		}
		l.failures++
		l.bySingle = l.bySingle || strings.HasPrefix(workflowID, "retry-message-")
		if j := e.jobByID[runID]; j != nil && j.order == "none" {
			l.byNone = true
		}
		return nil
	})
	require.NoError(c.t, err)
}

// matchSources holds the dead-letter topics against the table.
func (c *chaos) matchSources(e *evidence, bySource map[place]*letter) {
	inTopics, values := 0, map[string]bool{}
	for _, topic := range chaosTopics {
		for _, r := range c.read(topic.dlq) {
			inTopics++
			values[string(r.Value)] = true
			l := bySource[place{r.Topic, r.Partition, r.Offset}]
			if l == nil {
				c.journal.violate("dead letter %s/%d/%d is not stored", r.Topic, r.Partition, r.Offset)
				continue
			}
			l.key, l.value = r.Key, r.Value
		}
	}
	if inTopics != len(e.letters) {
		c.journal.violate("%d dead letters in the topics, %d in the table", inTopics, len(e.letters))
	}
	for value := range c.producer.acknowledged {
		if !values[value] {
			require.Failf(c.t, "the broker lost what it had acknowledged", "this proves nothing about the product: %s", value)
		}
	}
}

// matchCopy finds what a record of a target topic is a copy of.
func (c *chaos) matchCopy(e *evidence, topic chaosTopic, r *kgo.Record) {
	at := place{r.Topic, r.Partition, r.Offset}
	header := func(name string) string {
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
		if i < 0 {
			return ""
		}
		return string(r.Headers[i].Value)
	}
	l := e.byID[header("dlq-message-id")]
	switch {
	case l == nil:
		c.journal.violate("%v is a copy of nothing: %q", at, header("dlq-message-id"))
		return
	case l.source.topic != topic.dlq:
		c.journal.violate("%v is a copy of %s from %s", at, l.id, l.source.topic)
	case !bytes.Equal(l.value, r.Value) || l.key != nil && !bytes.Equal(l.key, r.Key):
		c.journal.violate("%v is not byte for byte what %s is", at, l.id)
	}
	l.copies = append(l.copies, sent{place: at, at: r.Timestamp, count: header("dlq-retry-count")})
}

func (l *letter) String() string {
	var copies []string
	for _, s := range l.copies {
		copies = append(copies, fmt.Sprintf("%d/%d at %s as retry %s", s.partition, s.offset, s.at.Format("15:04:05.000"), s.count))
	}
	return fmt.Sprintf("%s (%d/%d, seq %d, key %s, %s, count %d, %d failures, by %s %s; sent: %s)", l.id, l.source.partition, l.source.offset,
		l.seq, l.key, l.status, l.retryCount, l.failures, l.workflowID, l.runID, strings.Join(copies, ", "))
}
