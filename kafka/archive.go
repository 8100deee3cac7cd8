package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// headerReason says why an archived message ended.
const headerReason = "dlq-reason"

// archivedRecord has the key, the value and all headers of the dead letter, byte for byte. Two more headers
// come last. Their place matters, because a message that came back already has a header of the same name,
// with the id of the previous message. The timestamp is new, as for a republished record.
func archivedRecord(e *dlq.Exhausted, topic string) *kgo.Record {
	return &kgo.Record{Topic: topic, Key: e.Record.Key, Value: e.Record.Value, Headers: withHeaders(e.Record.Headers,
		kgo.RecordHeader{Key: headerMessageID, Value: []byte(e.ID.String())},
		kgo.RecordHeader{Key: headerReason, Value: []byte(e.Reason())})}
}

// archive publishes messages to an archive topic, and waits until each is acknowledged by all in-sync
// replicas or has failed. Messages that were deleted are not sent. Unreadable messages fail as bad data. A
// failed message blocks no other message, so the order of a key is not promised. A cancellation does not
// interrupt a publish; MaxDuration bounds the publish.
func (p *Publisher) archive(ctx context.Context, topic string, page []dlq.Exhausted) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.MaxDuration())
	defer cancel()
	errs := make([]error, len(page))
	var sends []sending
	var sent []int // their places in the page
	for i := range page {
		switch {
		case page[i].Unreadable != nil:
			errs[i] = &dlq.DeliveryError{Category: dlq.CategoryBadData, MessageOnly: true, Err: page[i].Unreadable}
		case !page[i].Deleted:
			sends, sent = append(sends, sending{record: archivedRecord(&page[i], topic)}), append(sent, i)
		}
	}
	d := newDispatch(p, sends, dlq.OrderNone, nil)
	d.sendAll(ctx)
	for n, i := range sent {
		errs[i] = d.translate(topic, d.sends[n].err)
	}
	return errs
}
