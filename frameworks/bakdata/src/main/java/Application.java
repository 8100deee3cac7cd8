import static com.bakdata.kafka.ErrorCapturingValueMapper.captureErrors;
import static com.bakdata.kafka.ErrorHeaderProcessor.withErrorHeaders;

import com.bakdata.kafka.ProcessedValue;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.ValueMapper;

/** A mapper that fails. Its errors are captured and described in headers. */
public class Application {
    public static void main(String[] args) {
        ValueMapper<byte[], byte[]> refuse = value -> {
            throw new IllegalStateException("order refused", new IllegalArgumentException("no such customer"));
        };
        var builder = new StreamsBuilder();
        KStream<byte[], ProcessedValue<byte[], byte[]>> processed = builder
                .stream(System.getenv("SOURCE"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .mapValues(captureErrors(refuse));
        processed.flatMapValues(ProcessedValue::getErrors)
                .processValues(withErrorHeaders("orders"))
                .to(System.getenv("DEAD_LETTERS"), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        var settings = new Properties();
        settings.putAll(Map.of(
                "application.id", System.getenv("GROUP"),
                "bootstrap.servers", System.getenv("BROKERS"),
                "state.dir", System.getProperty("java.io.tmpdir") + "/" + System.getenv("GROUP"),
                "auto.offset.reset", "earliest",
                "commit.interval.ms", "100"));
        new KafkaStreams(builder.build(), settings).start();
    }
}
