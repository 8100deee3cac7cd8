package fingerprint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/fingerprint"
)

// formatCase is a stack trace with the class and the frame that must be read from it.
type formatCase struct{ name, stack, class, frame string }

func requireFormats(t *testing.T, cases []formatCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fp := fingerprint.Of(fingerprint.Failure{StackTrace: c.stack})
			require.Equal(t, c.class, fp.Class)
			require.Equal(t, c.frame, fp.Frame)
		})
	}
}

func TestJavaStackTracesAreRead(t *testing.T) {
	t.Parallel()
	requireFormats(t, []formatCase{
		{"the innermost cause counts", "shop.E: x\n\tat shop.A.b(A.java:1)\nCaused by: shop.F: y\n\tat shop.C.d(C.java:1)\n\t... 3 more", "shop.F", "shop.C.d"},
		{"shared frames stand outside", "shop.E: x\n\tat java.A.b(A.java:1)\n\tat shop.A.b(A.java:1)\nCaused by: java.F: y\n\tat java.C.d(C.java:1)\n\t... 3 more", "java.F", "shop.A.b"},
		{"suppressed exceptions do not count", "shop.E: x\n\tat shop.A.b(A.java:1)\n\tSuppressed: shop.S: z\n\t\tat shop.S.t(S.java:1)\n\tCaused by: shop.T: u\n\t\t... 2 more", "shop.E", "shop.A.b"},
		{"suppressed in a cause", "shop.E: x\n\tat java.A.b(A.java:1)\nCaused by: shop.F\n\tSuppressed: shop.S\n\t\tat shop.S.t(S.java:1)\n\tat shop.C.d(C.java:1)", "shop.F", "shop.C.d"},
		{"the root comes first", "shop.F: y\n\tat shop.C.d(C.java:1)\nWrapped by: shop.E: x\n\tat shop.A.b(A.java:1)", "shop.F", "shop.C.d"},
		{"circular reference", "shop.E: x\n\tat shop.A.b(A.java:1)\nCaused by: shop.F: y\n\tat shop.C.d(C.java:1)\n\t[CIRCULAR REFERENCE: shop.E: x]", "shop.F", "shop.C.d"},
		{"a thread's name", "Exception in thread \"main\" shop.E: x\n\tat shop.A.b(A.java:1)", "shop.E", "shop.A.b"},
		{"a line of a log", "12:00 ERROR failed\nshop.E: x\n\tat shop.A.b(A.java:1)", "shop.E", "shop.A.b"},
		{"modules, loaders and jars", "shop.E\n\tat app//shop.A.b(A.java:1) ~[a.jar:1.2]\n", "shop.E", "shop.A.b"},
		{"a named module", "shop.E\n\tat loader/shop.core@1.0/shop.A.b(A.java:1)\n", "shop.E", "shop.A.b"},
		{"a lambda", "shop.E\n\tat shop.A$$Lambda$14/0x000001.accept(Unknown Source)\n\tat shop.A.lambda$b$3(A.java:1)", "shop.E", "shop.A.b"},
		{"a proxy of CGLIB", "shop.E\n\tat shop.A$$EnhancerBySpringCGLIB$$1f2e3d.b(<generated>)", "shop.E", "shop.A.b"},
		{"a proxy of the JDK", "shop.E\n\tat jdk.proxy2/jdk.proxy2.$Proxy97.b(Unknown Source)\n\tat shop.A.b(A.java:1)", "shop.E", "shop.A.b"},
		{"only a reflective call", "shop.E\n\tat jdk.internal.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)", "shop.E", "jdk.internal.reflect.GeneratedMethodAccessor.invoke"},
		{"an anonymous class", "shop.E\n\tat shop.A$1.run(A.java:1)", "shop.E", "shop.A.run"},
		{"an inner class", "shop.E\n\tat shop.A$Inner.run(A.java:1)", "shop.E", "shop.A$Inner.run"},
		{"a coroutine", "shop.E\n\tat shop.A$b$2.invokeSuspend(A.kt:1)", "shop.E", "shop.A.b"},
		{"a coroutine in a coroutine", "shop.E\n\tat shop.A$b$1$c$2.invokeSuspend(A.kt:1)", "shop.E", "shop.A.c"},
		{"a bridge", "shop.E\n\tat shop.A.access$000(A.java:1)", "shop.E", "shop.A.access"},
		{"a frame that was cut", "shop.E\n\tat java.A.b(A.java:1)\n\tat shop.A.b(A.ja", "shop.E", "java.A.b"},
		{"a message of many lines", "shop.E: x\ny: z\n\nw\n\tat shop.A.b(A.java:1)", "shop.E", "shop.A.b"},
		{"Windows ends lines otherwise", "shop.E: x\r\n\tat shop.A.b(A.java:1)\r\nCaused by: shop.F\r\n\tat shop.C.d(C.java:1)\r\n", "shop.F", "shop.C.d"},
	})
}

