package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// check is one line of output: `ok NAME`, or `FAILED NAME: why`.
type check struct {
	name string
	run  func(*testContext)
}

// failure is what a check panics with; anything else is a fault of the program.
type failure struct{ text string }

func fail(format string, arguments ...any) {
	panic(failure{fmt.Sprintf(format, arguments...)})
}

func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func equal(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		fail("found %v (%T), wanted %v (%T)", found, found, wanted, wanted)
	}
}

// code is the server's code in an error of any of the driver's kinds.
func code(err error) int {
	var server mongo.ServerError
	if errors.As(err, &server) {
		if codes := server.ErrorCodes(); len(codes) > 0 {
			return codes[0]
		}
	}
	return 0
}

// fails takes the error of what must fail with this code.
func fails(wanted int, err error) {
	if err == nil {
		fail("succeeded and should have failed with %d", wanted)
	}
	if found := code(err); found != wanted {
		fail("failed with %d and not %d: %v", found, wanted, err)
	}
}

// runAll runs the checks; true if all passed.
func runAll(c *testContext, checks []check) bool {
	passed := true
	for _, one := range checks {
		if text := runOne(c, one); text != "" {
			passed = false
			fmt.Printf("FAILED %s: %.600s\n", one.name, strings.Join(strings.Fields(text), " "))
		} else {
			fmt.Printf("ok %s\n", one.name)
		}
	}
	return passed
}

func runOne(c *testContext, one check) (text string) {
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case failure:
			text = caught.text
		default:
			panic(caught)
		}
	}()
	one.run(c)
	return ""
}

// all reads a cursor to its end.
func all(c *testContext, cursor *mongo.Cursor, err error) []bson.M {
	must(err)
	found := []bson.M{}
	must(cursor.All(c.ctx, &found))
	return found
}

func ids(documents []bson.M) []any {
	found := make([]any, 0, len(documents))
	for _, document := range documents {
		found = append(found, document["_id"])
	}
	return found
}
