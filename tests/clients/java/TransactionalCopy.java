import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client's transactions: commits, aborts, a copy loop with offsets, and a fenced producer. */
public class TransactionalCopy {
    private static final Duration SECOND = Duration.ofSeconds(1);

    public static void main(String[] arguments) {
        String bootstrap = arguments[1];
        String input = arguments[2];
        String output = arguments[3];
        fill(bootstrap, input);
        copy(bootstrap, input, output);
        System.out.println("copied: " + read(bootstrap, output, 13));
        System.out.println("fenced: " + fence(bootstrap, input));
    }

    /** Three committed transactions with one that is aborted between any two. */
    private static void fill(String bootstrap, String topic) {
        try (var producer = producer(bootstrap, topic + "-fill")) {
            producer.initTransactions();
            int next = 0;
            for (int count : new int[] {10, 1, 2}) {
                producer.beginTransaction();
                for (int number = 0; number < count; number++) {
                    send(producer, topic, "value " + next++);
                }
                producer.commitTransaction();
                producer.beginTransaction();
                IntStream.range(0, 3).forEach(number -> send(producer, topic, "aborted"));
                producer.flush();
                producer.abortTransaction();
            }
        }
    }

    /** Reads committed records and writes them elsewhere; each record's transaction is aborted once. */
    private static void copy(String bootstrap, String input, String output) {
        int copied = 0;
        boolean abort = true;
        try (var consumer = consumer(bootstrap, output + "-group");
                var producer = producer(bootstrap, output + "-copy")) {
            consumer.subscribe(List.of(input));
            producer.initTransactions();
            while (copied < 13) {
                ConsumerRecords<String, String> records = consumer.poll(SECOND);
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                Map<TopicPartition, Long> began = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    TopicPartition where = new TopicPartition(record.topic(), record.partition());
                    send(producer, output, record.value().toUpperCase());
                    began.putIfAbsent(where, record.offset());
                    offsets.put(where, new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (abort) {
                    producer.abortTransaction();
                    began.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
                abort = !abort;
            }
            var assigned = consumer.assignment();
            System.out.println("committed: " + consumer.committed(assigned).values().stream()
                    .map(OffsetAndMetadata::offset).toList());
        }
    }

    private static List<String> read(String bootstrap, String topic, int count) {
        List<String> values = new ArrayList<>();
        try (var consumer = consumer(bootstrap, topic + "-check")) {
            consumer.subscribe(List.of(topic));
            while (values.size() < count) {
                consumer.poll(SECOND).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    private static boolean fence(String bootstrap, String topic) {
        try (var first = producer(bootstrap, topic + "-fence");
                var second = producer(bootstrap, topic + "-fence")) {
            first.initTransactions();
            first.beginTransaction();
            send(first, topic, "left behind");
            first.flush();
            second.initTransactions();
            try {
                first.commitTransaction();
                return false;
            } catch (KafkaException error) {
                return true;
            }
        }
    }

    private static void send(KafkaProducer<String, String> producer, String topic, String value) {
        producer.send(new ProducerRecord<>(topic, 0, null, value));
    }

    private static KafkaProducer<String, String> producer(String bootstrap, String id) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", id);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "isolation.level", "read_committed",
                "enable.auto.commit", false,
                "auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }
}
