package kafka_test

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// refusing is a cluster that refuses logins with the answer that Kafka gives to a wrong password. The fake
// cluster itself would only close the connection.
type refusing struct {
	*kfake.Cluster
	connections     *connectionsOf
	accepted, later atomic.Int64 // how many requests of logins are accepted, and how many later ones are refused
	refused         atomic.Int64
}

// refuseLogins starts a cluster whose password is "renewed". The cluster accepts some logins, then refuses
// the given number of logins, and calls then at the last refusal.
func refuseLogins(t *testing.T, accepted, refused int64, then func()) *refusing {
	t.Helper()
	c := &refusing{connections: &connectionsOf{}}
	c.Cluster = kafkatest.FakeCluster(t, kfake.SeedTopics(3, "orders", "orders.dlq"), kfake.ListenFn(c.connections.listen),
		kfake.EnableSASL(), kfake.Superuser(kafka.ScramSHA512, "app", "renewed"))
	c.accepted.Store(2 * accepted) // a login takes two requests
	c.later.Store(refused)
	c.ControlKey(kmsg.SASLAuthenticate.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if c.accepted.Add(-1) >= 0 {
			return nil, nil, false //nolint:nilnil // not handled: the cluster verifies the password
		}
		left := c.later.Add(-1)
		if left < 0 {
			return nil, nil, false //nolint:nilnil // as above
		}
		c.refused.Add(1)
		if left == 0 {
			then()
		}
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		text := "Authentication failed during authentication due to invalid credentials"
		response.ErrorCode, response.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &text
		return response, nil, true
	})
	return c
}

// disconnect closes all connections, and refuses the next logins.
func (c *refusing) disconnect(refused int64) {
	c.later.Store(refused)
	c.connections.close()
}

// client returns a client with the right password.
func (c *refusing) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return client(t, c.ListenAddrs(), append(opts, kgo.SASL(scram.Auth{User: "app", Pass: "renewed"}.AsSha512Mechanism()))...)
}

// connectionsOf are the open connections of a cluster.
type connectionsOf struct {
	mu    sync.Mutex
	open  []net.Conn
	isCut bool // the next answer closes all connections instead
}

func (c *connectionsOf) listen(network, address string) (net.Listener, error) {
	listener, err := net.Listen(network, address)
	return &severedListener{listener, c}, err
}

func (c *connectionsOf) close() {
	c.cutAtNextAnswer()
	c.answer()
}

func (c *connectionsOf) cutAtNextAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
}

// answer is called before each answer of the cluster, and closes the connections if isCut is set.
func (c *connectionsOf) answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isCut {
		return
	}
	for _, connection := range c.open {
		_ = connection.Close()
	}
	c.open, c.isCut = nil, false
}

type severedListener struct {
	net.Listener
	of *connectionsOf
}

func (l *severedListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.of.open = append(l.of.open, connection)
	return &severedConn{connection, l.of}, nil
}

type severedConn struct {
	net.Conn
	of *connectionsOf
}

func (c *severedConn) Write(answer []byte) (int, error) {
	c.of.answer()
	return c.Conn.Write(answer)
}

func (c *refusing) options(password *rotating) kafka.Options {
	o := quickOptions(c.ListenAddrs())
	o.SASL = kafka.SASL{Mechanism: kafka.ScramSHA512, User: "app", Password: password.get}
	return o
}

