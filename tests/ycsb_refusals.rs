//! Tests the refusals of `fathom ycsb`: one clear sentence, and the right exit code.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fathom_testkit::{Bytes, Fathom, Output, RefusalList, Scratch, Tmpfs, assert, assert_eq, fill, test};

use crate::disk::assert_sentence;
use crate::ycsb::{report, url, workload, ycsb};
use crate::ycsb_faults::wait_until;
use crate::ycsb_run::loaded;

/// No process listens on port 1 of a test machine.
const NOBODY: &str = "mongodb.url=mongodb://127.0.0.1:1/y";

/// A call that is refused in one sentence, with this exit code and id. It must print no report and no password.
#[track_caller]
fn refused(call: Fathom, code: i32, id: &str) -> Output {
    let output = call.arg("-v").run().expect_refusal(code, id);
    assert_sentence(&output);
    assert!(!output.stdout.contains("[OVERALL]") && !output.stderr.contains("secret"), "{output:?}");
    output
}

/// The program called with YCSB's words.
fn called(words: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("ycsb").args(words)
}

#[test]
fn properties_that_cannot_be() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path();
    let lengths = folder.join("lengths");
    fs::write(&lengths, "BlockSize\tx\n").unwrap();
    let lengths = format!("fieldlengthhistogram={}", lengths.display());
    let mut refusals = RefusalList::new().hiding(folder.display(), "DIR");
    for (pairs, id) in [
        (vec!["recordcount=many"], "bad-property"),
        (vec!["operationcount=-1"], "bad-property"),
        (vec!["operationcount=1e6"], "bad-property"),
        (vec!["threadcount=0"], "bad-property"),
        (vec!["threadcount=four"], "bad-property"),
        (vec!["target=fast"], "bad-property"),
        (vec!["readproportion=half"], "bad-property"),
        (vec!["readproportion=0", "updateproportion=0"], "bad-property"),
        (vec!["requestdistribution=zipf"], "bad-property"),
        (vec!["scanlengthdistribution=normal"], "bad-property"),
        (vec!["fieldlengthdistribution=normal"], "bad-property"),
        (vec!["fieldlengthdistribution=histogram"], "bad-property"),
        (vec!["fieldlengthdistribution=histogram", &lengths], "bad-property"),
        (vec!["dataintegrity=true", "fieldlengthdistribution=uniform"], "bad-property"),
        (vec!["insertstart=900", "insertcount=200"], "bad-property"),
        (vec!["insertstart=2000"], "bad-property"),
        (vec!["measurementtype=precise"], "bad-property"),
        (vec!["measurement.interval=none"], "bad-property"),
        (vec!["batchsize=0"], "bad-property"),
        (vec!["arrivals=poisson"], "bad-property"),
        (vec!["mongodb.url=localhost:27017"], "bad-connection-string"),
        (vec!["mongodb.url=mongodb://a:secret@h:99999/"], "bad-connection-string"),
        (vec!["mongodb.url=mongodb://h/?w=-1"], "bad-property"),
        (vec!["workload=site.ycsb.workloads.TimeSeriesWorkload"], "bad-property"),
        (vec!["minscanlength=9", "maxscanlength=3"], "bad-property"),
        (vec!["zipfianconstant=1.5"], "bad-property"),
    ] {
        let output = refused(ycsb("run", "workloada", NOBODY, &pairs).current_dir(&folder), 2, id);
        refusals.add(&pairs, &output, 2, id);
    }
    insta::assert_snapshot!("ycsb_refusals_of_properties", refusals.text());
    // Zipfian needs operationcount, which this file lacks.
    let file = folder.join("zipfian");
    fs::write(
        &file,
        "workload=site.ycsb.workloads.CoreWorkload\nrecordcount=1000\nrequestdistribution=zipfian\n",
    )
    .unwrap();
    let file = file.display().to_string();
    refused(called(&["run", "mongodb", "-P", &file, "-p", NOBODY]), 2, "bad-property");
    let broken = folder.join("broken");
    fs::write(&broken, "recordcount=1\nlabel=\\u00zz\n").unwrap();
    let broken = broken.display().to_string();
    let output = refused(called(&["run", "mongodb", "-P", &broken]), 2, "bad-property");
    assert!(output.stderr.contains("line 2"), "{}", output.stderr);
}

