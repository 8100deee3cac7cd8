package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dev"
)

// output is a buffer that the shop may write to while the test reads.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) requireEventually(t *testing.T, parts ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for line := range strings.Lines(o.String()) {
			all := true
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				return true
			}
		}
		return false
	}, 20*time.Second, 20*time.Millisecond, "no line with %q", parts)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startBroker(t *testing.T) []string {
	t.Helper()
	k, err := dev.StartKafka(context.Background(), dev.KafkaOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = k.Stop(context.Background()) })
	return k.Brokers
}

// readAll waits until the topics have that many records, and returns all of them.
func readAll(ctx context.Context, t *testing.T, brokers []string, atLeast int, topics ...string) []*kgo.Record {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	defer c.Close()
	there := 0
	for ; there < atLeast; time.Sleep(20 * time.Millisecond) {
		require.NoError(t, ctx.Err(), "%d of %d records", there, atLeast)
		ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topics...)
		require.NoError(t, err)
		there = 0
		ends.Each(func(end kadm.ListedOffset) { there += int(end.Offset) })
	}
	var all []*kgo.Record
	for len(all) < there {
		fetches := c.PollRecords(ctx, there-len(all))
		require.NoError(t, fetches.Err(), "%d of %d records", len(all), there)
		all = append(all, fetches.Records()...)
	}
	return all
}

// sendBack sends a message back like a retry of the manager.
func sendBack(ctx context.Context, t *testing.T, brokers []string, letter *kgo.Record, origin string, id string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	require.NoError(t, err)
	defer c.Close()
	back := &kgo.Record{Topic: origin, Key: letter.Key, Value: letter.Value,
		Headers: append(letter.Headers[:len(letter.Headers):len(letter.Headers)], text("dlq-message-id", id), text("dlq-retry-count", "1"))}
	require.NoError(t, c.ProduceSync(ctx, back).FirstErr())
}

// originOf is the original topic of a dead letter of this shop.
func originOf(letter *kgo.Record) string {
	for _, r := range routes {
		if r.dlq == letter.Topic {
			return r.topic
		}
	}
	return ""
}

func dlqTopics() []string { return []string{orders.dlq, payments.dlq, shipments.dlq} }

func originTopics() []string { return []string{orders.topic, payments.topic, shipments.topic} }

func TestOnceProducesTheRequestedDeadLetters(t *testing.T) {
	t.Parallel()
	ctx, brokers := testContext(t), startBroker(t)
	var out output
	err := Run(ctx, Options{Brokers: brokers, Out: &out, Messages: 60, Once: true,
		BaseURL: "http://127.0.0.1:8080", UIURL: "http://127.0.0.1:8233"})
	require.NoError(t, err)
	letters := readAll(ctx, t, brokers, 60, dlqTopics()...)
	require.Len(t, letters, 60)

	kinds := map[string]bool{}
	for _, letter := range letters {
		switch {
		case letter.Value == nil:
			kinds["tombstone"] = true
		case json.Valid(letter.Value):
			kinds["json"] = true
		case letter.Topic == orders.dlq:
			kinds["broken json"] = true
		default:
			kinds["binary "+letter.Topic] = true
		}
		kinds["no key"] = kinds["no key"] || letter.Key == nil
	}
	require.Equal(t, map[string]bool{"tombstone": true, "json": true, "broken json": true, "no key": true,
		"binary " + payments.dlq: true, "binary " + shipments.dlq: true}, kinds)
	require.Contains(t, out.String(), "60 dead letters:")
	require.Contains(t, out.String(), "export DLQ_URL=http://127.0.0.1:8080 PATH=")
	require.Contains(t, out.String(), "dlqctl retry shop.orders.dlq.v1 --all --follow")
	require.Contains(t, out.String(), "http://127.0.0.1:8233")
}

func TestTheSameSeedProducesTheSameEvents(t *testing.T) {
	t.Parallel()
	for n := 1001; n < 1100; n++ {
		first, again := newEvent(7, n), newEvent(7, n)
		require.Equal(t, first, again)
		number, _, f := process(first)
		require.Equal(t, n, number)
		require.Equal(t, processable(n), f == nil, "event %d", n)
	}
	require.NotEqual(t, newEvent(7, 1001), newEvent(8, 1001))
}

