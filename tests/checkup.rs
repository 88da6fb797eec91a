//! Tests `fathom checkup` on a real disk: host and disk in one document and one run folder.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use bson::{RawBsonRef, doc};
use fathom_client::Connection;
use fathom_record::{Run, State};
use fathom_testkit::{Fathom, LabServer, Need, Scratch, assert, assert_eq, need_root, skip, test};
use serde_json::Value;

/// A checkup of both engines takes two minutes, and longer on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);

fn fathom() -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).limit(LIMIT)
}

/// Checks the document and the run folder of a checkup of these engines.
fn document_of_engines(choice: &str, engines: &[&str]) {
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let directory = scratch.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let output = fathom()
        .args(["checkup", "--quick", "--size", "32M", "--json", "--mongodb", "7.0"])
        .args(["--storageEngine", choice, "--dir"])
        .args([directory.to_str().unwrap(), "--runs", runs.to_str().unwrap()])
        .run();
    assert!(matches!(output.code, 0 | 1 | 4), "{:?}: {}", output.code, output.stderr);
    let document = output.json();
    assert_eq!(document["state"], "complete");
    assert_eq!(document["error"], serde_json::Value::Null);
    assert!(document["host"]["findings"].as_array().unwrap().len() > 10);
    let results = document["results"].as_array().unwrap();
    let count = |kind: &str| results.iter().filter(|result| result["type"] == kind).count();
    assert_eq!((count("subject"), count("layout"), count("knee"), count("verdict")), (1, 1, 1, 1));
    let phases: Vec<&str> = results
        .iter()
        .filter(|result| result["type"] == "step")
        .filter_map(|step| step["phase"].as_str())
        .collect();
    for phase in
        ["random reads", "page reads", "random writes", "mixed", "journal", "checkpoint", "all together"]
    {
        assert!(phases.contains(&phase), "{phase} is missing in {phases:?}");
    }
    assert_eq!(
        std::fs::read_dir(&directory).unwrap().count(),
        0,
        "the test file and the server's data are gone"
    );
    let names: Vec<String> = engines.iter().map(|engine| format!("Server on {engine}")).collect();
    has_capacities(results, &names);

    let run = Run::open(document["run_folder"].as_str().unwrap()).unwrap();
    assert_eq!((run.manifest.state, run.manifest.verb.as_str()), (State::Complete, "checkup"));
    assert!(run.manifest.environment.contains_key("kernel"), "{:?}", run.manifest.environment);
    let findings = run.findings().unwrap();
    let disk = document["disk_findings"].as_array().unwrap().len();
    let host = document["host"]["findings"].as_array().unwrap().len();
    let watched = document["loads"].as_array().unwrap();
    let servers: Vec<&str> = watched.iter().filter_map(|load| load["server"].as_str()).collect();
    let loads = ["reads past memory", "journaled writes"];
    let expected: Vec<String> =
        names.iter().flat_map(|server| loads.map(|load| format!("{server}, {load}"))).collect();
    assert_eq!(servers, expected);
    assert!(watched.iter().all(|load| load["layers"].is_array()), "{watched:?}");
    let under_load: usize = watched.iter().map(|load| load["findings"].as_array().unwrap().len()).sum();
    assert_eq!(findings.len(), host + disk + under_load);
    // The folder also contains the servers' logs and the judgements of their loads.
    assert!(run.results().unwrap().len() >= results.len());
    let series = run.series().unwrap();
    for (number, engine) in engines.iter().enumerate() {
        let client = format!("client.server-on-{}.journaled-writes.closed.user_bytes", engine.to_lowercase());
        for name in [format!("server.{number}.up"), client] {
            assert!(series.get(&name).is_some(), "{name}");
        }
    }
    assert!(run.readings().unwrap().iter().any(|reading| reading.name.starts_with("probe.journal")));
    explain_prints_the_same(&document);
}

