import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A connector that reports every record as failed. */
public class RefusingSink extends SinkConnector {
    public static class RefusingTask extends SinkTask {
        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                context.errantRecordReporter().report(record,
                        new IllegalStateException("order refused", new IllegalArgumentException("no such customer")));
            }
        }

        @Override
        public void start(Map<String, String> settings) {}

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }

    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return RefusingTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int max) {
        return List.of(settings);
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
        return "1";
    }
}