#[test]
fn command_lines_that_cannot_be() {
    let file = workload("workloada").display().to_string();
    let mut refusals = RefusalList::new().hiding(&file, "FILE");
    for (words, id) in [
        (vec!["run", "mongodb", "-P", "/no/such/workload"], "no-workload"),
        (vec!["run", "mongodb", "-p", NOBODY], "no-workload"),
        (vec!["run", "mongodb", "-P", &file, "-p", "recordcount"], "bad-property"),
        (vec!["run", "cassandra-cql", "-P", &file], "unknown-binding"),
        (vec!["-t", "-db", "site.ycsb.db.JdbcDBClient", "-P", &file], "unknown-binding"),
        (vec!["-load", "-t", "-db", "site.ycsb.db.MongoDbClient", "-P", &file], "usage"),
        (vec!["run", "mongodb", "-P", &file, "-threads", "x", "-p", NOBODY], "bad-property"),
        (vec!["run", "mongodb", "-P", &file, "-thread", "4"], "usage.unknown-argument"),
        (vec!["run", "mongodb", "-P", "workloadz"], "no-workload"),
        (vec!["load", "mongodb", "--workload", "nested"], "no-workload"),
        (vec!["shell", "mongodb"], "usage.invalid-value"),
        (vec!["run", "mongodb", "-P", &file, "-x"], "usage.unknown-argument"),
        (vec!["run", "mongodb", "-P", &file, "stray"], "usage.unknown-argument"),
    ] {
        let output = refused(called(&words), 2, id);
        refusals.add(&words, &output, 2, id);
        assert!(!output.stderr.contains("as a value"), "{}", output.stderr);
    }
    insta::assert_snapshot!("ycsb_refusals_of_words", refusals.text());
}

/// An address at which no process accepts a connection: its queue is full.
fn black_hole() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Called again, it sets a shorter queue.
    rustix::net::listen(&listener, 0).unwrap();
    let mut queue = Vec::new();
    while let Ok(socket) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queue.push(socket);
        assert!(queue.len() < 100);
    }
    (listener, queue, address)
}

#[test]
fn servers_that_cannot_be_reached() {
    let to = |address: &str| format!("mongodb.url=mongodb://{address}/y");
    // Workload D asks the server for the next record before it begins.
    for file in ["workloada", "workloadd"] {
        let unreached = |url: &str, words: &[&str], address: &str| {
            let output = refused(ycsb("run", file, url, words), 3, "no-server");
            assert!(output.stderr.contains(address), "{address}: {}", output.stderr);
        };
        unreached(NOBODY, &[], "127.0.0.1:1");
        let (_listener, _queue, hole) = black_hole();
        unreached(&to(&hole.to_string()), &["-threads 40"], &hole.to_string());
        // A server that accepts connections and does not answer.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        unreached(&to(&address), &["-threads 2"], &address);
    }
    let unknown = to("no-such-host.invalid");
    refused(ycsb("load", "workloada", &unknown, &[]), 3, "no-server");
    // Another program listens on the port.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut socket in other.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    refused(ycsb("load", "workloada", &to(&address), &[]), 3, "not-mongodb");
}

#[test]
fn wrong_passwords() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 10, &[]);
    let url = format!("mongodb.url=mongodb://user:secret@127.0.0.1:{}/y", server.port());
    for file in ["workloada", "workloadd"] {
        refused(ycsb("run", file, &url, &[]), 3, "login-refused");
    }
}