func TestShopContinuesItsNumbers(t *testing.T) {
	t.Parallel()
	ctx, brokers := testContext(t), startBroker(t)
	for range 2 {
		require.NoError(t, Run(ctx, Options{Brokers: brokers, Messages: 17, Once: true}))
	}
	numbers := map[int]bool{}
	require.Len(t, readAll(ctx, t, brokers, 34, dlqTopics()...), 34)
	for _, r := range readAll(ctx, t, brokers, 34, originTopics()...) {
		n, _, _ := process(r)
		require.False(t, numbers[n], "number %d twice", n)
		numbers[n] = true
	}
}

func TestMostRetriedMessagesSucceedOnceTheBugIsFixed(t *testing.T) {
	t.Parallel()
	ctx, brokers := testContext(t), startBroker(t)
	ctx, closeShop := context.WithCancel(ctx)
	fixFile := filepath.Join(t.TempDir(), "fixed")
	var out output
	closed := make(chan error, 1)
	go func() {
		closed <- Run(ctx, Options{Brokers: brokers, Out: &out, FixFile: fixFile, Trickle: time.Hour})
	}()
	out.requireEventually(t, "Ctrl-C")

	letters := readAll(ctx, t, brokers, 60, dlqTopics()...)
	var passing, stubborn *kgo.Record
	for _, letter := range letters {
		origin := *letter
		origin.Topic = originOf(letter)
		if _, _, f := process(&origin); f.permanent {
			stubborn = letter
		} else {
			passing = letter
		}
	}
	require.NotNil(t, passing)
	require.NotNil(t, stubborn)

	sendBack(ctx, t, brokers, passing, originOf(passing), "id-before")
	out.requireEventually(t, "came back", "id-before", "retry 1", "failed again")
	require.NoError(t, os.WriteFile(fixFile, nil, 0o600))
	sendBack(ctx, t, brokers, passing, originOf(passing), "id-after")
	out.requireEventually(t, "came back", "id-after", "processed")
	sendBack(ctx, t, brokers, stubborn, originOf(stubborn), "id-stubborn")
	out.requireEventually(t, "came back", "id-stubborn", "failed again")

	letters = readAll(ctx, t, brokers, 62, dlqTopics()...)
	require.Len(t, letters, 62)
	returned := map[string]int{}
	for _, letter := range letters {
		id, _ := retryHeaders(letter)
		returned[id]++
	}
	require.Equal(t, map[string]int{"": 60, "id-before": 1, "id-stubborn": 1}, returned, "the ids stay in the headers")
	closeShop()
	require.NoError(t, <-closed)
}

func TestShopProducesEventsUntilItStops(t *testing.T) {
	t.Parallel()
	ctx, brokers := testContext(t), startBroker(t)
	shopContext, closeShop := context.WithCancel(ctx)
	closed := make(chan error, 1)
	go func() {
		closed <- Run(shopContext, Options{Brokers: brokers, Messages: 17, Trickle: 10 * time.Millisecond})
	}()
	readAll(ctx, t, brokers, 20, dlqTopics()...)
	closeShop()
	require.NoError(t, <-closed)
}

func TestShopSurvivesItsBroker(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	options := dev.KafkaOptions{Dir: t.TempDir()}
	k, err := dev.StartKafka(ctx, options)
	require.NoError(t, err)
	_, port, _ := strings.Cut(k.Brokers[0], ":")
	options.Port, err = strconv.Atoi(port)
	require.NoError(t, err)

	shopContext, closeShop := context.WithCancel(ctx)
	var out output
	closed := make(chan error, 1)
	go func() {
		closed <- Run(shopContext, Options{Brokers: k.Brokers, Out: &out, Messages: 17, Trickle: 20 * time.Millisecond})
	}()
	out.requireEventually(t, "Ctrl-C")
	require.NoError(t, k.Stop(ctx))
	k, err = dev.StartKafka(ctx, options)
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop(context.Background())) }()
	sendBack(ctx, t, k.Brokers, &kgo.Record{Key: []byte("order-9001"), Value: []byte(`{"order_id":9001,"currency":"XTS"}`)},
		orders.topic, "after-restart")
	out.requireEventually(t, "after-restart", "processed")
	closeShop()
	require.NoError(t, <-closed)
}

func TestShopReportsAMissingBroker(t *testing.T) {
	t.Parallel()
	k, err := dev.StartKafka(context.Background(), dev.KafkaOptions{})
	require.NoError(t, err)
	require.NoError(t, k.Stop(context.Background()))
	err = Run(testContext(t), Options{Brokers: k.Brokers})
	require.ErrorContains(t, err, k.Brokers[0], fmt.Sprint(k.Brokers))
}
