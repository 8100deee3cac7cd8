//go:build console

package e2e

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/temporaltest"
)

// Strangers write dead letters. The pages run no script of a dead letter, and stay small.
func whatStrangersWriteDoesNotRun(t *testing.T, s *shop) {
	const script = "</pre></textarea><script>window.hacked=1;alert(1)</script><img src=x onerror=window.hacked=1>" +
		"\u202egnp\x1b[31mred\x00'\"`--> javascript:alert(1)"
	topic, large := "reviews.dlq.v1", map[string]string{"max.message.bytes": "20000000"}
	require.NoError(t, s.cluster.CreateTopic("reviews.v1", 1, large))
	require.NoError(t, s.cluster.CreateTopic(topic, 1, large))
	header := func(name, text string) kgo.RecordHeader { return kgo.RecordHeader{Key: name, Value: []byte(text)} }
	failure := []kgo.RecordHeader{
		header("kafka_dlt-original-topic", "reviews.v1"), header("kafka_dlt-exception-fqcn", script), header("kafka_dlt-exception-message", script),
		header("kafka_dlt-exception-stacktrace", script+"\n\tat "+script+"(A.java:1)"), header(script, script),
	}
	many := append([]kgo.RecordHeader{}, failure...)
	for range 10_000 {
		many = append(many, header(script[:40], script))
	}
	s.produce(
		&kgo.Record{Topic: topic, Key: []byte(script), Value: []byte(script), Headers: failure},
		&kgo.Record{Topic: topic, Key: []byte(script), Value: []byte(`{"note": "<script>window.hacked=1</script>", "<b>": "\u202e"}`), Headers: failure},
		&kgo.Record{Topic: topic, Key: []byte(script), Value: []byte(strings.Repeat(script, 10<<20/len(script))), Headers: failure},
		&kgo.Record{Topic: topic, Key: []byte(script), Value: []byte("{}"), Headers: many},
	)
	var ids []string
	var group string
	s.eventually("they are stored", func() bool {
		ids = nil
		_, answer := s.call(http.MethodGet, "/api/v1/dlq/"+topic)
		messages, _ := answer["messages"].([]any)
		for _, message := range messages {
			ids = append(ids, message.(map[string]any)["id"].(string))
			group, _ = message.(map[string]any)["group_id"].(string)
		}
		return len(ids) == 4 && group != ""
	})
	notes := strings.NewReader(`{"note":"<script>window.hacked=1</script>","owner":"<b onmouseover=alert(1)>"}`)
	status, answer := s.send(http.MethodPatch, "/api/v1/groups/"+group, notes, "Content-Type", "application/json")
	require.Equal(t, http.StatusOK, status, answer)
	b := newTab(s.browser, t, s.base, desk)
	paths := []string{
		"/", "/topics/" + topic, "/groups", "/groups/" + group, "/audit",
		"/plans/new?kind=retry&topic=" + topic + "&key=" + url.QueryEscape("<script>window.hacked=1</script>"),
		"/topics/" + url.PathEscape("<script>window.hacked=1</script>"),
	}
	for _, id := range ids {
		paths = append(paths, "/messages/"+id, "/messages/"+id+"/edit")
	}
	paths = append(paths, "/messages/"+ids[0]+"?view=text", "/messages/"+ids[0]+"?view=hex")
	requireText := func(path string) {
		t.Helper()
		b.visit(path)
		b.eventually("document.readyState === 'complete'")
		require.Equal(t, "undefined", value[string](b, "typeof window.hacked"), path)
		require.Equal(t, 1, value[int](b, "document.scripts.length"), path)
		require.Zero(t, value[int](b, "document.querySelectorAll('main img, [onerror], [onmouseover], a[href^=\"javascript:\"]').length"), path)
		require.LessOrEqual(t, value[int](b, "document.documentElement.outerHTML.length"), 1<<20, path)
		require.LessOrEqual(t, value[int64](b, "document.documentElement.scrollWidth"), desk.width, path)
		b.mu.Lock()
		require.Empty(t, b.said, path)
		b.mu.Unlock()
	}
	for _, path := range paths {
		requireText(path)
	}
	for _, id := range ids {
		s.archives(id)
		requireText("/archive/" + id)
	}
}

