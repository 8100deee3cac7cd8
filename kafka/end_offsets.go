package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"dlqmanager/dlq"
)

// EndOffsets returns the offset of the next record of every partition of the topics, sorted
// by topic and partition. Topics that do not exist are left out, and topics that the
// manager may not read. Other errors wrap dlq.ErrUnavailable.
func (l *Lookup) EndOffsets(ctx context.Context, topics []string) ([]dlq.EndOffset, error) {
	if len(topics) == 0 {
		return nil, nil // a request without topics would ask for all
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	client, done, err := l.client(ctx, "ends")
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w: %w", dlq.ErrUnavailable, err)
	}
	defer done()
	if topics, err = withoutDenied(ctx, client, topics); err != nil {
		return nil, fmt.Errorf("end offsets: %w: %w", dlq.ErrUnavailable, err)
	}
	if len(topics) == 0 {
		return nil, nil
	}
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("end offsets: %w: %w", dlq.ErrUnavailable, err)
	}
	var ends []dlq.EndOffset
	for _, end := range listed.Offsets().Sorted() {
		if end.Partition >= 0 {
			ends = append(ends, dlq.EndOffset{Topic: end.Topic, Partition: end.Partition, Offset: end.At})
		}
	}
	return ends, endsError(listed)
}

// endsError is the error of a topic that exists. Without the end of a partition, its old
// records would count as new.
func endsError(listed kadm.ListedOffsets) error {
	var failed error
	listed.Each(func(o kadm.ListedOffset) {
		missing := []error{kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed}
		isMissing := o.Partition < 0 && slices.ContainsFunc(missing, func(err error) bool { return errors.Is(o.Err, err) })
		if o.Err != nil && !isMissing {
			failed = fmt.Errorf("end offset of %s[%d]: %w: %w", o.Topic, o.Partition, dlq.ErrUnavailable, o.Err)
		}
	})
	return failed
}
