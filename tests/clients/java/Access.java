import com.mongodb.MongoClientSettings;
import com.mongodb.MongoCompressor;
import com.mongodb.MongoCredential;
import com.mongodb.MongoTimeoutException;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.bson.Document;

/** Users, TLS and compressed messages. */
final class Access {
    private final String port;
    private final MongoClient client;
    private final String authority;

    interface Action {
        void run(MongoClient client) throws Exception;
    }

    Access(String port, MongoClient client, String authority) {
        this.port = port;
        this.client = client;
        this.authority = authority;
    }

    private static void as(MongoClientSettings.Builder settings, Action action) throws Exception {
        try (MongoClient client = MongoClients.create(settings.build())) {
            action.run(client);
        }
    }

    private MongoClientSettings.Builder user(String name, String password, String mechanism, String source) {
        MongoCredential credential = switch (mechanism) {
            case "SCRAM-SHA-256" -> MongoCredential.createScramSha256Credential(name, source, password.toCharArray());
            case "SCRAM-SHA-1" -> MongoCredential.createScramSha1Credential(name, source, password.toCharArray());
            default -> MongoCredential.createCredential(name, source, password.toCharArray());
        };
        return Main.settings(port).credential(credential);
    }

    private static Document createUser(String name, String password, String role) {
        return new Document("createUser", name).append("pwd", password).append("roles", List.of(role));
    }

    void authentication(HashMap<String, Harness.Check> checks) {
        checks.put("auth-required", () -> Harness.fails(13,
                () -> client.getDatabase("java").getCollection("things").insertOne(new Document())));
        checks.put("auth-first-user", () -> {
            client.getDatabase("admin").runCommand(createUser("admin", "secret", "root"));
            Harness.fails(13, () -> client.getDatabase("admin").runCommand(createUser("second", "x", "root")));
        });
        checks.put("auth-scram", () -> {
            for (String mechanism : List.of("SCRAM-SHA-256", "SCRAM-SHA-1", "DEFAULT")) {
                as(user("admin", "secret", mechanism, "admin"), one ->
                        one.getDatabase("java").getCollection("things").insertOne(new Document("by", mechanism)));
            }
        });
        checks.put("auth-wrong-password", () -> {
            for (String mechanism : List.of("SCRAM-SHA-256", "SCRAM-SHA-1")) {
                as(user("admin", "wrong", mechanism, "admin"), one ->
                        Harness.fails(18, () -> one.getDatabase("admin").runCommand(new Document("ping", 1))));
            }
        });
        checks.put("auth-roles", () -> {
            as(user("admin", "secret", "DEFAULT", "admin"), one ->
                    one.getDatabase("java").runCommand(createUser("reader", "read", "read")));
            as(user("reader", "read", "DEFAULT", "java"), one -> {
                MongoCollection<Document> things = one.getDatabase("java").getCollection("things");
                Harness.equal(things.countDocuments(), 3L);
                Harness.fails(13, () -> things.insertOne(new Document()));
            });
        });
    }

    private SSLContext trusting() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream file = new FileInputStream(authority)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }

    private static long load(MongoClient client, String name) {
        List<Document> documents = new ArrayList<>();
        String text = "word ".repeat(2000);
        for (int n = 0; n < 500; n++) {
            documents.add(new Document("_id", n).append("text", text));
        }
        MongoCollection<Document> things = client.getDatabase("java").getCollection(name);
        things.insertMany(documents);
        Harness.equal(things.find().batchSize(100).into(new ArrayList<>()), documents);
        return 2L * 500 * text.length();
    }

    private void refused(boolean tls) throws Exception {
        MongoClientSettings.Builder settings = Main.settings(port).applyToSslSettings(ssl -> ssl.enabled(tls))
                .applyToClusterSettings(cluster -> cluster.serverSelectionTimeout(500, TimeUnit.MILLISECONDS));
        try {
            as(settings, one -> one.getDatabase("admin").runCommand(new Document("ping", 1)));
            throw new IllegalStateException("taken, and should have been refused");
        } catch (MongoTimeoutException error) {
            // Refused.
        }
    }

    void encryption(HashMap<String, Harness.Check> checks) {
        checks.put("tls", () -> {
            SSLContext context = trusting();
            as(Main.settings(port).applyToSslSettings(ssl -> ssl.enabled(true).context(context)), one -> load(one, "secret"));
        });
        checks.put("tls-required", () -> refused(false));
        checks.put("tls-unknown-authority", () -> refused(true));
    }

    private long traffic() {
        Document network = client.getDatabase("admin").runCommand(new Document("serverStatus", 1)).get("network", Document.class);
        return network.get("physicalBytesIn", Number.class).longValue()
                + network.get("physicalBytesOut", Number.class).longValue();
    }

    void compression(HashMap<String, Harness.Check> checks) {
        for (MongoCompressor one : List.of(MongoCompressor.createSnappyCompressor(), MongoCompressor.createZlibCompressor(),
                MongoCompressor.createZstdCompressor())) {
            checks.put("compression-" + one.getName(), () -> {
                long before = traffic();
                long[] size = new long[1];
                as(Main.settings(port).compressorList(List.of(one)), other -> size[0] = load(other, one.getName()));
                long sent = traffic() - before;
                if (sent > size[0] / 4) {
                    throw new IllegalStateException(sent + " bytes for " + size[0]);
                }
            });
        }
    }
}
