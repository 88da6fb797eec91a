import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Sorts.ascending;

import com.mongodb.CursorType;
import com.mongodb.MongoNamespace;
import com.mongodb.client.ClientSession;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoClients;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoCursor;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.CreateCollectionOptions;
import com.mongodb.client.model.IndexModel;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.ValidationOptions;
import com.mongodb.event.CommandListener;
import com.mongodb.event.CommandStartedEvent;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.bson.Document;
import org.bson.conversions.Bson;

/** Finds, cursors, indexes and plans, aggregation, collections, errors. */
final class Queries {
    private final String port;
    private final MongoClient client;
    private final MongoDatabase db;

    Queries(String port, MongoClient client) {
        this.port = port;
        this.client = client;
        this.db = client.getDatabase("java");
    }

    private MongoCollection<Document> things(String name) {
        return db.getCollection(name);
    }

    private static List<Object> ids(Iterable<Document> documents) {
        List<Object> found = new ArrayList<>();
        documents.forEach(one -> found.add(one.get("_id")));
        return found;
    }

    private List<Document> aggregate(String from, String... stages) {
        List<Bson> pipeline = new ArrayList<>();
        for (String stage : stages) {
            pipeline.add(Document.parse(stage));
        }
        return things(from).aggregate(pipeline).into(new ArrayList<>());
    }

    void checks(HashMap<String, Harness.Check> checks) {
        finds(checks);
        indexes(checks);
        pipelines(checks);
        collections(checks);
        errors(checks);
    }

    private void finds(HashMap<String, Harness.Check> checks) {
        checks.put("find-filters", () -> {
            things("filters").insertMany(List.of(Document.parse("{_id: 1, n: 1, tags: ['a', 'b'], s: 'apple'}"),
                    Document.parse("{_id: 2, n: 2.5, tags: ['b'], s: 'Banana'}"),
                    Document.parse("{_id: 3, n: {$numberLong: '3'}, tags: [], s: null}")));
            List<String> queries = List.of("{n: {$gt: 1}}", "{n: {$in: [1, 3]}}", "{s: {$regex: '^b', $options: 'i'}}",
                    "{tags: {$size: 0}}", "{$or: [{n: 1}, {s: null}]}", "{n: {$type: 'long'}}");
            List<List<Object>> wanted = List.of(List.of(2, 3), List.of(1, 3), List.of(2), List.of(3), List.of(1, 3), List.of(3));
            for (int n = 0; n < queries.size(); n++) {
                Harness.equal(ids(things("filters").find(Document.parse(queries.get(n))).sort(ascending("_id"))), wanted.get(n));
            }
        });
        checks.put("find-sort-skip-limit", () -> Harness.equal(
                ids(things("many").find().sort(Document.parse("{group: -1, _id: 1}")).skip(3).limit(2)), List.of(39, 49)));
        checks.put("find-projection", () -> Harness.equal(
                things("many").find(eq("_id", 5)).projection(Document.parse("{_id: 0, group: 1}")).first(), new Document("group", 5)));
        checks.put("count-distinct", () -> {
            Harness.equal(things("many").estimatedDocumentCount(), 2500L);
            Harness.equal(things("many").countDocuments(eq("group", 4)), 250L);
            Harness.equal(things("many").distinct("group", Document.parse("{_id: {$lt: 3}}"), Integer.class).into(new ArrayList<>()), List.of(0, 1, 2));
        });
        checks.put("cursor-batches", this::batches);
        checks.put("cursor-kill", () -> {
            MongoCursor<Document> cursor = things("many").find().batchSize(10).iterator();
            cursor.next();
            long number = cursor.getServerCursor().getId();
            cursor.close();
            Harness.fails(43, () -> db.runCommand(new Document("getMore", number).append("collection", "many")));
        });
        checks.put("capped-tailable", () -> {
            db.createCollection("capped", new CreateCollectionOptions().capped(true).sizeInBytes(1 << 20));
            things("capped").insertOne(new Document("_id", 1));
            try (MongoCursor<Document> cursor = things("capped").find().cursorType(CursorType.TailableAwait)
                    .maxAwaitTime(2, TimeUnit.SECONDS).iterator()) {
                Harness.equal(cursor.next().get("_id"), 1);
                things("capped").insertOne(new Document("_id", 2));
                Harness.equal(cursor.next().get("_id"), 2);
            }
        });
        checks.put("sessions", () -> {
            try (ClientSession session = client.startSession()) {
                things("sessions").insertOne(session, new Document("_id", 1));
                Harness.equal(things("sessions").countDocuments(session), 1L);
            }
        });
        checks.put("transactions-refused", () -> {
            try (ClientSession session = client.startSession()) {
                session.startTransaction();
                Harness.fails(20, () -> things("sessions").insertOne(session, new Document("_id", 2)));
            }
        });
    }

    private void batches() {
        List<String> names = new ArrayList<>();
        CommandListener listener = new CommandListener() {
            @Override
            public void commandStarted(CommandStartedEvent event) {
                names.add(event.getCommandName());
            }
        };
        try (MongoClient other = MongoClients.create(Main.settings(port).addCommandListener(listener).build())) {
            List<Object> found = ids(other.getDatabase("java").getCollection("many").find().sort(ascending("_id")).batchSize(600));
            Harness.equal(found.size(), 2500);
            Harness.equal(found.get(2499), 2499);
        }
        Harness.equal(names.subList(0, 5), List.of("find", "getMore", "getMore", "getMore", "getMore"));
    }