// The password changes in the brokers before it changes in its file.
func TestMessagesWaitForANewPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		accepted int64 // logins before the password changes
		order    dlq.Order
	}{
		"before the metadata":                   {0, dlq.OrderKey},
		"before the producer id":                {1, dlq.OrderKey},
		"before the producer id, without order": {1, dlq.OrderNone},
		"before the connection that sends them": {2, dlq.OrderKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			password := newRotating("renewed") // brokers may learn late of a new password
			cluster := refuseLogins(t, c.accepted, 3, func() { password.set("renewed") })
			if c.accepted == 0 {
				password.set("earlier")
			}
			metrics := prometheus.NewRegistry()
			p, err := kafka.NewPublisher(cluster.options(password), testLog(t), metrics)
			require.NoError(t, err)
			t.Cleanup(p.Close)
			var page []dlq.Envelope
			for i := range 20 {
				page = append(page, envelope("orders", fmt.Sprint("key ", i%3), fmt.Sprintf("%02d", i)))
			}
			for _, err := range errorsOf(p.Publish(t.Context(), page, c.order, nil)) {
				require.NoError(t, err)
			}
			require.EqualValues(t, 3, cluster.refused.Load())
			require.InDelta(t, 20, sumOf(t, metrics, "dlq_republished_total"), 0, "each is counted once")
			last := map[string]string{}
			reader := cluster.client(t, kgo.ConsumeTopics("orders"))
			for read := 0; read < 20; {
				fetches := reader.PollFetches(deadline(t))
				require.NoError(t, fetches.Err())
				fetches.EachRecord(func(r *kgo.Record) {
					read++
					require.True(t, c.order != dlq.OrderKey || last[string(r.Key)] < string(r.Value), "in order")
					last[string(r.Key)] = string(r.Value)
				})
			}
		})
	}
}

// The client repeats a produce request without an answer. If its login for the repetition is refused, the
// message fails with this refusal, although the broker has written the message.
func TestAMessageThatMayBeWrittenIsNotSentAgainAfterARefusedLogin(t *testing.T) {
	t.Parallel()
	cluster := refuseLogins(t, 0, 0, func() {})
	var produced atomic.Int64
	cluster.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if produced.Add(1) == 1 {
			cluster.later.Store(6)
			cluster.connections.cutAtNextAnswer()
		}
		return nil, nil, false //nolint:nilnil // not handled: the cluster writes the record
	})
	p := newPublisher(t, cluster.options(newRotating("renewed")))
	err := p.Publish(t.Context(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey, nil)[0].Err
	cluster.later.Store(0)
	require.EqualValues(t, 1, produced.Load())
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, err).Category)
	ends, err := kadm.NewClient(cluster.client(t)).ListEndOffsets(deadline(t), "orders")
	require.NoError(t, err)
	written := int64(0)
	ends.Each(func(end kadm.ListedOffset) { written += end.Offset })
	require.EqualValues(t, 1, written)
}

func TestIngestContinuesAfterRefusedLogins(t *testing.T) {
	t.Parallel()
	cluster := refuseLogins(t, 0, 5, func() {})
	store := newMemory()
	startIngest(t, cluster.options(newRotating("renewed")), store)
	requireRefused := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return cluster.refused.Load() == n }, timeout, tick)
	}
	requireRefused(5)
	produce := func(value string) {
		t.Helper()
		require.NoError(t, cluster.client(t).ProduceSync(deadline(t), &kgo.Record{Topic: "orders.dlq", Value: []byte(value)}).FirstErr())
	}
	produce("1")
	awaitValues(t, store, []string{"1"})

	cluster.disconnect(5)
	requireRefused(10)
	produce("2")
	awaitValues(t, store, []string{"1", "2"})
	require.Zero(t, store.duplicates())
	require.Zero(t, store.lostOffsets())
}

func TestPingWaitsForANewPassword(t *testing.T) {
	t.Parallel()
	password := newRotating("earlier")
	cluster := refuseLogins(t, 0, 3, func() { password.set("renewed") })
	require.NoError(t, newPublisher(t, cluster.options(password)).Ping(deadline(t)))
}

func TestAPasswordThatStaysWrongIsReported(t *testing.T) {
	t.Parallel()
	cluster := refuseLogins(t, 0, 1000, nil)
	o := cluster.options(newRotating("wrong"))
	o.DeliveryTimeout = time.Second
	p := newPublisher(t, o)
	started := time.Now()
	errs := errorsOf(p.Publish(t.Context(), []dlq.Envelope{envelope("orders", "k", "1"), envelope("orders", "other", "2")}, dlq.OrderKey, nil))
	require.Less(t, time.Since(started), p.MaxDuration())
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, errs[0]).Category)
	require.ErrorIs(t, errs[0], kerr.SaslAuthenticationFailed)
	require.ErrorContains(t, errs[0], "due to invalid credentials")
	require.Equal(t, dlq.CategoryAuth, deliveryError(t, errs[1]).Category)
	require.ErrorContains(t, p.Ping(deadline(t)), "due to invalid credentials")
	require.Less(t, cluster.refused.Load(), int64(30))
}
