package activities_test

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
	"dlqmanager/store/postgres"
)

// verifiedTest is a consumer whose messages fail, and all parts that ingest these messages, send them back and verify them.
type verifiedTest struct {
	*testing.T
	brokers    []string
	store      *postgres.Store
	retry      *activities.Retry
	poller     *kafka.WatermarkPoller
	client     *kgo.Client // produces, and consumes as the group
	stopIngest func()
}

const verifiedWait = 60 * time.Second

func newVerifiedTest(t *testing.T, brokers []string) *verifiedTest {
	t.Helper()
	v := &verifiedTest{T: t, brokers: brokers, store: postgres.New(dbtest.New(t), dlqtest.Topics(t))}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumerGroup("shipping"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(200*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	v.client = client
	created, err := kadm.NewClient(client).CreateTopics(t.Context(), 1, 1, nil, "orders", "orders.dlq")
	require.NoError(t, err)
	require.NoError(t, created.Error())
	publisher, err := kafka.NewPublisher(kafka.Options{Brokers: brokers}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(publisher.Close)
	v.retry = &activities.Retry{Store: v.store, Publisher: publisher, Memory: activities.NewMemory(dlq.PageBytes), Log: zap.NewNop(),
		Metrics: activities.NewMetrics(prometheus.NewRegistry())}
	v.poller = kafka.NewWatermarkPoller(publisher, v.store, dlqtest.Topics(t), time.Second, zap.NewNop())
	v.startIngest()
	t.Cleanup(func() { v.stopIngest() })
	return v
}

func (v *verifiedTest) startIngest() {
	v.Helper()
	grouping, err := dlq.NewGrouping("", nil)
	require.NoError(v, err)
	ingest, err := kafka.NewIngest(kafka.Options{Brokers: v.brokers, ConsumerGroup: "dlq-manager", MaxRetries: 3, MetadataMaxAge: 250 * time.Millisecond, Grouping: grouping},
		v.store, dlqtest.Topics(v), zap.NewNop(), prometheus.NewRegistry())
	require.NoError(v, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = ingest.Run(ctx) }()
	v.stopIngest = func() { cancel(); <-done }
}

// fail sends a record to the dead-letter topic as Spring does. The dead letter keeps the record's headers.
func (v *verifiedTest) fail(r *kgo.Record) {
	v.Helper()
	headers := append(slices.Clone(r.Headers),
		kgo.RecordHeader{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
		kgo.RecordHeader{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(r.Partition))},
		kgo.RecordHeader{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(r.Offset))},
		kgo.RecordHeader{Key: "kafka_dlt-original-consumer-group", Value: []byte("shipping")},
		kgo.RecordHeader{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.lang.IllegalStateException")},
		kgo.RecordHeader{Key: "kafka_dlt-exception-message", Value: []byte("no stock")})
	require.NoError(v, v.client.ProduceSync(v.Context(), &kgo.Record{Topic: "orders.dlq", Key: r.Key, Value: r.Value, Headers: headers}).FirstErr())
}

// consume returns the next record, and commits no offset.
func (v *verifiedTest) consume() *kgo.Record {
	v.Helper()
	ctx, cancel := context.WithTimeout(v.Context(), verifiedWait)
	defer cancel()
	for {
		fetches := v.client.PollRecords(ctx, 1)
		if records := fetches.Records(); len(records) > 0 {
			return records[0]
		}
		require.NoError(v, ctx.Err())
	}
}

func (v *verifiedTest) commit(r *kgo.Record) {
	require.NoError(v, v.client.CommitRecords(v.Context(), r))
}

// message waits until n dead letters with the value are stored, and returns the newest.
func (v *verifiedTest) message(value string, n int) (id dlq.ID) {
	v.Helper()
	require.Eventually(v, func() bool {
		page, err := v.store.List(v.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte(value)}, PageSize: 10})
		require.NoError(v, err)
		if len(page.Messages) == n {
			id = page.Messages[0].ID
		}
		return len(page.Messages) == n
	}, verifiedWait, 10*time.Millisecond)
	return id
}

// send has the consumer fail on a record, and sends it back.
func (v *verifiedTest) send(value string) (dlq.ID, *kgo.Record) {
	v.Helper()
	require.NoError(v, v.client.ProduceSync(v.Context(), &kgo.Record{Topic: "orders", Key: []byte(value), Value: []byte(value)}).FirstErr())
	failed := v.consume()
	v.fail(failed)
	v.commit(failed)
	id := v.message(value, 1)
	in := activities.RetryInput{MessageID: id, Owner: dlqtest.Owner()}
	_, err := v.retry.MarkRetrying(v.Context(), in)
	require.NoError(v, err)
	sent, err := v.retry.Republish(v.Context(), in)
	require.NoError(v, err)
	_, err = v.retry.Finalize(v.Context(), activities.FinalizeInput{Owner: in.Owner, Outcome: dlq.Outcome{ID: id, Result: dlq.ResultDelivered, Acknowledgement: sent.At}})
	require.NoError(v, err)
	again := v.consume()
	require.Equal(v, value, string(again.Value))
	return id, again
}

func (v *verifiedTest) verdict(id dlq.ID) string {
	v.Helper()
	verdicts, err := v.store.Verdicts(v.Context(), []dlq.ID{id})
	require.NoError(v, err)
	return strings.TrimSpace(string(verdicts[id].Verified) + " " + string(verdicts[id].Reason))
}

// publish polls until watermarks are published that were fetched after the call.
func (v *verifiedTest) publish(id dlq.ID, never string) {
	v.Helper()
	for range 2 { // the first watermarks may have been fetched before the call
		require.Eventually(v, func() bool {
			published, err := v.poller.Poll(v.Context())
			require.NoError(v, err)
			require.NotEqual(v, never, v.verdict(id))
			return published
		}, verifiedWait, 10*time.Millisecond)
	}
}

func verifies(t *testing.T, brokers []string) {
	t.Helper()
	v := newVerifiedTest(t, brokers)
	id, again := v.send("is down")
	require.Equal(t, "unknown not_read", v.verdict(id))
	v.publish(id, "yes")
	require.Equal(t, "no", v.verdict(id), "the consumer is down")
	v.commit(again)
	v.publish(id, "")
	require.Equal(t, "yes", v.verdict(id), "it is up again")

	id, again = v.send("fails again")
	v.stopIngest()
	v.fail(again)
	v.commit(again)
	for range 3 {
		published, err := v.poller.Poll(t.Context())
		require.NoError(t, err)
		require.False(t, published, "ingest is behind")
	}
	require.Equal(t, "no", v.verdict(id))
	v.startIngest()
	v.publish(id, "yes")
	require.Equal(t, "no came_back", v.verdict(id))

	id, again = v.send("commits before it works")
	v.commit(again)
	v.publish(id, "")
	require.Equal(t, "yes", v.verdict(id), "passed, not processed")
	v.fail(again)
	v.message("commits before it works", 2)
	require.Equal(t, "no came_back", v.verdict(id))

	id, again = v.send("is in a topic that is made anew")
	v.commit(again)
	admin := kadm.NewClient(v.client)
	deleted, err := admin.DeleteTopics(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	v.publish(id, "yes")
	require.Equal(t, "unknown topic_changed", v.verdict(id))
}

// The manager may no longer read a dead-letter topic, so ingest never reaches the end of it.
func TestADeniedDeadLetterTopicDoesNotHoldUpVerification(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	v := newVerifiedTest(t, cluster.ListenAddrs())
	id, again := v.send("works")
	v.stopIngest()
	v.fail(&kgo.Record{Key: []byte("another"), Offset: again.Offset + 1})
	v.commit(again)
	published, err := v.poller.Poll(t.Context())
	require.NoError(t, err)
	require.False(t, published, "ingest is behind")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "orders.dlq", Err: kerr.TopicAuthorizationFailed, Count: -1})
	published, err = v.poller.Poll(t.Context())
	require.NoError(t, err)
	require.True(t, published)
	require.Equal(t, "yes", v.verdict(id))
}

