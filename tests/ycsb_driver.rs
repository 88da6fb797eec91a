//! Tests `fathom ycsb --driver official`: the same workload through MongoDB's Rust driver, on the same data and with the same report.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bson::doc;
use fathom_testkit::{Fathom, LabServer, Output, Ports, Scratch};

use crate::clients::{ROCKSDB, WIRED_TIGER, serve, stop};
use crate::disk::assert_sentence;
use crate::ycsb::complaint;
use crate::ycsb_faults::{kill_and_restart, serve_on};

fn workload(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name)
}

/// A call of the verb through a driver, with `name=value` pairs.
fn ycsb(driver: &str, phase: &str, file: &str, port: u16, pairs: &[&str]) -> Fathom {
    let url = format!("mongodb.url=mongodb://127.0.0.1:{port}/y?w=1");
    let call = Fathom::new(env!("CARGO_BIN_EXE_fathom"));
    let call = call.args(["ycsb", phase, "mongodb", "--no-record", "--driver", driver, "-p", &url]);
    let call = call.arg("-P").arg(workload(file));
    pairs.iter().fold(call, |call, pair| call.args(["-p", pair]))
}

/// A number of the report; 0 if it has none.
fn figure(output: &Output, metric: &str, measurement: &str) -> f64 {
    let start = format!("[{metric}], {measurement}, ");
    let value = output.stdout.lines().find_map(|line| line.strip_prefix(&start));
    value.map_or(0.0, |value| value.parse().unwrap())
}

fn returned(output: &Output, metric: &str, status: &str) -> u64 {
    figure(output, metric, &format!("Return={status}")) as u64
}

/// The number of records in the table.
fn records(server: &LabServer) -> i64 {
    let mut connection = server.connect().unwrap();
    let reply = connection.run("y", &doc! { "count": "usertable" }).unwrap();
    i64::from(reply.get_i32("n").unwrap())
}

fn same_data_by_both(engine: &str) {
    let scratch = Scratch::new().unwrap();
    let server = serve(engine, &scratch, &[]);
    let pairs = ["recordcount=600", "operationcount=900", "threadcount=4", "dataintegrity=true"];
    let load = [&pairs[..], &["fieldlengthdistribution=constant", "batchsize=7"]].concat();
    let loaded = ycsb("official", "load", "workloada", server.port(), &load).run().expect_code(0);
    let (last, others) = (returned(&loaded, "INSERT", "OK"), returned(&loaded, "INSERT", "BATCHED_OK"));
    assert_eq!((last + others, records(&server)), (600, 600), "{}", loaded.stdout);
    assert!(others > 0, "batches");
    for driver in ["own", "official"] {
        let output = ycsb(driver, "run", "workloada", server.port(), &pairs).run().expect_code(0);
        assert_eq!(complaint(&output), None, "{driver}: {}", output.stderr);
        let (reads, updates) = (returned(&output, "READ", "OK"), returned(&output, "UPDATE", "OK"));
        assert_eq!(reads + updates, 900, "{driver}: {}", output.stdout);
        assert_eq!(returned(&output, "VERIFY", "OK"), reads, "{driver}");
        // Scans read their cursors to the end, and inserts continue after the existing records.
        let pairs = [
            "recordcount=600",
            "operationcount=300",
            "threadcount=3",
            "maxscanlength=250",
            "dataintegrity=true",
        ];
        let output = ycsb(driver, "run", "workloade", server.port(), &pairs).run().expect_code(0);
        assert_eq!(returned(&output, "SCAN", "OK") + returned(&output, "INSERT", "OK"), 300, "{driver}");
        let output = ycsb(driver, "run", "workloadf", server.port(), &pairs).run().expect_code(0);
        let updates = returned(&output, "UPDATE", "OK");
        assert_eq!(returned(&output, "READ", "OK"), 300, "{driver}: {}", output.stdout);
        assert!(updates > 0 && figure(&output, "READ-MODIFY-WRITE", "Operations") as u64 == updates);
    }
    stop(server);
}

