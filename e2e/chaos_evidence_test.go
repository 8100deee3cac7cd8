package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// letter is one dead letter, with all data about it in the topics and tables.
type letter struct {
	id         string
	source     recordID
	seq        int64
	status     string
	retryCount int
	workflowID string
	runID      string
	failures   int      // recorded attempts that failed
	late       bool     // a delivery was recorded after its claim was gone
	cancelled  []string // numbers of the failed attempts that were cancelled single retries
	bySingle   bool     // a single retry of the message was asked for
	byNone     bool     // a job with the order "none" has failed to send the message
	byHand     bool     // its row was changed by hand
	written    *handwritten
	key        []byte
	value      []byte
	copies     []sent
}

// sent is one copy of a message in the target topic. at is the record's timestamp. If the client repeats a
// request, the record keeps its timestamp.
type sent struct {
	recordID
	at    time.Time
	count string // the retry count in the record's header
}

// ended is a bulk retry that should have ended.
type ended struct {
	job
	lanes int
	bound int64 // upper bound of its scope
}

// evidence is the input of the proof.
type evidence struct {
	letters []*letter // by topic, partition and offset
	written []*letter // rows that were written by hand
	byID    map[string]*letter
	jobs    []*ended
	jobByID map[string]*ended
}

func (c *chaos) gather() *evidence {
	e := &evidence{byID: map[string]*letter{}, jobByID: map[string]*ended{}}
	bySource := map[recordID]*letter{}
	for _, l := range c.readLetters() {
		if other := bySource[l.source]; other != nil {
			c.journal.violate("record %v is stored twice: %s and %s", l.source, other.id, l.id)
		}
		bySource[l.source], e.byID[l.id] = l, l
		e.letters = append(e.letters, l)
	}
	for _, l := range c.readWritten() {
		e.byID[l.id] = l
		e.written = append(e.written, l)
	}
	e.jobs = c.readJobs()
	for _, j := range e.jobs {
		e.jobByID[j.ID] = j
	}
	c.readAttempts(e)
	c.matchSources(e, bySource)
	for _, topic := range chaosTopics {
		for _, target := range topic.targets {
			for _, r := range c.read(target) {
				c.matchCopy(e, topic.dlq, r)
			}
		}
	}
	for _, target := range []string{handTopic, cancelTopic} {
		for _, r := range c.read(target) {
			c.matchCopy(e, "", r)
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
		l.bySingle = strings.HasPrefix(l.workflowID, "retry-message-") || c.hands.isSingled(l.id)
		l.byHand = c.hands.changedOne(l.id)
		return l, err
	})
	require.NoError(c.t, err)
	return letters
}

// readWritten returns the rows that were written by hand, which have no body.
func (c *chaos) readWritten() []*letter {
	rows, err := c.pool.Query(c.t.Context(), `
		SELECT id::text, seq, status, retry_count, workflow_id, owner_token
		FROM dlq.dlq_messages WHERE original_topic = ANY ($1) ORDER BY seq`, []string{handTopic, cancelTopic})
	require.NoError(c.t, err)
	letters, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*letter, error) {
		l := &letter{written: &handwritten{}}
		err := row.Scan(&l.id, &l.seq, &l.status, &l.retryCount, &l.workflowID, &l.runID)
		*l.written = c.hands.row(l.id)
		return l, err
	})
	require.NoError(c.t, err)
	return letters
}

// readJobs reads the jobs from the API, which the contract describes. Only the upper bound of a job's scope
// comes from the table, because the API does not return the upper bound.
func (c *chaos) readJobs() []*ended {
	rows, err := c.pool.Query(c.t.Context(), `
		SELECT id::text, lanes, upper_bound FROM dlq.dlq_jobs ORDER BY started_at`)
	require.NoError(c.t, err)
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ended, error) {
		j := &ended{}
		return j, row.Scan(&j.ID, &j.lanes, &j.bound)
	})
	require.NoError(c.t, err)
	for _, j := range jobs {
		answer := c.ask(c.t.Context(), "job", http.MethodGet, "/api/v1/jobs/"+j.ID, nil)
		require.True(c.t, answer.ok(), "job %s: %d %s", j.ID, answer.status, answer.body)
		require.NoError(c.t, json.Unmarshal(answer.body, &j.job))
		require.Contains(c.t, []string{"key", "none"}, j.Order, "an order that this proof knows")
	}
	return slices.DeleteFunc(jobs, func(j *ended) bool { return j.Topic == handTopic || j.Topic == cancelTopic })
}

// readAttempts reads the recorded attempts: failed retries, and deliveries after the claim was gone.
func (c *chaos) readAttempts(e *evidence) {
	rows, err := c.pool.Query(c.t.Context(), "SELECT message_id::text, number, workflow_id, owner_token, result FROM dlq.dlq_retry_attempts")
	require.NoError(c.t, err)
	var id, workflowID, runID, result string
	var number int
	_, err = pgx.ForEachRow(rows, []any{&id, &number, &workflowID, &runID, &result}, func() error {
		l := e.byID[id]
		if l == nil {
			c.journal.violate("an attempt of message %s, which is not stored", id)
			return nil
		}
		switch {
		case result == string(dlq.ResultDelivered):
			l.late = true
		case c.hands.isCancelled(runID):
			l.failures++
			l.cancelled = append(l.cancelled, strconv.Itoa(number))
		default:
			l.failures++
		}
		l.bySingle = l.bySingle || strings.HasPrefix(workflowID, "retry-message-")
		if j := e.jobByID[runID]; j != nil && j.Order == "none" {
			l.byNone = true
		}
		return nil
	})
	require.NoError(c.t, err)
}

// matchSources compares the dead-letter topics with the table.
func (c *chaos) matchSources(e *evidence, bySource map[recordID]*letter) {
	inTopics, values := 0, map[string]bool{}
	for _, topic := range chaosTopics {
		for _, r := range c.read(topic.dlq) {
			inTopics++
			values[string(r.Value)] = true
			l := bySource[recordID{r.Topic, r.Partition, r.Offset}]
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

// matchCopy finds the dead letter for a record of a target topic, and adds the record to its copies.
func (c *chaos) matchCopy(e *evidence, source string, r *kgo.Record) {
	at := recordID{r.Topic, r.Partition, r.Offset}
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
	case l.source.topic != source:
		c.journal.violate("%v is a copy of %s from %s", at, l.id, l.source.topic)
	case l.written == nil && !bytes.Equal(l.value, r.Value) || l.written == nil && l.key != nil && !bytes.Equal(l.key, r.Key):
		c.journal.violate("%v is not byte for byte what %s is", at, l.id)
	}
	l.copies = append(l.copies, sent{recordID: at, at: r.Timestamp, count: header("dlq-retry-count")})
}

func (l *letter) String() string {
	var copies []string
	for _, s := range l.copies {
		copies = append(copies, fmt.Sprintf("%d/%d at %s as retry %s", s.partition, s.offset, s.at.Format("15:04:05.000"), s.count))
	}
	return fmt.Sprintf("%s (%d/%d, seq %d, key %s, %s, count %d, %d failures, by %s %s; sent: %s)", l.id, l.source.partition, l.source.offset,
		l.seq, l.key, l.status, l.retryCount, l.failures, l.workflowID, l.runID, strings.Join(copies, ", "))
}
