package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
	"go.mongodb.org/mongo-driver/v2/tag"
)

const patience = 60 * time.Second

// sent is a command that went to a member.
type sent struct {
	name, address string
	number        int64
}

// change is a server that became something else.
type change struct{ address, before, after string }

// watched is a client that knows one member of the set, and what it saw.
type watched struct {
	*mongo.Client
	lock     sync.Mutex
	topology event.TopologyDescription
	sent     []sent
	changes  []change
}

func watch(c *testContext, some *options.ClientOptions) *watched {
	w := &watched{}
	started := func(_ context.Context, one *event.CommandStartedEvent) {
		number, _ := one.Command.Lookup("txnNumber").AsInt64OK()
		address, _, _ := strings.Cut(one.ConnectionID, "[")
		w.lock.Lock()
		defer w.lock.Unlock()
		w.sent = append(w.sent, sent{one.CommandName, address, number})
	}
	server := &event.ServerMonitor{
		TopologyDescriptionChanged: func(one *event.TopologyDescriptionChangedEvent) {
			w.lock.Lock()
			defer w.lock.Unlock()
			w.topology = one.NewDescription
		},
		ServerDescriptionChanged: func(one *event.ServerDescriptionChangedEvent) {
			if one.PreviousDescription.Kind != one.NewDescription.Kind {
				w.lock.Lock()
				defer w.lock.Unlock()
				w.changes = append(w.changes, change{one.Address.String(), one.PreviousDescription.Kind, one.NewDescription.Kind})
			}
		},
	}
	all := options.Client().ApplyURI(c.uri + "?replicaSet=replset").SetHeartbeatInterval(500 * time.Millisecond)
	all.SetServerSelectionTimeout(patience).SetMonitor(&event.CommandMonitor{Started: started}).SetServerMonitor(server)
	w.Client = got(mongo.Connect(all, some))
	return w
}

func until(what string, look func() bool) {
	for end := time.Now().Add(patience); !look(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fail("in vain: %s", what)
		}
	}
}

// members are the primary's and the secondaries' addresses, as the driver knows them now.
func (w *watched) members() (primary string, secondaries []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, one := range w.topology.Servers {
		switch one.Kind {
		case "RSPrimary":
			primary = one.Addr.String()
		case "RSSecondary":
			secondaries = append(secondaries, one.Addr.String())
		}
	}
	return primary, secondaries
}

// whole waits until the driver knows the primary and two secondaries.
func (w *watched) whole() (primary string, secondaries []string) {
	until("a primary and two secondaries", func() bool {
		primary, secondaries = w.members()
		return primary != "" && len(secondaries) == 2
	})
	return primary, secondaries
}

// asked are the members that a command went to, or all of its sendings; what was sent before is forgotten.
func (w *watched) asked(name string) []sent {
	w.lock.Lock()
	defer w.lock.Unlock()
	found := []sent{}
	for _, one := range w.sent {
		if one.name == name {
			found = append(found, one)
		}
	}
	w.sent = nil
	return found
}

func (w *watched) changed(address, before, after string) bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	for _, one := range w.changes {
		if one.address == address && (before == "" || one.before == before) && (after == "" || one.after == after) {
			return true
		}
	}
	return false
}

// things is the collection of most checks, with options of its own.
func (w *watched) things(some ...options.Lister[options.CollectionOptions]) *mongo.Collection {
	return w.Database("go").Collection("things", some...)
}

func reading(preference *readpref.ReadPref) *options.CollectionOptionsBuilder {
	return options.Collection().SetReadPreference(preference)
}

func writing(w any) *options.CollectionOptionsBuilder {
	return options.Collection().SetWriteConcern(&writeconcern.WriteConcern{W: w})
}

// cluster runs `fathom cluster`, which must succeed.
func cluster(c *testContext, action string, arguments ...string) {
	arguments = append([]string{"cluster", action, "--dir", c.extra}, arguments...)
	if text, err := exec.CommandContext(c.ctx, os.Getenv("FATHOM"), arguments...).CombinedOutput(); err != nil {
		fail("%v: %s", err, text)
	}
}

// config is the set's configuration.
func (w *watched) config(c *testContext) (config struct {
	Config struct {
		Version int32
		Members []struct {
			Host string
			Tags map[string]string
		}
	}
}) {
	must(w.Database("admin").RunCommand(c.ctx, bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&config))
	return config
}

func contains(all []string, one string) bool {
	for _, other := range all {
		if other == one {
			return true
		}
	}
	return false
}

var set *watched

