// go-ycsb's client and its MongoDB binding, without its twenty other databases: their drivers take many minutes to
// compile and do nothing here. Everything between the command line and the socket is go-ycsb's own package, unchanged.
//
// Usage: go-ycsb load|run mongodb [-P FILE] [-p NAME=VALUE]...
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/magiconair/properties"

	_ "github.com/pingcap/go-ycsb/db/mongodb"
	"github.com/pingcap/go-ycsb/pkg/client"
	"github.com/pingcap/go-ycsb/pkg/measurement"
	"github.com/pingcap/go-ycsb/pkg/prop"
	_ "github.com/pingcap/go-ycsb/pkg/workload"
	"github.com/pingcap/go-ycsb/pkg/ycsb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "go-ycsb:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	settings, err := read(arguments)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	measurement.InitMeasure(settings)
	workload, err := ycsb.GetWorkloadCreator("core").Create(settings)
	if err != nil {
		return fmt.Errorf("the workload: %w", err)
	}
	defer workload.Close()
	database, err := ycsb.GetDBCreator("mongodb").Create(settings)
	if err != nil {
		return fmt.Errorf("the connection: %w", err)
	}
	defer database.Close()

	begun := time.Now()
	client.NewClient(settings, workload, client.DbWrapper{DB: database}).Run(ctx)
	fmt.Printf("Run finished, takes %s\n", time.Since(begun))
	measurement.Output()
	return nil
}

// read turns the command line into go-ycsb's properties; a later one overrides an earlier one.
func read(arguments []string) (*properties.Properties, error) {
	if len(arguments) < 2 || (arguments[0] != "load" && arguments[0] != "run") || arguments[1] != "mongodb" {
		return nil, fmt.Errorf("usage: go-ycsb load|run mongodb [-P FILE] [-p NAME=VALUE]...")
	}
	settings := properties.NewProperties()
	for at := 2; at < len(arguments); at += 2 {
		if at+1 == len(arguments) {
			return nil, fmt.Errorf("%s wants a value", arguments[at])
		}
		value := arguments[at+1]
		switch arguments[at] {
		case "-P":
			file, err := properties.LoadFile(value, properties.UTF8)
			if err != nil {
				return nil, err
			}
			settings.Merge(file)
		case "-p":
			name, value, found := strings.Cut(value, "=")
			if !found {
				return nil, fmt.Errorf("-p wants NAME=VALUE, not %q", name)
			}
			if _, _, err := settings.Set(name, value); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("unknown option %s", arguments[at])
		}
	}
	for name, value := range map[string]string{
		prop.DoTransactions: fmt.Sprint(arguments[0] == "run"),
		prop.Command:        arguments[0],
	} {
		if _, _, err := settings.Set(name, value); err != nil {
			return nil, err
		}
	}
	return settings, nil
}
