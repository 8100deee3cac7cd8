package e2e

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
)

// These tests prove that the faults of TestChaos take effect.

func TestSilentConnectionHangsAndTellsNobody(t *testing.T) {
	t.Parallel()
	const silent = 500 * time.Millisecond
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	accepted := make(chan net.Conn, 3)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	p := newProxy(t, server.Addr().String())
	p.join(t)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", p.address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	hears := func(from, to net.Conn) error {
		_, err := from.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, to.SetReadDeadline(time.Now().Add(silent/5)))
		_, err = to.Read(make([]byte, 1))
		return err
	}
	requireTimeout := func(err error) {
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout(), "%v", err)
	}

	before := dial()
	atServer := <-accepted
	require.NoError(t, hears(before, atServer))
	require.NoError(t, hears(atServer, before))
	require.Equal(t, 1, p.silence(silent))
	during := dial()
	requireTimeout(hears(before, atServer))
	requireTimeout(hears(atServer, before))
	time.Sleep(silent)
	requireTimeout(hears(before, atServer))
	requireTimeout(hears(during, during))
	after := dial()
	require.NoError(t, hears(after, <-accepted))

	// The server does not notice that the client closes the connection either.
	require.NoError(t, before.Close())
	require.NoError(t, atServer.SetReadDeadline(time.Now().Add(silent/5)))
	_, err = atServer.Read(make([]byte, 1))
	requireTimeout(err)
}

func TestKafkaClientStaysBehindItsProxy(t *testing.T) {
	t.Parallel()
	const topic = "behind"
	cluster := kafkatest.FakeCluster(t)
	require.NoError(t, cluster.CreateTopic(topic, 3, nil))
	p := newKafkaProxy(t, cluster.ListenAddrs()[0])
	p.join(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(p.address), kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(time.Second),
		kgo.ProduceRequestTimeout(500*time.Millisecond), kgo.RequestTimeoutOverhead(500*time.Millisecond),
		kgo.AllowIdempotentProduceCancellation(), kgo.AlwaysRetryEOF())
	require.NoError(t, err)
	defer client.Close()
	produce := func() error { return client.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr() }
	require.NoError(t, produce())
	require.Positive(t, p.silence(1500*time.Millisecond))
	require.Error(t, produce(), "it has no other way to the broker")
	require.Eventually(t, func() bool { return produce() == nil }, 20*time.Second, 100*time.Millisecond)
}

func TestTargetWithTooFewReplicasRefuses(t *testing.T) {
	t.Parallel()
	broker := kafkatest.RealCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Brokers()...), kgo.RecordRetries(2), kgo.AllowIdempotentProduceCancellation())
	require.NoError(t, err)
	defer client.Close()
	createOnGhost(t, client, "shut", "free")
	produce := func(topic string) error {
		return client.ProduceSync(t.Context(), &kgo.Record{Topic: topic}).FirstErr()
	}
	require.NoError(t, produce("shut"))
	require.NoError(t, setMinISR(t.Context(), client, "shut", "2"))
	require.Eventually(t, func() bool { return produce("shut") != nil }, 20*time.Second, 100*time.Millisecond)
	require.ErrorIs(t, produce("shut"), kerr.NotEnoughReplicas)
	require.NoError(t, produce("free"))
	require.NoError(t, setMinISR(t.Context(), client, "shut", "1"))
	require.Eventually(t, func() bool { return produce("shut") == nil }, 20*time.Second, 100*time.Millisecond)
}

func TestBlockedWritesWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		block      func(*chaos, *dice) bool
		othersWait bool
	}{
		"rowlock": {block: (*chaos).lockRows},
		"index":   {block: (*chaos).buildIndex, othersWait: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const held, tried = 2 * time.Second, 500 * time.Millisecond
			url := dbtest.URL(t)
			c := &chaos{t: t, journal: newJournal(), databaseURL: url, pool: dbtest.Pool(t, url)}
			insert := func(status string) (id string) {
				require.NoError(t, c.pool.QueryRow(t.Context(), `
					INSERT INTO dlq.dlq_messages (original_topic, error_message, status, dlq_topic)
					VALUES ('a', 'b', $1, $2) RETURNING id::text`, status, chaosTopics[0].dlq).Scan(&id))
				return id
			}
			mine := insert("RETRYING")
			insert("RETRYING") // the fault locks two rows of each status
			insert("PENDING")
			insert("PENDING")
			other := insert("PENDING")
			write := func(id string) error {
				ctx, cancel := context.WithTimeout(t.Context(), tried)
				defer cancel()
				_, err := c.pool.Exec(ctx, "UPDATE dlq.dlq_messages SET error_message = 'c' WHERE id = $1", id)
				return err
			}
			require.NoError(t, write(mine))
			struck := make(chan bool, 1)
			go func() { struck <- test.block(c, &dice{locked: held, indexed: held}) }()
			// The fault skips a row that another transaction is writing, so the test writes only after the
			// locks are taken.
			require.Eventually(t, func() bool { return strings.Contains(c.journal.text(), ": holds ") }, 20*time.Second, 10*time.Millisecond)
			require.Error(t, write(mine))
			require.Eventually(t, func() bool { // the server ends the first write before the second begins
				var waiting int
				err := c.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'UPDATE%'`).Scan(&waiting)
				return err == nil && waiting == 0
			}, 20*time.Second, 5*time.Millisecond)
			if test.othersWait {
				require.Error(t, write(other))
			} else {
				require.NoError(t, write(other))
			}
			require.True(t, <-struck)
			require.NoError(t, write(mine))
			require.NoError(t, write(other))
			require.Contains(t, c.journal.text(), "at most 1 sessions waited")
			var left bool
			require.NoError(t, c.pool.QueryRow(t.Context(), "SELECT to_regclass('dlq.chaos_index') IS NOT NULL").Scan(&left))
			require.False(t, left)
			require.False(t, c.windows.all()[0].to.Before(c.windows.all()[0].from.Add(held)))
		})
	}
}
