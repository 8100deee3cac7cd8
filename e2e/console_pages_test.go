//go:build console

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
)

// shop is a stack with dead letters of several causes, and a browser.
type shop struct {
	*system

	cluster *kfake.Cluster
	browser context.Context
}

// cause is a cause of dead letters in a topic.
type cause struct {
	topic, group string
	// messages are the ids of some messages.
	messages []string
}

// failure is how a consumer of the shop fails: an exception, its message with a number, and its frames.
type failure struct{ class, message, frames string }

var noPrice = failure{"java.lang.IllegalStateException", "no price for sku-%d", `
	at shop.pricing.Prices.of(Prices.java:41)
	at shop.orders.OrderHandler.handle(OrderHandler.java:88)
	at org.springframework.kafka.listener.KafkaMessageListenerContainer.invoke(KafkaMessageListenerContainer.java:2800)
Caused by: java.net.ConnectException: Connection refused: prices.internal/10.0.0.7:443
	at java.base/sun.nio.ch.Net.connect(Net.java:589)
	at shop.pricing.PriceClient.get(PriceClient.java:23)`}

// TestTheConsole runs its subtests on one stack with one browser. Each subtest has topics of its own.
func TestTheConsole(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for name, test := range map[string]func(*testing.T, *shop){
		"EveryPageCanBeReadByEverybody": everyPageCanBeReadByEverybody, "FromTheAlertByKeyboard": fromTheAlertByKeyboard,
		"FromTheAlertByTouch": fromTheAlertByTouch, "TheWholeWayWithoutTheScript": theWholeWayWithoutTheScript,
		"WhatStrangersWriteDoesNotRun": whatStrangersWriteDoesNotRun,
		"TwoOperatorsSendNothingTwice": twoOperatorsSendNothingTwice, "TheAPIGoesAway": theAPIGoesAway, "TemporalGoesAway": temporalGoesAway,
		"TheSessionEndsWhileAFormIsFilled": theSessionEndsWhileAFormIsFilled, "ASignOutLeavesNoPagesBehind": aSignOutLeavesNoPagesBehind,
		"ARefreshKeepsWhatAPersonDid": aRefreshKeepsWhatAPersonDid, "AnArchivedMessageIsRevealedAndRestored": anArchivedMessageIsRevealedAndRestored,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s.in(t))
		})
	}
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{browser: newBrowser(t), cluster: kafkatest.FakeCluster(t)}
	s.system = newSystem(t, s.cluster)
	config := filepath.Join(t.TempDir(), "config.yaml") // the environment cannot name a path
	require.NoError(t, os.WriteFile(config, []byte("masking: {rules: {people: {topics: 'people*', value: customer}}}\n"), 0o600))
	s.env = append(s.env, "DLQ_VERIFY_INTERVAL=1s", "DLQ_CONFIG="+config)
	s.startWorker()
	s.startAPI()
	return s
}

// in returns the same shop for a subtest. A subtest that adds to its environment leaves those of the others as they are.
func (s *shop) in(t *testing.T) *shop {
	own, system := *s, *s.system
	system.t, system.env = t, slices.Clip(s.env)
	own.system = &system
	return &own
}

// fails writes dead letters of a service to NAME.dlq.v1, and returns their cause once it is counted.
func (s *shop) fails(name string, count int) cause {
	s.t.Helper()
	return s.failsWith(noPrice, name, count)
}

