import static com.mongodb.client.model.Filters.eq;
import static com.mongodb.client.model.Updates.combine;
import static com.mongodb.client.model.Updates.inc;
import static com.mongodb.client.model.Updates.max;
import static com.mongodb.client.model.Updates.min;
import static com.mongodb.client.model.Updates.mul;
import static com.mongodb.client.model.Updates.pull;
import static com.mongodb.client.model.Updates.pushEach;
import static com.mongodb.client.model.Updates.rename;
import static com.mongodb.client.model.Updates.set;
import static com.mongodb.client.model.Updates.setOnInsert;
import static com.mongodb.client.model.Updates.unset;

import com.mongodb.MongoBulkWriteException;
import com.mongodb.MongoWriteException;
import com.mongodb.WriteConcern;
import com.mongodb.bulk.BulkWriteResult;
import com.mongodb.client.MongoClient;
import com.mongodb.client.MongoCollection;
import com.mongodb.client.MongoDatabase;
import com.mongodb.client.model.DeleteManyModel;
import com.mongodb.client.model.FindOneAndUpdateOptions;
import com.mongodb.client.model.IndexOptions;
import com.mongodb.client.model.InsertManyOptions;
import com.mongodb.client.model.InsertOneModel;
import com.mongodb.client.model.PushOptions;
import com.mongodb.client.model.ReplaceOneModel;
import com.mongodb.client.model.ReplaceOptions;
import com.mongodb.client.model.ReturnDocument;
import com.mongodb.client.model.UpdateManyModel;
import com.mongodb.client.model.UpdateOptions;
import com.mongodb.client.result.UpdateResult;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import org.bson.BsonTimestamp;
import org.bson.Document;
import org.bson.conversions.Bson;
import org.bson.types.Binary;
import org.bson.types.Decimal128;
import org.bson.types.MinKey;
import org.bson.types.ObjectId;

/** Insert, update, delete, bulk writes and write concerns. */
final class Documents {
    private final MongoClient client;
    private final MongoDatabase db;

    Documents(MongoClient client) {
        this.client = client;
        this.db = client.getDatabase("java");
    }

    private MongoCollection<Document> things(String name) {
        return db.getCollection(name);
    }

