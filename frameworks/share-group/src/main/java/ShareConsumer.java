import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer in a share group that acknowledges no record: it rejects them, or releases them until the broker gives up. */
public class ShareConsumer {
    public static void main(String[] args) throws Exception {
        configure(Map.of(
                "share.auto.offset.reset", "earliest",
                "errors.deadletterqueue.topic.name", System.getenv("DEAD_LETTERS"),
                "errors.deadletterqueue.copy.record.enable", System.getenv("COPY")));
        Map<String, Object> settings = Map.of("bootstrap.servers", System.getenv("BROKERS"),
                "group.id", System.getenv("GROUP"), "share.acknowledgement.mode", "explicit");
        var type = AcknowledgeType.valueOf(System.getenv("ACKNOWLEDGE"));
        try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(System.getenv("SOURCE")));
            while (true) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> consumer.acknowledge(record, type));
                consumer.commitSync();
            }
        }
    }

    private static void configure(Map<String, String> settings) throws Exception {
        var changes = new ArrayList<AlterConfigOp>();
        settings.forEach((name, value) -> changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        try (var admin = Admin.create(Map.of("bootstrap.servers", System.getenv("BROKERS")))) {
            var group = new ConfigResource(ConfigResource.Type.GROUP, System.getenv("GROUP"));
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }
    }
}
