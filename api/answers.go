package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// The largest answers, in bytes of JSON. Short answers, such as one job, one group or the answer to a change, reserve no
// memory. So an operator can cancel a job at any time.
const (
	// answerList is for chains, plans and lists. Pages of messages end at dlq.ListBytes, and the texts of jobs, groups and
	// topics are short.
	answerList = dlq.ListBytes + 256<<10
	// answerDecoded is for one value or one key that the Schema Registry decodes.
	answerDecoded = 8 << 20
	// answerPointed is for the record that a pointer names.
	answerPointed = 8 << 20
)

// While an answer is made, its parts are in memory several times. timesRead counts the bytes from the database and their copy
// in Go. timesEncoded counts the JSON: its buffer grows by doubling, and is then copied.
const (
	timesRead    = 2
	timesEncoded = 3
)

// peakOf is the most memory that an answer of so many bytes needs.
func peakOf(encoded int64) int64 { return (timesRead + timesEncoded) * encoded }

// peakOfDetail is the memory for one message with all its parts. A header is shown as base64 and as text. JSON writes a control
// character as six characters.
func peakOfDetail(w *dlq.Weight) int64 {
	encoded := w.Binary*4/3 + w.Payload + 8*(w.Long+w.Short)
	return timesRead*w.Size() + timesEncoded*encoded
}

// answer is the memory that a request holds, as part of the budget for all answers in flight.
type answer struct {
	*share
	wait time.Duration
	held int64
}

type answerKey struct{}

// holding reserves the memory for a list before the handler reads it.
func (s *Server) holding(h handler) handler {
	return func(ctx context.Context, c *fiber.Ctx, q *query) error {
		if err := s.reserve(ctx, c, s.peakOfList()); err != nil {
			return err
		}
		return h(ctx, c, q)
	}
}

// peakOfList is the memory for a list. If masking is configured, the list also reads its messages, a bounded number of bytes at
// a time.
func (s *Server) peakOfList() int64 {
	return peakOf(answerList) + s.maskMemory(2*timesRead*exportPart+maskRoom)
}

// maskMemory returns its argument if masking is configured, and 0 otherwise.
func (s *Server) maskMemory(bytes int64) int64 {
	if s.options.Masking == nil {
		return 0
	}
	return bytes
}

// reserve waits a bounded time for more memory for a request. The memory is in the locals of the request. fasthttp closes them
// when the answer is written, when the connection has failed, or when the client does not read in time.
func (s *Server) reserve(ctx context.Context, c *fiber.Ctx, bytes int64) error {
	held, ok := c.Locals(answerKey{}).(*answer)
	if !ok {
		held = &answer{share: s.answers.join(clientName(c, accessOf(ctx).Principal), math.MaxInt), wait: s.options.AnswerWait}
		c.Locals(answerKey{}, held)
	}
	return held.grow(ctx, bytes)
}

// settle keeps the memory for the encoded answer and frees the other memory of the request.
func settle(c *fiber.Ctx, encoded int) {
	if held, ok := c.Locals(answerKey{}).(*answer); ok {
		held.shrink(int64(encoded))
	}
}

func (r *answer) grow(ctx context.Context, bytes int64) error {
	if most := r.half(); r.held+bytes > most {
		return unavailable(fmt.Sprintf("this request needs %d MiB of memory, and one client may use %d MiB; raise server.answer_memory",
			(r.held+bytes)>>20+1, most>>20), errNoRoom)
	}
	if bytes == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	switch isTaken, isOwn := r.take(ctx, bytes); {
	case isTaken:
		r.held += bytes
		return nil
	case isOwn:
		return unavailable("your other requests in flight use all the memory that one client may use; try again later", errNoRoom)
	default:
		return unavailable("other requests in flight use all the memory of server.answer_memory; try again later", errNoRoom)
	}
}

var errNoRoom = errors.New("no memory for the answer")

func (r *answer) shrink(to int64) {
	if surplus := r.held - to; surplus > 0 {
		r.release(surplus)
		r.held = to
	}
}

// Close frees the memory.
func (r *answer) Close() error {
	r.shrink(0)
	r.leave()
	return nil
}