#[test]
fn both_drivers_on_the_same_data_wired_tiger() {
    same_data_by_both(WIRED_TIGER);
}

#[test]
fn both_drivers_on_the_same_data_rocksdb() {
    same_data_by_both(ROCKSDB);
}

#[test]
fn what_is_there_already_keeps_its_code() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    for driver in ["own", "official"] {
        let port = server.port();
        let half = ["recordcount=50", "core_workload_insertion_keep_going_on_error=true"];
        ycsb(driver, "load", "workloada", port, &half).run();
        for batch in ["batchsize=1", "batchsize=8"] {
            let pairs = ["recordcount=60", half[1], batch, "threadcount=2"];
            let output = ycsb(driver, "load", "workloada", port, &pairs).run().expect_code(1);
            let failed = returned(&output, "INSERT", "ERROR");
            assert!(failed >= 50, "{driver} {batch}: {}", output.stdout);
            assert!(
                output.stderr.contains("x DuplicateKey(11000): E11000"),
                "{driver} {batch}: {}",
                output.stderr
            );
        }
        server.connect().unwrap().run("y", &doc! { "drop": "usertable" }).unwrap();
    }
    stop(server);
}

#[test]
fn a_rate_is_not_exceeded_and_both_clocks_are_there() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    ycsb("own", "load", "workloadc", server.port(), &["recordcount=200"]).run().expect_code(0);
    for arrivals in ["arrivals=uniform", "arrivals=poisson"] {
        let pairs =
            ["recordcount=200", "operationcount=400", "target=200", "threadcount=4", arrivals, "seed=5"];
        let output = ycsb("official", "run", "workloadc", server.port(), &pairs).run().expect_code(0);
        assert_eq!(returned(&output, "READ", "OK"), 400, "{}", output.stdout);
        let rate = figure(&output, "OVERALL", "Throughput(ops/sec)");
        assert!(rate <= 240.0, "{arrivals}: {rate}");
        assert!(output.stdout.contains("[Intended-READ], "), "{}", output.stdout);
    }
    // By time, with a warm-up that is not measured.
    let pairs = ["recordcount=200", "operationcount=0", "maxexecutiontime=1", "warmup=0.5", "threadcount=2"];
    let begun = Instant::now();
    let output = ycsb("official", "run", "workloadc", server.port(), &pairs).run().expect_code(0);
    assert!(begun.elapsed() >= Duration::from_millis(1500));
    let run_time = figure(&output, "OVERALL", "RunTime(ms)");
    assert!(run_time >= 900.0, "{run_time}");
    stop(server);
}

