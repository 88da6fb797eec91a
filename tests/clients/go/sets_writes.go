package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

var setWriteChecks = []check{
	{"set-write-concern", func(c *testContext) {
		yes := true
		for n, concern := range []writeconcern.WriteConcern{
			{W: 1}, {W: 2}, {W: 3}, {W: "majority"}, {W: "dcs"}, {W: 1, Journal: &yes}, {W: 3, Journal: &yes},
		} {
			got(set.things(options.Collection().SetWriteConcern(&concern)).InsertOne(c.ctx, bson.M{"_id": fmt.Sprintf("w-%d", n)}))
		}
		primary, secondaries := set.whole()
		for _, address := range append(secondaries, primary) {
			direct := got(mongo.Connect(options.Client().ApplyURI("mongodb://" + address + "/?directConnection=true")))
			must(direct.Database("go").Collection("things").FindOne(c.ctx, bson.M{"_id": "w-6"}).Err())
			_ = direct.Disconnect(c.ctx)
		}
	}},
	{"set-write-concern-unsatisfiable", func(c *testContext) {
		for concern, wanted := range map[any]struct {
			code int
			name string
		}{4: {100, "UnsatisfiableWriteConcern"}, "nowhere": {79, "UnknownReplWriteConcern"}} {
			id := fmt.Sprintf("unsatisfiable-%v", concern)
			_, err := set.things(writing(concern)).InsertOne(c.ctx, bson.M{"_id": id})
			fails(wanted.code, err)
			equal(writeConcernError(err).Name, wanted.name)
			_, err = set.things(writing(concern)).UpdateOne(c.ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"n": 1}})
			fails(wanted.code, err)
			// The write stays.
			must(set.things().FindOne(c.ctx, bson.M{"_id": id}).Err())
		}
	}},
	{"set-write-concern-timeout", func(c *testContext) {
		cluster(c, "pause", "secondary", "1")
		resume := func() { cluster(c, "resume", "all") }
		defer resume()
		late := bson.D{{Key: "insert", Value: "things"}, {Key: "documents", Value: bson.A{bson.M{"_id": "late"}}},
			{Key: "writeConcern", Value: bson.M{"w": 3, "wtimeout": 300}}}
		err := set.Database("go").RunCommand(c.ctx, late).Err()
		fails(64, err)
		var told struct{ Wtimeout bool }
		must(bson.Unmarshal(writeConcernError(err).Details, &told))
		equal(told.Wtimeout, true)
		// The write stays, and a majority can still be had.
		got(set.things(writing("majority")).UpdateOne(c.ctx, bson.M{"_id": "late"}, bson.M{"$inc": bson.M{"n": 1}}))
		resume()
		got(set.things(writing(3)).DeleteOne(c.ctx, bson.M{"_id": "late"}))
		set.whole()
	}},
	{"set-retryable-before", func(c *testContext) {
		onceOnly(c, 1, "failCommand", bson.M{"closeConnection": true})
		onceOnly(c, 2, "failCommand", bson.M{"errorCode": 91, "errorLabels": bson.A{"RetryableWriteError"}})
		failPoint(c, "failCommand", bson.M{"failCommands": bson.A{"insert"}, "closeConnection": true})
		other := watch(c, options.Client().SetRetryWrites(false))
		defer func() { _ = other.Disconnect(c.ctx) }()
		if _, err := other.things().InsertOne(c.ctx, bson.M{"_id": "not sent again"}); !mongo.IsNetworkError(err) {
			fail("it was sent again: %v", err)
		}
		equal(got(set.things().CountDocuments(c.ctx, bson.M{"_id": "not sent again"})), int64(0))
	}},
	{"set-retryable-after", func(c *testContext) {
		onceOnly(c, 3, "onPrimaryTransactionalWrite", bson.M{})
		made := bson.M{"code": 91, "codeName": "ShutdownInProgress", "errmsg": "made up"}
		onceOnly(c, 4, "failCommand", bson.M{"writeConcernError": made, "errorLabels": bson.A{"RetryableWriteError"}})
	}},
	{"set-retryable-reads", func(c *testContext) {
		set.whole()
		for name, read := range map[string]func() error{
			"find":      func() error { return set.things().FindOne(c.ctx, bson.M{"_id": 2}).Err() },
			"distinct":  func() error { return set.things().Distinct(c.ctx, "_id", bson.M{}).Err() },
			"aggregate": func() error { _, err := set.things().CountDocuments(c.ctx, bson.M{}); return err },
		} {
			failPoint(c, "failCommand", bson.M{"failCommands": bson.A{name}, "closeConnection": true})
			set.asked("")
			must(read())
			equal(len(set.asked(name)), 2)
		}
	}},
	{"set-step-down", func(c *testContext) {
		failover(c, "stepped-down", func() {
			err := set.Database("admin").RunCommand(c.ctx, bson.D{{Key: "replSetStepDown", Value: 20}, {Key: "secondaryCatchUpPeriodSecs", Value: 10}}).Err()
			if err != nil && !mongo.IsNetworkError(err) {
				fail("%v", err)
			}
		})
	}},
	{"set-kill", func(c *testContext) {
		failover(c, "killed", func() { cluster(c, "kill", "--signal", "KILL", "primary") })
		cluster(c, "start")
		set.whole()
		got(set.things(writing(3)).InsertOne(c.ctx, bson.M{"_id": "all are back"}))
	}},
}

// failPoint sets one for a single time.
func failPoint(c *testContext, name string, data bson.M) {
	command := bson.D{{Key: "configureFailPoint", Value: name}, {Key: "mode", Value: bson.M{"times": 1}}, {Key: "data", Value: data}}
	must(set.Database("admin").RunCommand(c.ctx, command).Err())
}

