import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/** An OpenSearch node that ends when its input does. Arguments: a directory and a port. */
public class SearchNode extends Node {
    SearchNode(Settings settings) {
        super(
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "test"),
            List.of(Netty4Plugin.class),
            false);
    }

    public static void main(String[] words) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", words[0])
            .put("http.port", words[1])
            .put("transport.port", "0")
            .put("network.host", "127.0.0.1")
            .put("discovery.type", "single-node")
            .put("cluster.name", "test")
            .put("transport.type", "netty4")
            .put("http.type", "netty4")
            .put("cluster.routing.allocation.disk.threshold_enabled", "false")
            .build();
        new SearchNode(settings).start();
        System.out.println("started");
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
