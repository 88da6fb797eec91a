// The Go driver against a server: go plain|auth|tls|compression|old|set PORT [CA file | folder of the cluster]. `old` is the driver
// of version 1 that go-ycsb was built with.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

type testContext struct {
	ctx    context.Context
	uri    string
	extra  string
	client *mongo.Client
	db     *mongo.Database
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: go plain|auth|tls|compression|old|set PORT [CA file | folder of the cluster]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	if os.Args[1] == "set" {
		// With a deadline the driver sends what a secondary refuses again and again until then.
		ctx = context.Background()
	}
	c := &testContext{ctx: ctx, uri: "mongodb://localhost:" + os.Args[2] + "/"}
	if len(os.Args) > 3 {
		c.extra = os.Args[3]
	}
	checks := map[string][]check{
		"plain":       append(documentChecks, queryChecks...),
		"auth":        authenticationChecks,
		"tls":         encryptionChecks,
		"compression": compressionChecks,
		"old":         oldDriverChecks,
		"set":         setChecks,
	}[os.Args[1]]
	client, err := mongo.Connect(options.Client().ApplyURI(c.uri).SetServerSelectionTimeout(10 * time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	c.client, c.db = client, client.Database("go")
	passed := runAll(c, checks)
	_ = client.Disconnect(ctx)
	if !passed || len(checks) == 0 {
		os.Exit(1)
	}
}
