package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// scope gives a test on the shared Kafka its own topics, pattern and group, all named
// after the test.
type scope struct {
	name   string
	topics *dlq.Topics
}

func newScope(t testing.TB) scope {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())) + "-" + dlq.NewID().String()
	own, err := dlq.NewTopics([]string{name + ".*.dlq"}, nil)
	require.NoError(t, err)
	return scope{name: name, topics: own}
}

func (s scope) topic(suffix string) string { return s.name + "." + suffix }

func (s scope) options(brokers []string) kafka.Options {
	o := quickOptions(brokers)
	o.ConsumerGroup = s.name
	return o
}

func saslOptions(o kafka.Options, brokers []string, mechanism string, password func() (string, error)) kafka.Options {
	o.Brokers = brokers
	o.SASL = kafka.SASL{Mechanism: mechanism, User: kafkatest.User, Password: password}
	return o
}

func secret(s string) func() (string, error) { return func() (string, error) { return s, nil } }

func TestRealIngestSharesPartitionsAndLosesNothingInRebalances(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	createTopic(t, admin(t, brokers), s.topic("orders.dlq"), 8)
	o := s.options(brokers)
	rebalances(t, brokers, s.topic("orders.dlq"), o, s.topics)
}

func TestRealIngestTreatsARecreatedTopicAsAnother(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	topic := s.topic("orders.dlq")
	a := admin(t, brokers)
	createTopic(t, a, topic, 1)
	want := produce(t, brokers, topic, "old", 10)
	store := newMemory()
	first := startIngestOf(t, s.options(brokers), store, s.topics)
	awaitValues(t, store, want)
	awaitCommitted(t, a, s.name, topic, 10)

	deleteTopic(t, brokers, topic)
	createTopic(t, a, topic, 1)
	want = append(want, produce(t, brokers, topic, "new", 15)...)
	awaitValues(t, store, want)
	awaitCommitted(t, a, s.name, topic, 15)
	first.stop(t)

	// The topic is re-created between two runs, and a commit for the old topic arrives
	// late. The broker stores it under the topic's name.
	offsets, err := a.FetchOffsets(deadline(t), s.name)
	require.NoError(t, err)
	old, _ := offsets.Lookup(topic, 0)
	deleteTopic(t, brokers, topic)
	createTopic(t, a, topic, 1)
	want = append(want, produce(t, brokers, topic, "newest", 20)...)
	late := kadm.Offsets{}
	late.Add(kadm.Offset{Topic: topic, Partition: 0, At: old.At, LeaderEpoch: -1, Metadata: old.Metadata})
	require.NoError(t, a.CommitAllOffsets(deadline(t), s.name, late))
	require.EqualValues(t, 15, committed(t, a, s.name, topic))
	startIngestOf(t, s.options(brokers), store, s.topics)
	awaitValues(t, store, want)
}

func TestRealIngestFindsATopicThatIsCreatedLater(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	store := newMemory()
	startIngestOf(t, s.options(brokers), store, s.topics)
	createTopic(t, admin(t, brokers), s.topic("late.dlq"), 2)
	awaitValues(t, store, produce(t, brokers, s.topic("late.dlq"), "v", 10))
}

func TestRealRoundTripOverSASL(t *testing.T) {
	t.Parallel()
	server := kafkatest.SharedCluster(t)
	for _, mechanism := range []string{kafka.ScramSHA512, kafka.Plain} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			s := newScope(t)
			a := admin(t, server.Brokers())
			createTopic(t, a, s.topic("orders"), 3)
			createTopic(t, a, s.topic("orders.dlq"), 3)
			produce(t, server.Brokers(), s.topic("orders.dlq"), "v", 250)
			o := saslOptions(s.options(nil), server.SASLBrokers(), mechanism, secret(kafkatest.Password))
			store := newMemory()
			startIngestOf(t, o, store, s.topics)
			require.Eventually(t, func() bool { return len(store.all()) == 250 }, timeout, tick)

			p := newPublisher(t, o)
			require.NoError(t, p.Ping(deadline(t)))
			var envelopes []dlq.Envelope
			for _, arrival := range store.all() {
				envelopes = append(envelopes, dlq.Envelope{ID: arrival.ID, OriginalTopic: arrival.Origin.Topic, RetryCount: 1, Record: arrival.Record})
			}
			for _, err := range errorsOf(p.Publish(context.Background(), envelopes, dlq.OrderKey, nil)) {
				require.NoError(t, err)
			}
			ids := map[string]bool{}
			for _, r := range read(t, server.Brokers(), s.topic("orders"), 250) {
				ids[header(r, "dlq-message-id")] = true
				require.Equal(t, "1", header(r, "dlq-retry-count"))
			}
			require.Len(t, ids, 250)
		})
	}
}

