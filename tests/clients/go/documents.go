package main

import (
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// after gives the document as an update leaves it.
func after(c *testContext, before bson.M, update any, some ...options.Lister[options.UpdateOneOptions]) bson.M {
	things := c.db.Collection("updates")
	got(things.ReplaceOne(c.ctx, bson.M{"_id": 1}, before, options.Replace().SetUpsert(true)))
	equal(got(things.UpdateOne(c.ctx, bson.M{"_id": 1}, update, some...)).MatchedCount, int64(1))
	var found bson.M
	must(things.FindOne(c.ctx, bson.M{"_id": 1}).Decode(&found))
	delete(found, "_id")
	return found
}

func numbered(count int) []any {
	documents := make([]any, 0, count)
	for n := 0; n < count; n++ {
		documents = append(documents, bson.D{{Key: "_id", Value: n}, {Key: "group", Value: n % 10}, {Key: "odd", Value: n % 2}})
	}
	return documents
}

func bulkError(c *testContext, ordered bool, name string) ([]int, int64) {
	documents := []any{}
	for _, id := range []int{1, 2, 1, 3, 2, 4} {
		documents = append(documents, bson.M{"_id": id})
	}
	_, err := c.db.Collection(name).InsertMany(c.ctx, documents, options.InsertMany().SetOrdered(ordered))
	bulk, is := err.(mongo.BulkWriteException)
	if !is {
		fail("%T: %v", err, err)
	}
	at := []int{}
	for _, one := range bulk.WriteErrors {
		equal(one.Code, 11000)
		at = append(at, one.Index)
	}
	return at, got(c.db.Collection(name).CountDocuments(c.ctx, bson.M{}))
}

var documentChecks = []check{
	{"connect", func(c *testContext) {
		must(c.client.Ping(c.ctx, nil))
		var hello struct {
			IsWritablePrimary bool
			MaxWireVersion    int
		}
		must(c.client.Database("admin").RunCommand(c.ctx, bson.M{"hello": 1}).Decode(&hello))
		if hello.MaxWireVersion < 9 {
			fail("%v", hello)
		}
	}},
	{"server-version", func(c *testContext) {
		var info struct {
			Version      string
			VersionArray []int
		}
		must(c.client.Database("admin").RunCommand(c.ctx, bson.M{"buildInfo": 1}).Decode(&info))
		equal(len(info.VersionArray), 4)
	}},
	{"insert-one", func(c *testContext) {
		result := got(c.db.Collection("insert").InsertOne(c.ctx, bson.M{"a": 1}))
		_ = result.InsertedID.(bson.ObjectID)
		equal(c.db.Collection("insert").FindOne(c.ctx, bson.M{"_id": result.InsertedID}).Err(), nil)
		equal(c.db.Collection("insert").FindOne(c.ctx, bson.M{"_id": "nobody"}).Err(), mongo.ErrNoDocuments)
	}},
	{"insert-many", func(c *testContext) {
		equal(len(got(c.db.Collection("many").InsertMany(c.ctx, numbered(2500))).InsertedIDs), 2500)
		equal(got(c.db.Collection("many").CountDocuments(c.ctx, bson.M{})), int64(2500))
	}},
	{"insert-large", func(c *testContext) {
		large := strings.Repeat("x", 15*1024*1024)
		got(c.db.Collection("large").InsertOne(c.ctx, bson.M{"_id": 0, "large": large}))
		var found struct{ Large string }
		must(c.db.Collection("large").FindOne(c.ctx, bson.M{"_id": 0}).Decode(&found))
		equal(len(found.Large), len(large))
	}},
	{"bson-types", func(c *testContext) {
		document := bson.D{
			{Key: "_id", Value: "types"}, {Key: "int", Value: int32(7)}, {Key: "long", Value: int64(1 << 40)},
			{Key: "double", Value: -1.5}, {Key: "decimal", Value: got(bson.ParseDecimal128("1.10"))},
			{Key: "date", Value: bson.DateTime(1582979415123)}, {Key: "binary", Value: bson.Binary{Data: []byte{0, 1, 255}}},
			{Key: "regex", Value: bson.Regex{Pattern: "^a", Options: "i"}}, {Key: "min", Value: bson.MinKey{}},
			{Key: "stamp", Value: bson.Timestamp{T: 1600000000, I: 7}}, {Key: "null", Value: nil},
			{Key: "nested", Value: bson.D{{Key: "array", Value: bson.A{int32(1), bson.D{{Key: "x", Value: true}}}}}},
		}
		got(c.db.Collection("types").InsertOne(c.ctx, document))
		var found bson.D
		must(c.db.Collection("types").FindOne(c.ctx, bson.M{"_id": "types"}).Decode(&found))
		equal(found, document)
	}},
	{"update-operators", func(c *testContext) {
		update := bson.M{"$set": bson.M{"b.c": 2}, "$inc": bson.M{"a": 2}, "$unset": bson.M{"d": ""}, "$mul": bson.M{"t": 3}}
		equal(after(c, bson.M{"a": 1, "d": 1}, update), bson.M{"a": int32(3), "b": bson.D{{Key: "c", Value: int32(2)}}, "t": int32(0)})
		update = bson.M{"$min": bson.M{"a": 3}, "$max": bson.M{"b": 7}, "$rename": bson.M{"o": "n"}}
		equal(after(c, bson.M{"a": 5, "b": 5, "o": 1}, update), bson.M{"a": int32(3), "b": int32(7), "n": int32(1)})
	}},
	{"update-arrays", func(c *testContext) {
		update := bson.M{"$push": bson.M{"a": bson.D{{Key: "$each", Value: bson.A{5, 1}}, {Key: "$sort", Value: -1}, {Key: "$slice", Value: 3}}}}
		equal(after(c, bson.M{"a": bson.A{3, 4}}, update), bson.M{"a": bson.A{int32(5), int32(4), int32(3)}})
		filters := options.UpdateOne().SetArrayFilters([]any{bson.M{"e": bson.M{"$gte": 2}}})
		equal(after(c, bson.M{"a": bson.A{1, 2}}, bson.M{"$set": bson.M{"a.$[e]": 9}}, filters), bson.M{"a": bson.A{int32(1), int32(9)}})
		equal(after(c, bson.M{"a": bson.A{1, 2}}, bson.M{"$pull": bson.M{"a": 1}}), bson.M{"a": bson.A{int32(2)}})
	}},
	{"update-many", func(c *testContext) {
		result := got(c.db.Collection("many").UpdateMany(c.ctx, bson.M{"group": 3}, bson.M{"$set": bson.M{"seen": true}}))
		equal([]int64{result.MatchedCount, result.ModifiedCount}, []int64{250, 250})
	}},
	{"update-upsert", func(c *testContext) {
		result := got(c.db.Collection("upserts").UpdateOne(c.ctx, bson.M{"_id": "key"}, bson.M{"$setOnInsert": bson.M{"a": 1}}, options.UpdateOne().SetUpsert(true)))
		equal([]any{result.UpsertedID, result.UpsertedCount}, []any{"key", int64(1)})
	}},
	{"update-pipeline", func(c *testContext) {
		pipeline := mongo.Pipeline{{{Key: "$set", Value: bson.M{"sum": bson.M{"$add": bson.A{"$a", "$b"}}}}}, {{Key: "$unset", Value: "b"}}}
		equal(after(c, bson.M{"a": 1, "b": 2}, pipeline), bson.M{"a": int32(1), "sum": int32(3)})
	}},
	{"replace", func(c *testContext) {
		replaced := c.db.Collection("replaced")
		equal(got(replaced.ReplaceOne(c.ctx, bson.M{"_id": int32(1)}, bson.M{"a": 1}, options.Replace().SetUpsert(true))).UpsertedID, int32(1))
		equal(got(replaced.ReplaceOne(c.ctx, bson.M{"a": 1}, bson.M{"b": 2})).ModifiedCount, int64(1))
	}},
	{"find-and-modify", func(c *testContext) {
		jobs := c.db.Collection("jobs")
		var found bson.M
		some := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
		must(jobs.FindOneAndUpdate(c.ctx, bson.M{"_id": 9}, bson.M{"$inc": bson.M{"n": 1}}, some).Decode(&found))
		equal(found, bson.M{"_id": int32(9), "n": int32(1)})
		must(jobs.FindOneAndReplace(c.ctx, bson.M{"_id": 9}, bson.M{"b": 1}).Err())
		must(jobs.FindOneAndDelete(c.ctx, bson.M{"b": 1}).Err())
		equal(jobs.FindOneAndDelete(c.ctx, bson.M{"b": 1}).Err(), mongo.ErrNoDocuments)
	}},
	{"delete", func(c *testContext) {
		deleted := c.db.Collection("deleted")
		got(deleted.InsertMany(c.ctx, numbered(10)))
		equal(got(deleted.DeleteOne(c.ctx, bson.M{"odd": 1})).DeletedCount, int64(1))
		equal(got(deleted.DeleteMany(c.ctx, bson.M{"odd": 1})).DeletedCount, int64(4))
	}},
	{"bulk-ordered", func(c *testContext) {
		result := got(c.db.Collection("bulk").BulkWrite(c.ctx, []mongo.WriteModel{
			mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 1}),
			mongo.NewInsertOneModel().SetDocument(bson.M{"_id": 2}),
			mongo.NewUpdateManyModel().SetFilter(bson.M{}).SetUpdate(bson.M{"$set": bson.M{"b": 1}}),
			mongo.NewReplaceOneModel().SetFilter(bson.M{"_id": 3}).SetReplacement(bson.M{"c": 1}).SetUpsert(true),
			mongo.NewDeleteManyModel().SetFilter(bson.M{"_id": 2}),
		}))
		equal([]int64{result.InsertedCount, result.ModifiedCount, result.UpsertedCount, result.DeletedCount}, []int64{2, 2, 1, 1})
	}},
	{"bulk-ordered-error", func(c *testContext) {
		at, count := bulkError(c, true, "bulk_ordered")
		equal(at, []int{2})
		equal(count, int64(2))
	}},
	{"bulk-unordered-error", func(c *testContext) {
		at, count := bulkError(c, false, "bulk_unordered")
		equal(at, []int{2, 4})
		equal(count, int64(4))
	}},
	{"duplicate-key", func(c *testContext) {
		people := c.db.Collection("people")
		got(people.Indexes().CreateOne(c.ctx, mongo.IndexModel{Keys: bson.D{{Key: "name", Value: 1}}, Options: options.Index().SetUnique(true)}))
		got(people.InsertOne(c.ctx, bson.M{"name": "A"}))
		_, err := people.InsertOne(c.ctx, bson.M{"name": "A"})
		if !mongo.IsDuplicateKeyError(err) || !strings.Contains(err.Error(), `index: name_1 dup key: { name: "A" }`) {
			fail("%v", err)
		}
	}},
	{"write-concern", func(c *testContext) {
		yes := true
		journaled := c.db.Collection("concerns", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: 1, Journal: &yes}))
		got(journaled.InsertOne(c.ctx, bson.M{"_id": 1}))
		silent := c.db.Collection("concerns", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
		if result, err := silent.InsertOne(c.ctx, bson.M{"_id": 2}); err != nil || result.Acknowledged {
			fail("%v %v", result, err)
		}
		for start := time.Now(); got(journaled.CountDocuments(c.ctx, bson.M{})) < 2; {
			if time.Since(start) > 10*time.Second {
				fail("the unacknowledged write never came")
			}
		}
	}},
	{"write-concern-impossible", func(c *testContext) {
		two := c.db.Collection("concerns", options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: 2}))
		_, err := two.InsertOne(c.ctx, bson.M{"_id": 3})
		fails(2, err)
	}},
}
