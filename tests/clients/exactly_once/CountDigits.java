import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Counts, with Kafka Streams and exactly once, how many values end with each digit.
 * Arguments: bootstrap address, source topic, target topic, application id, state directory. It tells
 * every count on the standard output. Grouping needs a repartition topic, counting a store with a
 * changelog.
 */
public class CountDigits {
    public static void main(String[] arguments) {
        var builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .selectKey((key, value) -> value.substring(value.length() - 1))
            .groupByKey(Grouped.as("digits"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .peek((digit, count) -> System.out.println(digit + " " + count))
            .to(arguments[2]);
        var settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 50);
        // Every count is written, not only the latest of each commit.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // Each poll takes a little of the input, so that a kill finds something left to do.
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 20);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // A killed member that comes back is given its tasks at once.
        settings.put(StreamsConfig.consumerPrefix("group.instance.id"), arguments[3]);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 200);
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }
}