/// Checks that each server's capacities have a limit and a rate, or the reason for their absence.
fn has_capacities(results: &[Value], servers: &[String]) {
    let capacities: Vec<&Value> = results.iter().filter(|result| result["type"] == "capacity").collect();
    let measured: Vec<(&str, &str)> = capacities
        .iter()
        .filter_map(|capacity| Some((capacity["server"].as_str()?, capacity["load"].as_str()?)))
        .collect();
    let expected: Vec<_> = servers
        .iter()
        .flat_map(|server| ["reads", "journaled_writes"].map(|load| (server.as_str(), load)))
        .collect();
    assert_eq!(measured, expected);
    for capacity in capacities {
        assert!(capacity["limit"].is_string() && !capacity["limit_reason"].as_str().unwrap().is_empty());
        let has_rate = capacity["rate_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
        let has_reason = capacity["withheld"].is_string() || capacity["broken_per_s"].is_number();
        assert!(has_rate || has_reason, "{capacity:#}");
    }
}

/// Checks that `explain` of its folder prints the figures of each server as the checkup judged them, and does not mix the times of two loads.
fn explain_prints_the_same(document: &Value) {
    let explained = fathom().args(["explain", "--json", document["run_folder"].as_str().unwrap()]).run();
    assert!(matches!(explained.code, 0 | 1 | 4), "{:?}: {}", explained.code, explained.stderr);
    let explained = explained.json();
    for figures in ["layers", "amplification", "ladders", "members"] {
        let of_load = |load: &Value| load[figures].as_array().unwrap().clone();
        let printed: Vec<Value> = document["loads"].as_array().unwrap().iter().flat_map(of_load).collect();
        assert_eq!(explained[figures], Value::from(printed), "{figures}");
    }
}

#[test]
fn documents_of_nothing_are_refused() {
    for arguments in [["--documents", "0"], ["--document-size", "0"]] {
        let output = fathom().args(["checkup", "--no-record"]).args(arguments).run();
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.stderr);
    }
}

/// The deployment is tried before the disk is probed, so that a wrong address costs no minutes.
#[test]
fn a_deployment_that_is_not_there_is_refused_at_once() {
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    for flags in [&[][..], &["--load", "--yes"]] {
        let output = fathom()
            .args(["checkup", "--uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500", "--dir"])
            .arg(scratch.path())
            .arg("--runs")
            .arg(&runs)
            .args(flags)
            .run();
        assert_eq!((output.code, output.stdout.as_str()), (3, ""), "{}", output.stderr);
        assert!(output.stderr.contains("127.0.0.1:1"), "{}", output.stderr);
        assert!(!runs.exists(), "no run folder is left");
    }
}

#[test]
fn flags_that_make_no_sense_together_are_refused() {
    const URI: [&str; 3] = ["checkup", "--uri", "mongodb://127.0.0.1:1"];
    for flags in [
        &["--need", "reads=5"][..],
        &["--for", "2s"],
        &["--load", "--for", "10s"],
        &["--load", "--slo", "p99<5ms"],
        &["--load", "--no-load"],
        &["--yes"],
        // A directory is not examined if a deployment alone is watched.
        &["--slo", "p99<5ms"],
        &["--storageEngine", "rocksdb"],
        &["--no-load"],
        &["--size", "1G"],
        &["--mongodb", "7.0"],
        &["--no-record", "--runs", "x"],
    ] {
        fathom().args(URI).args(flags).run().expect_code(2);
    }
    fathom().args(["checkup", "--load"]).run().expect_code(2);
    let twice = ["checkup", "--need", "reads=5,p99=10ms", "--slo", "p99<5ms"];
    fathom().args(twice).run().expect_code(2);
}

fn serve(scratch: &Scratch, flags: &[&str]) -> LabServer {
    let folder = scratch.path().join("db");
    LabServer::start(env!("CARGO_BIN_EXE_fathom"), "wiredTiger", &folder, flags).unwrap()
}