// onceOnly does each kind of write, hit once by the fail point: sent twice under one number, done once.
func onceOnly(c *testContext, n int, point string, data bson.M) {
	kinds := set.Database("go").Collection("kinds")
	more := bson.M{"$inc": bson.M{"n": 1}}
	id := func(prefix string) bson.M { return bson.M{"_id": fmt.Sprintf("%s-%d", prefix, n)} }
	got(kinds.InsertOne(c.ctx, id("before")))
	for _, one := range []struct {
		command string
		write   func() error
	}{
		{"insert", func() error { _, err := kinds.InsertOne(c.ctx, bson.M{"_id": n, "n": 0}); return err }},
		{"insert", func() error { _, err := kinds.InsertMany(c.ctx, []any{id("a"), id("b"), id("c")}); return err }},
		{"update", func() error { _, err := kinds.UpdateOne(c.ctx, bson.M{"_id": n}, more); return err }},
		{"findAndModify", func() error { return kinds.FindOneAndUpdate(c.ctx, bson.M{"_id": n}, more).Err() }},
		{"update", func() error {
			_, err := kinds.UpdateOne(c.ctx, id("up"), more, options.UpdateOne().SetUpsert(true))
			return err
		}},
		{"delete", func() error { _, err := kinds.DeleteOne(c.ctx, id("a")); return err }},
		{"update", func() error {
			_, err := kinds.BulkWrite(c.ctx, []mongo.WriteModel{
				mongo.NewUpdateOneModel().SetFilter(bson.M{"_id": n}).SetUpdate(more), mongo.NewDeleteOneModel().SetFilter(id("b")),
			})
			return err
		}},
	} {
		own := bson.M{}
		for name, value := range data {
			own[name] = value
		}
		if point == "failCommand" {
			own["failCommands"] = bson.A{one.command}
		}
		failPoint(c, point, own)
		set.asked("")
		must(one.write())
		again := set.asked(one.command)
		if len(again) != 2 || again[0].number != again[1].number || again[0].number == 0 {
			fail("%s was sent as %v", one.command, again)
		}
	}
	equal(got(kinds.CountDocuments(c.ctx, bson.M{"_id": n, "n": 3})), int64(1))
	equal(got(kinds.CountDocuments(c.ctx, bson.M{"_id": id("up")["_id"], "n": 1})), int64(1))
	left := bson.A{id("a")["_id"], id("b")["_id"], id("c")["_id"]}
	equal(got(kinds.CountDocuments(c.ctx, bson.M{"_id": bson.M{"$in": left}})), int64(1))
}

// writer writes one thing after the other until it is told to stop, and keeps what was acknowledged.
type writer struct {
	lock         sync.Mutex
	acknowledged map[string]bool
	counted      int
	failed       []error
	tried        int
	stop         context.CancelFunc
	done         chan struct{}
}

func (w *writer) run(ctx, stopped context.Context, rounds *mongo.Collection, name string) {
	defer close(w.done)
	for stopped.Err() == nil {
		id := fmt.Sprintf("%s-%d", name, w.tried)
		w.tried++
		_, err := rounds.InsertOne(ctx, bson.M{"_id": id, "round": name})
		if err == nil {
			w.lock.Lock()
			w.acknowledged[id] = true
			w.lock.Unlock()
			_, err = rounds.UpdateOne(ctx, bson.M{"_id": name}, bson.M{"$inc": bson.M{"n": 1}}, options.UpdateOne().SetUpsert(true))
		}
		w.lock.Lock()
		if err == nil {
			w.counted++
		} else {
			w.failed = append(w.failed, err)
		}
		w.lock.Unlock()
	}
}

func (w *writer) count() int {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.counted
}

func (w *writer) waitForMore() {
	goal := w.count() + 20
	until("20 more writes", func() bool { return w.count() >= goal })
}

// failover breaks the primary while writes go on; the driver follows, and each write is there once.
func failover(c *testContext, name string, fault func()) {
	before, _ := set.whole()
	rounds := set.Database("go").Collection("rounds", writing("majority"))
	stopped, stop := context.WithCancel(c.ctx)
	w := &writer{acknowledged: map[string]bool{}, stop: stop, done: make(chan struct{})}
	go w.run(c.ctx, stopped, rounds, name)
	defer func() {
		stop()
		<-w.done
		w.check(c, rounds, name)
	}()
	w.waitForMore()
	set.lock.Lock()
	set.changes = nil
	set.lock.Unlock()
	fault()
	now := ""
	until("another primary", func() bool {
		now, _ = set.members()
		return now != "" && now != before
	})
	w.waitForMore()
	if !set.changed(now, "", "RSPrimary") || !set.changed(before, "RSPrimary", "") {
		fail("events: %v", set.changes)
	}
}

func (w *writer) check(c *testContext, rounds *mongo.Collection, name string) {
	cursor, err := rounds.Find(c.ctx, bson.M{"round": name})
	there := ids(all(c, cursor, err))
	found := 0
	for _, id := range there {
		if w.acknowledged[id.(string)] {
			found++
		}
	}
	if found != len(w.acknowledged) || len(there) > found+len(w.failed) {
		fail("%d of %d acknowledged inserts, %d documents, failed: %v", found, len(w.acknowledged), len(there), w.failed)
	}
	var sum struct{ N int }
	if err := rounds.FindOne(c.ctx, bson.M{"_id": name}).Decode(&sum); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		fail("%v", err)
	}
	if sum.N < w.counted || sum.N > w.counted+len(w.failed) {
		fail("counted to %d in %d steps, failed: %v", sum.N, w.counted, w.failed)
	}
}