func TestRealWrongPasswordIsAnAuthenticationFailureAndANewOneIsUsed(t *testing.T) {
	t.Parallel()
	server := kafkatest.SharedCluster(t)
	for _, mechanism := range []string{kafka.ScramSHA512, kafka.Plain} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			s := newScope(t)
			a := admin(t, server.Brokers())
			createTopic(t, a, s.topic("orders"), 1)
			createTopic(t, a, s.topic("orders.dlq"), 1)
			want := produce(t, server.Brokers(), s.topic("orders.dlq"), "v", 5)
			password := newRotating("wrong")
			o := saslOptions(s.options(nil), server.SASLBrokers(), mechanism, password.get)
			store := newMemory()
			ingest := startIngestOf(t, o, store, s.topics)
			p := newPublisher(t, o)
			err := p.Publish(context.Background(), []dlq.Envelope{envelope(s.topic("orders"), "k", "v")}, dlq.OrderKey, nil)[0].Err
			require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category, err.Error())
			require.ErrorIs(t, err, kerr.SaslAuthenticationFailed)
			t.Log(err)
			require.ErrorIs(t, p.Ping(deadline(t)), dlq.ErrUnavailable)
			require.Eventually(t, func() bool { return ingest.Status().Waiting == "kafka" }, timeout, tick)
			require.Contains(t, ingest.Status().LastError, "SASL")
			t.Log(ingest.Status().LastError)

			password.set(kafkatest.Password)
			require.Eventually(t, func() bool {
				return p.Publish(context.Background(), []dlq.Envelope{envelope(s.topic("orders"), "k", "v")}, dlq.OrderKey, nil)[0].Err == nil
			}, timeout, tick)
			awaitValues(t, store, want)
			require.Eventually(t, func() bool { return ingest.Status().Waiting == "" }, timeout, tick)
		})
	}
}

func TestRealMissingAccessIsAnAuthorisationFailure(t *testing.T) {
	t.Parallel()
	server := kafkatest.SharedCluster(t)
	s := newScope(t)
	a := admin(t, server.Brokers())
	createTopic(t, a, s.topic("orders"), 1)
	acl := kadm.NewACLs().Topics(s.topic("orders")).ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpWrite, kadm.OpDescribe).Allow("User:" + kafkatest.User).AllowHosts("*")
	_, err := a.CreateACLs(deadline(t), acl)
	require.NoError(t, err)
	o := saslOptions(s.options(nil), server.SASLBrokers(), kafka.ScramSHA512, secret(kafkatest.OutsiderPassword))
	o.SASL.User = kafkatest.Outsider
	err = newPublisher(t, o).Publish(context.Background(), []dlq.Envelope{envelope(s.topic("orders"), "k", "v")}, dlq.OrderKey, nil)[0].Err
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
}

