//go:build console && pictures

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var (
	slowAcquirer = failure{"java.net.http.HttpTimeoutException", "POST https://acquirer-3.example/charges: request timed out after 5000 ms (payment %d)", `
	at shop.payments.AcquirerClient.charge(AcquirerClient.java:57)
	at shop.payments.PaymentService.handle(PaymentService.java:33)`}
	noCurrency = failure{"shop.orders.UnknownCurrencyException", "unknown currency \"XXX\" in order %d", `
	at shop.orders.PriceList.rate(PriceList.java:48)
	at shop.orders.OrderService.handle(OrderService.java:71)`}
	noPostcode = failure{"shop.shipments.InvalidAddressException", "shipment %d: the postal code is missing", `
	at shop.shipments.AddressBook.check(AddressBook.java:19)
	at shop.shipments.ShipmentService.handle(ShipmentService.java:27)`}
)

// TestTheConsoleInPictures takes the screenshots that README and docs/console.md show. It has a build tag of its own, since it
// writes files of the repository.
func TestTheConsoleInPictures(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	prices := s.fails("shop.orders", 412)
	currencies := s.failsWith(noCurrency, "shop.orders", 37)
	payments := s.failsWith(slowAcquirer, "shop.payments", 186)
	addresses := s.failsWith(noPostcode, "shop.shipments", 24)
	_, err := s.pool.Exec(t.Context(), "DELETE FROM dlq.dlq_arrivals")
	require.NoError(t, err)
	for c, hours := range map[string]int{prices.group: 3, currencies.group: 20, payments.group: 7, addresses.group: 23} {
		s.arrivedWithin(hours, c)
	}
	b := newTab(s.browser, t, s.base, desk)
	const request = `{"kind":"retry","topic":%q,"group":%q,"rate_limit":5,"reason":"acquirer-3 answers again"}`
	job := s.does("/api/v1/jobs", fmt.Sprintf(request, payments.topic, payments.group))
	s.isRepaired("shop.payments")
	b.visit("/jobs/" + job)
	b.shows("passed")
	s.eventually("half of it is sent", func() bool { return len(consumeAll(t, s.cluster, "shop.payments.v1")) > 90 })
	b.visit("/jobs/" + job)
	b.image("console-job", 860)
	b.visit("/")
	b.image("console-overview", 860)
	b.visit("/groups/" + prices.group)
	b.image("console-cause", 860)
	b.visit("/messages/" + prices.messages[0])
	b.image("console-message", 860)
}

// arrivedWithin changes the times of a group's messages, as if they had arrived within the last hours at a
// growing rate.
func (s *shop) arrivedWithin(hours int, group string) {
	s.t.Helper()
	for _, statement := range []string{
		`UPDATE dlq.dlq_messages AS m SET created_at = now() - power(older, 1.4) * $2 * interval '1 hour'
			FROM (SELECT id, percent_rank() OVER (ORDER BY seq DESC) AS older FROM dlq.dlq_messages WHERE group_id = $1) AS o WHERE o.id = m.id`,
		`UPDATE dlq.dlq_groups SET first_seen = now() - $2 * interval '1 hour' WHERE id = $1`,
		`INSERT INTO dlq.dlq_arrivals AS a (group_id, step, at, dlq_topic, original_topic, arrived)
			SELECT g.id, step, date_trunc(step, created_at), dlq_topic, original_topic, count(*)
			FROM dlq.dlq_messages, unnest(ARRAY['minute', 'hour']) AS step, unnest(ARRAY[$1::uuid, '00000000-0000-0000-0000-000000000000']) AS g (id)
			WHERE group_id = $1 AND $2 > 0 GROUP BY 1, 2, 3, 4, 5
			ON CONFLICT (group_id, step, at, dlq_topic, original_topic) DO UPDATE SET arrived = a.arrived + EXCLUDED.arrived`,
	} {
		_, err := s.pool.Exec(s.t.Context(), statement, group, hours)
		require.NoError(s.t, err)
	}
}

// image writes the upper part of a page to docs/images.
func (b *tab) image(name string, height int64) {
	b.t.Helper()
	b.eventually("document.readyState === 'complete'")
	tell(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: desk.width, Height: height, DeviceScaleFactor: 1})
	content := run(b, chromedp.CaptureScreenshot())
	require.LessOrEqual(b.t, len(content), 150<<10, name)
	require.NoError(b.t, os.WriteFile(filepath.Join("..", "docs", "images", name+".png"), content, 0o644))
}
