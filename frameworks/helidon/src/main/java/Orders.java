import io.helidon.messaging.Channel;
import io.helidon.messaging.Messaging;
import io.helidon.messaging.connectors.kafka.KafkaConfigBuilder;
import io.helidon.messaging.connectors.kafka.KafkaConnector;
import io.helidon.messaging.connectors.kafka.KafkaMessage;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.eclipse.microprofile.reactive.streams.operators.ReactiveStreams;

/** A channel that refuses all messages, with nack-dlq. */
public class Orders {
    public static void main(String[] args) throws InterruptedException {
        Channel<byte[]> orders = Channel.<byte[]>builder()
                .name("orders")
                .publisherConfig(KafkaConnector.configBuilder()
                        .bootstrapServers(System.getenv("BROKERS"))
                        .groupId(System.getenv("GROUP"))
                        .topic(System.getenv("SOURCE"))
                        .property("nack-dlq", System.getenv("DEAD_LETTERS"))
                        .autoOffsetReset(KafkaConfigBuilder.AutoOffsetReset.EARLIEST)
                        .enableAutoCommit(false)
                        .keyDeserializer(ByteArrayDeserializer.class)
                        .valueDeserializer(ByteArrayDeserializer.class)
                        .build())
                .build();
        Messaging.builder()
                .connector(KafkaConnector.create())
                .subscriber(orders, ReactiveStreams.<KafkaMessage<byte[], byte[]>>builder().forEach(message -> message.nack(
                        new IllegalStateException("order refused", new IllegalArgumentException("no such customer")))))
                .build()
                .start();
        Thread.currentThread().join(); // its own threads do not keep the program alive
    }
}