func TestRealRefusals(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	a := admin(t, brokers)
	createTopic(t, a, s.topic("small"), 1, "max.message.bytes", "20000")
	createTopic(t, a, s.topic("compacted"), 1, "cleanup.policy", "compact")
	p := newPublisher(t, s.options(brokers))
	var envelopes []dlq.Envelope
	for i := range 100 {
		envelopes = append(envelopes, envelope(s.topic("small"), "k", fmt.Sprintf("%03d", i)+strings.Repeat(".", 1000)))
	}
	envelopes[40] = badEnvelope(t, s.topic("small"), "bad", tooLarge)
	for i, err := range errorsOf(p.Publish(context.Background(), envelopes, dlq.OrderKey, nil)) {
		if i == 40 {
			require.Equal(t, dlq.CategoryBadData, deliveryError(t, err).Category)
			require.ErrorIs(t, err, kerr.MessageTooLarge)
		} else {
			require.NoError(t, err, "message %d", i)
		}
	}
	last := ""
	for _, r := range read(t, brokers, s.topic("small"), 99) {
		require.Less(t, last, string(r.Value[:3]), "in order, once")
		last = string(r.Value[:3])
	}
	t.Run("what follows a bad message of its key", func(t *testing.T) {
		t.Parallel()
		createTopic(t, a, s.topic("batches"), 1, "max.message.bytes", batchesLimit)
		p := newPublisher(t, s.options(brokers))
		page := batches(t, p, s.topic("batches"))
		requireNoLaterBatch(t, brokers, s.topic("batches"), p, errorsOf(p.Publish(context.Background(), page, dlq.OrderKey, nil)))
	})
	t.Run("missing target", func(t *testing.T) {
		t.Parallel()
		missingTarget(t, brokers, s.topic("nowhere"), s.options(brokers))
	})
	t.Run("target re-created", func(t *testing.T) {
		t.Parallel()
		createTopic(t, a, s.topic("again"), 1)
		recreatedTarget(t, brokers, s.topic("again"))
	})
}

func TestRealBrokerRestartWhileIngestAndPublishGoOn(t *testing.T) {
	t.Parallel()
	server := kafkatest.RealCluster(t)
	brokers := server.Brokers()
	a := admin(t, brokers)
	createTopic(t, a, "orders", 2)
	createTopic(t, a, "orders.dlq", 4)
	createTopic(t, a, "other", 1)
	store := newMemory()
	ingest := startIngest(t, quickOptions(brokers), store)
	p := newPublisher(t, quickOptions(brokers))
	want := produce(t, brokers, "orders.dlq", "before", 500)
	awaitValues(t, store, want)

	password := newRotating(kafkatest.Password)
	secure := newPublisher(t, saslOptions(quickOptions(nil), server.SASLBrokers(), kafka.ScramSHA512, password.get))
	require.NoError(t, secure.Publish(deadline(t), []dlq.Envelope{envelope("other", "k", "v")}, dlq.OrderKey, nil)[0].Err)

	// As a workflow does, the test tries each message until it is acknowledged.
	ctx, cancel := context.WithCancel(context.Background())
	type outcome struct {
		acknowledged []string
		failures     map[dlq.Category]int
		longest      time.Duration
	}
	published := make(chan outcome)
	go func() {
		o := outcome{failures: map[dlq.Category]int{}}
		for i := 0; ctx.Err() == nil; i++ {
			value := fmt.Sprintf("m-%06d", i)
			for ctx.Err() == nil {
				start := time.Now()
				err := p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", value)}, dlq.OrderKey, nil)[0].Err
				o.longest = max(o.longest, time.Since(start))
				if err == nil {
					o.acknowledged = append(o.acknowledged, value)
					break
				}
				o.failures[dlq.CategoryOf(err)]++
			}
		}
		published <- o
	}()

	for i, end := range []func(){server.Stop, server.Kill} {
		end()
		require.Eventually(t, func() bool { return ingest.Status().Waiting == "kafka" }, timeout, tick)
		password.set("wrong")
		server.Start(t)
		want = append(want, produce(t, brokers, "orders.dlq", fmt.Sprint("after-", i), 500)...)
		awaitValues(t, store, want)
	}
	cancel()
	err := secure.Publish(deadline(t), []dlq.Envelope{envelope("other", "k", "v")}, dlq.OrderKey, nil)[0].Err
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category, "a password that ceases to be right: %v", err)
	password.set(kafkatest.Password)
	require.Eventually(t, func() bool {
		return secure.Publish(context.Background(), []dlq.Envelope{envelope("other", "k", "v")}, dlq.OrderKey, nil)[0].Err == nil
	}, timeout, tick)
	o := <-published
	t.Logf("%d acknowledged, failures %v, longest call %s", len(o.acknowledged), o.failures, o.longest)
	require.NotEmpty(t, o.acknowledged)
	require.LessOrEqual(t, o.longest, p.MaxDuration())
	for category := range o.failures {
		require.Equal(t, dlq.CategoryTransient, category)
	}
	// The topic has every acknowledged message, in the order of the first writes.
	seen := map[string]bool{}
	var order []string
	c := client(t, brokers, kgo.ConsumeTopics("orders"))
	for !seen[o.acknowledged[len(o.acknowledged)-1]] {
		fetches := c.PollFetches(deadline(t))
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if value := string(r.Value); !seen[value] {
				seen[value] = true
				order = append(order, value)
			}
		})
	}
	require.IsIncreasing(t, order)
	for _, value := range o.acknowledged {
		require.True(t, seen[value], "%s was acknowledged and is lost", value)
	}
}

