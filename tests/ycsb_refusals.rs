//! Tests the refusals of `fathom ycsb`: one clear sentence, and the right exit code.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use fathom_testkit::{Bytes, Fathom, Output, Scratch, Tmpfs, assert, assert_eq, fill, test};

use crate::disk::assert_sentence;
use crate::ycsb::{report, url, workload, ycsb};
use crate::ycsb_faults::wait_until;
use crate::ycsb_run::loaded;

/// No process listens on port 1 of a test machine.
const NOBODY: &str = "mongodb.url=mongodb://127.0.0.1:1/y";

#[track_caller]
fn refused(call: Fathom, code: i32, words: &str) -> Output {
    let output = call.run().expect_code(code);
    assert!(output.stderr.contains(words), "{words}: {}", output.stderr);
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
    for (pairs, words) in [
        (vec!["recordcount=many"], "recordcount takes a whole number from 0 on, not 'many' (-p)"),
        (vec!["operationcount=-1"], "operationcount takes a whole number from 0 on, not '-1'"),
        (vec!["operationcount=1e6"], "operationcount takes a whole number"),
        (vec!["threadcount=0"], "threadcount=0 does not lie between 1 and"),
        (vec!["threadcount=four"], "threadcount takes a whole number"),
        (vec!["target=fast"], "target takes a number from 0 on"),
        (vec!["readproportion=half"], "readproportion takes a number"),
        (vec!["readproportion=0", "updateproportion=0"], "all proportions are 0"),
        (vec!["requestdistribution=zipf"], "requestdistribution takes one of uniform, zipfian, latest"),
        (vec!["scanlengthdistribution=normal"], "scanlengthdistribution takes one of uniform, zipfian"),
        (vec!["fieldlengthdistribution=normal"], "fieldlengthdistribution takes one of constant"),
        (vec!["fieldlengthdistribution=histogram"], "hist.txt"),
        (vec!["fieldlengthdistribution=histogram", &lengths], "line 1: BlockSize"),
        (vec!["dataintegrity=true", "fieldlengthdistribution=uniform"], "dataintegrity needs"),
        (vec!["insertstart=900", "insertcount=200"], "go beyond recordcount=1000"),
        (vec!["insertstart=2000"], "go beyond recordcount=1000"),
        (vec!["measurementtype=precise"], "measurementtype takes one of"),
        (vec!["measurement.interval=none"], "measurement.interval takes one of op, intended, both"),
        (vec!["batchsize=0"], "batchsize=0"),
        (vec!["arrivals=poisson"], "need target"),
        (vec!["mongodb.url=localhost:27017"], "mongodb://"),
        (vec!["mongodb.url=mongodb://a:secret@h:99999/"], "'h:99999'"),
        (vec!["mongodb.url=mongodb://h/?w=-1"], "w in the connection string"),
        (vec!["workload=site.ycsb.workloads.TimeSeriesWorkload"], "the workload class"),
        (vec!["minscanlength=9", "maxscanlength=3"], "minscanlength=9"),
        (vec!["zipfianconstant=1.5"], "zipfianconstant"),
    ] {
        let output = refused(ycsb("run", "workloada", NOBODY, &pairs).current_dir(&folder), 2, words);
        assert_sentence(&output);
    }
    // Zipfian needs operationcount, which this file lacks.
    let file = folder.join("zipfian");
    fs::write(
        &file,
        "workload=site.ycsb.workloads.CoreWorkload\nrecordcount=1000\nrequestdistribution=zipfian\n",
    )
    .unwrap();
    let file = file.display().to_string();
    assert_sentence(&refused(
        called(&["run", "mongodb", "-P", &file, "-p", NOBODY]),
        2,
        "requestdistribution=zipfian needs operationcount",
    ));
    let broken = folder.join("broken");
    fs::write(&broken, "recordcount=1\nlabel=\\u00zz\n").unwrap();
    let broken = broken.display().to_string();
    assert_sentence(&refused(called(&["run", "mongodb", "-P", &broken]), 2, "line 2"));
}

#[test]
fn command_lines_that_cannot_be() {
    let file = workload("workloada").display().to_string();
    for (words, told) in [
        (vec!["run", "mongodb", "-P", "/no/such/workload"], "/no/such/workload"),
        (vec!["run", "mongodb", "-p", NOBODY], "no workload is named"),
        (vec!["run", "mongodb", "-P", &file, "-p", "recordcount"], "-p takes name=value"),
        (vec!["run", "cassandra-cql", "-P", &file], "the binding cassandra-cql is not known"),
        (
            vec!["-t", "-db", "site.ycsb.db.JdbcDBClient", "-P", &file],
            "site.ycsb.db.JdbcDBClient is not known",
        ),
        (vec!["-load", "-t", "-db", "site.ycsb.db.MongoDbClient", "-P", &file], "exclude each other"),
        (
            vec!["run", "mongodb", "-P", &file, "-threads", "x", "-p", NOBODY],
            "threadcount takes a whole number from 0 on, not 'x' (-threads)",
        ),
        (vec!["run", "mongodb", "-P", &file, "-thread", "4"], "a similar argument exists: '--threads'"),
        (vec!["run", "mongodb", "-P", "workloadz"], "a built-in workload: workloada, workloadb"),
        (vec!["load", "mongodb", "--workload", "nested"], "a built-in workload: bank-transfer"),
        (vec!["shell", "mongodb"], "'shell'"),
        (vec!["run", "mongodb", "-P", &file, "-x"], "-x"),
        (vec!["run", "mongodb", "-P", &file, "stray"], "stray"),
    ] {
        let output = refused(called(&words), 2, told);
        assert_sentence(&output);
        assert!(!output.stderr.contains("as a value"), "{}", output.stderr);
    }
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
        assert_sentence(&refused(
            ycsb("run", file, NOBODY, &[]),
            3,
            "cannot connect to 127.0.0.1:1: Connection refused",
        ));
        let (_listener, _queue, hole) = black_hole();
        assert_sentence(&refused(
            ycsb("run", file, &to(&hole.to_string()), &["-threads 40"]),
            3,
            &hole.to_string(),
        ));
        // A server that accepts connections and does not answer.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        assert_sentence(&refused(ycsb("run", file, &to(&address), &["-threads 2"]), 3, &address));
    }
    let unknown = to("no-such-host.invalid");
    assert_sentence(&refused(ycsb("load", "workloada", &unknown, &[]), 3, "no-such-host.invalid"));
    // Another program listens on the port.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut socket in other.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    assert_sentence(&refused(
        ycsb("load", "workloada", &to(&address), &[]),
        3,
        "does not speak MongoDB's protocol",
    ));
}

#[test]
fn wrong_passwords() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 10, &[]);
    let url = format!("mongodb.url=mongodb://user:secret@127.0.0.1:{}/y", server.port());
    for file in ["workloada", "workloadd"] {
        assert_sentence(&refused(ycsb("run", file, &url, &[]), 3, "Authentication failed"));
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
    assert_sentence(&refused(
        ycsb("run", "workloadc", &url, &nowhere),
        3,
        "cannot write the report to /no/such/folder/report",
    ));
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
            refused(ycsb("run", "workloada", &url, &["-threads 40"]), 3, &address.to_string());
            assert!(begun.elapsed() < Duration::from_secs(5), "{address}: {:?}", begun.elapsed());
        }
    }
}
