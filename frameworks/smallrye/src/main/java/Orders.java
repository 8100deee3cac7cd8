import io.smallrye.reactive.messaging.kafka.KafkaRecord;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.inject.se.SeContainerInitializer;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletionStage;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.eclipse.microprofile.reactive.messaging.Incoming;

/**
 * A channel that refuses all messages. Its settings are in microprofile-config.properties. Only
 * the first failure of a message has a cause.
 */
@ApplicationScoped
public class Orders {
    public static void main(String[] args) throws Exception {
        if ("delayed-retry-topic".equals(System.getenv("STRATEGY"))) {
            createRetryTopics(System.getenv("SOURCE"));
        }
        SeContainerInitializer.newInstance().initialize();
        Thread.currentThread().join();
    }

    // A record goes into the partition of the same number, which the default of one partition does not have.
    private static void createRetryTopics(String source) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", System.getenv("BROKERS")))) {
            var partitions = Optional.of(3);
            admin.createTopics(List.of(
                    new NewTopic(source + "_retry_100", partitions, Optional.empty()),
                    new NewTopic(source + "_retry_200", partitions, Optional.empty()))).all().get();
        }
    }

    @Incoming("orders")
    public CompletionStage<Void> refuse(KafkaRecord<?, ?> record) {
        var headers = record.getHeaders();
        boolean again = headers.lastHeader("dead-letter-topic") != null || headers.lastHeader("delayed-retry-topic") != null;
        var cause = again || "none".equals(System.getenv("CAUSE")) ? null : new IllegalArgumentException("no such customer");
        return record.nack(new IllegalStateException(again ? "order refused again" : "order refused", cause));
    }
}