func TestRealIngestReadsAgainAfterARestore(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	for name, idle := range map[string]bool{"while records arrive": false, "while nothing arrives": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScope(t)
			createTopic(t, admin(t, brokers), s.topic("orders.dlq"), 2)
			takesInAgain(t, brokers, s.topic("orders.dlq"), idle, func(store *memory) *running {
				return startIngestOf(t, s.options(brokers), store, s.topics)
			})
		})
	}
}

func TestRealIngestContinuesAtThePositionsOfItsStore(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.SharedCluster(t)
	brokers := cluster.Brokers()
	s := newScope(t)
	createTopic(t, admin(t, brokers), s.topic("orders.dlq"), 1)
	reset := func(at int64) { cluster.ResetOffsets(t, s.name, s.topic("orders.dlq"), at) }
	goesOnFromItsStore(t, brokers, s.topic("orders.dlq"), reset, func(store *memory) *running {
		return startIngestOf(t, s.options(brokers), store, s.topics)
	})
}

func TestRealIngestReportsRecordsDeletedBeforeTheyWereRead(t *testing.T) {
	t.Parallel()
	brokers := kafkatest.SharedCluster(t).Brokers()
	s := newScope(t)
	createTopic(t, admin(t, brokers), s.topic("orders.dlq"), 1)
	notesDeletedRecords(t, brokers, s.topic("orders.dlq"), func(store *memory) *running {
		return startIngestOf(t, s.options(brokers), store, s.topics)
	})
}

// A replica that is not in sync becomes the leader. The records that this replica never had are lost, and
// other records are written at their offsets.
func TestRealIngestFollowsAnUncleanElection(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"while it runs": true, "while it does not run": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := kafkatest.RealClusterOf(t, 3)
			cluster.CreateTopic(t, "__consumer_offsets", [][]int32{{1}}, map[string]string{"cleanup.policy": "compact"})
			cluster.CreateTopic(t, "orders.dlq", [][]int32{{2, 3}}, map[string]string{"unclean.leader.election.enable": "true"})
			brokers := cluster.Brokers()
			store := newMemory()
			ingest := startIngest(t, quickOptions(brokers), store)
			want := produce(t, brokers, "orders.dlq", "both have it", 10)
			awaitValues(t, store, want)
			cluster.Broker(3).Kill()
			cluster.AwaitInSync(t, "orders.dlq", 0, 2)
			want = append(want, produce(t, brokers, "orders.dlq", "one has it", 5)...)
			awaitValues(t, store, want)
			if !running {
				ingest.stop(t)
			}

			cluster.Broker(2).Kill()
			cluster.Broker(3).Start(t)
			only := kadm.TopicsSet{}
			only.Add("orders.dlq", 0)
			require.Eventually(t, func() bool {
				elected, err := admin(t, brokers).ElectLeaders(deadline(t), kadm.ElectLiveReplica, only)
				return err == nil && elected["orders.dlq"][0].Err == nil
			}, timeout, tick)
			cluster.AwaitInSync(t, "orders.dlq", 0, 3)
			want = append(want, produce(t, brokers, "orders.dlq", "new", 3)...)
			want = append(want, produce(t, brokers, "orders.dlq", "newer", 8)...) // beyond the old end
			if !running {
				startIngest(t, quickOptions(brokers), store)
			}
			awaitValues(t, store, want)
			require.EqualValues(t, 21, store.next())
			require.Zero(t, store.lostOffsets())
		})
	}
}