// failsWith is fails with a given failure. It writes the headers that Spring writes.
func (s *shop) failsWith(f failure, name string, count int) cause {
	s.t.Helper()
	c := cause{topic: name + ".dlq.v1"}
	for _, topic := range []string{name + ".v1", c.topic} {
		if s.cluster.TopicInfo(topic) == nil {
			require.NoError(s.t, s.cluster.CreateTopic(topic, 1, nil))
		}
	}
	var records []*kgo.Record
	for i := range count {
		header := func(name, value string) kgo.RecordHeader {
			return kgo.RecordHeader{Key: "kafka_dlt-" + name, Value: []byte(value)}
		}
		records = append(records, &kgo.Record{
			Topic: c.topic, Key: fmt.Appendf(nil, "order-%d", 1000+i%17),
			Value: fmt.Appendf(nil, `{"order_id":%d,"customer":"c-%03d","currency":"EUR","total_cents":%d,"lines":[{"sku":"sku-%d","quantity":%d}]}`,
				1000+i, i%40, 990+i*7, i%60, 1+i%3),
			Headers: []kgo.RecordHeader{
				header("original-topic", name+".v1"), header("original-partition", "\x00\x00\x00\x00"),
				header("original-offset", string(binary.BigEndian.AppendUint64(nil, uint64(i)))), header("original-consumer-group", name+"-service"),
				header("exception-fqcn", f.class), header("exception-message", fmt.Sprintf(f.message, i%60)),
				header("exception-stacktrace", f.class+": "+fmt.Sprintf(f.message, i%60)+f.frames),
			},
		})
	}
	s.produce(records...)
	s.eventually("the cause is counted", func() bool {
		_, answer := s.call(http.MethodGet, "/api/v1/dlq/"+c.topic+"?page_size=5")
		messages, _ := answer["messages"].([]any)
		c.messages = nil
		for _, message := range messages {
			fields := message.(map[string]any)
			c.messages = append(c.messages, fields["id"].(string))
			c.group, _ = fields["group_id"].(string)
		}
		if len(messages) < min(count, 5) || c.group == "" {
			return false
		}
		_, group := s.call(http.MethodGet, "/api/v1/groups/"+c.group)
		counts, _ := group["counts"].(map[string]any)
		return counts["PENDING"] == float64(count)
	})
	return c
}

func (s *shop) produce(records ...*kgo.Record) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ProducerBatchMaxBytes(20<<20))
	require.NoError(s.t, err)
	defer client.Close()
	require.NoError(s.t, client.ProduceSync(s.t.Context(), records...).FirstErr())
}

// isRepaired makes the service of the topic NAME.v1 read its topic again, and commit the offsets.
func (s *shop) isRepaired(name string) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumerGroup(name+"-service"), kgo.ConsumeTopics(name+".v1"),
		kgo.AutoCommitInterval(100*time.Millisecond))
	require.NoError(s.t, err)
	s.t.Cleanup(client.Close)
	go func() {
		for ctx := s.t.Context(); ctx.Err() == nil; {
			client.PollFetches(ctx)
		}
	}()
}

// does calls the API and returns the id in its answer.
func (s *shop) does(path, body string) string {
	s.t.Helper()
	status, answer := s.send(http.MethodPost, path, strings.NewReader(body), "Content-Type", "application/json")
	require.Less(s.t, status, 300, answer)
	id, _ := answer["id"].(string)
	return id
}

// archives marks a message dead and moves it to the archive, as if it had ended long ago.
func (s *shop) archives(id string) {
	s.t.Helper()
	s.does("/api/v1/dlq/messages/"+id+"/dead", `{"reason":"the order was cancelled"}`)
	_, err := s.pool.Exec(s.t.Context(), `UPDATE dlq.dlq_messages SET updated_at = now() - interval '40 days' WHERE id = $1`, id)
	require.NoError(s.t, err)
	_, err = s.pool.Exec(s.t.Context(), `CALL dlq.archive_old_dlq_messages(39)`)
	require.NoError(s.t, err)
}