    static List<Document> numbered(int count) {
        List<Document> documents = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            documents.add(new Document("_id", n).append("group", n % 10).append("odd", n % 2));
        }
        return documents;
    }

    private Document after(Document before, Bson update, UpdateOptions options) {
        things("updates").replaceOne(eq("_id", 1), before, new ReplaceOptions().upsert(true));
        Harness.equal(things("updates").updateOne(eq("_id", 1), update, options).getMatchedCount(), 1L);
        Document found = things("updates").find(eq("_id", 1)).first();
        found.remove("_id");
        return found;
    }

    private Document after(String before, Bson update) {
        return after(Document.parse(before), update, new UpdateOptions());
    }

    void checks(HashMap<String, Harness.Check> checks) {
        checks.put("connect", () -> {
            Document hello = client.getDatabase("admin").runCommand(new Document("hello", 1));
            Harness.equal(hello.getBoolean("isWritablePrimary") && hello.getInteger("maxWireVersion") >= 9, true);
        });
        checks.put("server-version", () -> {
            Document info = client.getDatabase("admin").runCommand(new Document("buildInfo", 1));
            Harness.equal(info.getList("versionArray", Integer.class).size(), 4);
        });
        checks.put("insert-one", () -> {
            Document document = new Document("a", 1);
            ObjectId id = things("insert").insertOne(document).getInsertedId().asObjectId().getValue();
            Harness.equal(things("insert").find(eq("_id", id)).first(), document);
        });
        checks.put("insert-many", () -> {
            Harness.equal(things("many").insertMany(numbered(2500)).getInsertedIds().size(), 2500);
            Harness.equal(things("many").countDocuments(), 2500L);
        });
        checks.put("insert-large", () -> {
            String large = "x".repeat(15 * 1024 * 1024);
            things("large").insertOne(new Document("_id", 0).append("large", large));
            Harness.equal(things("large").find().first().getString("large").length(), large.length());
        });
        checks.put("bson-types", this::bsonTypes);
        checks.put("update-operators", () -> {
            Bson update = combine(set("b.c", 2), inc("a", 2), unset("d"), mul("t", 3));
            Harness.equal(after("{a: 1, d: 1}", update), Document.parse("{a: 3, b: {c: 2}, t: 0}"));
            update = combine(min("a", 3), max("b", 7), rename("o", "n"));
            Harness.equal(after("{a: 5, b: 5, o: 1}", update), Document.parse("{a: 3, b: 7, n: 1}"));
        });
        checks.put("update-arrays", () -> {
            Bson push = pushEach("a", List.of(5, 1), new PushOptions().sort(-1).slice(3));
            Harness.equal(after("{a: [3, 4]}", push), Document.parse("{a: [5, 4, 3]}"));
            Harness.equal(after("{a: [1, 2]}", pull("a", 1)), Document.parse("{a: [2]}"));
            UpdateOptions options = new UpdateOptions().arrayFilters(List.of(Document.parse("{e: {$gte: 2}}")));
            Harness.equal(after(Document.parse("{a: [1, 2]}"), set("a.$[e]", 9), options), Document.parse("{a: [1, 9]}"));
        });
        checks.put("update-many", () -> {
            UpdateResult result = things("many").updateMany(eq("group", 3), set("seen", true));
            Harness.equal(List.of(result.getMatchedCount(), result.getModifiedCount()), List.of(250L, 250L));
        });
        checks.put("update-upsert", () -> {
            UpdateOptions options = new UpdateOptions().upsert(true);
            UpdateResult result = things("upserts").updateOne(eq("_id", "key"), setOnInsert("a", 1), options);
            Harness.equal(result.getUpsertedId().asString().getValue(), "key");
        });
        checks.put("update-pipeline", () -> {
            things("updates").replaceOne(eq("_id", 1), Document.parse("{a: 1, b: 2}"), new ReplaceOptions().upsert(true));
            List<Bson> pipeline = List.of(Document.parse("{$set: {sum: {$add: ['$a', '$b']}}}"), Document.parse("{$unset: 'b'}"));
            Harness.equal(things("updates").updateOne(eq("_id", 1), pipeline).getModifiedCount(), 1L);
            Harness.equal(things("updates").find().first(), Document.parse("{_id: 1, a: 1, sum: 3}"));
        });
        checks.put("find-and-modify", this::findAndModify);
        checks.put("delete", () -> {
            things("deleted").insertMany(numbered(10));
            Harness.equal(things("deleted").deleteOne(eq("odd", 1)).getDeletedCount(), 1L);
            Harness.equal(things("deleted").deleteMany(eq("odd", 1)).getDeletedCount(), 4L);
        });
        checks.put("bulk-ordered", this::bulk);
        checks.put("bulk-ordered-error", () -> bulkError("bulk_ordered", true, List.of(2), 2));
        checks.put("bulk-unordered-error", () -> bulkError("bulk_unordered", false, List.of(2, 4), 4));
        checks.put("duplicate-key", this::duplicateKey);
        checks.put("write-concern", this::writeConcern);
        checks.put("write-concern-impossible", () -> Harness.fails(2,
                () -> things("concerns").withWriteConcern(WriteConcern.W2).insertOne(new Document())));
    }

    private void bsonTypes() {
        Document document = new Document("_id", "types").append("int", 7).append("long", 1L << 40).append("double", -1.5)
                .append("decimal", Decimal128.parse("1.10")).append("date", new Date(1582979415123L))
                .append("binary", new Binary(new byte[] {0, 1, -1})).append("timestamp", new BsonTimestamp(1600000000, 7))
                .append("min", new MinKey()).append("null", null).append("string", "ünïcode")
                .append("nested", new Document("array", List.of(1, List.of(2, new Document("three", 3)))));
        things("types").insertOne(document);
        Document found = things("types").find().first();
        Harness.equal(found, document);
        Harness.equal(new ArrayList<>(found.keySet()), new ArrayList<>(document.keySet()));
    }

    private void findAndModify() {
        FindOneAndUpdateOptions options = new FindOneAndUpdateOptions().upsert(true).returnDocument(ReturnDocument.AFTER);
        Harness.equal(things("jobs").findOneAndUpdate(eq("_id", 9), inc("n", 1), options), Document.parse("{_id: 9, n: 1}"));
        Harness.equal(things("jobs").findOneAndReplace(eq("_id", 9), new Document("b", 1)), Document.parse("{_id: 9, n: 1}"));
        Harness.equal(things("jobs").findOneAndDelete(eq("b", 1)), Document.parse("{_id: 9, b: 1}"));
        Harness.equal(things("jobs").findOneAndDelete(eq("b", 1)), null);
    }

    private void bulk() {
        BulkWriteResult result = things("bulk").bulkWrite(List.of(
                new InsertOneModel<>(new Document("_id", 1)),
                new InsertOneModel<>(new Document("_id", 2)),
                new UpdateManyModel<>(new Document(), set("b", 1)),
                new ReplaceOneModel<>(eq("_id", 3), new Document("c", 1), new ReplaceOptions().upsert(true)),
                new DeleteManyModel<>(eq("_id", 2))));
        Harness.equal(List.of(result.getInsertedCount(), result.getModifiedCount(), result.getDeletedCount(),
                result.getUpserts().size()), List.of(2, 2, 1, 1));
    }

    private void bulkError(String name, boolean ordered, List<Integer> at, long count) {
        List<Document> documents = new ArrayList<>();
        for (int id : new int[] {1, 2, 1, 3, 2, 4}) {
            documents.add(new Document("_id", id));
        }
        try {
            things(name).insertMany(documents, new InsertManyOptions().ordered(ordered));
            throw new IllegalStateException("no error");
        } catch (MongoBulkWriteException error) {
            Harness.equal(error.getWriteErrors().stream().map(one -> one.getIndex()).toList(), at);
            Harness.equal(error.getWriteErrors().get(0).getCode(), 11000);
            Harness.equal((long) error.getWriteResult().getInsertedCount(), count);
        }
        Harness.equal(things(name).countDocuments(), count);
    }

    private void duplicateKey() {
        things("people").createIndex(new Document("name", 1), new IndexOptions().unique(true));
        things("people").insertOne(new Document("name", "A"));
        try {
            things("people").insertOne(new Document("name", "A"));
            throw new IllegalStateException("no error");
        } catch (MongoWriteException error) {
            Harness.equal(error.getError().getCategory(), com.mongodb.ErrorCategory.DUPLICATE_KEY);
            Harness.equal(error.getError().getMessage().contains("index: name_1 dup key: { name: \"A\" }"), true);
        }
    }

    private void writeConcern() throws InterruptedException {
        MongoCollection<Document> journaled = things("concerns").withWriteConcern(WriteConcern.JOURNALED);
        Harness.equal(journaled.insertOne(new Document("_id", 1)).wasAcknowledged(), true);
        MongoCollection<Document> silent = things("concerns").withWriteConcern(WriteConcern.UNACKNOWLEDGED);
        Harness.equal(silent.insertOne(new Document("_id", 2)).wasAcknowledged(), false);
        for (int tries = 0; journaled.countDocuments() < 2; tries++) {
            Harness.equal(tries < 1000, true);
            Thread.sleep(10);
        }
    }
}
