import com.mongodb.MongoException;
import com.mongodb.MongoSocketException;
import com.mongodb.WriteConcern;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.model.DeleteOneModel;
import com.mongodb.client.model.Filters;
import com.mongodb.client.model.UpdateOneModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.model.Updates;
import com.mongodb.connection.ServerType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.bson.Document;
import org.bson.conversions.Bson;

/** Writes to a set that are sent again, once after a failure and under failovers: each is done once. */
final class SetWrites {
    interface Cluster {
        void run(String... arguments) throws Exception;
    }

    private record Write(String command, Supplier<?> action) {}

    private final String port;
    private final Watched set;
    private final Cluster cluster;

    SetWrites(String port, Watched set, Cluster cluster) {
        this.port = port;
        this.set = set;
        this.cluster = cluster;
    }

    void checks(LinkedHashMap<String, Harness.Check> checks) {
        checks.put("set-retryable-before", this::before);
        checks.put("set-retryable-after", this::after);
        checks.put("set-retryable-reads", this::reads);
        checks.put("set-step-down", () -> failover("stepped-down", () -> {
            try {
                set.admin(new Document("replSetStepDown", 20).append("secondaryCatchUpPeriodSecs", 10));
            } catch (MongoSocketException closed) {
                // As a member of 4.0 does.
            }
        }));
        checks.put("set-kill", () -> {
            failover("killed", () -> cluster.run("kill", "--signal", "KILL", "primary"));
            cluster.run("start");
            set.whole();
            set.writing(WriteConcern.W3).insertOne(id("all are back"));
            set.close();
        });
    }

    private static Document id(Object id) {
        return new Document("_id", id);
    }

    private void before() throws Exception {
        onceOnly(1, "failCommand", new Document("closeConnection", true));
        onceOnly(2, "failCommand", new Document("errorCode", 91).append("errorLabels", List.of("RetryableWriteError")));
        set.failPoint("failCommand", new Document("failCommands", List.of("insert")).append("closeConnection", true));
        try (Watched other = new Watched(port, settings -> settings.retryWrites(false))) {
            other.things().insertOne(id("not sent again"));
            throw new IllegalStateException("it was sent again");
        } catch (MongoSocketException expected) {
            Harness.equal(set.things().countDocuments(id("not sent again")), 0L);
        }
    }

    private void after() {
        onceOnly(3, "onPrimaryTransactionalWrite", new Document());
        Document error = new Document("code", 91).append("codeName", "ShutdownInProgress").append("errmsg", "made up");
        onceOnly(4, "failCommand", new Document("writeConcernError", error).append("errorLabels", List.of("RetryableWriteError")));
    }

    private void reads() throws Exception {
        set.whole();
        for (Write read : List.of(
                new Write("find", () -> set.things().find(id(2)).first()),
                new Write("distinct", () -> set.collection("kinds").distinct("n", Integer.class).first()),
                new Write("aggregate", () -> set.things().countDocuments()))) {
            set.failPoint("failCommand", new Document("failCommands", List.of(read.command)).append("closeConnection", true));
            set.sent.clear();
            Sets.holds(read.action.get() != null, read.command);
            Harness.equal(set.asked(read.command).size(), 2);
        }
    }

    /** Each kind of write, hit once by the fail point: sent twice under one number, done once. */
    private void onceOnly(int n, String point, Document data) {
        MongoCollection<Document> kinds = set.collection("kinds");
        Bson more = Updates.inc("n", 1);
        kinds.insertOne(id("before-" + n));
        for (Write write : List.of(
                new Write("insert", () -> kinds.insertOne(id(n).append("n", 0))),
                new Write("insert", () -> kinds.insertMany(List.of(id("a-" + n), id("b-" + n), id("c-" + n)))),
                new Write("update", () -> kinds.updateOne(id(n), more)),
                new Write("findAndModify", () -> kinds.findOneAndUpdate(id(n), more)),
                new Write("update", () -> kinds.updateOne(id("up-" + n), more, new UpdateOptions().upsert(true))),
                new Write("delete", () -> kinds.deleteOne(id("a-" + n))),
                new Write("update", () -> kinds.bulkWrite(List.of(new UpdateOneModel<>(id(n), more), new DeleteOneModel<>(id("b-" + n))))))) {
            Document own = new Document(data);
            if (point.equals("failCommand")) {
                own.append("failCommands", List.of(write.command));
            }
            set.failPoint(point, own);
            set.sent.clear();
            write.action.get();
            List<Watched.Sent> again = set.asked(write.command);
            Sets.holds(again.size() == 2 && again.get(0).number() != null && again.get(0).number().equals(again.get(1).number()), again);
        }
        Harness.equal(kinds.find(id(n)).first(), id(n).append("n", 3));
        Harness.equal(kinds.find(id("up-" + n)).first(), id("up-" + n).append("n", 1));
        Harness.equal(kinds.countDocuments(Filters.in("_id", "a-" + n, "b-" + n, "c-" + n)), 1L);
    }

    /** Writes go on while the primary goes; the driver follows, and each write is there once. */
    private void failover(String name, Harness.Check fault) throws Exception {
        String primary = set.whole().primary();
        Writer writer = new Writer(name);
        writer.start();
        try {
            writer.waitForMore();
            set.changes.clear();
            fault.run();
            Watched.until("another primary", () -> set.members().primary() != null && !set.members().primary().equals(primary));
            writer.waitForMore();
            String now = set.members().primary();
            Sets.holds(set.changed(now, null, ServerType.REPLICA_SET_PRIMARY)
                    && set.changed(primary, ServerType.REPLICA_SET_PRIMARY, null), set.changes);
        } finally {
            writer.end();
        }
    }

    /** Writes one thing after the other until it is told to stop, and keeps what was acknowledged. */
    private final class Writer extends Thread {
        private final String round;
        private final MongoCollection<Document> rounds = set.collection("rounds").withWriteConcern(WriteConcern.MAJORITY);
        private final Set<String> acknowledged = new HashSet<>();
        private final List<MongoException> failed = new CopyOnWriteArrayList<>();
        private final AtomicInteger counted = new AtomicInteger();
        private final AtomicBoolean done = new AtomicBoolean();

        Writer(String round) {
            this.round = round;
        }

        @Override
        public void run() {
            for (int n = 0; !done.get(); n++) {
                try {
                    rounds.insertOne(id(round + "-" + n).append("round", round));
                    acknowledged.add(round + "-" + n);
                    rounds.updateOne(id(round), Updates.inc("n", 1), new UpdateOptions().upsert(true));
                    counted.incrementAndGet();
                } catch (MongoException error) {
                    failed.add(error);
                }
            }
        }

        void waitForMore() throws Exception {
            int goal = counted.get() + 20;
            Watched.until("20 more writes", () -> counted.get() >= goal);
        }

        void end() throws Exception {
            done.set(true);
            join();
            Set<String> there = new HashSet<>();
            rounds.find(new Document("round", round)).map(one -> one.getString("_id")).into(there);
            List<String> lost = new ArrayList<>(acknowledged);
            lost.removeAll(there);
            Harness.equal(lost, List.of());
            Sets.holds(there.size() <= acknowledged.size() + failed.size(), failed);
            int n = rounds.find(id(round)).first().getInteger("n");
            Sets.holds(counted.get() <= n && n <= counted.get() + failed.size(), n + " after " + counted + ", failed: " + failed);
        }
    }
}
