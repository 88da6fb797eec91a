//! `fathom checkup` on a real disk: host and disk in one document and one run folder.

use fathom_record::{Run, State};
use fathom_testkit::{Fathom, Scratch};
use serde_json::Value;

fn fathom() -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
}

#[test]
fn one_document_holds_host_disk_and_verdict() {
    let scratch = Scratch::new().unwrap();
    let runs = scratch.path().join("runs");
    let directory = scratch.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let output = fathom()
        .args(["checkup", "--quick", "--size", "32M", "--json", "--mongodb", "7.0", "--dir"])
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
    let loads: Vec<(&str, &str)> = results
        .iter()
        .filter(|result| result["type"] == "load")
        .filter_map(|load| Some((load["server"].as_str()?, load["workload"].as_str()?)))
        .collect();
    let each = ["load", "workload A", "workload C"];
    let expected: Vec<_> = ["Server on WiredTiger", "Server on RocksDB"]
        .into_iter()
        .flat_map(|server| each.map(|workload| (server, workload)))
        .collect();
    assert_eq!(loads, expected);

    let run = Run::open(document["run_folder"].as_str().unwrap()).unwrap();
    assert_eq!((run.manifest.state, run.manifest.verb.as_str()), (State::Complete, "checkup"));
    assert!(run.manifest.environment.contains_key("kernel"), "{:?}", run.manifest.environment);
    let findings = run.findings().unwrap();
    let disk = document["disk_findings"].as_array().unwrap().len();
    let host = document["host"]["findings"].as_array().unwrap().len();
    let watched = document["loads"].as_array().unwrap();
    let servers: Vec<&str> = watched.iter().filter_map(|load| load["server"].as_str()).collect();
    assert_eq!(servers, ["Server on WiredTiger", "Server on RocksDB"]);
    assert!(watched.iter().all(|load| load["layers"].is_array()), "{watched:?}");
    let under_load: usize = watched.iter().map(|load| load["findings"].as_array().unwrap().len()).sum();
    assert_eq!(findings.len(), host + disk + under_load);
    // The folder holds also what the servers logged and what was judged of their loads.
    assert!(run.results().unwrap().len() >= results.len());
    let series = run.series().unwrap();
    for name in ["server.0.up", "server.1.up", "client.server-on-rocksdb.workload-a.user_bytes"] {
        assert!(series.get(name).is_some(), "{name}");
    }
    assert!(run.readings().unwrap().iter().any(|reading| reading.name.starts_with("probe.journal")));
    explain_prints_the_same(&document);
}

/// `explain` of its folder prints the figures of each server as the checkup judged them, and takes no two loads for one time.
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
    let output = fathom()
        .args(["checkup", "--uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500", "--dir"])
        .arg(scratch.path())
        .arg("--runs")
        .arg(&runs)
        .run();
    assert_eq!((output.code, output.stdout.as_str()), (3, ""), "{}", output.stderr);
    assert!(output.stderr.contains("127.0.0.1:1"), "{}", output.stderr);
    assert!(!runs.exists(), "no run folder is left");
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

    #[test]
    fn the_text_ends_with_the_verdict_and_fits_the_terminal() {
        let scratch = Scratch::new().unwrap();
        let directory = scratch.path().to_str().unwrap().to_owned();
        let output =
            fathom().args(["checkup", "--quick", "--size", "32M", "--no-record", "--dir", &directory]).run();
        assert!(matches!(output.code, 0 | 1 | 4), "{:?}: {}", output.code, output.stderr);
        let wide: Vec<&str> = output.stdout.lines().filter(|line| line.chars().count() > 80).collect();
        // A path in evidence may not be broken; the scratch folder's is the only long one.
        assert!(wide.iter().all(|line| line.contains(&directory)), "{wide:#?}");
        let at = |word: &str| {
            output.stdout.find(word).unwrap_or_else(|| panic!("no '{word}' in {}", output.stdout))
        };
        assert!(at("Host settings for") < at("Probing") && at("Probing") < at("What it means"));
        assert!(at("What it means") < at("Server on RocksDB") && at("Server on RocksDB") < at("Verdict: "));
    }

    #[test]
    fn a_deployment_is_loaded_in_a_database_that_goes_again() {
        let scratch = Scratch::new().unwrap();
        let server = fathom_testkit::LabServer::start(
            env!("CARGO_BIN_EXE_fathom"),
            "wiredTiger",
            &scratch.path().join("db"),
            &[],
        )
        .unwrap();
        let directory = scratch.path().join("data");
        std::fs::create_dir(&directory).unwrap();
        let uri = format!("mongodb://127.0.0.1:{}/app?w=1", server.port());
        let output = fathom()
            .args(["checkup", "--quick", "--size", "32M", "--no-record", "--json", "--uri", &uri, "--dir"])
            .arg(&directory)
            .run();
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
