package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/fingerprint"
)

func TestOwnLinesAreFoundInEveryFormat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stack string // own lines begin with an asterisk
	}{
		"Java": {`shop.HandlingException: cannot handle order 17
	at java.base/java.lang.Thread.run(Thread.java:9)
*	at app//shop.orders.OrderListener.on(OrderListener.java:31) ~[orders.jar:1.2]
	Suppressed: java.io.IOException: closed
*		at shop.orders.Files.close(Files.java:5)
	at org.apache.kafka.clients.consumer.KafkaConsumer.poll(KafkaConsumer.java:2)
Caused by: java.lang.IllegalStateException: closed
	at java.base/java.util.Objects.requireNonNull(Objects.java:259)
*	at shop.pricing.PriceList.priceOf(PriceList.java:3)
	... 23 more`},
		"JavaScript": {`TypeError: Cannot read properties of undefined (reading 'zip')
*    at async Renderer.render (file:///app/src/render.js:31:7)
    at /app/node_modules/kafkajs/src/consumer/runner.js:12:3
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {
  code: 'E'
}`},
		".NET": {`Shop.HandlingException: cannot handle order
 ---> System.NullReferenceException: Object reference not set to an instance of an object.
*   at Shop.Orders.<PriceAsync>d__5.MoveNext() in C:\src\Orders.cs:line 31
   --- End of inner exception stack trace ---
   at System.Threading.Tasks.Task.Run()
*   at Shop.Worker.RunAsync()`},
		"Python": {`Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/kafka/c.py", line 9, in poll
    handle(record)
*  File "/app/shop/orders.py", line 31, in price
*    return self.table[sku]
*           ~~~~~~~~~~^^^^^
KeyError: 'sku'`},
		"exception group of Python": {`  + Exception Group Traceback (most recent call last):
*  |   File "/app/shop/orders.py", line 31, in price
*  |     pay()
  | ExceptionGroup: two (2 sub-exceptions)`},
		"Go": {`panic: assignment to entry in nil map

goroutine 7 [running]:
panic({0x5ac8e0?, 0x62f3b8?})
	/usr/local/go/src/runtime/panic.go:787 +0x132
*shop/orders.(*Handler).price.func1(0xc00012e000)
*	/src/orders/handler.go:31 +0x1d
created by net/http.(*Server).Serve in goroutine 1
	/usr/local/go/src/net/http/server.go:3285 +0x4b4`},
		"Ruby": {`*/app/lib/shop/orders.rb:31:in 'Shop::Orders#price': undefined method 'rate' for nil (NoMethodError)
	from /usr/lib/ruby/gems/3.4.0/gems/karafka-2.5/lib/karafka.rb:3:in 'call'
*	from /app/lib/shop/worker.rb:12:in 'block (2 levels) in Shop::Worker#run'`},
	} {
		var plain []string
		own := []int{}
		for i, line := range strings.Split(test.stack, "\n") {
			if rest, found := strings.CutPrefix(line, "*"); found {
				own, line = append(own, i), rest
			}
			plain = append(plain, line)
		}
		require.Equal(t, own, fingerprint.OwnLines(strings.Join(plain, "\n")), name)
		require.Equal(t, own, fingerprint.OwnLines(strings.Join(plain, "\r\n")), name)
	}
}

func TestATraceOfAnUnknownFormHasNoOwnLines(t *testing.T) {
	t.Parallel()
	require.Nil(t, fingerprint.OwnLines(""))
	require.Nil(t, fingerprint.OwnLines("#0 /app/pay.php(31): Shop\\Orders->price()"))
	require.Empty(t, fingerprint.OwnLines("E: x\n\tat java.lang.Thread.run(Thread.java:9)"))
	require.NotNil(t, fingerprint.OwnLines("E: x\n\tat java.lang.Thread.run(Thread.java:9)"))
}

func TestOwnLinesOfAHugeTraceAreBounded(t *testing.T) {
	t.Parallel()
	require.Less(t, len(fingerprint.OwnLines(strings.Repeat("at a.b(c.java:1)\n", 1<<20))), 4096)
}
