package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// Options configures the shop. Brokers is required; every other field has a default.
type Options struct {
	Brokers []string
	// Out receives the progress as text; nil discards it.
	Out io.Writer
	// Messages is the number of dead letters at the start; 60 when zero. 17 cover every
	// header family.
	Messages int
	// Once makes Run return after these dead letters, instead of when ctx ends.
	Once bool
	// Trickle is the time between two events after the start; 5 s when zero.
	Trickle time.Duration
	// Seed determines the events; 1 when zero.
	Seed uint64
	// FixFile names a file: messages that are sent back fail until the file exists. If
	// FixFile is empty, they succeed. A few messages always fail.
	FixFile string
	// Group is the consumer group; "shop" when empty.
	Group string
	// BaseURL is the manager's API and UIURL the Temporal Web UI, for the printed
	// hints. A hint without its URL is omitted.
	BaseURL, UIURL string
	// ReceiptsAddress is where the shop takes receipts over HTTP, and ReceiptsSecret the file
	// that the function ReceiptsSecret made. If the address is empty, the shop has no receipts.
	ReceiptsAddress, ReceiptsSecret string
	// Client has additional options of the Kafka client, for brokers with TLS or a
	// password.
	Client []kgo.Opt
}

// Run creates missing topics, produces events, fails on most of them, and consumes the
// messages that are sent back. It runs until ctx ends, which is not an error.
func Run(ctx context.Context, o Options) error {
	o.setDefaults()
	err := o.run(ctx)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx stops the shop
	}
	return err
}

func (o *Options) setDefaults() {
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Messages == 0 {
		o.Messages = 60
	}
	if o.Trickle == 0 {
		o.Trickle = 5 * time.Second
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Group == "" {
		o.Group = "shop"
	}
}

func (o *Options) run(ctx context.Context) error {
	next, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	client, err := o.client(
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(orders.topic, payments.topic, shipments.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// A shop that was killed keeps its partitions for this long.
		kgo.SessionTimeout(10*time.Second),
		kgo.HeartbeatInterval(2*time.Second),
		kgo.FetchMaxWait(500*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	s := &shop{client: client, group: o.Group, fixFile: o.FixFile, out: printer{o.Out}, brief: true,
		shown: map[string]bool{}, dead: map[string]int{}}
	s.out.line("The shop opens at %s.", strings.Join(o.Brokers, ", "))

	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	group.Go(func() error { return s.consume(ctx) })
	if o.ReceiptsAddress != "" {
		service, err := o.openReceipts(ctx, client, next, s.say)
		if err != nil {
			cancel()
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return service.serve(ctx, o.ReceiptsAddress) })
	}
	group.Go(func() error {
		defer cancel() // stops the consumer too
		produced, last, err := o.produceBatch(ctx, client, next)
		if err != nil {
			return err
		}
		if err := waitCommitted(ctx, admin, o.Group, produced); err != nil {
			return err
		}
		s.printReport(ctx, o)
		s.printSummary(o)
		if o.Once {
			return nil
		}
		return o.trickle(ctx, client, last)
	})
	return group.Wait()
}

func (o *Options) client(options ...kgo.Opt) (*kgo.Client, error) {
	base := []kgo.Opt{kgo.SeedBrokers(o.Brokers...), kgo.ClientID("dlq-manager-demo")}
	client, err := kgo.NewClient(slices.Concat(base, options, o.Client)...)
	if err != nil {
		return nil, fmt.Errorf("the shop's Kafka client: %w", err)
	}
	return client, nil
}

// prepare creates missing topics and returns the number of the first event. It uses its
// own client, because a group's client caches for a while which topics were missing.
func (o *Options) prepare(ctx context.Context) (next int, err error) {
	client, err := o.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	pingCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := client.Ping(pingCtx); err != nil {
		return 0, fmt.Errorf("no Kafka at %s: %w", strings.Join(o.Brokers, ", "), err)
	}
	admin := kadm.NewClient(client)
	if err := createTopics(ctx, admin); err != nil {
		return 0, err
	}
	return firstNumber(ctx, admin)
}

func createTopics(ctx context.Context, admin *kadm.Client) error {
	var names []string
	for _, r := range routes {
		names = append(names, r.topic, r.dlq, strings.TrimSuffix(r.dlq, ".v1")+".archive")
	}
	names = append(names, Receipts, receiptsDLQ, receiptsDLQ+".archive")
	answers, err := admin.CreateTopics(ctx, 3, -1, nil, names...)
	if err != nil {
		return fmt.Errorf("create the shop's topics: %w", err)
	}
	for _, answer := range answers.Sorted() {
		if answer.Err != nil && !errors.Is(answer.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", answer.Topic, answer.Err)
		}
	}
	return nil
}

// firstNumber continues the numbers of an earlier shop, so that no number occurs twice:
// there are never fewer records than numbers. It waits for new topics that not every
// broker knows yet.
func firstNumber(ctx context.Context, admin *kadm.Client) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		ends, err := admin.ListEndOffsets(ctx, orders.topic, payments.topic, shipments.topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil {
			number := 1001
			ends.Each(func(end kadm.ListedOffset) { number += int(end.Offset) })
			return number, nil
		}
		if !kerr.IsRetriable(err) {
			return 0, fmt.Errorf("the shop's topics: %w", err)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the shop's topics: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// produceBatch produces events until enough of them fail. It returns the highest
// offsets and the number of the next event.
func (o *Options) produceBatch(ctx context.Context, client *kgo.Client, n int) (kadm.Offsets, int, error) {
	var batch []*kgo.Record
	for failing := 0; failing < o.Messages; n++ {
		if !processable(n) {
			failing++
		}
		batch = append(batch, newEvent(o.Seed, n))
	}
	for i, r := range batch { // one second apart, up to now
		r.Timestamp = time.Now().Add(time.Duration(i-len(batch)) * time.Second)
	}
	if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return nil, 0, fmt.Errorf("produce the shop's events: %w", err)
	}
	produced := kadm.Offsets{}
	for _, r := range batch {
		if at, ok := produced.Lookup(r.Topic, r.Partition); !ok || at.At < r.Offset {
			produced.AddOffset(r.Topic, r.Partition, r.Offset, -1)
		}
	}
	return produced, n, nil
}

// waitCommitted waits until the group has committed past the offsets, by any of its
// members.
func waitCommitted(ctx context.Context, admin *kadm.Client, group string, produced kadm.Offsets) error {
	for {
		committed, err := admin.FetchOffsets(ctx, group)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("the shop's offsets: %w", err)
		}
		pending := false
		produced.Each(func(o kadm.Offset) {
			at, ok := committed.Lookup(o.Topic, o.Partition)
			pending = pending || !ok || at.At <= o.At
		})
		if !pending {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// trickle produces one event at a time until ctx ends.
func (o *Options) trickle(ctx context.Context, client *kgo.Client, n int) error {
	ticker := time.NewTicker(o.Trickle)
	defer ticker.Stop()
	for ; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := client.ProduceSync(ctx, newEvent(o.Seed, n)).FirstErr(); err != nil {
			return fmt.Errorf("produce an event: %w", err)
		}
	}
}
