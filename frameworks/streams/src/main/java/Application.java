import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;

/** A topology that fails, with the dead-letter topic of Kafka Streams. */
public class Application {
    public static void main(String[] args) {
        var settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("BROKERS"));
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getenv("GROUP"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, "target/state");
        settings.put("auto.offset.reset", "earliest");
        settings.put(StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG, System.getenv("DEAD_LETTERS"));
        settings.put(StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);
        settings.put(StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueProcessingExceptionHandler.class);

        boolean deserialization = "deserialization".equals(System.getenv("FAILURE"));
        Serde<?> values = deserialization ? Serdes.Integer() : Serdes.ByteArray();
        var builder = new StreamsBuilder();
        builder.stream(System.getenv("SOURCE"), Consumed.with(Serdes.ByteArray(), values)).foreach((key, value) -> {
            if ("no-message".equals(System.getenv("FAILURE"))) {
                throw new IllegalStateException();
            }
            throw new IllegalStateException("order refused", new IllegalArgumentException("no such customer"));
        });
        var streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
