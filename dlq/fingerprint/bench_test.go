package fingerprint_test

import (
	"strings"
	"testing"

	"dlqmanager/dlq/fingerprint"
)

// BenchmarkOf shows that the cost grows no faster than the length of the text that is read. A hostile text of 10 MB costs
// no more than a hostile text of 64 KiB.
func BenchmarkOf(b *testing.B) {
	spring := springStack()
	const kib, mb = 1 << 10, 10 << 20
	fill := func(part string, size int) string { return strings.Repeat(part, size/len(part)+1)[:size] }
	for _, c := range []struct {
		name           string
		message, stack string
	}{
		{"message of 1 KiB", fill("order 17 of ada@example.com: 'total' is 1,024.50 at 10.1.2.3:80; ", kib), ""},
		{"Spring stack of 4 KiB", "Listener method 'public void shop.orders.OrderListener.on(shop.orders.Order)' threw exception", spring},
		{"frames of 64 KiB", "x", "shop.E: x\n" + fill("\tat org.springframework.A.b(A.java:1)\n", 64*kib)},
		{"10 MB of at", "at ", fill("at ", mb)},
		{"10 MB of frames", "x", fill("\tat a.b(A.java:1)\n", mb)},
		{"10 MB of causes", "x", fill("Caused by: ", mb)},
		{"10 MB of lines of causes", "x", "\tat a.b(A.java:1)\n" + fill("Caused by: a.B: x\n", mb)},
		{"10 MB of nested causes", "x", "\tat a.b(A.java:1)\n" + fill("nested exception is a.B: ---> ", mb)},
		{"10 MB of quotes", fill(`'"`, mb), fill(`'"`, mb)},
		{"10 MB of digits", fill("0123456789", mb), fill("0123456789", mb)},
		{"10 MB of brackets", fill("[<(", mb), "   at A.b(A c)\n" + fill("   at <<A", mb)},
		{"10 MB of lines in the message", fill("x\n", mb), fill("x\n", mb)},
	} {
		f := fingerprint.Failure{DLQTopic: "orders.dlq", ErrorClass: "shop.E", Message: c.message, StackTrace: c.stack}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fingerprint.Of(f)
			}
		})
	}
}

// springStack is the stack trace of a listener's failure in Spring, 4 KiB long.
func springStack() string {
	var b strings.Builder
	b.WriteString("org.springframework.kafka.listener.ListenerExecutionFailedException: Listener method 'public void shop.orders.OrderListener.on(shop.orders.Order)' threw exception\n")
	frames := strings.Repeat("\tat org.springframework.kafka.listener.KafkaMessageListenerContainer$ListenerConsumer.doInvokeRecordListener(KafkaMessageListenerContainer.java:2693)\n", 17)
	b.WriteString(frames)
	b.WriteString("\tat java.base/java.lang.Thread.run(Thread.java:1583)\n")
	b.WriteString("Caused by: java.lang.NullPointerException: Cannot invoke \"shop.orders.Customer.getEmail()\" because the return value of \"shop.orders.Order.getCustomer()\" is null\n")
	for range 4 {
		b.WriteString("\tat java.base/java.util.stream.ReferencePipeline$3$1.accept(ReferencePipeline.java:197)\n")
	}
	b.WriteString("\tat shop.orders.OrderMapper.lambda$toEntity$2(OrderMapper.java:44)\n")
	for b.Len() < 4<<10 {
		b.WriteString("\tat java.base/jdk.internal.reflect.DirectMethodHandleAccessor.invoke(DirectMethodHandleAccessor.java:103)\n")
	}
	b.WriteString("\t... 17 more\n")
	return b.String()
}