/// The names of all databases and the counts of write operations, which a reader must not change.
fn written(connection: &mut Connection) -> (Vec<String>, Vec<i64>) {
    let databases = connection.run("admin", &doc! { "listDatabases": 1, "nameOnly": true }).unwrap();
    let names = databases.get_array("databases").unwrap().into_iter();
    let names = names.map(|one| one.unwrap().as_document().unwrap().get_str("name").unwrap().to_owned());
    let status = connection.run("admin", &doc! { "serverStatus": 1 }).unwrap();
    let counters = status.get_document("opcounters").unwrap();
    let number = |name: &&str| match counters.get(*name).unwrap().unwrap() {
        RawBsonRef::Int32(number) => i64::from(number),
        RawBsonRef::Int64(number) => number,
        other => panic!("{other:?}"),
    };
    (names.collect(), ["insert", "update", "delete"].iter().map(number).collect())
}

#[test]
fn a_deployment_is_watched_by_a_user_who_may_only_look() {
    let scratch = Scratch::new().unwrap();
    let server = serve(&scratch, &["--auth"]);
    let create = |user: &str, role: &str| {
        doc! { "createUser": user, "pwd": "secret", "roles": [{ "role": role, "db": "admin" }] }
    };
    server.connect().unwrap().run("admin", &create("root", "root")).unwrap();
    let uri = |user: &str| format!("mongodb://{user}:secret@127.0.0.1:{}/?authSource=admin", server.port());
    let mut root = Connection::connect(&uri("root").parse().unwrap()).unwrap();
    root.run("admin", &create("watcher", "clusterMonitor")).unwrap();
    root.run("shop", &doc! { "insert": "orders", "documents": [{ "_id": 1 }] }).unwrap();
    let before = written(&mut root);
    let runs = scratch.path().join("runs");
    let checkup = |flags: &[&str]| {
        fathom().args(["checkup", "--for", "6s", "--uri", &uri("watcher"), "--runs"]).arg(&runs).args(flags)
    };
    // The server is idle, so there is no verdict.
    let output = checkup(&[]).run().expect_code(4);
    for words in ["reading only", "Not examined", "nothing was written there", "server 0", "Page: "] {
        assert!(output.stdout.contains(words), "no '{words}' in {}", output.stdout);
    }
    assert!(!output.stdout.contains("secret"), "{}", output.stdout);
    assert!(output.stdout.lines().count() <= 45, "{}", output.stdout);
    let unrecorded = ["checkup", "--for", "6s", "--json", "--no-record", "--uri", &uri("watcher")];
    let document = fathom().args(unrecorded).run().expect_code(4).json();
    assert_eq!(document["deployment"]["verdict"]["outcome"], "not_examined", "{document:#}");
    assert_eq!((&document["host"], &document["loads"]), (&Value::Null, &Value::Array(Vec::new())));
    assert_eq!(written(&mut root), before, "a checkup wrote to the deployment");
    let folder = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    assert!(Run::open(&folder).unwrap().series().unwrap().get("server.0.up").is_some());
    server.stop().expect_code(0);
}