// Two people have the same page open. The second person learns that the first was quicker, and nothing is sent twice.
func twoOperatorsSendNothingTwice(t *testing.T, s *shop) {
	c := s.fails("coupons", 6)
	first, second := newTab(s.browser, t, s.base, desk), newTab(s.browser, t, s.base, desk)
	both := func(path string) {
		t.Helper()
		first.visit(path)
		second.visit(path)
		for _, b := range []*tab{first, second} {
			b.eventually("document.readyState === 'complete'")
		}
	}
	both("/messages/" + c.messages[0])
	second.click("[data-live-toggle]") // the page stays as it was
	first.click("#actions button.main")
	first.shows("RESOLVED")
	second.click("#actions button.main")
	second.shows("The message has changed since you saw it")
	second.shows("Nothing was done")

	both("/groups/" + c.group)
	for _, b := range []*tab{first, second} {
		b.click("#hold > summary")
	}
	first.click("#hold button.main")
	first.shows("The cause is held")
	second.click("#hold button.main")
	second.shows("Nothing was changed: the cause has changed since you opened the page.")

	plan := s.does("/api/v1/plans", `{"kind":"retry","topic":"`+c.topic+`"}`)
	both("/plans/" + plan)
	first.click(".ask button.main")
	first.arrives("/jobs/")
	second.click(".ask button.main")
	second.arrives("/jobs/")
	require.Equal(t, first.path(), second.path(), "one plan has one job")
	s.eventually("all are sent", func() bool { return len(consumeAll(t, s.cluster, "coupons.v1")) == 6 })
	for id, copies := range consumeAll(t, s.cluster, "coupons.v1") {
		require.Equal(t, 1, copies, id)
	}
}

// alone starts another API on the database of the shop, so only this test uses it.
func (s *shop) alone(env ...string) (api *program, again func() *program) {
	s.t.Helper()
	address := freeAddress(s.t)
	s.base = "http://" + address
	again = func() *program {
		return s.start("api", address, append([]string{"DLQ_SERVER_PORT=" + port(address)}, env...)...)
	}
	return again(), again
}

// While the API does not answer, a page of dlqctl console keeps its content and says that the server does not answer. Later it
// refreshes by itself.
func theAPIGoesAway(t *testing.T, s *shop) {
	c := s.fails("invoices", 5)
	api, again := s.alone()
	command := exec.CommandContext(t.Context(), filepath.Join(programs, "dlqctl"), "console")
	var out lockedBuffer
	command.Env = []string{"DLQ_URL=" + s.base, "DLQCTL_CONFIG=" + filepath.Join(t.TempDir(), "config.yaml")}
	command.Stdout = &out
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	s.eventually("it prints a link", func() bool { return strings.Contains(out.tail(1000), "/sign-in/link/") })
	base, link, _ := strings.Cut(strings.TrimSpace(out.tail(1000)), "/sign-in/link/")
	b := newTab(s.browser, t, base, desk)
	b.visit("/sign-in/link/" + link)
	b.visit("/groups/" + c.group)
	b.shows("Updated")
	before := b.text("#now .counts")
	api.kill(t)
	b.shows("The server does not answer. This is the state of")
	require.Equal(t, before, b.text("#now .counts"))
	other := newTab(s.browser, t, base, desk)
	other.visit("/sign-in/link/" + link) // the link has been used
	require.Equal(t, int64(http.StatusForbidden), other.status)
	api = again()
	b.shows("Updated") // the page has refreshed by itself
	require.Equal(t, before, b.text("#now .counts"))

	api.kill(t)
	b.visit("/jobs")
	require.GreaterOrEqual(t, b.status, int64(500))
	require.NotEmpty(t, b.text("h1"))
	again()
	b.visit("/jobs")
	require.Equal(t, int64(http.StatusOK), b.status)
}

