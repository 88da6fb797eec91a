import com.mongodb.MongoClientSettings;
import com.mongodb.ReadPreference;
import com.mongodb.WriteConcern;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.connection.ClusterConnectionMode;
import com.mongodb.connection.ServerDescription;
import com.mongodb.connection.ServerType;
import com.mongodb.event.CommandListener;
import com.mongodb.event.CommandStartedEvent;
import com.mongodb.event.ServerDescriptionChangedEvent;
import com.mongodb.event.ServerListener;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.bson.Document;

/** A client that knows one member of the set, and what it saw: what was sent to whom, and how its view changed. */
final class Watched implements CommandListener, ServerListener, AutoCloseable {
    static final long PATIENCE_SECONDS = 60;

    record Sent(String name, String address, Long number) {}

    record Change(String address, ServerType before, ServerType after) {}

    record Members(String primary, List<String> secondaries) {}

    final List<Sent> sent = new CopyOnWriteArrayList<>();
    final List<Change> changes = new CopyOnWriteArrayList<>();
    final MongoClient client;

    Watched(String port, Consumer<MongoClientSettings.Builder> more) {
        MongoClientSettings.Builder settings = Main.settings(port)
                .applyToClusterSettings(cluster -> cluster.requiredReplicaSetName("replset")
                        .mode(ClusterConnectionMode.MULTIPLE)
                        .serverSelectionTimeout(PATIENCE_SECONDS, TimeUnit.SECONDS))
                .applyToServerSettings(server -> server.heartbeatFrequency(500, TimeUnit.MILLISECONDS)
                        .minHeartbeatFrequency(100, TimeUnit.MILLISECONDS)
                        .addServerListener(this))
                .addCommandListener(this);
        more.accept(settings);
        client = MongoClients.create(settings.build());
    }

    @Override
    public void commandStarted(CommandStartedEvent event) {
        String address = event.getConnectionDescription().getServerAddress().toString();
        Long number = event.getCommand().containsKey("txnNumber") ? (Long) event.getCommand().getInt64("txnNumber").getValue() : null;
        sent.add(new Sent(event.getCommandName(), address, number));
    }

    @Override
    public void serverDescriptionChanged(ServerDescriptionChangedEvent event) {
        ServerType before = event.getPreviousDescription().getType();
        ServerType after = event.getNewDescription().getType();
        if (before != after) {
            changes.add(new Change(event.getNewDescription().getAddress().toString(), before, after));
        }
    }

    @Override
    public void close() {
        client.close();
    }

    static void until(String what, Callable<Boolean> look) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (!look.call()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("in vain: " + what);
            }
            Thread.sleep(20);
        }
    }

    /** Who is what, as the driver knows it now. */
    Members members() {
        String primary = null;
        List<String> secondaries = new ArrayList<>();
        for (ServerDescription server : client.getClusterDescription().getServerDescriptions()) {
            if (server.getType() == ServerType.REPLICA_SET_PRIMARY) {
                primary = server.getAddress().toString();
            } else if (server.getType() == ServerType.REPLICA_SET_SECONDARY) {
                secondaries.add(server.getAddress().toString());
            }
        }
        return new Members(primary, secondaries);
    }

    /** Waits until the driver knows the primary and two secondaries. */
    Members whole() throws Exception {
        until("a primary and two secondaries", () -> members().primary != null && members().secondaries.size() == 2);
        return members();
    }

    /** How often and to whom a command went; what was sent before is forgotten. */
    List<Sent> asked(String name) {
        List<Sent> found = sent.stream().filter(one -> one.name.equals(name)).toList();
        sent.clear();
        return found;
    }

    boolean changed(String address, ServerType before, ServerType after) {
        return changes.stream().anyMatch(one -> one.address.equals(address)
                && (before == null || one.before == before) && (after == null || one.after == after));
    }

    MongoCollection<Document> collection(String name) {
        return client.getDatabase("java").getCollection(name);
    }

    MongoCollection<Document> things() {
        return collection("things");
    }

    MongoCollection<Document> reading(ReadPreference preference) {
        return things().withReadPreference(preference);
    }

    MongoCollection<Document> writing(WriteConcern concern) {
        return things().withWriteConcern(concern);
    }

    Document admin(Document command) {
        return client.getDatabase("admin").runCommand(command);
    }

    Document config() {
        return admin(new Document("replSetGetConfig", 1)).get("config", Document.class);
    }

    void failPoint(String name, Document data) {
        admin(new Document("configureFailPoint", name).append("mode", new Document("times", 1)).append("data", data));
    }
}