// A dead-letter topic is silent if nobody ingests it, or if one of its partitions has no leader.
func TestASilentDeadLetterTopicDoesNotHoldUpTheVerificationOfOthers(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	v := newVerifiedTest(t, cluster.ListenAddrs())
	created, err := kadm.NewClient(v.client).CreateTopics(t.Context(), 1, 1, nil, "silent.dlq")
	require.NoError(t, err)
	require.NoError(t, created.Error())
	first, firstAgain := v.send("first")
	second, secondAgain := v.send("second")
	v.stopIngest()
	require.NoError(t, v.client.ProduceSync(t.Context(), &kgo.Record{Topic: "silent.dlq", Value: []byte("nobody reads it")}).FirstErr())
	v.commit(firstAgain)
	v.publish(first, "")
	require.Equal(t, "yes", v.verdict(first))
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "silent.dlq", Err: kerr.LeaderNotAvailable, Count: -1})
	v.commit(secondAgain)
	v.publish(second, "")
	require.Equal(t, "yes", v.verdict(second))
}

func TestADeadLetterTopicWithoutALeaderHoldsUpItsOwnMessages(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	v := newVerifiedTest(t, cluster.ListenAddrs())
	id, again := v.send("works")
	leaderless := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "orders.dlq", Err: kerr.LeaderNotAvailable, Count: -1})
	v.commit(again)
	published, err := v.poller.Poll(t.Context())
	require.NoError(t, err)
	require.False(t, published)
	require.Equal(t, "unknown not_read", v.verdict(id))
	leaderless.Remove()
	v.publish(id, "")
	require.Equal(t, "yes", v.verdict(id))
}

func TestADeliveryIsVerifiedByTheOffsetsOfItsGroup(t *testing.T) {
	t.Parallel()
	verifies(t, kafkatest.FakeCluster(t).ListenAddrs())
}

func TestRealDeliveryIsVerifiedByTheOffsetsOfItsGroup(t *testing.T) {
	t.Parallel()
	verifies(t, kafkatest.RealCluster(t).Brokers())
}

func TestAGroupWhoseCoordinatorIsAwayDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	v := newVerifiedTest(t, cluster.ListenAddrs())
	groups, err := dlq.NewVerifyGroups(map[string]string{"invoices": "billing"})
	require.NoError(t, err)
	v.store.VerifyGroups = groups
	id, again := v.send("passes")
	v.commit(again)
	cluster.ControlKey(int16(kmsg.FindCoordinator), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		find := request.(*kmsg.FindCoordinatorRequest)
		if !slices.Contains(find.CoordinatorKeys, "billing") {
			return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
		}
		response := find.ResponseKind().(*kmsg.FindCoordinatorResponse)
		for _, key := range find.CoordinatorKeys {
			coordinator := kmsg.NewFindCoordinatorResponseCoordinator()
			if coordinator.Key = key; key == "billing" {
				coordinator.ErrorCode = kerr.CoordinatorNotAvailable.Code
			} else {
				host, port, err := net.SplitHostPort(v.brokers[0])
				require.NoError(t, err)
				number, err := strconv.ParseInt(port, 10, 32)
				require.NoError(t, err)
				coordinator.NodeID, coordinator.Host, coordinator.Port = cluster.CoordinatorFor(key), host, int32(number)
			}
			response.Coordinators = append(response.Coordinators, coordinator)
		}
		return response, nil, true
	})
	v.publish(id, "")
	require.Equal(t, "yes", v.verdict(id))
}
