import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.support.serializer.ErrorHandlingDeserializer;
import org.springframework.kafka.support.serializer.JsonDeserializer;
import org.springframework.kafka.support.serializer.JsonSerializer;
import org.springframework.util.backoff.FixedBackOff;

/** A listener that fails, with a DeadLetterPublishingRecoverer that has its default settings. */
public class Recoverer {
    record Order(int id) {}

    public static void main(String[] args) {
        String failure = System.getenv("FAILURE");
        var properties = new ContainerProperties(System.getenv("SOURCE"));
        properties.setGroupId(System.getenv("GROUP"));
        properties.setDeliveryAttemptHeader("delivery-attempt".equals(failure));
        properties.setMessageListener((MessageListener<Object, Object>) record -> {
            if ("no-message".equals(failure)) {
                throw new IllegalStateException();
            }
            throw new IllegalStateException("order refused", new IllegalArgumentException("no such customer"));
        });
        var container = new KafkaMessageListenerContainer<>(consumers(failure), properties);
        container.setCommonErrorHandler(new DefaultErrorHandler(
                new DeadLetterPublishingRecoverer(template(failure)), new FixedBackOff(0, 2)));
        container.start();
    }

    private static DefaultKafkaConsumerFactory<Object, Object> consumers(String failure) {
        Deserializer<?> key = new ByteArrayDeserializer();
        Deserializer<?> value = new ByteArrayDeserializer();
        switch (failure) {
            case "key" -> key = new ErrorHandlingDeserializer<>(new IntegerDeserializer());
            case "value", "types" -> value = new ErrorHandlingDeserializer<>(new JsonDeserializer<>(Order.class));
            case "both" -> {
                key = new ErrorHandlingDeserializer<>(new IntegerDeserializer());
                value = new ErrorHandlingDeserializer<>(new JsonDeserializer<>(Order.class));
            }
            default -> { }
        }
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BROKERS"));
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        return new DefaultKafkaConsumerFactory<>(settings, untyped(key), untyped(value));
    }

    @SuppressWarnings("unchecked")
    private static Deserializer<Object> untyped(Deserializer<?> deserializer) {
        return (Deserializer<Object>) deserializer;
    }

    private static KafkaTemplate<?, ?> template(String failure) {
        Map<String, Object> settings = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BROKERS"));
        Serializer<?> value = "types".equals(failure) ? new JsonSerializer<>() : new ByteArraySerializer();
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(settings, new ByteArraySerializer(), value));
    }
}
