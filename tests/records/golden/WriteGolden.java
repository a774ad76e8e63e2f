import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends the records of a file as one batch with the Java client.
 * Arguments: bootstrap address, topic, codec, file. Each line of the file holds the timestamp, key,
 * value and headers (name=value), separated by spaces; bytes are hexadecimal, "-" is null.
 */
public class WriteGolden {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0], "compression.type", arguments[2],
            "linger.ms", 1000, "batch.size", 900_000);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(Path.of(arguments[3]))) {
                String[] fields = line.split(" ", -1);
                var record = new ProducerRecord<>(
                    arguments[1], 0, Long.valueOf(fields[0]), bytes(fields[1]), bytes(fields[2]));
                for (String header : List.of(fields).subList(3, fields.length)) {
                    String[] pair = header.split("=", -1);
                    record.headers().add(new RecordHeader(
                        new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
                }
                producer.send(record);
            }
        }
    }

    private static byte[] bytes(String hexadecimal) {
        return hexadecimal.equals("-") ? null : java.util.HexFormat.of().parseHex(hexadecimal);
    }
}
