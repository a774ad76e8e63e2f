import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies a topic with the Java client, in transactions, until it is killed.
 * Arguments: bootstrap address, source topic, target topic, group, transactional id, group protocol.
 * Each step is told on the standard output, so that whoever watches can kill it between any two.
 */
public class CopyLoop {
    private static final int BATCH_SIZE = 10;
    /** So often it changes its mind before the commit. */
    private static final int ABORT_EVERY = 7;

    private final String target;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    public static void main(String[] arguments) {
        new CopyLoop(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]).run();
    }

    private CopyLoop(
            String bootstrap, String source, String target, String group, String name, String protocol) {
        this.target = target;
        producer = new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "transactional.id", name, "linger.ms", 0),
            new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "isolation.level", "read_committed",
            "max.poll.records", BATCH_SIZE, "fetch.max.wait.ms", 50, "group.protocol", protocol));
        if (protocol.equals("classic")) {
            // A killed member that comes back is given its partitions at once; the new protocol would
            // have it wait for the end of its predecessor's session.
            settings.putAll(Map.of(
                "group.instance.id", name, "session.timeout.ms", 6000, "heartbeat.interval.ms", 200));
        }
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(source));
        say("ready");
    }

    private void run() {
        for (int number = 1; ; number++) {
            List<ConsumerRecord<byte[], byte[]>> batch = new ArrayList<>();
            while (batch.isEmpty()) {
                consumer.poll(Duration.ofMillis(50)).forEach(batch::add);
            }
            try {
                copy(batch, number % ABORT_EVERY == 0);
            } catch (ProducerFencedException | FencedInstanceIdException fenced) {
                throw fenced;
            } catch (KafkaException abortable) {
                System.err.println("aborting: " + abortable);
                rewind();
            }
        }
    }

    private void copy(List<ConsumerRecord<byte[], byte[]>> batch, boolean giveUp) {
        producer.beginTransaction();
        say("begun");
        Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
        for (var record : batch) {
            producer.send(new ProducerRecord<>(target, record.partition(), record.key(), record.value()));
            reached.put(
                new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.flush();
        say("written");
        producer.sendOffsetsToTransaction(reached, consumer.groupMetadata());
        say("offsets added");
        if (giveUp) {
            rewind();
        } else {
            producer.commitTransaction();
            say("committed");
        }
    }

    /** Aborts, and reads again what was not committed. */
    private void rewind() {
        producer.abortTransaction();
        consumer.committed(consumer.assignment()).forEach((place, offset) -> {
            if (offset == null) {
                consumer.seekToBeginning(List.of(place));
            } else {
                consumer.seek(place, offset);
            }
        });
        say("aborted");
    }

    private static void say(String step) {
        System.out.println(step);
    }
}
