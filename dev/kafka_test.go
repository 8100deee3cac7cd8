package dev

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"
)

// kafkaChild makes this test binary a broker on the folder that it names, so that a
// test can kill a broker as a process.
const kafkaChild = "DLQ_DEV_TEST_KAFKA_DIR"

func init() {
	dir := os.Getenv(kafkaChild)
	if dir == "" {
		return
	}
	port, _ := strconv.Atoi(os.Getenv("DLQ_DEV_TEST_KAFKA_PORT"))
	k, err := StartKafka(context.Background(), KafkaOptions{Dir: dir, Port: port, Topics: []string{"shop.orders.dlq"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(k.Brokers[0])
	select {}
}

// startKafkaChild returns the broker's process once it serves.
func startKafkaChild(t *testing.T, dir string, port int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), kafkaChild+"="+dir, "DLQ_DEV_TEST_KAFKA_PORT="+strconv.Itoa(port))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = processAttributes(9)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, address(port)+"\n", line)
	return cmd
}

func testContext(t *testing.T, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func newKafkaClient(t *testing.T, broker string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(broker), kgo.MetadataMinAge(20 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond),
	}, options...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// kafkaState is the state that must be the same before and after a crash.
type kafkaState struct {
	topicID   kadm.TopicID
	committed int64
	values    []string
}

func readKafkaState(ctx context.Context, t *testing.T, broker string, records int) kafkaState {
	t.Helper()
	c := newKafkaClient(t, broker, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"shop.orders.dlq": {0: kgo.NewOffset().AtStart()},
	}))
	defer c.Close() // before its broker ends, or Close would wait for it
	admin := kadm.NewClient(c)
	topics, err := admin.ListTopics(ctx, "shop.orders.dlq")
	require.NoError(t, err)
	state := kafkaState{topicID: topics["shop.orders.dlq"].ID}
	offsets, err := admin.FetchOffsets(ctx, "readers")
	if !errors.Is(err, kerr.GroupIDNotFound) { // nothing committed yet
		require.NoError(t, err)
	}
	if at, ok := offsets.Lookup("shop.orders.dlq", 0); ok {
		state.committed = at.At
	}
	for len(state.values) < records {
		fetches := c.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			require.EqualValues(t, len(state.values), r.Offset)
			state.values = append(state.values, string(r.Value))
		})
	}
	return state
}

func produceTo(ctx context.Context, t *testing.T, c *kgo.Client, value string) {
	t.Helper()
	err := c.ProduceSync(ctx, &kgo.Record{Topic: "shop.orders.dlq", Value: []byte(value)}).FirstErr()
	require.NoError(t, err)
}

func commitAt(ctx context.Context, t *testing.T, c *kgo.Client, at int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset("shop.orders.dlq", 0, at, -1)
	require.NoError(t, kadm.NewClient(c).CommitAllOffsets(ctx, "readers", offsets))
}

