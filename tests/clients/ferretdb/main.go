// A second server for the compatibility programs: FerretDB 1.24 with its SQLite backend, in one process.
//
// ferretdb DIRECTORY prints the port it listens on and serves until it is killed.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("usage: ferretdb DIRECTORY")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler:   "sqlite",
		SQLiteURL: "file:" + arguments[0] + "/",
	})
	if err != nil {
		return err
	}
	address, err := url.Parse(server.MongoDBURI())
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		return err
	}
	fmt.Println(port)
	return server.Run(ctx)
}
