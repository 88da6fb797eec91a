//! Tests that no argument is accepted and then ignored: what says nothing next to another argument is refused with exit code 2.

use fathom_testkit::{Fathom, Scratch};

#[test]
fn arguments_that_would_be_ignored_are_refused() {
    let scratch = Scratch::new().unwrap();
    let nowhere = "mongodb://127.0.0.1:1/";
    for words in [
        &["disk", "--profile", "mongodb", "--pattern", "randread"][..],
        &["disk", "--no-record", "--runs", "runs"],
        &["disk", "--destroy", "sda", "--dir", "."],
        &["demo", "--speed", "2", "--no-watch"],
        &["demo", "--speed", "2", "--json"],
        &["compare", "--list", "--dir", "."],
        &["compare", "--factors", "--open"],
        &["compare", "loops-and-flush", "--print", "--dry-run"],
        &["compare", "loops-and-flush", "--print", "--json"],
        &["compare", "loops-and-flush", "--print", "--redact"],
        &["compare", "loops-and-flush", "--dry-run", "--open"],
        &["compare", "--resume", "--print"],
        &["compare", "--resume", "--dir", "."],
        &["explain", "--no-record"],
        &["explain", "--uri", nowhere, "--no-record", "--runs", "runs"],
        &["explain", ".", "--open"],
        &["explain", ".", "--redact"],
        &["report", ".", "--runs", "runs"],
        &["report", "--output", "-", "--open"],
        &["ycsb", "run", "mongodb", "-P", "workloada", "--step", "10s"],
        &["ycsb", "run", "mongodb", "-P", "workloada", "-load"],
        &["ycsb", "load", "mongodb", "-P", "workloada", "-t"],
        &["ycsb", "run", "mongodb", "-P", "workloada", "-db", "site.ycsb.db.JdbcDBClient"],
        &["ycsb", "run", "mongodb", "-P", "workloada", "--no-record", "--runs", "runs"],
    ] {
        let call = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words).current_dir(scratch.path());
        let output = call.state(scratch.path().join("state")).run();
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{words:?}: {}", output.stderr);
    }
}
