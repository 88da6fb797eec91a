import com.mongodb.ConnectionString;
import com.mongodb.MongoClientSettings;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import java.util.LinkedHashMap;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;

/** The Java sync driver against a server: Main plain|auth|tls|compression|set PORT [CA file | folder of the cluster]. */
public final class Main {
    private static final Logger LOGGER = Logger.getLogger("org.mongodb.driver");

    private Main() {}

    static MongoClientSettings.Builder settings(String port) {
        return MongoClientSettings.builder()
                .applyConnectionString(new ConnectionString("mongodb://localhost:" + port + "/"))
                .applyToClusterSettings(cluster -> cluster.serverSelectionTimeout(10, TimeUnit.SECONDS));
    }

    public static void main(String[] arguments) throws Exception {
        LOGGER.setLevel(Level.OFF);
        String port = arguments[1];
        boolean passed;
        try (MongoClient client = MongoClients.create(settings(port).build())) {
            LinkedHashMap<String, Harness.Check> checks = new LinkedHashMap<>();
            Access access = new Access(port, client, arguments.length > 2 ? arguments[2] : null);
            switch (arguments[0]) {
                case "plain" -> {
                    new Documents(client).checks(checks);
                    new Queries(port, client).checks(checks);
                }
                case "auth" -> access.authentication(checks);
                case "tls" -> access.encryption(checks);
                case "compression" -> access.compression(checks);
                case "set" -> new Sets(port, arguments[2]).checks(checks);
                default -> throw new IllegalArgumentException(arguments[0]);
            }
            passed = Harness.run(checks);
        }
        System.exit(passed ? 0 : 1);
    }
}
