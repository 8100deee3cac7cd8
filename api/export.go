package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

const (
	// exportPage is the number of messages that are chosen at once.
	exportPage = 1000
	// exportPart is the number of bytes that are read at once. A larger message is read alone.
	exportPart = 2 << 20
	// exportChunk is the number of bytes that a reader must take within WriteTimeout.
	exportChunk = 64 << 10
	// exportRoom is the memory that every export reserves: for a page, a part and a chunk. Larger messages need more.
	exportRoom = timesRead*(dlq.ListBytes+exportPart) + 1<<20
	// maxExport is the largest limit that a request can name.
	maxExport = math.MaxInt32

	ndjson = "application/x-ndjson"
)

var exportParameters = slices.Concat([]string{"limit", "cursor"}, filterParameters())

func (q *query) exportedQuery(topic string) (wanted dlq.ListQuery, limit int) {
	wanted = dlq.ListQuery{Filter: q.filter(topic), Page: 1, OldestFirst: true, IsBare: true}
	limit = q.number("limit", math.MaxInt, maxExport)
	wanted.After = q.keyset(true)
	return wanted, limit
}

// export answers with a stream. Errors before the first line are ordinary answers.
func (s *Server) export(ctx context.Context, c *fiber.Ctx, q *query, topic string) error {
	wanted, limit := q.exportedQuery(topic)
	if err := q.err(); err != nil {
		return err
	}
	if err := s.guard.mayExport(ctx, topic); err != nil {
		return err
	}
	if c.Method() != http.MethodHead { // fasthttp would end an empty stream with a line break
		body, err := s.beginExport(ctx, c, wanted, limit)
		if err != nil {
			return err
		}
		c.Context().SetBodyStream(body, -1)
	}
	c.Set(fiber.HeaderContentType, ndjson)
	return nil
}

// beginExport reserves memory and a slot for the export, records it, and reads its first page.
func (s *Server) beginExport(ctx context.Context, c *fiber.Ctx, wanted dlq.ListQuery, limit int) (io.Reader, error) {
	if s.draining.Err() != nil {
		return nil, errStopping
	}
	if err := s.reserve(ctx, c, exportRoom+s.maskMemory(maskRoom)); err != nil {
		return nil, err
	}
	release, err := s.slot(ctx, s.exportLimit, "exports are running; try again later")
	if err != nil {
		return nil, err
	}
	memory, _ := c.Locals(answerKey{}).(*answer)
	e := &export{
		server: s, ctx: c.UserContext(), release: release, memory: memory, asked: *auditOf(c),
		query: wanted, left: limit, began: time.Now(),
	}
	if err := e.record(ctx, wanted, limit); err != nil {
		release()
		return nil, err
	}
	body := &exportBody{connection: c.Context().Conn(), writeTimeout: s.options.WriteTimeout}
	body.next, body.stop = iter.Pull2(e.chunks)
	if err := body.pull(); err != nil {
		body.stop()
		return nil, err
	}
	e.isStreaming = true
	return body, nil
}

var errStopping = unavailable("the server is stopping; continue at the last cursor", errors.New("the server is stopping"))

// record limits the export to messages that were created before now, and records its beginning in the audit.
func (e *export) record(ctx context.Context, wanted dlq.ListQuery, limit int) error {
	now, err := e.server.guard.Now(ctx)
	if err != nil {
		return err
	}
	if e.query.CreatedTo.IsZero() || e.query.CreatedTo.After(now) {
		e.query.CreatedTo = now
	}
	filter := e.server.guard.shownFilter(&wanted.Filter)
	detail := map[string]any{"filter": filter.Masked()}
	if limit <= maxExport {
		detail["limit"] = limit
	}
	if wanted.After != nil {
		e.place = *wanted.After
		detail["cursor"] = messageCursor(e.place, true)
	}
	accepted := e.asked
	accepted.Outcome = dlq.OperationAccepted
	describe(&accepted, detail)
	return e.server.guard.RecordOperation(ctx, accepted)
}

// export is a running export. It reads one part at a time, each with its own statements. It holds no database connection while
// its reader takes the lines.
type export struct {
	server  *Server
	ctx     context.Context // of the request, without a deadline
	release func()
	memory  *answer
	asked   dlq.Operation
	query   dlq.ListQuery
	began   time.Time

	isStreaming bool
	left        int
	sent        int64
	place       dlq.Keyset // the last message that was sent; all matching messages before it were sent too
}

// errReaderGone ends an export whose reader has disconnected. The server disconnects a reader that does not read in time.
var errReaderGone = errors.New("the reader has gone")

// chunks yields the lines in chunks, which may be empty. It yields an error only before the first line.
func (e *export) chunks(yield func([]byte, error) bool) {
	defer e.release()
	w := &exportWriter{out: bufio.NewWriterSize(yieldWriter(yield), exportChunk)}
	err := e.pages(w, func() bool { return yield(nil, nil) })
	if err != nil && !e.isStreaming && e.sent == 0 {
		yield(nil, err)
		return
	}
	e.end(w, err)
}

type yieldWriter func([]byte, error) bool

func (y yieldWriter) Write(b []byte) (int, error) {
	if !y(b, nil) {
		return 0, errReaderGone
	}
	return len(b), nil
}

