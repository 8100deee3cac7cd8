//go:build console

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// walk is a way through the pages. It counts actions: pressed keys and taps.
type walk struct {
	*tab

	name    string
	actions int
	began   time.Time
}

func (b *tab) walk(name string) *walk { return &walk{tab: b, name: name, began: time.Now()} }

func (w *walk) press(keys ...string) {
	w.t.Helper()
	w.actions += len(keys)
	w.tab.press(keys...)
}

// ends fails the test if the walk took more than most actions.
func (w *walk) ends(most int) {
	w.t.Helper()
	w.t.Logf("%s: %d actions of at most %d, %.1f s", w.name, w.actions, most, time.Since(w.began).Seconds())
	if w.actions > most {
		w.t.Errorf("%s takes %d actions, not %d", w.name, w.actions, most)
	}
}

// An operator comes from the link of an alert, and uses no mouse.
func fromTheAlertByKeyboard(t *testing.T, s *shop) {
	c := s.fails("payments", 40)
	s.isRepaired("payments")
	b := newTab(s.browser, t, s.base, desk)

	hold := b.walk("hold the cause")
	b.visit("/groups/" + c.group)
	hold.press("g", "h", kb.Tab, kb.Tab, kb.Enter)
	b.shows("The cause is held")
	hold.ends(6)

	one := b.walk("send one message and see that it passed")
	b.visit("/groups/" + c.group)
	one.press("g", "w")
	b.arrives("/messages/")
	one.press("g", "s", kb.Enter)
	b.shows("Passed by the consumer")
	one.ends(8)

	all := b.walk("send the cause with a ramp and stop half-way")
	b.visit("/groups/" + c.group)
	all.press("g", "p")
	b.arrives("/plans/new")
	all.press(kb.Enter)
	b.eventually("/^.plans.[0-9a-f-]{36}/.test(location.pathname) && document.readyState === 'complete'")
	all.press("g", "s", kb.Enter)
	b.arrives("/jobs/")
	b.shows("RUNNING")
	all.press("g", "p")
	b.shows("PAUSED")
	all.ends(10)
}

// Without the script, a person retries a message, makes a plan, starts its job, pauses the job, and sees
// its end.
func theWholeWayWithoutTheScript(t *testing.T, s *shop) {
	c := s.fails("refunds", 30)
	look := desk
	look.withoutScript = true
	b := newTab(s.browser, t, s.base, look)
	b.visit("/messages/" + c.messages[0])
	b.fill("#retry-reason", "one first")
	b.submit("#actions button.main")
	b.again("RESOLVED")

	b.visit("/groups/" + c.group)
	b.click("a[href*='steps=1']")
	b.arrives("/plans/new")
	b.click(".plan-form button.main")
	b.eventually("/^.plans.[0-9a-f-]{36}/.test(location.pathname) && document.readyState === 'complete'")
	require.Contains(t, b.text(".ask"), "29")
	b.fill("#reason", "prices are back")
	b.click(".ask button.main")
	b.arrives("/jobs/")
	b.submit("form[action$='/pause'] button")
	b.again("Resume")
	b.click("#cancel summary")
	b.fill("#why", "enough for now")
	b.submit("#cancel button")
	b.again("CANCELLED")
	_, answer := s.call(http.MethodGet, "/api/v1"+b.path())
	require.Equal(t, "CANCELLED", answer["state"])
	require.Equal(t, "prices are back", answer["request_reason"])
}

// submit clicks on a button and waits for the next page.
func (b *tab) submit(selector string) {
	b.t.Helper()
	value[bool](b, "window.before = true")
	b.click(selector)
	b.eventually("window.before === undefined && document.readyState === 'complete'")
}

// again reloads the page until it has a text, as a person does if the page does not refresh itself.
func (b *tab) again(text string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		b.visit(b.path())
		return strings.Contains(b.text("main"), text)
	}, 30*time.Second, 200*time.Millisecond, text)
}

// The operator goes the same way as fromTheAlertByKeyboard, by touch on the screen of a phone.
func fromTheAlertByTouch(t *testing.T, s *shop) {
	c := s.fails("shipments", 20)
	s.isRepaired("shipments")
	b := newTab(s.browser, t, s.base, phone)
	hold := b.walk("touch: hold the cause")
	b.visit("/groups/" + c.group)
	hold.tap("#hold > summary")
	hold.tap("#hold button.main")
	b.shows("The cause is held")
	hold.ends(6)

	one := b.walk("touch: send one message and see that it passed")
	b.visit("/groups/" + c.group)
	one.tap("a.button[href*='/messages/']")
	b.arrives("/messages/")
	one.tap("#actions button.main")
	b.shows("Passed by the consumer")
	one.ends(8)

	all := b.walk("touch: send the cause with a ramp and stop half-way")
	b.visit("/groups/" + c.group)
	all.tap("a[href*='steps=1']")
	b.arrives("/plans/new")
	all.tap(".plan-form button.main")
	b.eventually("/^.plans.[0-9a-f-]{36}/.test(location.pathname) && document.readyState === 'complete'")
	all.tap(".ask button.main")
	b.arrives("/jobs/")
	all.tap("form[action$='/pause'] button")
	b.shows("PAUSED")
	all.ends(10)
}

// tap scrolls to an element and touches its middle.
func (w *walk) tap(selector string) {
	w.t.Helper()
	w.actions++
	at := value[[]float64](w.tab, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`, selector))
	run(w.tab, chromedp.TapXY(at[0], at[1]))
}

// A person who may reveal an archived message gives a reason, reads the hidden parts, and restores the message.
func anArchivedMessageIsRevealedAndRestored(t *testing.T, s *shop) {
	c := s.fails("people-gone", 3)
	s.archives(c.messages[0])
	b := newTab(s.browser, t, s.base, phone)
	b.visit("/messages/" + c.messages[0])
	b.arrives("/archive/" + c.messages[0])
	b.shows("Hidden fields: value.customer")
	require.NotContains(t, b.text("pre.value"), "c-00")
	b.fill("#reveal-reason", "ticket 4711")
	b.click(`form[action$="/unmask"] button`)
	b.shows("You see parts that are hidden from others, until")
	b.arrives("/archive/" + c.messages[0])
	require.Contains(t, b.text("pre.value"), "c-00")
	b.click(`.views a[href*="view=hex"]`)
	b.shows("00000000  7b 22 6f 72 64 65 72")
	b.fill("#reason", "she ordered again")
	b.click(`form[action$="/restore"] button`)
	b.arrives("/messages/")
	b.shows("Restored from the archive.")
	b.visit("/archive/" + c.messages[0])
	b.shows("It was restored as this message.")
}