func TestGoStackTracesAreRead(t *testing.T) {
	t.Parallel()
	requireFormats(t, []formatCase{
		{"a panic", "panic: x\n\ngoroutine 7 [running]:\nshop/orders.(*Handler).price.func1.2(0xc0, {0x1, 0x2})\n\t/src/orders/a.go:3 +0x1d\n", "panic", "shop/orders.Handler.price"},
		{"a panic that was recovered", "goroutine 7 [running]:\nruntime/debug.Stack()\n\t/go/src/runtime/debug/stack.go:26 +0x5e\nmain.run.func1()\n\t/src/main.go:3 +0x1\npanic({0x1, 0x2})\n\t/go/src/runtime/panic.go:787 +0x132\nshop/orders.Price(...)\n\t/src/orders/a.go:3\n", "panic", "shop/orders.Price"},
		{"libraries are not own", "goroutine 7 [running]:\nencoding/json.Unmarshal(0x1)\n\t/go/src/encoding/json/a.go:3 +0x1\ngithub.com/a/b.C(0x1)\n\t/home/app/go/pkg/mod/github.com/a/b@v1.2.3/c.go:3 +0x1\ngithub.com/twmb/franz-go/pkg/kgo.D(0x1)\n\tpkg/kgo/d.go:1 +0x1\ngithub.com/shop/orders.Price[...](0x1)\n\t/src/a.go:3 +0x1\n", "panic", "github.com/shop/orders.Price"},
		{"other goroutines do not count", "goroutine 7 [running]:\nruntime.x()\n\t/go/a.go:3 +0x1\n\ngoroutine 8 [select]:\nshop.A()\n\t/src/a.go:1 +0x1\n", "panic", "runtime.x"},
		{"who started the goroutine does not count", "goroutine 7 [running]:\nruntime.x()\n\t/go/a.go:3 +0x1\ncreated by shop.A in goroutine 1\n\t/src/a.go:1 +0x1\n", "panic", "runtime.x"},
		{"an error with frames", "missing field sku\nshop/orders.Validate\n\t/src/orders/a.go:3\nruntime.goexit\n\t/go/asm.s:1\nhandle\nshop/orders.Handle\n\t/src/orders/b.go:3\n", "", "shop/orders.Validate"},
	})
}

func TestPythonStackTracesAreRead(t *testing.T) {
	t.Parallel()
	const head = "Traceback (most recent call last):\n"
	requireFormats(t, []formatCase{
		{"the last own frame counts", head + "  File \"/app/shop/a.py\", line 3, in b\n    x()\n    ~^^\n  File \"/usr/lib/python3/dist-packages/c.py\", line 3, in d\nshop.errors.E: x\n", "shop.errors.E", "shop.a.b"},
		{"the first of a chain counts", head + "  File \"/app/shop/a.py\", line 3, in b\nKeyError: 'x'\n\nThe above exception was the direct cause of the following exception:\n\n" + head + "  File \"/app/shop/c.py\", line 3, in d\nshop.E\n", "KeyError", "shop.a.b"},
		{"a lambda belongs to its function", head + "  File \"/app/shop/a.py\", line 3, in b\n  File \"/app/shop/a.py\", line 3, in <lambda>\nKeyError: 'x'\n", "KeyError", "shop.a.b"},
		{"the root folder is not named", head + "  File \"/srv/releases/20240501/a.py\", line 3, in b\nKeyError: 'x'\n", "KeyError", "a.b"},
		{"Windows", head + "  File \"C:\\shop\\orders\\a.py\", line 3, in b\r\nKeyError: 'x'\r\n", "KeyError", "orders.a.b"},
		{"a group", "  + Exception Group Traceback (most recent call last):\n  |   File \"/app/m.py\", line 3, in main\n  | ExceptionGroup: x (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"/app/shop/a.py\", line 3, in b\n    | ValueError: y\n    +------------------------------------\n", "ValueError", "shop.a.b"},
	})
}

