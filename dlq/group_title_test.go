package dlq_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
)

func TestATitleNamesTheClassAndThePlaceOrTheMessage(t *testing.T) {
	t.Parallel()
	overflow := dlq.Overflow("orders.dlq")
	for want, f := range map[string]fingerprint.Fingerprint{
		"shop.NoPrice: shop.Orders.price":            {Rule: "frame", Class: "shop.NoPrice", Frame: "shop.Orders.price"},
		"shop.NoPrice: shop.Orders.price (currency)": {Rule: "frame", Class: "shop.NoPrice", Frame: "shop.Orders.price", Message: "currency"},
		"shop.NoPrice: no price for gift cards":      {Rule: "frame_and_message", Class: "shop.NoPrice", Frame: "lib.run", Message: "no price for gift cards"},
		"shop.NoPrice: no price, no sale":            {Rule: "message", Class: "shop.NoPrice", Message: "no price,\n\tno sale"},
		"no price":                                   {Rule: "message", Message: "no price"},
		"shop.NoPrice":                               {Rule: "message", Class: "shop.NoPrice"},
		"payment-timeout":                            {Rule: "explicit", Message: "payment-timeout"},
		"no error is known":                          {Rule: "message"},
		"all further failures in orders.dlq":         overflow,
		"C: " + strings.Repeat("é", 196) + "…":       {Rule: "message", Class: "C", Message: strings.Repeat("é", 1000)},
	} {
		got := dlq.GroupTitle(&f)
		require.Equal(t, want, got)
		require.LessOrEqual(t, utf8.RuneCountInString(got), 200)
	}
}