func TestKafkaKeepsItsStateWhenItsProcessIsKilled(t *testing.T) {
	t.Parallel()
	ctx := testContext(t, time.Minute)
	dir := t.TempDir()
	port, err := freePort()
	require.NoError(t, err)

	broker := startKafkaChild(t, dir, port)
	// One producer continues across all restarts, like one in another process.
	producer := newKafkaClient(t, address(port), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 10 {
		produceTo(ctx, t, producer, fmt.Sprintf("first %d", i))
	}
	commitAt(ctx, t, producer, 7)
	before := readKafkaState(ctx, t, address(port), 10)
	require.EqualValues(t, 7, before.committed)
	require.NotZero(t, before.topicID)

	for round := range 2 {
		require.NoError(t, broker.Process.Kill())
		_ = broker.Wait()
		broker = startKafkaChild(t, dir, port)
		after := readKafkaState(ctx, t, address(port), len(before.values))
		require.Equal(t, before, after)

		produceTo(ctx, t, producer, fmt.Sprintf("after crash %d", round))
		commitAt(ctx, t, producer, 8+int64(round))
		before = readKafkaState(ctx, t, address(port), len(before.values)+1)
		require.EqualValues(t, 8+round, before.committed)
	}
}

func TestKafkaKeepsItsStateOverACleanStopAndACrash(t *testing.T) {
	t.Parallel()
	ctx := testContext(t, time.Minute)
	dir := t.TempDir()
	port, err := freePort()
	require.NoError(t, err)
	options := KafkaOptions{Dir: dir, Port: port, Topics: []string{"shop.orders.dlq"}, Log: zaptest.NewLogger(t)}

	k, err := StartKafka(ctx, options)
	require.NoError(t, err)
	manual := kgo.RecordPartitioner(kgo.ManualPartitioner())
	for i := range 3 {
		produceTo(ctx, t, newKafkaClient(t, k.Brokers[0], manual), fmt.Sprint(i))
	}
	before := readKafkaState(ctx, t, k.Brokers[0], 3)
	require.NoError(t, k.Stop(ctx))

	// State that a clean stop writes must not hide later writes.
	broker := startKafkaChild(t, dir, port)
	require.Equal(t, before, readKafkaState(ctx, t, address(port), 3))
	client := newKafkaClient(t, address(port), manual)
	produceTo(ctx, t, client, "3")
	commitAt(ctx, t, client, 4)
	require.NoError(t, broker.Process.Kill())
	_ = broker.Wait()

	k, err = StartKafka(ctx, options)
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop(ctx)) }()
	after := readKafkaState(ctx, t, k.Brokers[0], 4)
	require.Equal(t, kafkaState{topicID: before.topicID, committed: 4, values: []string{"0", "1", "2", "3"}}, after)
}

func TestARecreatedKafkaTopicHasAnotherID(t *testing.T) {
	t.Parallel()
	ctx := testContext(t, time.Minute)
	options := KafkaOptions{Dir: t.TempDir(), Topics: []string{"shop.orders.dlq"}}
	k, err := StartKafka(ctx, options)
	require.NoError(t, err)
	client := newKafkaClient(t, k.Brokers[0], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produceTo(ctx, t, client, "of the first topic")
	first := readKafkaState(ctx, t, k.Brokers[0], 1)

	_, err = kadm.NewClient(client).DeleteTopics(ctx, "shop.orders.dlq")
	require.NoError(t, err)
	require.NoError(t, k.Stop(ctx))
	k, err = StartKafka(ctx, options)
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop(ctx)) }()

	produceTo(ctx, t, newKafkaClient(t, k.Brokers[0], kgo.RecordPartitioner(kgo.ManualPartitioner())), "of the second")
	second := readKafkaState(ctx, t, k.Brokers[0], 1)
	require.NotEqual(t, first.topicID, second.topicID)
	require.Equal(t, []string{"of the second"}, second.values)
}

func TestKafkaCreatesTopicsForClientsThatAsk(t *testing.T) {
	t.Parallel()
	ctx := testContext(t, time.Minute)
	k, err := StartKafka(ctx, KafkaOptions{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Stop(ctx)) }()

	asking := newKafkaClient(t, k.Brokers[0], kgo.AllowAutoTopicCreation())
	require.NoError(t, asking.ProduceSync(ctx, &kgo.Record{Topic: "new", Value: []byte("x")}).FirstErr())
	topics, err := kadm.NewClient(asking).ListTopics(ctx, "new")
	require.NoError(t, err)
	require.Len(t, topics["new"].Partitions, defaultPartitions)
	require.Equal(t, loopback, mustBrokers(ctx, t, asking)[0].Host)
}

func mustBrokers(ctx context.Context, t *testing.T, c *kgo.Client) kadm.BrokerDetails {
	t.Helper()
	brokers, err := kadm.NewClient(c).ListBrokers(ctx)
	require.NoError(t, err)
	require.Len(t, brokers, 1)
	return brokers
}

func TestKafkaPortInUseNamesItsSetting(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", address(0))
	require.NoError(t, err)
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port

	_, err = StartKafka(context.Background(), KafkaOptions{Dir: t.TempDir(), Port: port, PortSetting: "DLQ_DEV_KAFKA_PORT"})
	inUse, ok := errors.AsType[*PortInUseError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, port, inUse.Port)
	require.ErrorContains(t, err, strconv.Itoa(port))
	require.ErrorContains(t, err, "DLQ_DEV_KAFKA_PORT")
}