// pages writes all lines of messages. It pauses after each page.
func (e *export) pages(w *exportWriter, pause func() bool) error {
	for {
		page, err := e.choose()
		if err != nil {
			return err
		}
		for part := range page.Parts(exportPart) {
			if err := e.part(w, part); err != nil {
				return err
			}
		}
		if page.Next != nil {
			e.place = *page.Next
			e.query.After = page.Next
		}
		isLast := page.Next == nil || e.left == 0
		if err := w.out.Flush(); err != nil || isLast {
			return err
		}
		if !pause() {
			return errReaderGone
		}
	}
}

func (e *export) choose() (dlq.ExportPage, error) {
	s := e.server
	if s.draining.Err() != nil {
		return dlq.ExportPage{}, errStopping
	}
	ctx, cancel := context.WithTimeout(e.ctx, s.options.RequestTimeout)
	defer cancel()
	e.query.PageSize = min(exportPage, e.left)
	return scan(ctx, s, readsMany(ctx, &e.query), func() (dlq.ExportPage, error) { return s.guard.ExportPage(ctx, e.query) })
}

func (e *export) part(w *exportWriter, part []dlq.Weight) error {
	s := e.server
	ids, read, text := make([]dlq.ID, len(part)), int64(0), int64(0)
	for i := range part {
		m := &part[i]
		ids[i], read, text = m.ID, read+m.Size(), max(text, m.Short)
	}
	ctx, cancel := context.WithTimeout(e.ctx, s.options.RequestTimeout)
	defer cancel()
	defer e.memory.shrink(exportRoom + s.maskMemory(maskRoom))
	if s.options.Masking != nil {
		read, text = 2*read, 2*text // the message is in memory twice: as it is stored and as it is shown
	}
	if err := e.memory.grow(ctx, max(0, timesRead*(read-exportPart)+timesEncoded*8*text-1<<20)); err != nil {
		return err
	}
	messages, err := s.guard.Export(ctx, ids)
	if err != nil {
		return err
	}
	known, err := s.factsOf(ctx, views(messages, func(d *dlq.Detail) dlq.Hop { return dlq.Hop{Message: d.Message, Attempts: d.Attempts} })...)
	if err != nil {
		return err
	}
	for i := range messages {
		if s.draining.Err() != nil {
			return errStopping
		}
		m := &messages[i]
		short := *m // w.message writes the headers itself
		short.Record.Headers = nil
		view := exportedView{detailView: s.viewDetail(&short, known, false)}
		if err := w.message(&view, m, messageCursor(m.Keyset(), true)); err != nil {
			return err
		}
		e.place = m.Keyset()
		e.sent++
		e.left--
	}
	return nil
}

// end records how the export has ended, and writes the last line.
func (e *export) end(w *exportWriter, err error) {
	s := e.server
	asked, detail := e.asked, map[string]any{"messages": e.sent}
	asked.ID, asked.Outcome = dlq.ID{}, dlq.OperationDone
	switch {
	case errors.Is(err, errReaderGone):
		asked.Outcome = dlq.OperationCancelled
	case err != nil:
		answer := translate(err)
		asked.Outcome, detail["code"], detail["message"] = dlq.OperationFailed, answer.code, answer.message
	}
	describe(&asked, detail)
	ctx, cancel := context.WithTimeout(e.ctx, s.options.RequestTimeout)
	defer cancel()
	if unrecorded := s.guard.RecordOperation(ctx, asked); unrecorded != nil && err == nil {
		asked.Outcome, err = dlq.OperationFailed, fmt.Errorf("record the end of the export: %w", unrecorded)
	}
	s.metrics.exports.WithLabelValues(string(asked.Outcome)).Inc()
	log, fields := s.options.Logger.Info, []zap.Field{
		zap.String("request_id", asked.RequestID), zap.String("topic", e.query.Topic), zap.Int64("messages", e.sent),
		zap.String("outcome", string(asked.Outcome)), zap.Duration("duration", time.Since(e.began)),
	}
	if err != nil {
		log, fields = s.options.Logger.Warn, append(fields, zap.Error(err))
	}
	log("export ended", fields...)
	// A failed write needs no handling: the reader has gone.
	switch {
	case errors.Is(err, errReaderGone):
	case err != nil:
		_ = w.last(translate(err).view(asked.RequestID))
	default:
		_ = w.last(map[string]any{"end": map[string]any{"count": e.sent, "cursor": messageCursor(e.place, true)}})
	}
}

// exportBody is the body of the answer. fasthttp reads it in the goroutine of the connection and closes it at the end.
type exportBody struct {
	connection   net.Conn
	writeTimeout time.Duration
	next         func() ([]byte, error, bool)
	stop         func()
	chunk        []byte
	isEnded      bool
	granted      int // bytes that may be read before the write deadline is set again
}

func (b *exportBody) pull() error {
	chunk, err, more := b.next()
	b.chunk, b.isEnded, b.granted = chunk, !more, 0
	return err
}

func (b *exportBody) Read(p []byte) (int, error) {
	for len(b.chunk) == 0 {
		if b.isEnded {
			return 0, io.EOF
		}
		if err := b.pull(); err != nil {
			return 0, err
		}
	}
	if b.granted == 0 {
		b.granted = exportChunk
		if err := b.connection.SetWriteDeadline(time.Now().Add(b.writeTimeout)); err != nil {
			return 0, err
		}
	}
	n := copy(p[:min(len(p), b.granted)], b.chunk)
	b.chunk, b.granted = b.chunk[n:], b.granted-n
	return n, nil
}

// Close ends an export, also if its reader has not read it to the end.
func (b *exportBody) Close() error {
	b.stop()
	return nil
}