#[test]
fn what_is_worth_a_warning_goes_on() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let url = url(&server, "y", "");
    let warned = |pairs: &[&str], words: &str| {
        let pairs = [&["recordcount=100", "operationcount=20", "--no-record"], pairs].concat();
        let output = ycsb("run", "workloadc", &url, &pairs).run().expect_code(0);
        assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
    };
    warned(
        &["readPropotion=1"],
        "there is no property 'readPropotion' (-p); it is not read (did you mean readproportion?)",
    );
    warned(&["mongodb.auth=true"], "there is no property 'mongodb.auth'");
    warned(&["threadcount=50"], "threadcount is lowered from 50 to the 20 operations");
    warned(&["hdrhistogram.percentiles=x"], "hdrhistogram.percentiles takes");
    warned(&["exporter=Nope"], "there is no exporter 'Nope'");
    warned(&["mongodb.writeConcern=strict"], "mongodb.writeConcern=strict is not known");
    let file = scratch.path().join("inserts");
    fs::write(&file, "workload=com.yahoo.ycsb.workloads.CoreWorkload\ninsertproportion=1\noperationcount=10\nrecordcount=100\n").unwrap();
    let mixed = called(&["run", "mongodb", "--no-record", "-p", &url, "-P"]).arg(&file).run().expect_code(0);
    assert!(
        mixed.stderr.contains("readproportion=0.95 and updateproportion=0.05 is in the mix by default"),
        "{}",
        mixed.stderr
    );
}

#[test]
fn an_endless_load_says_so_and_ends_with_its_report() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 1, &[]);
    let words = ["recordcount=0", "table=endless", "--no-record", "-s", "status.interval=1"];
    let running = ycsb("load", "workloada", &url(&server, "y", ""), &words).spawn();
    wait_until("two seconds", || running.stderr().matches("[INSERT: Count=").count() > 1);
    running.signal(rustix::process::Signal::INT);
    let output = running.wait().expect_code(0);
    assert!(output.stderr.contains("recordcount is 0, so this load has no end"), "{}", output.stderr);
    assert!(report(&output).returned("INSERT", "OK") > 0, "{}", output.stdout);
}

#[test]
fn a_report_without_a_folder_is_refused() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 10, &[]);
    let url = url(&server, "y", "");
    let nowhere = ["exportfile=/no/such/folder/report", "--no-record"];
    let output = refused(ycsb("run", "workloadc", &url, &nowhere), 3, "not-found");
    assert!(output.stderr.contains("/no/such/folder/report"), "{}", output.stderr);
    let file = scratch.path().join("report");
    let exported = format!("exportfile={}", file.display());
    ycsb("run", "workloadc", NOBODY, &[&exported, "--no-record"]).run().expect_code(3);
    assert!(!file.exists(), "a load that never began leaves no report");
}

#[test]
fn a_full_disk_loses_no_report_and_no_run() {
    let disk = Tmpfs::new(Bytes::mib(1));
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 10, &[]);
    let url = url(&server, "y", "");
    let file = disk.path().join("report");
    fs::write(&file, "").unwrap();
    fill(disk.path()).unwrap();
    let words =
        [format!("exportfile={}", file.display()), "recordcount=10".to_owned(), "--no-record".to_owned()];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = ycsb("run", "workloadc", &url, &words).run().expect_code(3);
    assert!(output.stderr.contains("No space left"), "{}", output.stderr);
    assert_eq!(report(&output).returned("READ", "OK"), 1000, "it is not lost");

    // A full disk under the run folder is reported, and nothing else suffers.
    let output = ycsb("run", "workloadc", &url, &["recordcount=10"])
        .arg("--runs")
        .arg(disk.path())
        .run()
        .expect_code(0);
    assert!(output.stderr.contains("No space left"), "{}", output.stderr);
    assert_eq!(report(&output).returned("READ", "OK"), 1000);
}

mod timed {
    use std::time::Instant;

    use fathom_testkit::{assert, test};

    use super::*;

    #[test]
    fn a_server_that_cannot_be_reached_is_named_within_five_seconds() {
        let (_listener, _queue, hole) = black_hole();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        for address in [hole, silent.local_addr().unwrap()] {
            let begun = Instant::now();
            let url = format!("mongodb.url=mongodb://{address}/y");
            refused(ycsb("run", "workloada", &url, &["-threads 40"]), 3, "no-server");
            assert!(begun.elapsed() < Duration::from_secs(5), "{address}: {:?}", begun.elapsed());
        }
    }
}