// Without Temporal nothing is sent, and the page says so. Afterwards the same button works.
func temporalGoesAway(t *testing.T, s *shop) {
	c := s.fails("baskets", 3)
	temporal := newProxy(t, temporaltest.Address(t))
	temporal.join(t)
	s.alone("DLQ_TEMPORAL_ADDRESS=" + temporal.address)
	b := newTab(s.browser, t, s.base, desk)
	temporal.cut()
	b.visit("/messages/" + c.messages[0])
	b.click("#actions button.main")
	b.eventually("document.querySelector('.flash.refused') !== null")
	t.Log("without Temporal the page says: ", b.text(".flash.refused"))
	require.Contains(t, b.text("#state"), "PENDING")
	temporal.join(t)
	s.eventually("the API is ready", func() bool {
		response, err := http.Get(s.base + "/readyz")
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
	b.visit("/messages/" + c.messages[0])
	b.click("#actions button.main")
	b.shows("RESOLVED")
	require.Len(t, consumeAll(t, s.cluster, "baskets.v1"), 1)
}

// If a session ends while a person fills a form, the text of the form is kept.
func theSessionEndsWhileAFormIsFilled(t *testing.T, s *shop) {
	c := s.fails("returns", 4)
	token := s.authenticate()
	api, again := s.alone()
	b := newTab(s.browser, t, s.base, desk)
	signIn := func(b *tab) {
		t.Helper()
		b.fill("#token", token)
		b.press("\r")
		b.eventually("document.readyState === 'complete' && !location.pathname.startsWith('/sign-in')")
	}
	b.visit("/messages/" + c.messages[0] + "/edit")
	b.arrives("/sign-in")
	b.requireReadable("sign-in", desk)
	for _, broken := range b.violations() {
		t.Errorf("sign-in: %s: %s", broken.Help, broken.Nodes[0].HTML)
	}
	signIn(b)
	b.arrives("/messages/")
	b.fill("#value", `{"order_id": 12345678901234567890, "note": "a long text"}`)
	b.fill("#reason", "the customer has called")
	plan := newTab(s.browser, t, s.base, desk)
	plan.visit("/plans/new?kind=retry&topic=" + c.topic + "&group=" + c.group)
	signIn(plan)
	plan.arrives("/plans/new")
	plan.fill("#reason", "returns work again")

	api.kill(t)
	again() // with other keys, so that every session is over
	b.click(".edit .actions button[value=review]")
	b.shows("Your session is over")
	require.Contains(t, value[string](b, "document.querySelector('#value').value"), "12345678901234567890")
	require.Equal(t, "the customer has called", value[string](b, "document.querySelector('#reason').value"))
	plan.click(".plan-form button.main")
	plan.arrives("/sign-in")
	signIn(plan)
	plan.arrives("/plans/new")
	require.Equal(t, "returns work again", value[string](plan, "document.querySelector('#reason').value"))

	other := newTab(b, t, s.base, desk) // another tab of the same person
	other.visit("/sign-in")
	signIn(other)
}

// After a sign-out, the back button shows no page to the next person at the browser.
func aSignOutLeavesNoPagesBehind(t *testing.T, s *shop) {
	c := s.fails("parcels", 3)
	token := s.authenticate()
	s.alone()
	b := newTab(s.browser, t, s.base, desk)
	b.visit("/messages/" + c.messages[0])
	b.arrives("/sign-in")
	b.fill("#token", token)
	b.press("\r")
	b.arrives("/messages/")
	b.shows("no price for sku-")
	b.visit("/groups/" + c.group)
	b.shows("no price for sku-")
	b.click("form[action$='/sign-out'] button")
	b.arrives("/sign-in")
	for range 2 { // the page of the group, and the page of the message before it
		run(b, chromedp.Evaluate[chromedp.Void]("window.isThis = true; history.back(); void 0"))
		b.eventually("!window.isThis && document.readyState === 'complete' && location.pathname === '/sign-in'")
	}
}

// A refresh keeps the focus, the marked text, the scroll position and open details.
func aRefreshKeepsWhatAPersonDid(t *testing.T, s *shop) {
	c := s.fails("wishes", 6)
	b := newTab(s.browser, t, s.base, display{width: 1280, height: 300, language: "en"})
	b.visit("/messages/" + c.messages[0])
	b.eventually("document.readyState === 'complete'")
	b.click("#more-actions > summary")
	b.fill("#target-reason", "half a sentence")
	prepare := `(() => {
		const field = document.querySelector("#target-reason");
		field.setSelectionRange(2, 6);
		window.field = field;
		window.shifts = 0;
		new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifts += e.value; }).observe({type: "layout-shift"});
		return scrollY;
	})()`
	place := value[float64](b, prepare)
	require.NotZero(t, place)
	s.does("/api/v1/dlq/messages/"+c.messages[0]+"/retry", "{}")
	b.shows("RESOLVED")
	require.True(t, value[bool](b, "document.querySelector('#more-actions').open"))

	// In the list of a topic, a row has the focus and a word is marked.
	b.visit("/topics/" + c.topic)
	b.eventually("document.readyState === 'complete'")
	value[bool](b, `(() => {
		window.link = document.querySelector("table.rows tbody a");
		window.link.focus();
		const range = document.createRange();
		range.selectNodeContents(document.querySelector("table.rows tbody tr:last-child td.wrap"));
		getSelection().removeAllRanges();
		getSelection().addRange(range);
		window.marked = getSelection().toString();
		window.place = scrollY;
		window.pending = document.body.innerText;
		return true;
	})()`)
	s.does("/api/v1/dlq/messages/"+c.messages[1]+"/retry", "{}")
	b.eventually("document.body.innerText !== window.pending")
	b.eventually("window.link.isConnected && document.activeElement === window.link")
	require.Equal(t, value[string](b, "window.marked"), value[string](b, "getSelection().toString()"))
	require.InDelta(t, value[float64](b, "window.place"), value[float64](b, "scrollY"), 2)
}
