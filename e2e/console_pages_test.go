//go:build console

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// shop is a stack with dead letters of several causes.
type shop struct {
	*system

	// group and message are of the largest cause.
	group, message, topic string
}

const stackTrace = `java.lang.IllegalStateException: no price for sku-%d
	at shop.pricing.Prices.of(Prices.java:41)
	at shop.orders.OrderHandler.handle(OrderHandler.java:88)
	at org.springframework.kafka.listener.KafkaMessageListenerContainer.invoke(KafkaMessageListenerContainer.java:2)
Caused by: java.net.ConnectException: Connection refused: prices.internal/10.0.0.%d:443
	at java.base/sun.nio.ch.Net.connect(Net.java:589)
	at shop.pricing.PriceClient.get(PriceClient.java:23)`

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{system: newSystem(t, kafkatest.FakeCluster(t))}
	s.startWorker()
	s.env = append(s.env, "DLQ_SERVER_RETRY_WAIT=2s")
	s.startAPI()
	s.topic = s.dlqTopic
	letters := []string{}
	for i := range 40 {
		letters = append(letters, fmt.Sprintf(`{"key":"order-%d","value":{"order":%d,"amount":12345678901234567890},"error":{"message":%q,"class":"java.lang.IllegalStateException","stack_trace":%q}}`,
			i%10, i, fmt.Sprintf("no price for sku-%d", i), fmt.Sprintf(stackTrace, i, i)))
	}
	for i := range 5 {
		letters = append(letters, fmt.Sprintf(`{"key":"user-%d","value":{"mail":"a%d@example.com"},"error":{"message":"field mail is missing","class":"shop.InvalidOrder"}}`, i, i))
	}
	status, answer := s.send(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/messages", strings.NewReader(`{"messages":[`+strings.Join(letters, ",")+`]}`),
		"Content-Type", "application/json")
	require.Less(t, status, 300, answer)
	s.eventually("groups are counted", func() bool {
		_, answer := s.call(http.MethodGet, "/api/v1/groups?sort=pending")
		groups, _ := answer["groups"].([]any)
		if len(groups) < 2 {
			return false
		}
		s.group, _ = groups[0].(map[string]any)["id"].(string)
		return true
	})
	_, answer = s.call(http.MethodGet, "/api/v1/dlq/"+s.dlqTopic+"?group="+s.group)
	s.message, _ = answer["messages"].([]any)[0].(map[string]any)["id"].(string)
	return s
}

// pages are the paths of all pages, by their names.
func (s *shop) pages() map[string]string {
	topic := url.PathEscape(s.topic)
	return map[string]string{
		"overview": "/", "me": "/me", "unknown": "/topics/none/none",
		"topic": "/topics/" + topic, "groups": "/groups", "group": "/groups/" + s.group, "message": "/messages/" + s.message, "edit": "/messages/" + s.message + "/edit",
		"plan": "/plans/new?kind=retry&topic=" + url.QueryEscape(s.topic) + "&group=" + s.group, "jobs": "/jobs", "retries": "/retries", "archive": "/archive", "audit": "/audit",
	}
}

func TestEveryPageCanBeReadByEverybody(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	for _, look := range []display{desk, phone, {1280, 900, "ja", true, false}, {360, 740, "ja", false, false}, {320, 640, "en", true, false}} {
		b := newTab(t, s.base, look)
		for name, path := range s.pages() {
			mode := map[bool]string{true: "dark", false: "light"}[look.dark]
			at := fmt.Sprintf("%s-%s-%s-%d", name, look.language, mode, look.width)
			b.visit(path)
			b.eventually("document.readyState === 'complete'")
			b.picture(at)
			want := int64(http.StatusOK)
			if name == "unknown" {
				want = http.StatusNotFound
			}
			require.Equal(t, want, b.status, at)
			require.Empty(t, b.said, at)
			require.LessOrEqual(t, value[int64](b, "document.documentElement.scrollWidth"), look.width, "%s scrolls sideways", at)
			require.Equal(t, look.language, value[string](b, "document.documentElement.lang"))
			require.Equal(t, 1, value[int](b, "document.querySelectorAll('h1').length"), at)
			for _, asked := range b.asked {
				require.True(t, strings.HasPrefix(asked, s.base) || strings.HasPrefix(asked, "data:"), "%s asks %s", at, asked)
			}
			require.LessOrEqual(t, b.bytes, int64(40<<10), "%s: bytes of a first view", at)
			for _, broken := range b.violations() {
				t.Errorf("%s: %s (%s): %s", at, broken.Help, broken.ID, broken.Nodes[0].Summary+" "+broken.Nodes[0].HTML)
			}
		}
	}
}