#[test]
fn a_load_is_not_begun_without_a_yes() {
    let scratch = Scratch::new().unwrap();
    let server = serve(&scratch, &[]);
    let uri = format!("mongodb://127.0.0.1:{}", server.port());
    let before = written(&mut server.connect().unwrap());
    let output = fathom().args(["checkup", "--quick", "--load", "--no-record", "--uri", &uri]).run();
    let output = output.expect_code(2);
    for words in ["makes the database fathom-", "drops it at the end", "--yes"] {
        assert!(output.stderr.contains(words), "no '{words}' in {}", output.stderr);
    }
    assert_eq!(written(&mut server.connect().unwrap()), before);
    // On a terminal it asks.
    let program = env!("CARGO_BIN_EXE_fathom");
    let call = format!("exec {program} checkup --quick --load --no-record --uri {uri}");
    let mut terminal = match Command::new("script")
        .args(["-qec", &call, "/dev/null"])
        .env("FATHOM_STATE", scratch.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
    {
        Ok(terminal) => terminal,
        Err(error) => skip!(Need::Program, "no script(1) to make a terminal: {error}"),
    };
    terminal.stdin.take().unwrap().write_all(b"n\n").unwrap();
    let output = terminal.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Continue? [y/N]") && text.contains("nothing was loaded"), "{text}");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(written(&mut server.connect().unwrap()), before);
    server.stop().expect_code(0);
}

/// A host of the service is this one, by a file of names that only the called program sees.
#[test]
fn a_managed_service_is_named_with_what_cannot_be_seen() {
    need_root();
    let scratch = Scratch::new().unwrap();
    let server = serve(&scratch, &[]);
    let hosts = scratch.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost db.abc12.mongodb.net\n").unwrap();
    let uri = format!("mongodb://db.abc12.mongodb.net:{}/?directConnection=true", server.port());
    for verb in ["checkup", "explain"] {
        let script = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";
        let output = Fathom::new("unshare")
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(&hosts)
            .arg(env!("CARGO_BIN_EXE_fathom"))
            .args([verb, "--for", "5s", "--no-record", "--uri", &uri])
            .run();
        if output.stderr.contains("unshare") {
            skip!(Need::Network, "no namespace of mounts: {}", output.stderr);
        }
        let output = output.expect_code(4);
        assert!(output.stdout.contains("This is MongoDB Atlas"), "{verb}: {}", output.stdout);
    }
    server.stop().expect_code(0);
}

#[test]
fn a_missing_directory_is_one_sentence() {
    let output = fathom().args(["checkup", "--dir", "/no/such/directory", "--no-record"]).run();
    assert_eq!(output.code, 3);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(output.stdout.is_empty(), "{}", output.stdout);
}

mod proof {
    use super::*;
    use fathom_testkit::{assert, assert_eq, test};

    #[test]
    fn both_engines_are_measured_one_after_the_other() {
        document_of_engines("both", &["WiredTiger", "RocksDB"]);
    }

    #[test]
    fn the_text_is_an_answer_that_fits_the_terminal() {
        let scratch = Scratch::new().unwrap();
        let directory = scratch.path().to_str().unwrap().to_owned();
        let output =
            fathom().args(["checkup", "--quick", "--size", "32M", "--no-record", "--dir", &directory]).run();
        assert!(matches!(output.code, 0 | 1 | 4), "{:?}: {}", output.code, output.stderr);
        let wide: Vec<&str> = output.stdout.lines().filter(|line| line.chars().count() > 80).collect();
        // A path in evidence must not be broken; the scratch folder's is the only long one.
        assert!(wide.iter().all(|line| line.contains(&directory)), "{wide:#?}");
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert!(lines.len() <= 40, "{}", output.stdout);
        assert!(lines[0].starts_with("Checking "), "{}", output.stdout);
        for word in ["reads past memory", "journaled writes", "from MongoDB's advice"] {
            assert!(output.stdout.contains(word), "no '{word}' in {}", output.stdout);
        }
    }

    #[test]
    fn a_deployment_is_loaded_in_a_database_that_goes_again() {
        let scratch = Scratch::new().unwrap();
        let server = serve(&scratch, &[]);
        let directory = scratch.path().join("data");
        std::fs::create_dir(&directory).unwrap();
        let uri = format!("mongodb://127.0.0.1:{}/app?w=1", server.port());
        let output = fathom()
            .args(["checkup", "--quick", "--size", "32M", "--no-record", "--json", "--load", "--yes"])
            .args(["--uri", &uri, "--dir"])
            .arg(&directory)
            .run();
        assert!(output.stderr.contains("makes the database fathom-"), "{}", output.stderr);
        assert!(matches!(output.code, 0 | 1 | 4), "{:?}: {}", output.code, output.stderr);
        let document = output.json();
        let loads = document["results"].as_array().unwrap().iter().filter(|result| result["type"] == "load");
        assert_eq!(loads.count(), 3);
        let mut connection = server.connect().unwrap();
        let databases =
            connection.run("admin", &bson::doc! { "listDatabases": 1, "nameOnly": true }).unwrap();
        let names = format!("{:?}", databases.get_array("databases").unwrap());
        assert!(!names.contains("fathom-"), "{names}");
        server.stop().expect_code(0);
    }
}