func TestNodeStackTracesAreRead(t *testing.T) {
	t.Parallel()
	requireFormats(t, []formatCase{
		{"the cause counts", "MailError: x\n    at a (/app/src/a.js:1:2) {\n  code: 'E',\n  [cause]: TypeError: y\n      at async B.c [as d] (file:///app/src/b.js:1:2)\n      ... 2 lines matching cause stack trace ...\n}", "TypeError", "b.B.c"},
		{"libraries are not own", "Error: x\n    at JSON.parse (<anonymous>)\n    at a (node:internal/a:1:2)\n    at b (/app/node_modules/b/c.js:1:2)\n    at new C (/app/shop/c.ts:1:2)", "Error", "shop.c.C"},
		{"a function without a name", "Error: x\n    at /app/shop/c.js:1:2", "Error", "shop.c.<anonymous>"},
		{"source code comes first", "/app/a.js:3\n    throw new E('Error: z')\n    ^\n\nShopError [ERR_X]: x\n    at a (/app/shop/a.js:1:2)", "ShopError", "shop.a.a"},
		{"names in minified code change", "Error: x\n    at t.x (/app/main.js:1:20345)", "Error", "main.<minified>"},
	})
}

func TestDotnetStackTracesAreRead(t *testing.T) {
	t.Parallel()
	requireFormats(t, []formatCase{
		{"the last head and the first frame count", "Shop.E: x\n ---> System.F: y\n   at Shop.A.<B>d__5.MoveNext() in C:\\a.cs:line 3\n   --- End of inner exception stack trace ---\n   at Shop.C.D()", "System.F", "Shop.A.B"},
		{"an old runtime prints heads in one line", "Shop.E: x ---> System.F: y\n   at System.A.B(String c)\n   at Shop.C.D(Int32 e)\n", "System.F", "Shop.C.D"},
		{"another language", "Shop.E: x\n   bei Shop.C.D(Int32 e) in C:\\a.cs:Zeile 3.\n", "Shop.E", "Shop.C.D"},
		{"a closure", "Shop.E: x\n   at Shop.A.<>c__DisplayClass4_0.<<B>b__0>d.MoveNext()\n", "Shop.E", "Shop.A.B"},
		{"a local function", "Shop.E: x\n   at Program.<Main>g__Foo|0_1(String a)\n", "Shop.E", "Program.Main.Foo"},
		{"generic types", "Shop.E (0x80131904): x\n   at Shop.List`1.Get[T](T a)\n", "Shop.E", "Shop.List.Get"},
		{"a constructor", "Shop.E: x\n   at Shop.A..ctor(String a)\n", "Shop.E", "Shop.A..ctor"},
	})
}

func TestRubyStackTracesAreRead(t *testing.T) {
	t.Parallel()
	requireFormats(t, []formatCase{
		{"quotes of 3.4", "/app/lib/shop/a.rb:3:in 'Shop::A#b': undefined method 'c' for nil (NoMethodError)\n\tfrom /app/d.rb:1:in 'e'\n", "NoMethodError", "shop.a.b"},
		{"quotes before", "/app/lib/shop/a.rb:3:in `block (2 levels) in b': undefined method `c' for nil (NoMethodError)\n\tfrom /app/d.rb:1:in `e'\n", "NoMethodError", "shop.a.b"},
		{"the cause comes last", "/app/a.rb:3:in 'b': x (Shop::E)\n\tfrom /app/c.rb:1:in 'd'\n/app/e.rb:3:in 'f': y (Shop::F)\n\tfrom /app/c.rb:1:in 'd'\n", "Shop::F", "e.f"},
		{"gems are not own", "/usr/lib/ruby/gems/3.2.0/gems/x-1.0/lib/x.rb:1:in 'y': x (Shop::E)\n\tfrom <internal:kernel>:1:in 'loop'\n\tfrom /app/shop/c.rb:1:in 'd'\n", "Shop::E", "shop.c.d"},
		{"the newest frame comes last", "Traceback (most recent call last):\n\t1: from /app/c.rb:1:in `d'\n/app/a.rb:3:in `b': x (Shop::E)\n", "Shop::E", "a.b"},
		{"a plain backtrace after a head", "Shop::E: x\n/app/a.rb:3:in `b'\n/app/c.rb:1:in `d'\n", "Shop::E", "a.b"},
		{"a log of Rails", "Shop::E (x):\n  \napp/shop/a.rb:3:in `b'\n", "Shop::E", "shop.a.b"},
		{"a cause as Rails prints it", "Shop::E (x)\n/app/a.rb:3:in `b'\n\nCaused by:\nShop::F (y)\n/app/c.rb:1:in `d'\n", "Shop::F", "c.d"},
	})
}
