package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// headerReason says why an archived message ended.
const headerReason = "dlq-reason"

// archivedRecord has the key, the value and all headers of the dead letter, byte for byte.
// Its own two headers come last: a message that came back already has the id of the message
// that it was before. The timestamp is new, as for a republished record.
func archivedRecord(e *dlq.Exhausted, topic string) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: e.Record.Key, Value: e.Record.Value, Headers: make([]kgo.RecordHeader, 0, len(e.Record.Headers)+2)}
	for _, header := range e.Record.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
	}
	r.Headers = append(r.Headers,
		kgo.RecordHeader{Key: headerMessageID, Value: []byte(e.ID.String())},
		kgo.RecordHeader{Key: headerReason, Value: []byte(e.Reason())})
	return r
}

// archive publishes messages to an archive topic, and waits until all in-sync replicas have
// each or it has failed. Messages that were deleted are not sent. Unreadable messages fail as bad
// data. A failed message blocks no other, so the order of a key is not promised. A
// cancellation does not interrupt a publish; MaxDuration bounds it.
func (p *Publisher) archive(ctx context.Context, topic string, page []dlq.Exhausted) []error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.MaxDuration())
	defer cancel()
	started := time.Now()
	errs := make([]error, len(page))
	var alone []int // those that share no batch
	var wait sync.WaitGroup
	for i := range page {
		if page[i].Deleted || page[i].Unreadable != nil {
			continue
		}
		record := archivedRecord(&page[i], topic)
		if tooBigForBatch(record) {
			alone = append(alone, i)
			continue
		}
		wait.Add(1)
		p.batched.Produce(ctx, record, func(_ *kgo.Record, err error) {
			errs[i] = err
			wait.Done()
		})
	}
	wait.Wait()
	for i := range page {
		if errs[i] != nil && refusesBatch(errs[i]) {
			alone = append(alone, i)
		}
	}
	for _, i := range alone {
		errs[i] = p.archiveAlone(ctx, archivedRecord(&page[i], topic))
	}
	for i := range errs {
		if errors.Is(errs[i], kerr.UnknownTopicID) { // the topic was re-created; see forgetRecreated
			go p.batched.PurgeTopicsFromProducing(topic)
			go p.unbatched.PurgeTopicsFromProducing(topic)
			break
		}
	}
	for i := range errs {
		if page[i].Unreadable != nil {
			errs[i] = &dlq.DeliveryError{Category: dlq.CategoryBadData, MessageOnly: true, Err: page[i].Unreadable}
		} else if errs[i] != nil {
			errs[i] = deliveryError(topic, p.connections.explain(errs[i], started))
		}
	}
	return errs
}

// refusesBatch reports whether another record of the batch may be the cause of its error. A
// broker that fails on a record answers UNKNOWN_SERVER_ERROR for its batch.
func refusesBatch(err error) bool {
	return categoryOf(err) == dlq.CategoryBadData || errors.Is(err, kerr.UnknownServerError)
}

func (p *Publisher) archiveAlone(ctx context.Context, record *kgo.Record) error {
	if err := p.unbatchedTopics.lock(ctx, record.Topic); err != nil {
		return err
	}
	defer p.unbatchedTopics.unlock(record.Topic)
	return p.unbatched.ProduceSync(ctx, record).FirstErr()
}
