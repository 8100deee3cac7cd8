package fingerprint_test

import (
	"encoding/hex"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/fingerprint"
)

// FuzzOf searches for failures that panic, and for components that cannot be stored.
func FuzzOf(f *testing.F) {
	for _, stack := range stacks() {
		f.Add("Listener failed; nested exception is shop.E: x\n\tat a.B.c(D.java:1)", "shop.E", stack)
	}
	f.Add("0", "shop.E", "\x00\n 0.go:0") // a frame that cannot be stored
	f.Fuzz(func(t *testing.T, message, class, stack string) {
		failure := fingerprint.Failure{DLQTopic: "orders.dlq", ErrorClass: class, CauseClass: class, Message: message, StackTrace: stack}
		fp := fingerprint.Of(failure)
		require.Equal(t, fp, fingerprint.Of(failure))
		require.Contains(t, []fingerprint.Rule{fingerprint.RuleFrame, fingerprint.RuleFrameAndMessage, fingerprint.RuleMessage}, fp.Rule)
		require.Equal(t, fp.Rule == fingerprint.RuleMessage, fp.Frame == "")
		requireStorable(t, fp.Class, 512)
		requireStorable(t, fp.Frame, 512)
		requireStorable(t, fp.Message, 1024)
	})
}

func hexOf(key [16]byte) string { return hex.EncodeToString(key[:]) }

func requireStorable(t *testing.T, text string, limit int) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%q", text)
	require.NotContains(t, text, "\x00")
	require.LessOrEqual(t, len(text), limit)
}

// stacks are small stack traces of all formats.
func stacks() []string {
	return []string{
		"shop.E: x\n\tat app//shop.A$$Lambda$1/0x0.b(Unknown Source)\n\tSuppressed: y\n\t\tat shop.A.b(A.java:1)\nCaused by: shop.F\n\tat shop.A.c(A.java:1)\n\t... 3 more\n",
		"panic: x [recovered]\n\tpanic: x\n\ngoroutine 1 [running]:\npanic({0x1, 0x2})\n\t/go/panic.go:1 +0x1\nshop.(*A).b.func1({0x1})\n\t/src/a.go:3 +0x2\n",
		"x\nshop/orders.Price\n\t/src/orders/price.go:3\nruntime.goexit\n\t/go/asm.s:1\n",
		"Traceback (most recent call last):\n  File \"/app/shop/a.py\", line 3, in <lambda>\n    x\n    ^\nKeyError: 'x'\n\nDuring handling of …\n",
		"  + Exception Group Traceback (most recent call last):\n  |   File \"a.py\", line 3, in b\n  | ExceptionGroup: x\n  +-+---- 1 ----\n    | ValueError\n",
		"TypeError: x\n    at async A.b [as c] (file:///app/a.js:1:2)\n    at /app/a.js:3:4 {\n  [cause]: Error: y\n      at <anonymous>\n}\n",
		"Shop.E: x\r\n ---> System.F: y\r\n   at Shop.A.<B>d__5.MoveNext() in C:\\a.cs:line 3\r\n   --- End of inner exception stack trace ---\r\n",
		"/app/a.rb:1:in `block (2 levels) in b': x (E)\n\tfrom /app/c.rb:2:in 'D#e'\n/app/a.rb:1:in `f': y (G)\n",
	}
}
