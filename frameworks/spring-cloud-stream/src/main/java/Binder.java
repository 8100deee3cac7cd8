import java.util.function.Consumer;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.messaging.Message;

/** A function that fails, with enableDlq in application.properties. */
@Configuration
@EnableAutoConfiguration
public class Binder {
    public static void main(String[] args) {
        SpringApplication.run(Binder.class, args);
    }

    @Bean
    Consumer<Message<?>> orders() {
        return order -> {
            throw new IllegalStateException("order refused", new IllegalArgumentException("no such customer"));
        };
    }
}
