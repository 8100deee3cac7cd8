package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// targetField is the field in which a request names the target of its messages.
const targetField = "target_topic"

// target reads targetField. Without it, messages go to the targets of the configuration.
func (b *body) target() string {
	target, given := b.text(targetField, maxBulkText)
	if given && target == "" {
		b.reject(targetField, "must not be empty; omit it to send to the original topic")
	}
	return target
}

// checkTarget refuses a target before messages are claimed for it. originalTopic is empty if the request is for several
// messages.
func (s *Server) checkTarget(ctx context.Context, originalTopic, requested string) error {
	if requested == "" || requested == originalTopic {
		return nil
	}
	if err := accessOf(ctx).require(requested); err != nil {
		return err
	}
	refused := func(reason string) error {
		return invalid("invalid request body: "+targetField, detail{Field: targetField, Message: requested + " " + reason})
	}
	var wrong *dlq.TargetError
	if _, err := s.options.Targets.Of(originalTopic, requested); errors.As(err, &wrong) {
		return refused(wrong.Reason)
	}
	if _, isEndpoint := dlq.EndpointOf(requested); isEndpoint || s.options.Ends == nil {
		return nil
	}
	ends, err := s.options.Ends.EndOffsets(ctx, []string{requested})
	switch {
	case err != nil:
		return unavailable("Kafka does not tell whether the target topic exists, so nothing was retried; try again later", err)
	case len(ends) == 0:
		return refused("does not exist in Kafka, or the manager may not see it")
	}
	return nil
}

// checkOrigin refuses to send a message to an original topic that the sender may not choose. Anybody who may write to a
// dead-letter topic chooses the original topic; see dlq.Topics.MaySend.
func (s *Server) checkOrigin(ctx context.Context, c *fiber.Ctx, m *dlq.Message) error {
	a := accessOf(ctx)
	if a.withinRoute() == "" || s.options.Topics.MaySend(m.DLQTopic, m.OriginalTopic, false) {
		return nil
	}
	if !a.MayOn(a.permission, m.OriginalTopic) {
		return &apiError{status: http.StatusForbidden, code: codeForbidden, message: fmt.Sprintf(
			"the message names the original topic %s, which does not follow from the name of %s; to send it there needs the permission %s on topic %s",
			m.OriginalTopic, m.DLQTopic, a.permission, m.OriginalTopic)}
	}
	if err := s.reserveDetail(ctx, c, m.ID, false); err != nil {
		return err
	}
	d, err := s.guard.stored(ctx, m.ID, false)
	if err == nil && d.Record.IsEmpty() {
		err = &apiError{status: http.StatusForbidden, code: codeForbidden, message: foreignPointer + " sends it"}
	}
	return err
}

// foreignPointer begins the reason why a pointer is neither shown nor sent.
const foreignPointer = "its headers may name a record of another topic; only a grant for all topics"

// byTarget returns the numbers of messages of a plan by target. counts are the numbers by original topic.
func (s *Server) byTarget(counts []dlq.PreviewCount, matched int64, requested string) []dlq.PreviewCount {
	if requested != "" && matched > 0 {
		return []dlq.PreviewCount{{Name: requested, Count: matched}}
	}
	var targets []dlq.PreviewCount
	for _, count := range counts {
		target, _ := s.options.Targets.Of(count.Name, "")
		if i := slices.IndexFunc(targets, func(t dlq.PreviewCount) bool { return t.Name == target }); i >= 0 {
			targets[i].Count += count.Count
			continue
		}
		targets = append(targets, dlq.PreviewCount{Name: target, Count: count.Count})
	}
	return targets
}