    private void indexes(HashMap<String, Harness.Check> checks) {
        checks.put("indexes", () -> {
            List<String> names = things("indexed").createIndexes(List.of(new IndexModel(Document.parse("{a: 1, b: -1}")),
                    new IndexModel(Document.parse("{e: 'hashed'}")),
                    new IndexModel(Document.parse("{t: 1}"), new IndexOptions().expireAfter(1L, TimeUnit.HOURS)),
                    new IndexModel(Document.parse("{d: 1}"), new IndexOptions().partialFilterExpression(Document.parse("{d: {$gt: 5}}")))));
            Harness.equal(names, List.of("a_1_b_-1", "e_hashed", "t_1", "d_1"));
            Harness.equal(things("indexed").listIndexes().into(new ArrayList<>()).size(), 5);
            things("indexed").dropIndex("t_1");
            Harness.fails(27, () -> {
                things("indexed").dropIndex("t_1");
                return null;
            });
            things("indexed").dropIndexes();
            Harness.equal(things("indexed").listIndexes().into(new ArrayList<>()).size(), 1);
        });
        checks.put("explain", () -> {
            List<Document> documents = new ArrayList<>();
            for (int n = 0; n < 500; n++) {
                documents.add(new Document("a", n % 50));
            }
            things("plans").insertMany(documents);
            things("plans").createIndex(new Document("a", 1));
            Document plan = things("plans").find(eq("a", 7)).explain();
            Document winner = plan.get("queryPlanner", Document.class).get("winningPlan", Document.class);
            Harness.equal(winner.getString("stage"), "FETCH");
            Harness.equal(winner.get("inputStage", Document.class).getString("stage"), "IXSCAN");
            Harness.equal(plan.get("executionStats", Document.class).getInteger("nReturned"), 10);
        });
    }

    private void pipelines(HashMap<String, Harness.Check> checks) {
        checks.put("aggregate-group", () -> Harness.equal(
                aggregate("many", "{$group: {_id: '$group', n: {$sum: 1}}}", "{$sort: {_id: 1}}", "{$limit: 1}"),
                List.of(Document.parse("{_id: 0, n: 250}"))));
        checks.put("aggregate-lookup-unwind", () -> {
            things("names").insertOne(Document.parse("{_id: 3, name: 'three'}"));
            List<Document> found = aggregate("many", "{$match: {_id: 13}}",
                    "{$lookup: {from: 'names', localField: 'group', foreignField: '_id', as: 'names'}}",
                    "{$unwind: '$names'}", "{$project: {name: '$names.name'}}");
            Harness.equal(found, List.of(Document.parse("{_id: 13, name: 'three'}")));
        });
        checks.put("aggregate-facet", () -> Harness.equal(aggregate("many", "{$facet: {all: [{$count: 'n'}]}}"),
                List.of(Document.parse("{all: [{n: 2500}]}"))));
        checks.put("aggregate-out", () -> {
            things("many").aggregate(List.of(Document.parse("{$match: {group: 1}}"), Document.parse("{$out: 'written'}"))).toCollection();
            Harness.equal(things("written").countDocuments(), 250L);
        });
        checks.put("aggregate-merge", () -> {
            things("many").aggregate(List.of(Document.parse("{$match: {group: 2}}"), Document.parse("{$merge: {into: 'written'}}"))).toCollection();
            Harness.equal(things("written").countDocuments(), 500L);
        });
    }

    private void collections(HashMap<String, Harness.Check> checks) {
        checks.put("list-collections", () -> Harness.equal(
                db.listCollections().filter(eq("name", "capped")).first().get("options", Document.class).getBoolean("capped"), true));
        checks.put("list-databases", () -> Harness.equal(client.listDatabaseNames().into(new ArrayList<>()).contains("java"), true));
        checks.put("rename", () -> {
            things("before").insertOne(new Document("_id", 1));
            things("before").renameCollection(new MongoNamespace("java", "after"));
            Harness.equal(things("after").countDocuments(), 1L);
        });
        checks.put("drop", () -> {
            things("after").drop();
            things("after").drop();
            client.getDatabase("java_other").drop();
        });
        checks.put("validation", () -> {
            ValidationOptions options = new ValidationOptions().validator(Document.parse("{n: {$gte: 0}}"));
            db.createCollection("valid", new CreateCollectionOptions().validationOptions(options));
            Harness.fails(121, () -> things("valid").insertOne(new Document("n", -1)));
        });
    }

    private void errors(HashMap<String, Harness.Check> checks) {
        checks.put("error-unknown-command", () -> Harness.fails(59, () -> db.runCommand(new Document("noSuchCommand", 1))));
        checks.put("error-update", () -> {
            Harness.fails(9, () -> things("many").updateOne(eq("_id", 1), Document.parse("{$nothing: {a: 1}}")));
            Harness.fails(66, () -> things("many").updateOne(eq("_id", 1), Document.parse("{$set: {_id: 2}}")));
        });
        checks.put("error-max-time", () -> Harness.fails(50, () -> things("many")
                .aggregate(List.of(Document.parse("{$lookup: {from: 'many', let: {mine: '$group'}, "
                        + "pipeline: [{$match: {$expr: {$eq: ['$text', '$$mine']}}}], as: 'x'}}")))
                .maxTime(50, TimeUnit.MILLISECONDS).into(new ArrayList<>())));
    }
}