// pages are the paths of all pages, by their names. The messages of the cause people have hidden parts.
func (s *shop) pages(orders, stock, people cause) map[string]string {
	s.archives(people.messages[0])
	topic := url.PathEscape(orders.topic)
	selection := fmt.Sprintf(`{"kind":"retry","topic":%q,"group":%q}`, orders.topic, orders.group)
	plan := s.does("/api/v1/plans", selection)
	job := s.does("/api/v1/jobs", fmt.Sprintf(`{"kind":"retry","topic":%q,"reason":"the price service is back"}`, stock.topic))
	s.eventually("the job has ended", func() bool {
		_, answer := s.call(http.MethodGet, "/api/v1/jobs/"+job)
		return answer["state"] == "COMPLETED"
	})
	for _, statement := range []string{ // as if the job had taken five minutes, so that its page has a chart
		`UPDATE dlq.dlq_jobs SET started_at = ended_at - interval '5 minutes' WHERE id = $1`,
		`INSERT INTO dlq.dlq_job_samples (job_id, tick, at, retried, failed, dead, changed, skipped)
			SELECT id, n, started_at + n * interval '5 seconds', n / 6, n / 20, 0, 0, 0 FROM dlq.dlq_jobs, generate_series(1, 59) AS n WHERE id = $1`,
	} {
		_, err := s.pool.Exec(s.t.Context(), statement, job)
		require.NoError(s.t, err)
	}
	return map[string]string{
		"overview": "/", "me": "/me", "unknown": "/topics/none/none",
		"topic": "/topics/" + topic, "groups": "/groups", "group": "/groups/" + orders.group, "message": "/messages/" + orders.messages[0],
		"sent": "/messages/" + stock.messages[0], "edit": "/messages/" + orders.messages[0] + "/edit", "plan": "/plans/" + plan, "job": "/jobs/" + job,
		"plan-new":  "/plans/new?kind=retry&topic=" + url.QueryEscape(orders.topic) + "&group=" + orders.group,
		"plan-dead": "/plans/new?kind=dead&topic=" + url.QueryEscape(orders.topic),
		"jobs":      "/jobs", "retries": "/retries", "archive": "/archive?topic=" + people.topic, "audit": "/audit",
		"archived": "/archive/" + people.messages[0],
	}
}

// everyPageCanBeReadByEverybody looks at each page in the ways in which people do.
func everyPageCanBeReadByEverybody(t *testing.T, s *shop) {
	pages := s.pages(s.fails("orders", 40), s.fails("stock", 12), s.fails("people", 3))
	for i, look := range []display{desk, {360, 740, "ja", true, false}, phone, {1280, 900, "ja", false, false}, {320, 640, "en", true, false}} {
		mode := map[bool]string{true: "dark", false: "light"}[look.dark]
		t.Run(fmt.Sprintf("%s-%s-%d", look.language, mode, look.width), func(t *testing.T) {
			t.Parallel()
			b := newTab(s.browser, t, s.base, look)
			for name, path := range pages {
				at := fmt.Sprintf("%s-%s-%s-%d", name, look.language, mode, look.width)
				b.visit(path)
				b.eventually("document.readyState === 'complete'")
				if i < 3 {
					b.picture(at)
				}
				b.requireReadable(at, look)
				want := int64(http.StatusOK)
				if name == "unknown" {
					want = http.StatusNotFound
				}
				require.Equal(t, want, b.status, at)
				if i > 1 {
					continue // the first two displays have both languages and both colour schemes, which is enough for axe
				}
				for _, broken := range b.violations() {
					t.Errorf("%s: %s (%s): %s", at, broken.Help, broken.ID, broken.Nodes[0].Summary+" "+broken.Nodes[0].HTML)
				}
			}
		})
	}
}

// requireReadable requires that a page has its language and one heading, writes nothing to the console of the browser, and
// loads nothing from elsewhere. The page must be small, and must not scroll sideways.
func (b *tab) requireReadable(at string, look display) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.said, at)
	for _, asked := range b.asked {
		require.True(b.t, strings.HasPrefix(asked, b.base) || strings.HasPrefix(asked, "data:") || asked == "about:blank", "%s asks %s", at, asked)
	}
	require.LessOrEqual(b.t, b.bytes, int64(40<<10), "%s: bytes of a first view", at)
	b.mu.Unlock()
	defer b.mu.Lock()
	require.LessOrEqual(b.t, value[int64](b, "document.documentElement.scrollWidth"), look.width, "%s scrolls sideways", at)
	require.Equal(b.t, look.language, value[string](b, "document.documentElement.lang"), at)
	require.Equal(b.t, 1, value[int](b, "document.querySelectorAll('h1').length"), at)
}
