import com.mongodb.ClientSessionOptions;
import com.mongodb.MongoException;
import com.mongodb.MongoSocketException;
import com.mongodb.MongoTimeoutException;
import com.mongodb.MongoWriteConcernException;
import com.mongodb.ReadConcern;
import com.mongodb.ReadConcernLevel;
import com.mongodb.ReadPreference;
import com.mongodb.Tag;
import com.mongodb.TagSet;
import com.mongodb.WriteConcern;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.Updates;
import com.mongodb.connection.ClusterType;
import com.mongodb.connection.ServerDescription;
import com.mongodb.connection.ServerType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.bson.BsonTimestamp;
import org.bson.Document;

/**
 * A replica set of three, found from one of its members. Members 2 and 3 have the tag {@code dc: west}, the third is on RocksDB; the
 * mode {@code dcs} wants both places. Faults are made by {@code fathom cluster} (the program is in the variable FATHOM).
 */
final class Sets {
    private final String port;
    private final String folder;
    private final Watched set;

    Sets(String port, String folder) {
        this.port = port;
        this.folder = folder;
        this.set = new Watched(port, settings -> {});
    }

    void checks(LinkedHashMap<String, Harness.Check> checks) {
        checks.put("set-topology", this::topology);
        checks.put("set-read-preferences", this::readPreferences);
        checks.put("set-tag-sets", this::tagSets);
        checks.put("set-max-staleness", this::maxStaleness);
        checks.put("set-read-concern", this::readConcern);
        checks.put("set-causal", this::causal);
        checks.put("set-write-concern", this::writeConcern);
        checks.put("set-write-concern-unsatisfiable", this::unsatisfiable);
        checks.put("set-write-concern-timeout", this::timeout);
        checks.put("set-direct", this::direct);
        checks.put("set-transactions-refused", this::transactionsRefused);
        checks.put("set-change-streams-refused", () -> Harness.fails(40573, () -> set.things().watch().cursor()));
        new SetWrites(port, set, this::cluster).checks(checks);
    }

