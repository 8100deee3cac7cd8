package e2e

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Topics of rows that are written by hand. Such rows have only the documented columns, so they have no
// dead-letter topic and no body. Until the drain, only the faults retry these rows.
const (
	handTopic   = "chaos.byhand.v1"
	cancelTopic = "chaos.cancelled.v1"
)

// handwritten is a row that is inserted by hand.
type handwritten struct {
	status     string
	count, max int
}

// handwrittenRows end in one of four ways: sent, released and then sent, released and then DEAD, or
// unchanged because their retries are used up from the start.
var handwrittenRows = []handwritten{
	{"PENDING", 0, 1}, {"PENDING", 2, 3}, {"PENDING", 1, 50}, {"PENDING", 49, 50}, {"PENDING", 3, 3}, {"PENDING", 7, 3},
	{"RETRYING", 0, 3}, {"RETRYING", 1, 3}, {"RETRYING", 1, 50}, {"RETRYING", 3, 3},
}

// handStatement is a statement of another program, which knows only the documented columns.
type handStatement struct {
	what, sql string
	// again is set if a message that is being sent may become PENDING, and so be sent again.
	again bool
}

// byHand are statements that change rows of the topics of the chaos.
var byHand = []handStatement{
	{what: "retry begins", sql: `
		UPDATE dlq.dlq_messages SET status = 'RETRYING', last_retry_at = NOW()
		WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' AND dlq_topic = ANY ($1) ORDER BY seq LIMIT 3 FOR UPDATE SKIP LOCKED)
		RETURNING id::text, dlq_topic`},
	{what: "retry begins and counts", sql: `
		UPDATE dlq.dlq_messages SET status = 'RETRYING', retry_count = retry_count + 1
		WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' AND dlq_topic = ANY ($1) ORDER BY seq DESC LIMIT 2 FOR UPDATE SKIP LOCKED)
		RETURNING id::text, dlq_topic`},
	{what: "retry fails", again: true, sql: `
		UPDATE dlq.dlq_messages
		SET retry_count = retry_count + 1, status = CASE WHEN retry_count + 1 >= max_retries THEN 'DEAD' ELSE 'PENDING' END
		WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE status = 'RETRYING' AND dlq_topic = ANY ($1) LIMIT 3 FOR UPDATE SKIP LOCKED)
		RETURNING id::text, dlq_topic`},
}

// writeByHand changes rows as operators do with SQL.
func (c *chaos) writeByHand(d *dice) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	done := 0
	for _, row := range handwrittenRows {
		id, err := c.insertByHand(ctx, handTopic, row)
		if err != nil {
			c.journal.note("by hand: %v", err)
			break
		}
		done++
		if row.status == "RETRYING" && d.number%2 == 0 && row.count == 1 { // a RETRYING row without an owner can be retried
			c.askRetry(ctx, "retry one by hand", id)
		}
	}
	for _, s := range byHand {
		if err := c.changeByHand(ctx, s); err != nil {
			c.journal.note("by hand: %s: %v", s.what, err)
		}
	}
	c.ask(ctx, "start", http.MethodPost, "/api/v1/jobs", map[string]any{"kind": "retry", "topic": handTopic, "reason": "chaos by hand"})
	return done == len(handwrittenRows)
}

func (c *chaos) changeByHand(ctx context.Context, s handStatement) error {
	c.hands.writing.Lock()
	defer c.hands.writing.Unlock()
	from := time.Now()
	rows, err := c.pool.Query(ctx, s.sql, chaosTopicNames())
	if err != nil {
		return err
	}
	var id, topic string
	_, err = pgx.ForEachRow(rows, []any{&id, &topic}, func() error {
		c.hands.add(id, topic)
		if s.again {
			c.windows.insert(window{what: "hand", from: from, to: time.Now(), message: id})
		}
		c.journal.note("by hand: %s: %s", s.what, id)
		c.journal.count("variant: by hand, " + s.what)
		return nil
	})
	return err
}

func (c *chaos) insertByHand(ctx context.Context, topic string, row handwritten) (id string, err error) {
	err = c.pool.QueryRow(ctx, `
		INSERT INTO dlq.dlq_messages (original_topic, error_message, retry_count, max_retries, payload, status)
		VALUES ($1, 'written by hand', $2, $3, '{"by": "hand"}', $4) RETURNING id::text`,
		topic, row.count, row.max, row.status).Scan(&id)
	if err == nil {
		c.hands.wrote(id, row)
	}
	return id, err
}

// hands records the changes that were made to the table by hand.
type hands struct {
	writing sync.RWMutex // locked until the changes of a statement are recorded
	mu      sync.Mutex
	changed []string       // ids of changed messages of the dead-letter topics
	topics  map[string]int // number of changed messages of each topic
	rows    map[string]handwritten
	runs    map[string]bool // cancelled runs of single retries
	singled map[string]bool // ids of messages for which a single retry was asked
}

func newHands() *hands {
	return &hands{topics: map[string]int{}, rows: map[string]handwritten{}, runs: map[string]bool{}, singled: map[string]bool{}}
}

func (h *hands) add(id, topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, id)
	h.topics[topic]++
}

func (h *hands) wrote(id string, row handwritten) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows[id] = row
}

func (h *hands) cancelled(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[run] = true
}

func (h *hands) single(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.singled[id] = true
}

func (h *hands) isSingled(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.singled[id]
}

func (h *hands) isCancelled(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run]
}

// row returns a row as it was written.
func (h *hands) row(id string) handwritten {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows[id]
}

func (h *hands) ids() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.changed...) // not nil, which would be NULL in SQL
}

// in is the number of changed messages of a topic.
func (h *hands) in(topic string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[topic]
}

func (h *hands) changedOne(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.changed, id)
}