var setChecks = append([]check{
	{"set-topology", func(c *testContext) {
		set = watch(c, options.Client())
		must(set.Ping(c.ctx, nil))
		primary, _ := set.whole()
		config := set.config(c).Config
		equal([]string{set.topology.Kind, set.topology.SetName}, []string{"ReplicaSetWithPrimary", "replset"})
		for _, member := range config.Members {
			found := false
			for _, server := range set.topology.Servers {
				if server.Addr.String() != member.Host {
					continue
				}
				found = true
				for name, value := range member.Tags {
					if !server.Tags.Contains(name, value) {
						fail("%s lacks %s: %s", member.Host, name, value)
					}
				}
				equal(int32(server.SetVersion), config.Version)
				equal([]string{server.CanonicalAddr.String(), server.Primary.String()}, []string{member.Host, primary})
				if server.LastWriteTime.IsZero() || server.SessionTimeoutMinutes == nil || *server.SessionTimeoutMinutes != 30 {
					fail("%+v", server)
				}
				if (server.Kind == "RSPrimary") == server.ElectionID.IsZero() {
					fail("%s has the election id %v", server.Kind, server.ElectionID)
				}
			}
			equal(found, true)
		}
		if !set.changed(primary, "", "RSPrimary") {
			fail("no event of the primary: %v", set.changes)
		}
	}},
	{"set-read-preferences", func(c *testContext) {
		primary, secondaries := set.whole()
		documents := []any{}
		for n := 0; n < 300; n++ {
			documents = append(documents, bson.M{"_id": n})
		}
		got(set.things(writing(3)).InsertMany(c.ctx, documents))
		for _, one := range []struct {
			preference *readpref.ReadPref
			wanted     []string
		}{
			{readpref.Primary(), []string{primary}},
			{readpref.PrimaryPreferred(), []string{primary}},
			{readpref.Secondary(), secondaries},
			{readpref.SecondaryPreferred(), secondaries},
			{readpref.Nearest(), append([]string{primary}, secondaries...)},
		} {
			set.asked("")
			things := set.things(reading(one.preference))
			equal(got(things.CountDocuments(c.ctx, bson.M{})), int64(300))
			cursor, err := things.Find(c.ctx, bson.M{}, options.Find().SetBatchSize(100))
			equal(len(all(c, cursor, err)), 300)
			first := ""
			for _, command := range set.sent {
				if !contains(one.wanted, command.address) {
					fail("%v: %v, and not %v", one.preference, command, one.wanted)
				}
				if command.name == "find" {
					first = command.address
				}
				if command.name == "getMore" {
					equal(command.address, first)
				}
			}
		}
		away := map[string]bool{}
		until("both secondaries are read", func() bool {
			must(set.things(reading(readpref.Secondary())).FindOne(c.ctx, bson.M{}).Err())
			for _, one := range set.asked("find") {
				away[one.address] = true
			}
			return len(away) == 2
		})
	}},
	{"set-tag-sets", func(c *testContext) {
		primary, _ := set.whole()
		rocks := set.config(c).Config.Members[2].Host
		nowhere := tag.Set{{Name: "dc", Value: "nowhere"}}
		for _, one := range []struct {
			preference *readpref.ReadPref
			wanted     string
		}{
			{readpref.Secondary(readpref.WithTags("dc", "west", "engine", "rocksdb")), rocks},
			{readpref.Nearest(readpref.WithTagSets(nowhere, tag.Set{{Name: "engine", Value: "rocksdb"}})), rocks},
			{readpref.SecondaryPreferred(readpref.WithTagSets(nowhere)), primary},
		} {
			set.asked("")
			must(set.things(reading(one.preference)).FindOne(c.ctx, bson.M{"_id": 1}).Err())
			equal(set.asked("find")[0].address, one.wanted)
		}
		other := watch(c, options.Client().SetServerSelectionTimeout(300*time.Millisecond))
		defer func() { _ = other.Disconnect(c.ctx) }()
		err := other.things(reading(readpref.Secondary(readpref.WithTagSets(nowhere)))).FindOne(c.ctx, bson.M{}).Err()
		if err == nil || !strings.Contains(err.Error(), "server selection") {
			fail("read from nowhere: %v", err)
		}
	}},
	{"set-max-staleness", func(c *testContext) {
		_, secondaries := set.whole()
		set.asked("")
		must(set.things(reading(readpref.Secondary(readpref.WithMaxStaleness(90*time.Second)))).FindOne(c.ctx, bson.M{"_id": 1}).Err())
		if address := set.asked("find")[0].address; !contains(secondaries, address) {
			fail("read from %s", address)
		}
		err := set.things(reading(readpref.Secondary(readpref.WithMaxStaleness(5*time.Second)))).FindOne(c.ctx, bson.M{}).Err()
		if err == nil || !strings.Contains(err.Error(), "max staleness") {
			fail("5 seconds were taken: %v", err)
		}
	}},
	{"set-read-concern", func(c *testContext) {
		got(set.things(writing("majority")).InsertOne(c.ctx, bson.M{"_id": "majority"}))
		for _, level := range []string{"local", "available", "majority", "linearizable"} {
			things := set.things(options.Collection().SetReadConcern(&readconcern.ReadConcern{Level: level}))
			must(things.FindOne(c.ctx, bson.M{"_id": "majority"}).Err())
		}
		away := set.things(reading(readpref.Secondary()).SetReadConcern(readconcern.Majority()))
		until("a secondary knows what a majority has", func() bool {
			return away.FindOne(c.ctx, bson.M{"_id": "majority"}).Err() == nil
		})
		lone := set.things(reading(readpref.Secondary()).SetReadConcern(readconcern.Linearizable()))
		fails(10107, lone.FindOne(c.ctx, bson.M{}).Err())
	}},
	{"set-causal", func(c *testContext) {
		session := got(set.StartSession(options.Session().SetCausalConsistency(true)))
		defer session.EndSession(c.ctx)
		inside := mongo.NewSessionContext(c.ctx, session)
		away := set.things(reading(readpref.Secondary()))
		for n := 0; n < 50; n++ {
			before := session.OperationTime()
			id := bson.M{"_id": fmt.Sprintf("causal-%d", n)}
			got(set.things().InsertOne(inside, id))
			if after := session.OperationTime(); before != nil && !after.After(*before) {
				fail("%v after %v", after, before)
			}
			must(away.FindOne(inside, id).Err())
		}
		// Another session goes on from there, on a majority.
		other := got(set.StartSession())
		defer other.EndSession(c.ctx)
		must(other.AdvanceOperationTime(session.OperationTime()))
		must(other.AdvanceClusterTime(session.ClusterTime()))
		sure := set.things(reading(readpref.Secondary()).SetReadConcern(readconcern.Majority()))
		filter := bson.M{"_id": bson.M{"$regex": "^causal-"}}
		equal(got(sure.CountDocuments(mongo.NewSessionContext(c.ctx, other), filter)), int64(50))
	}},
	{"set-transactions-refused", func(c *testContext) {
		session := got(set.StartSession())
		defer session.EndSession(c.ctx)
		_, err := session.WithTransaction(c.ctx, func(ctx context.Context) (any, error) {
			return set.things().InsertOne(ctx, bson.M{"_id": "transaction"})
		})
		fails(263, err)
		equal(strings.Contains(err.Error(), "no multi-document transactions"), true)
		equal(got(set.things().CountDocuments(c.ctx, bson.M{"_id": "transaction"})), int64(0))
	}},
	{"set-change-streams-refused", func(c *testContext) {
		_, err := set.things().Watch(c.ctx, mongo.Pipeline{})
		fails(40573, err)
	}},
	{"set-direct", func(c *testContext) {
		_, secondaries := set.whole()
		direct := got(mongo.Connect(options.Client().ApplyURI("mongodb://" + secondaries[0] + "/?directConnection=true")))
		defer func() { _ = direct.Disconnect(c.ctx) }()
		var hello struct {
			Secondary, IsWritablePrimary bool
			SetName                      string
		}
		must(direct.Database("admin").RunCommand(c.ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello))
		equal([]any{hello.Secondary, hello.SetName}, []any{true, "replset"})
		things := direct.Database("go").Collection("things")
		_, err := things.InsertOne(c.ctx, bson.M{"_id": "direct"})
		fails(10107, err)
		fails(10107, direct.Database("go").CreateCollection(c.ctx, "direct"))
		must(things.FindOne(c.ctx, bson.M{"_id": 2}).Err())
		other := got(mongo.Connect(options.Client().ApplyURI("mongodb://" + secondaries[0] + "/?replicaSet=other").SetServerSelectionTimeout(300 * time.Millisecond)))
		defer func() { _ = other.Disconnect(c.ctx) }()
		if other.Ping(c.ctx, nil) == nil {
			fail("a set of another name was taken")
		}
	}},
}, setWriteChecks...)

func writeConcernError(err error) *mongo.WriteConcernError {
	var exception mongo.WriteException
	if !errors.As(err, &exception) || exception.WriteConcernError == nil {
		fail("no write concern error: %v", err)
	}
	return exception.WriteConcernError
}
