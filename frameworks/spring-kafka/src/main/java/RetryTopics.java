import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.retrytopic.RetryTopicConfiguration;
import org.springframework.kafka.retrytopic.RetryTopicConfigurationBuilder;
import org.springframework.kafka.support.serializer.ErrorHandlingDeserializer;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** A listener that fails, with retry topics and the dead-letter topic after them. */
@Configuration
@EnableKafkaRetryTopic
public class RetryTopics {
    private static final String BROKERS = System.getenv("BROKERS");

    public static void main(String[] args) {
        new AnnotationConfigApplicationContext(RetryTopics.class);
    }

    @KafkaListener(topics = "${SOURCE}", groupId = "${GROUP}")
    public void listen(ConsumerRecord<byte[], byte[]> record) {
        throw new IllegalStateException("order refused", new IllegalArgumentException("no such customer"));
    }

    @Bean
    RetryTopicConfiguration retries(KafkaTemplate<byte[], byte[]> template) {
        return RetryTopicConfigurationBuilder.newInstance()
                .fixedBackOff(200).maxAttempts(3).autoCreateTopicsWith(3, (short) 1).create(template);
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<byte[], byte[]> kafkaListenerContainerFactory() {
        var factory = new ConcurrentKafkaListenerContainerFactory<byte[], byte[]>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(
                Map.of(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, BROKERS, ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
                new ByteArrayDeserializer(), "value".equals(System.getenv("FAILURE"))
                        ? new ErrorHandlingDeserializer<>((topic, value) -> {
                            throw new SerializationException("no order");
                        })
                        : new ByteArrayDeserializer()));
        return factory;
    }

    @Bean
    KafkaTemplate<byte[], byte[]> template() {
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(
                Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, BROKERS), new ByteArraySerializer(), new ByteArraySerializer()));
    }

    @Bean
    KafkaAdmin admin() {
        return new KafkaAdmin(Map.of("bootstrap.servers", BROKERS));
    }

    @Bean
    TaskScheduler scheduler() {
        return new ThreadPoolTaskScheduler();
    }
}
