package main

import (
	"context"
	"sort"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func d(key string, value any) bson.D { return bson.D{{Key: key, Value: value}} }

func stages(plan bson.M) []string {
	found := []string{}
	for plan != nil {
		found = append(found, plan["stage"].(string))
		next, is := plan["inputStage"].(bson.M)
		if !is {
			break
		}
		plan = next
	}
	return found
}

func explained(c *testContext, filter bson.D) (bson.M, bson.M) {
	command := bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: "plans"}, {Key: "filter", Value: filter}}}}
	raw := got(c.db.RunCommand(c.ctx, command).Raw())
	var reply struct {
		QueryPlanner   struct{ WinningPlan bson.M }
		ExecutionStats bson.M
	}
	decoder := bson.NewDecoder(bson.NewDocumentReader(newReader(raw)))
	decoder.DefaultDocumentM()
	must(decoder.Decode(&reply))
	return reply.QueryPlanner.WinningPlan, reply.ExecutionStats
}

var queryChecks = []check{
	{"find-filters", func(c *testContext) {
		things := c.db.Collection("filters")
		got(things.InsertMany(c.ctx, []any{
			bson.M{"_id": 1, "n": 1, "tags": bson.A{"a", "b"}, "s": "apple"},
			bson.M{"_id": 2, "n": 2.5, "tags": bson.A{"b"}, "s": "Banana"},
			bson.M{"_id": 3, "n": int64(3), "tags": bson.A{}, "s": nil},
		}))
		for _, one := range []struct {
			filter bson.D
			wanted []any
		}{
			{d("n", d("$gt", 1)), []any{int32(2), int32(3)}},
			{d("n", d("$in", bson.A{1, 3})), []any{int32(1), int32(3)}},
			{d("s", bson.Regex{Pattern: "^b", Options: "i"}), []any{int32(2)}},
			{d("tags", d("$size", 0)), []any{int32(3)}},
			{d("$or", bson.A{d("n", 1), d("s", nil)}), []any{int32(1), int32(3)}},
			{d("n", d("$type", "double")), []any{int32(2)}},
		} {
			cursor, err := things.Find(c.ctx, one.filter, options.Find().SetSort(d("_id", 1)))
			equal(ids(all(c, cursor, err)), one.wanted)
		}
	}},
	{"find-sort-skip-limit", func(c *testContext) {
		some := options.Find().SetSort(bson.D{{Key: "group", Value: -1}, {Key: "_id", Value: 1}}).SetSkip(3).SetLimit(2)
		cursor, err := c.db.Collection("many").Find(c.ctx, bson.M{}, some)
		equal(ids(all(c, cursor, err)), []any{int32(39), int32(49)})
	}},
	{"find-projection", func(c *testContext) {
		cursor, err := c.db.Collection("many").Find(c.ctx, d("_id", 5), options.Find().SetProjection(bson.M{"_id": 0, "group": 1}))
		equal(all(c, cursor, err), []bson.M{{"group": int32(5)}})
	}},
	{"count-distinct", func(c *testContext) {
		equal(got(c.db.Collection("many").EstimatedDocumentCount(c.ctx)), int64(2500))
		equal(got(c.db.Collection("many").CountDocuments(c.ctx, bson.M{"group": 3}, options.Count().SetSkip(240))), int64(10))
		var values []int
		must(c.db.Collection("many").Distinct(c.ctx, "group", bson.M{"_id": bson.M{"$lt": 3}}).Decode(&values))
		equal(values, []int{0, 1, 2})
	}},
	{"cursor-batches", func(c *testContext) {
		names := map[string]int{}
		monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { names[e.CommandName]++ }}
		client := got(mongo.Connect(options.Client().ApplyURI(c.uri).SetMonitor(monitor)))
		defer func() { _ = client.Disconnect(c.ctx) }()
		cursor, err := client.Database("go").Collection("many").Find(c.ctx, bson.M{}, options.Find().SetBatchSize(600).SetSort(d("_id", 1)))
		found := all(c, cursor, err)
		equal(len(found), 2500)
		equal(found[2499]["_id"], int32(2499))
		equal([]int{names["find"], names["getMore"]}, []int{1, 4})
	}},
	{"cursor-kill", func(c *testContext) {
		cursor := got(c.db.Collection("many").Find(c.ctx, bson.M{}, options.Find().SetBatchSize(10)))
		number := cursor.ID()
		must(cursor.Close(c.ctx))
		fails(43, c.db.RunCommand(c.ctx, bson.D{{Key: "getMore", Value: number}, {Key: "collection", Value: "many"}}).Err())
	}},
	{"capped-tailable", func(c *testContext) {
		must(c.db.CreateCollection(c.ctx, "capped", options.CreateCollection().SetCapped(true).SetSizeInBytes(1<<20)))
		capped := c.db.Collection("capped")
		got(capped.InsertOne(c.ctx, bson.M{"_id": 1}))
		cursor := got(capped.Find(c.ctx, bson.M{}, options.Find().SetCursorType(options.TailableAwait).SetMaxAwaitTime(2*time.Second)))
		defer func() { _ = cursor.Close(c.ctx) }()
		equal(cursor.Next(c.ctx), true)
		got(capped.InsertOne(c.ctx, bson.M{"_id": 2}))
		equal(cursor.Next(c.ctx), true)
	}},
	{"indexes", func(c *testContext) {
		indexes := c.db.Collection("indexed").Indexes()
		names := got(indexes.CreateMany(c.ctx, []mongo.IndexModel{
			{Keys: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: -1}}},
			{Keys: d("e", "hashed")},
			{Keys: d("t", 1), Options: options.Index().SetExpireAfterSeconds(3600)},
			{Keys: d("d", 1), Options: options.Index().SetPartialFilterExpression(d("d", d("$gt", 5))).SetSparse(false)},
		}))
		equal(names, []string{"a_1_b_-1", "e_hashed", "t_1", "d_1"})
		equal(len(got(indexes.ListSpecifications(c.ctx))), 5)
		must(indexes.DropOne(c.ctx, "t_1"))
		fails(27, indexes.DropOne(c.ctx, "t_1"))
		must(indexes.DropAll(c.ctx))
		equal(len(got(indexes.ListSpecifications(c.ctx))), 1)
	}},
	{"explain", func(c *testContext) {
		documents := []any{}
		for n := 0; n < 500; n++ {
			documents = append(documents, bson.M{"a": n % 50})
		}
		got(c.db.Collection("plans").InsertMany(c.ctx, documents))
		got(c.db.Collection("plans").Indexes().CreateOne(c.ctx, mongo.IndexModel{Keys: d("a", 1)}))
		plan, figures := explained(c, d("a", 7))
		equal(stages(plan), []string{"FETCH", "IXSCAN"})
		equal(figures["nReturned"], int32(10))
		plan, _ = explained(c, d("b", 7))
		equal(stages(plan), []string{"COLLSCAN"})
	}},
	{"sessions", func(c *testContext) {
		must(c.client.UseSession(c.ctx, func(ctx context.Context) error {
			_, err := c.db.Collection("sessions").InsertOne(ctx, bson.M{"_id": 1})
			return err
		}))
	}},
	{"transactions-refused", func(c *testContext) {
		session := got(c.client.StartSession())
		defer session.EndSession(c.ctx)
		_, err := session.WithTransaction(c.ctx, func(ctx context.Context) (any, error) {
			return c.db.Collection("sessions").InsertOne(ctx, bson.M{"_id": 2})
		})
		fails(20, err)
	}},
	{"aggregate-group", func(c *testContext) {
		pipeline := mongo.Pipeline{d("$group", bson.M{"_id": "$group", "n": bson.M{"$sum": 1}}), d("$sort", bson.M{"_id": 1}), d("$limit", 2)}
		cursor, err := c.db.Collection("many").Aggregate(c.ctx, pipeline)
		equal(all(c, cursor, err), []bson.M{{"_id": int32(0), "n": int32(250)}, {"_id": int32(1), "n": int32(250)}})
	}},
	{"aggregate-lookup-unwind", func(c *testContext) {
		got(c.db.Collection("names").InsertOne(c.ctx, bson.M{"_id": 3, "name": "three"}))
		pipeline := mongo.Pipeline{
			d("$match", bson.M{"_id": 13}),
			d("$lookup", bson.D{{Key: "from", Value: "names"}, {Key: "localField", Value: "group"}, {Key: "foreignField", Value: "_id"}, {Key: "as", Value: "names"}}),
			d("$unwind", "$names"),
			d("$project", bson.M{"name": "$names.name"}),
		}
		cursor, err := c.db.Collection("many").Aggregate(c.ctx, pipeline)
		equal(all(c, cursor, err), []bson.M{{"_id": int32(13), "name": "three"}})
	}},
	{"aggregate-facet", func(c *testContext) {
		pipeline := mongo.Pipeline{d("$facet", bson.M{"all": bson.A{d("$count", "n")}})}
		cursor, err := c.db.Collection("many").Aggregate(c.ctx, pipeline)
		equal(all(c, cursor, err), []bson.M{{"all": bson.A{d("n", int32(2500))}}})
	}},
	{"aggregate-out", func(c *testContext) {
		cursor, err := c.db.Collection("many").Aggregate(c.ctx, mongo.Pipeline{d("$match", bson.M{"group": 1}), d("$out", "written")})
		all(c, cursor, err)
		equal(got(c.db.Collection("written").CountDocuments(c.ctx, bson.M{})), int64(250))
	}},
	{"aggregate-merge", func(c *testContext) {
		cursor, err := c.db.Collection("many").Aggregate(c.ctx, mongo.Pipeline{d("$match", bson.M{"group": 2}), d("$merge", bson.M{"into": "written"})})
		all(c, cursor, err)
		equal(got(c.db.Collection("written").CountDocuments(c.ctx, bson.M{})), int64(500))
	}},
	{"list-collections", func(c *testContext) {
		names := got(c.db.ListCollectionNames(c.ctx, bson.M{"name": bson.M{"$in": bson.A{"many", "capped", "absent"}}}))
		sort.Strings(names)
		equal(names, []string{"capped", "many"})
	}},
	{"list-databases", func(c *testContext) {
		equal(got(c.client.ListDatabaseNames(c.ctx, bson.M{"name": "go"})), []string{"go"})
	}},
	{"rename", func(c *testContext) {
		got(c.db.Collection("before").InsertOne(c.ctx, bson.M{"_id": 1}))
		must(c.client.Database("admin").RunCommand(c.ctx, bson.D{{Key: "renameCollection", Value: "go.before"}, {Key: "to", Value: "go.after"}}).Err())
		equal(got(c.db.Collection("after").CountDocuments(c.ctx, bson.M{})), int64(1))
	}},
	{"drop", func(c *testContext) {
		must(c.db.Collection("after").Drop(c.ctx))
		must(c.db.Collection("after").Drop(c.ctx))
		must(c.client.Database("go_other").Drop(c.ctx))
	}},
	{"validation", func(c *testContext) {
		must(c.db.CreateCollection(c.ctx, "valid", options.CreateCollection().SetValidator(bson.M{"n": bson.M{"$gte": 0}})))
		_, err := c.db.Collection("valid").InsertOne(c.ctx, bson.M{"n": -1})
		fails(121, err)
	}},
	{"error-unknown-command", func(c *testContext) {
		fails(59, c.db.RunCommand(c.ctx, d("noSuchCommand", 1)).Err())
	}},
	{"error-update", func(c *testContext) {
		_, err := c.db.Collection("many").UpdateOne(c.ctx, bson.M{"_id": 1}, bson.M{"$nothing": bson.M{"a": 1}})
		fails(9, err)
	}},
	{"error-max-time", func(c *testContext) {
		// Each of the 2500 looks at all 2500: far more than 50 ms of work.
		match := d("$match", d("$expr", d("$eq", bson.A{"$text", "$$mine"})))
		lookup := bson.D{{Key: "from", Value: "many"}, {Key: "let", Value: d("mine", "$group")}, {Key: "pipeline", Value: bson.A{match}}, {Key: "as", Value: "x"}}
		command := bson.D{{Key: "aggregate", Value: "many"}, {Key: "pipeline", Value: bson.A{d("$lookup", lookup)}}, {Key: "cursor", Value: bson.M{"batchSize": 2500}}, {Key: "maxTimeMS", Value: 50}}
		// The driver would put a maxTimeMS of its own beside this one for a context that ends.
		fails(50, c.db.RunCommand(context.Background(), command).Err())
	}},
}
