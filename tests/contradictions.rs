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
        // The requirement of an argument does not hold where a given one contradicts what it requires.
        &["watch", "--uri", nowhere, "--at", "2026-11-27T19:28"],
        &["watch", "--uri", nowhere, "--speed", "2"],
        &["watch", "--dir", ".", "--tz", "UTC", "--at", "2026-11-27T19:28"],
        &["watch", "--replay", ".", "--tz", "UTC"],
        &["watch", "--replay", ".", "--runs", "runs"],
        &["doctor", "--save", "saved", "--force"],
        &["doctor", "--save", "saved", "--mongodb", "7.0"],
        &["checkup", "--uri", nowhere, "--no-load", "--dir", ".", "--yes"],
        &["checkup", "--uri", nowhere, "--for", "5s", "--yes"],
        &["checkup", "--uri", nowhere, "--documents", "5"],
        &["checkup", "--uri", nowhere, "--document-size", "2K"],
        &["disk", "--destroy", "sda", "--dir", "/dev/sda", "--keep"],
        &["compare", "loops-and-flush", "--print", "--quick"],
        &["compare", "loops-and-flush", "--print", "--dir", "."],
        &["iostat", "--tree", "-H"],
        &["cluster", "stop", "--no-wait", "--timeout", "5s"],
        &["cluster", "kill", "--no-wait", "--timeout", "5s"],
        &["ycsb", "run", "mongodb", "-P", "workloada", "--no-record", "--watch-dir", "."],
        &["ycsb", "run", "mongodb", "-P", "workloada", "--target", "5", "--slo", "p99<5ms", "--step", "1s"],
        &["ycsb", "run", "mongodb", "--workload", "nested-orders", "--slo", "p99<5ms", "--step", "1s"],
        // A search sets these for each of its steps, and has no report of YCSB.
        &["ycsb", "run", "mongodb", "-P", "workloada", "--find-max", "--slo", "p99<5ms", "-p", "target=5"],
        &[
            "ycsb",
            "run",
            "mongodb",
            "-P",
            "workloada",
            "--find-max",
            "--slo",
            "p99<5ms",
            "-p",
            "exportfile=x",
        ],
    ] {
        let call = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words).current_dir(scratch.path());
        let output = call.state(scratch.path().join("state")).run();
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{words:?}: {}", output.stderr);
    }
}
