//go:build console

package e2e

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// walk is a way through the pages that counts its actions: a key each.
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

// ends requires at most so many actions.
func (w *walk) ends(most int) {
	w.t.Helper()
	w.t.Logf("%s: %d actions of at most %d, %.1f s", w.name, w.actions, most, time.Since(w.began).Seconds())
	if w.actions > most {
		w.t.Errorf("%s takes %d actions, not %d", w.name, w.actions, most)
	}
}

// From the link of an alert, without a mouse.
func fromTheAlertByKeyboard(t *testing.T, s *shop) {
	c := s.fails("payments", 40)
	s.isRepaired("payments")
	b := newTab(t, s.browser, s.base, desk)

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
	b.shows("was delivered")
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