    /** Runs {@code fathom cluster}, which must succeed. */
    private void cluster(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(System.getenv("FATHOM"), "cluster", arguments[0], "--dir", folder));
        command.addAll(List.of(arguments).subList(1, arguments.length));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        holds(process.waitFor() == 0, said);
    }

    static void holds(boolean truth, Object text) {
        if (!truth) {
            throw new IllegalStateException("" + text);
        }
    }

    private static Document id(Object id) {
        return new Document("_id", id);
    }

    private void topology() throws Exception {
        Watched.Members members = set.whole();
        Document config = set.config();
        Harness.equal(set.client.getClusterDescription().getType(), ClusterType.REPLICA_SET);
        for (Document member : config.getList("members", Document.class)) {
            ServerDescription server = set.client.getClusterDescription().getServerDescriptions().stream()
                    .filter(one -> one.getAddress().toString().equals(member.getString("host"))).findFirst().orElseThrow();
            Harness.equal(server.getSetName(), "replset");
            Harness.equal(server.getSetVersion(), config.getInteger("version"));
            Harness.equal(server.getCanonicalAddress(), member.getString("host"));
            Harness.equal(server.getPrimary(), members.primary());
            Harness.equal(server.getLogicalSessionTimeoutMinutes(), 30);
            holds(server.getLastWriteDate() != null, server);
            holds((server.getElectionId() != null) == server.isPrimary(), server);
            for (Map.Entry<String, Object> tag : member.get("tags", Document.class).entrySet()) {
                holds(server.getTagSet().containsAll(new TagSet(new Tag(tag.getKey(), (String) tag.getValue()))), server.getTagSet());
            }
        }
        holds(set.changed(members.primary(), null, ServerType.REPLICA_SET_PRIMARY), set.changes);
    }

    private void readPreferences() throws Exception {
        Watched.Members members = set.whole();
        List<Document> documents = new ArrayList<>();
        for (int n = 0; n < 300; n++) {
            documents.add(id(n));
        }
        set.writing(new WriteConcern(3)).insertMany(documents);
        List<String> all = new ArrayList<>(members.secondaries());
        all.add(members.primary());
        Map<ReadPreference, List<String>> wanted = Map.of(
                ReadPreference.primary(), List.of(members.primary()),
                ReadPreference.primaryPreferred(), List.of(members.primary()),
                ReadPreference.secondary(), members.secondaries(),
                ReadPreference.secondaryPreferred(), members.secondaries(),
                ReadPreference.nearest(), all);
        for (Map.Entry<ReadPreference, List<String>> one : wanted.entrySet()) {
            MongoCollection<Document> things = set.reading(one.getKey());
            set.sent.clear();
            Harness.equal(things.find(id(7)).first(), id(7));
            Harness.equal(things.countDocuments(), 300L);
            Harness.equal(things.distinct("_id", Integer.class).into(new ArrayList<>()).size(), 300);
            for (Watched.Sent sent : set.sent) {
                holds(one.getValue().contains(sent.address()), one.getKey() + ": " + sent);
            }
            set.sent.clear();
            Harness.equal(things.find().batchSize(100).into(new ArrayList<>()).size(), 300);
            Harness.equal(set.sent.stream().map(Watched.Sent::address).distinct().count(), 1L);
            holds(set.asked("getMore").size() >= 2, "no batches");
        }
        Set<String> asked = new TreeSet<>();
        Watched.until("both secondaries are read", () -> {
            set.reading(ReadPreference.secondary()).find().first();
            set.asked("find").forEach(sent -> asked.add(sent.address()));
            return asked.size() == 2;
        });
    }

    private void tagSets() throws Exception {
        String rocks = set.config().getList("members", Document.class).get(2).getString("host");
        TagSet nowhere = new TagSet(new Tag("dc", "nowhere"));
        TagSet engine = new TagSet(new Tag("engine", "rocksdb"));
        Map<ReadPreference, String> wanted = Map.of(
                ReadPreference.secondary(new TagSet(List.of(new Tag("dc", "west"), new Tag("engine", "rocksdb")))), rocks,
                ReadPreference.nearest(List.of(nowhere, engine)), rocks,
                ReadPreference.secondaryPreferred(nowhere), set.whole().primary());
        for (Map.Entry<ReadPreference, String> one : wanted.entrySet()) {
            set.sent.clear();
            Harness.equal(set.reading(one.getKey()).find(id(1)).first(), id(1));
            Harness.equal(set.asked("find").get(0).address(), one.getValue());
        }
        try (Watched other = new Watched(port, settings ->
                settings.applyToClusterSettings(cluster -> cluster.serverSelectionTimeout(300, TimeUnit.MILLISECONDS)))) {
            other.reading(ReadPreference.secondary(nowhere)).find().first();
            throw new IllegalStateException("read from nowhere");
        } catch (MongoTimeoutException expected) {
            holds(expected.getMessage().contains("server"), expected);
        }
    }

    private void maxStaleness() throws Exception {
        Watched.Members members = set.whole();
        set.sent.clear();
        Harness.equal(set.reading(ReadPreference.secondary(90, TimeUnit.SECONDS)).find(id(1)).first(), id(1));
        String asked = set.asked("find").get(0).address();
        holds(members.secondaries().contains(asked), asked);
        try {
            set.reading(ReadPreference.secondary(5, TimeUnit.SECONDS)).find().first();
            throw new IllegalStateException("5 seconds were taken");
        } catch (MongoException | IllegalArgumentException expected) {
            holds(expected.getMessage().contains("staleness"), expected);
        }
    }

    private void readConcern() throws Exception {
        set.writing(WriteConcern.MAJORITY).insertOne(id("majority"));
        for (String level : List.of("local", "available", "majority", "linearizable")) {
            ReadConcern concern = new ReadConcern(ReadConcernLevel.fromString(level));
            Harness.equal(set.things().withReadConcern(concern).find(id("majority")).first(), id("majority"));
        }
        MongoCollection<Document> away = set.reading(ReadPreference.secondary());
        Watched.until("a secondary knows what a majority has",
                () -> away.withReadConcern(ReadConcern.MAJORITY).find(id("majority")).first() != null);
        Harness.fails(10107, () -> away.withReadConcern(ReadConcern.LINEARIZABLE).find().first());
    }

    private void causal() {
        MongoCollection<Document> away = set.reading(ReadPreference.secondary());
        try (ClientSession session = set.client.startSession(ClientSessionOptions.builder().causallyConsistent(true).build());
                ClientSession other = set.client.startSession()) {
            for (int n = 0; n < 50; n++) {
                BsonTimestamp before = session.getOperationTime();
                set.things().insertOne(session, id("causal-" + n));
                holds(before == null || session.getOperationTime().compareTo(before) > 0, before);
                Harness.equal(away.find(session, id("causal-" + n)).first(), id("causal-" + n));
            }
            // Another session goes on from there, on a majority.
            other.advanceOperationTime(session.getOperationTime());
            other.advanceClusterTime(session.getClusterTime());
            Harness.equal(away.withReadConcern(ReadConcern.MAJORITY).countDocuments(other, Filters.regex("_id", "^causal-")), 50L);
        }
    }

    private void writeConcern() throws Exception {
        List<WriteConcern> concerns = List.of(WriteConcern.W1, WriteConcern.W2, WriteConcern.W3, WriteConcern.MAJORITY,
                new WriteConcern("dcs"), WriteConcern.W1.withJournal(true), WriteConcern.W3.withJournal(true));
        for (int n = 0; n < concerns.size(); n++) {
            holds(set.writing(concerns.get(n)).insertOne(id("w-" + n)).wasAcknowledged(), concerns.get(n));
        }
        List<String> all = new ArrayList<>(set.whole().secondaries());
        all.add(set.whole().primary());
        for (String address : all) {
            try (MongoClient direct = MongoClients.create("mongodb://" + address + "/?directConnection=true")) {
                Harness.equal(direct.getDatabase("java").getCollection("things").countDocuments(id("w-6")), 1L);
            }
        }
    }

    private void unsatisfiable() throws Exception {
        unsatisfiable(new WriteConcern(4), 100, "UnsatisfiableWriteConcern");
        unsatisfiable(new WriteConcern("nowhere"), 79, "UnknownReplWriteConcern");
        Harness.equal(set.things().find(id(1)).first().getInteger("n"), 2);
    }

    private void unsatisfiable(WriteConcern concern, int code, String name) throws Exception {
        MongoException error = Harness.fails(code, () -> set.writing(concern).insertOne(id("unsatisfiable-" + code)));
        Harness.equal(((MongoWriteConcernException) error).getWriteConcernError().getCodeName(), name);
        Harness.fails(code, () -> set.writing(concern).updateOne(id(1), Updates.inc("n", 1)));
        // The write stays.
        Harness.equal(set.things().countDocuments(id("unsatisfiable-" + code)), 1L);
    }

    private void timeout() throws Exception {
        cluster("pause", "secondary", "1");
        try {
            MongoCollection<Document> late = set.writing(new WriteConcern(3, 300));
            MongoException error = Harness.fails(64, () -> late.insertOne(id("late")));
            var details = ((MongoWriteConcernException) error).getWriteConcernError().getDetails();
            Harness.equal(details.getBoolean("wtimeout").getValue(), true);
            Harness.equal(details.getDocument("writeConcern").getInt32("w").getValue(), 3);
            Harness.equal(details.getDocument("writeConcern").getInt32("wtimeout").getValue(), 300);
            Harness.fails(64, () -> late.updateOne(id("late"), Updates.inc("n", 1)));
            // The write stays, and a majority can still be had.
            set.writing(WriteConcern.MAJORITY).updateOne(id("late"), Updates.inc("n", 1));
            Harness.equal(set.things().find(id("late")).first().getInteger("n"), 2);
        } finally {
            cluster("resume", "all");
        }
        set.writing(WriteConcern.W3).deleteOne(id("late"));
        set.whole();
    }

    private void direct() throws Exception {
        String secondary = set.whole().secondaries().get(0);
        try (MongoClient direct = MongoClients.create("mongodb://" + secondary + "/?directConnection=true")) {
            Document hello = direct.getDatabase("admin").runCommand(new Document("hello", 1));
            Harness.equal(List.of(hello.get("secondary"), hello.get("isWritablePrimary"), hello.get("setName")), List.of(true, false, "replset"));
            MongoCollection<Document> things = direct.getDatabase("java").getCollection("things");
            Harness.fails(10107, () -> things.insertOne(id("direct")));
            Harness.fails(10107, () -> {
                direct.getDatabase("java").createCollection("direct");
                return null;
            });
            Harness.equal(things.find(id(2)).first(), id(2));
        }
        String other = "mongodb://" + secondary + "/?replicaSet=other&serverSelectionTimeoutMS=300";
        try (MongoClient client = MongoClients.create(other)) {
            client.getDatabase("admin").runCommand(new Document("ping", 1));
            throw new IllegalStateException("a set of another name was taken");
        } catch (MongoTimeoutException expected) {
            holds(!(expected.getCause() instanceof MongoSocketException), expected);
        }
    }

    private void transactionsRefused() throws Exception {
        try (ClientSession session = set.client.startSession()) {
            session.startTransaction();
            MongoException error = Harness.fails(263, () -> set.things().insertOne(session, id("transaction")));
            holds(error.getMessage().contains("no multi-document transactions"), error);
        }
        Harness.equal(set.things().countDocuments(id("transaction")), 0L);
    }
}