#[test]
fn what_the_driver_cannot_do_is_refused() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &["--auth"]);
    let mut connection = server.connect().unwrap();
    connection.run("admin", &doc! { "createUser": "u", "pwd": "s3cret/word", "roles": ["root"] }).unwrap();
    let login =
        |word: &str| format!("mongodb.url=mongodb://u:{word}@127.0.0.1:{}/y?authSource=admin", server.port());
    let (right, wrong) = (login("s3cret%2Fword"), login("n0tit"));
    let unanswered = format!("{right}&w=0");
    for (pairs, code, words) in [
        (vec!["pipelinedepth=2", &right], 2, "pipelinedepth"),
        (vec![unanswered.as_str()], 2, "w=0"),
        (vec![wrong.as_str()], 3, "let in"),
        (vec!["mongodb.url=mongodb://127.0.0.1:1/y"], 3, "127.0.0.1:1"),
        (vec!["mongodb.url=mongodb://u:n0tit@127.0.0.1/y?authMechanism=nope"], 3, "mechanism nope"),
        (vec!["mongodb.url=mongodb://u:n0tit@127.0.0.1/y?authSource=a&tlsInsecure=x"], 2, "tlsInsecure"),
    ] {
        let pairs = [&["recordcount=10"], &pairs[..]].concat();
        let output = ycsb("official", "load", "workloada", server.port(), &pairs).run().expect_code(code);
        assert_sentence(&output);
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
        let said = format!("{}{}", output.stdout, output.stderr);
        assert!(!said.contains("n0tit") && !said.contains("s3cret"), "{said}");
    }
    let pairs = ["recordcount=30", "threadcount=3", &right];
    let output = ycsb("official", "load", "workloada", server.port(), &pairs).run().expect_code(0);
    assert_eq!(returned(&output, "INSERT", "OK"), 30);
    stop(server);
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_survived() {
    let scratch = Scratch::new().unwrap();
    let db = scratch.path().join("db");
    let ports = Ports::reserve(1).unwrap();
    let port = ports.first();
    let server = serve_on(port, &db);
    ycsb("own", "load", "workloada", port, &["recordcount=100"]).run().expect_code(0);
    let pairs = [
        "recordcount=100",
        "operationcount=0",
        "noprogress=500",
        "threadcount=4",
        "readproportion=0",
        "updateproportion=1",
        "status.interval=1",
    ];
    let running = ycsb("official", "run", "workloada", port, &pairs).arg("-s").spawn();
    let again = kill_and_restart(&running, "UPDATE", server, (port, &db));
    // Operations failed, and the exit code shows it.
    let output = running.wait().expect_code(1);
    let failed = returned(&output, "UPDATE", "ERROR");
    assert!((1..=100).contains(&failed), "{}{}", output.stdout, output.stderr);
    assert!(output.stderr.contains(" x c"), "by kind: {}", output.stderr);
    let done = figure(&output, "OVERALL", "Throughput(ops/sec)") * figure(&output, "OVERALL", "RunTime(ms)")
        / 1000.0;
    println!("{failed} failed of {done:.0}: {}", output.stderr);
    again.signal(rustix::process::Signal::TERM);
    again.wait().expect_code(0);
}

mod timed {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_both_clocks_are_there() {
        let scratch = Scratch::new().unwrap();
        let server = serve(WIRED_TIGER, &scratch, &[]);
        ycsb("own", "load", "workloadc", server.port(), &["recordcount=200"]).run().expect_code(0);
        for arrivals in ["arrivals=uniform", "arrivals=poisson"] {
            let pairs =
                ["recordcount=200", "operationcount=400", "target=200", "threadcount=4", arrivals, "seed=5"];
            let output = ycsb("official", "run", "workloadc", server.port(), &pairs).run().expect_code(0);
            assert_eq!(returned(&output, "READ", "OK"), 400, "{}", output.stdout);
            let rate = figure(&output, "OVERALL", "Throughput(ops/sec)");
            // No faster than it should; a busy test machine may be slower.
            assert!((50.0..=240.0).contains(&rate), "{arrivals}: {rate}");
            assert!(output.stdout.contains("[Intended-READ], "), "{}", output.stdout);
        }
        // By time, with a warm-up that is not measured.
        let pairs =
            ["recordcount=200", "operationcount=0", "maxexecutiontime=1", "warmup=0.5", "threadcount=2"];
        let begun = Instant::now();
        let output = ycsb("official", "run", "workloadc", server.port(), &pairs).run().expect_code(0);
        assert!(returned(&output, "READ", "OK") > 0 && begun.elapsed() < Duration::from_secs(20));
        let run_time = figure(&output, "OVERALL", "RunTime(ms)");
        assert!((900.0..6000.0).contains(&run_time), "{run_time}");
        stop(server);
    }

    #[test]
    fn a_server_that_is_not_there_is_named_within_six_seconds() {
        let begun = Instant::now();
        let output = ycsb("official", "load", "workloada", 1, &["recordcount=10"]).run().expect_code(3);
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}: {}", begun.elapsed(), output.stderr);
    }
}
