package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"os"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	oldbson "go.mongodb.org/mongo-driver/bson"
	oldmongo "go.mongodb.org/mongo-driver/mongo"
	oldoptions "go.mongodb.org/mongo-driver/mongo/options"
)

func newReader(raw []byte) io.Reader { return bytes.NewReader(raw) }

// as runs an action with a client of its own.
func as(c *testContext, some *options.ClientOptions, action func(*mongo.Client)) {
	client := got(mongo.Connect(options.Client().ApplyURI(c.uri).SetServerSelectionTimeout(3*time.Second), some))
	defer func() { _ = client.Disconnect(c.ctx) }()
	action(client)
}

func user(name, password, mechanism, source string) *options.ClientOptions {
	return options.Client().SetAuth(options.Credential{Username: name, Password: password, AuthMechanism: mechanism, AuthSource: source})
}

func createUser(name, password string, roles ...any) bson.D {
	return bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: password}, {Key: "roles", Value: roles}}
}

var authenticationChecks = []check{
	{"auth-required", func(c *testContext) {
		_, err := c.db.Collection("things").InsertOne(c.ctx, bson.M{})
		fails(13, err)
	}},
	{"auth-first-user", func(c *testContext) {
		must(c.client.Database("admin").RunCommand(c.ctx, createUser("admin", "secret", "root")).Err())
		fails(13, c.client.Database("admin").RunCommand(c.ctx, createUser("second", "x", "root")).Err())
	}},
	{"auth-scram", func(c *testContext) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-1", ""} {
			as(c, user("admin", "secret", mechanism, "admin"), func(client *mongo.Client) {
				got(client.Database("go").Collection("things").InsertOne(c.ctx, bson.M{"by": mechanism}))
			})
		}
	}},
	{"auth-wrong-password", func(c *testContext) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-1"} {
			as(c, user("admin", "wrong", mechanism, "admin"), func(client *mongo.Client) {
				err := client.Ping(c.ctx, nil)
				if err == nil || !strings.Contains(err.Error(), "AuthenticationFailed") {
					fail("%v", err)
				}
			})
		}
	}},
	{"auth-roles", func(c *testContext) {
		as(c, user("admin", "secret", "", "admin"), func(client *mongo.Client) {
			must(client.Database("go").RunCommand(c.ctx, createUser("reader", "read", "read")).Err())
		})
		as(c, user("reader", "read", "", "go"), func(client *mongo.Client) {
			things := client.Database("go").Collection("things")
			equal(got(things.CountDocuments(c.ctx, bson.M{})), int64(3))
			_, err := things.InsertOne(c.ctx, bson.M{})
			fails(13, err)
		})
	}},
}

func load(c *testContext, client *mongo.Client, name string) int {
	documents, size := []any{}, 0
	for n := 0; n < 500; n++ {
		text := strings.Repeat("word ", 2000)
		documents = append(documents, bson.M{"_id": n, "text": text})
		size += len(text)
	}
	things := client.Database("go").Collection(name)
	got(things.InsertMany(c.ctx, documents))
	cursor, err := things.Find(c.ctx, bson.M{}, options.Find().SetBatchSize(100))
	equal(len(all(c, cursor, err)), 500)
	return 2 * size
}

func refused(c *testContext, some *options.ClientOptions) {
	as(c, some.SetServerSelectionTimeout(500*time.Millisecond), func(client *mongo.Client) {
		if client.Ping(c.ctx, nil) == nil {
			fail("taken, and should have been refused")
		}
	})
}

var encryptionChecks = []check{
	{"tls", func(c *testContext) {
		authorities := x509.NewCertPool()
		equal(authorities.AppendCertsFromPEM(got(os.ReadFile(c.extra))), true)
		as(c, options.Client().SetTLSConfig(&tls.Config{RootCAs: authorities}), func(client *mongo.Client) { load(c, client, "secret") })
	}},
	{"tls-required", func(c *testContext) { refused(c, options.Client()) }},
	{"tls-unknown-authority", func(c *testContext) { refused(c, options.Client().SetTLSConfig(&tls.Config{})) }},
}

func traffic(c *testContext) int64 {
	raw := got(c.client.Database("admin").RunCommand(c.ctx, d("serverStatus", 1)).Raw())
	network := raw.Lookup("network").Document()
	return network.Lookup("physicalBytesIn").AsInt64() + network.Lookup("physicalBytesOut").AsInt64()
}

func roundTrip(name string) check {
	return check{"compression-" + name, func(c *testContext) {
		before, size := traffic(c), 0
		as(c, options.Client().SetCompressors([]string{name}), func(client *mongo.Client) { size = load(c, client, name) })
		if sent := traffic(c) - before; sent > int64(size/4) {
			fail("%d bytes for %d", sent, size)
		}
	}}
}

var compressionChecks = []check{roundTrip("snappy"), roundTrip("zlib"), roundTrip("zstd")}

// The driver of version 1.11.3 begins with the legacy handshake.
var oldDriverChecks = []check{
	{"old-driver", func(c *testContext) {
		client := got(oldmongo.Connect(c.ctx, oldoptions.Client().ApplyURI(c.uri)))
		defer func() { _ = client.Disconnect(c.ctx) }()
		things := client.Database("go_old").Collection("things")
		got(things.InsertMany(c.ctx, []any{oldbson.M{"_id": 1}, oldbson.M{"_id": 2}, oldbson.M{"_id": 3}}))
		got(things.UpdateOne(c.ctx, oldbson.M{"_id": 4}, oldbson.M{"$set": oldbson.M{"a": 1}}, oldoptions.Update().SetUpsert(true)))
		got(things.DeleteOne(c.ctx, oldbson.M{"_id": 1}))
		cursor := got(things.Find(c.ctx, oldbson.M{"_id": oldbson.M{"$gte": 2}}, oldoptions.Find().SetSort(oldbson.M{"_id": 1}).SetBatchSize(2)))
		var found []oldbson.M
		must(cursor.All(c.ctx, &found))
		equal(len(found), 3)
		equal(got(client.ListDatabaseNames(c.ctx, oldbson.M{"name": "go_old"})), []string{"go_old"})
	}},
}
