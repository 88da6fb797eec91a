//! `fathom ycsb run --find-max`: the search on a server whose limit is known, and what is kept of it.

use std::path::PathBuf;
use std::time::Duration;

use bson::rawdoc;
use fathom_record::Run;
use fathom_record::disk::Entry;
use fathom_testkit::{Fathom, Manner, NullResponder, Scratch};

/// A server that answers only at the ends of periods of 20 ms: four connections get at most 200 answers a second from it.
const SLOW: Manner =
    Manner::Stalls { period: Duration::from_micros(20_020), pause: Duration::from_micros(20_000) };
const MOST_PER_S: f64 = 200.0;

#[test]
fn every_step_of_the_search_is_in_the_run_folder() {
    let scratch = Scratch::new().unwrap();
    let responder = NullResponder::with_manner(&rawdoc! { "_id": "user1", "field0": "x" }, SLOW).unwrap();
    let output = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["ycsb", "run", "mongodb", "-p", "workload=CoreWorkload", "-p", "recordcount=1000"])
        .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb", responder.port())])
        .args(["-p", "readproportion=1", "-p", "updateproportion=0", "-threads", "4"])
        .args(["--find-max", "--slo", "p95<120ms", "--step", "1s", "--json", "--runs"])
        .arg(scratch.path())
        .limit(Duration::from_secs(300))
        .run()
        .expect_code(0);
    let document = output.json();
    let rate = document["rate_per_s"].as_f64().unwrap();
    println!("{rate} of {MOST_PER_S}: {}", document["sentence"]);
    // Steps of a second let a rate slightly above the limit pass.
    assert!((0.4 * MOST_PER_S..1.3 * MOST_PER_S).contains(&rate), "{document:#}");

    let folder = PathBuf::from(document["run_folder"].as_str().unwrap());
    let run = Run::open(&folder).unwrap();
    let results = run.results().unwrap();
    let objective =
        results.iter().find_map(|one| if let Entry::Objective(it) = one { Some(it) } else { None });
    let objective = objective.unwrap();
    assert_eq!((objective.objective.as_str(), objective.rate_per_s), ("p95<120ms", Some(rate)));
    let steps = document["steps"].as_array().unwrap();
    let offered: Vec<f64> = steps.iter().map(|step| step["offered_per_s"].as_f64().unwrap()).collect();
    let tried: Vec<f64> = objective.tried.iter().map(|one| one.0).collect();
    assert_eq!(tried, offered);
    let kept: Vec<Option<f64>> = results
        .iter()
        .filter_map(|one| if let Entry::Load(load) = one { Some(load.offered_per_s) } else { None })
        .collect();
    let expected: Vec<Option<f64>> = std::iter::once(None).chain(offered.into_iter().map(Some)).collect();
    assert_eq!(kept, expected, "the closed loop, then each step");
    let series = run.series().unwrap();
    for tag in ["closed", "step-1"] {
        assert!(series.get(&format!("client.{tag}.operations.per_s")).is_some(), "{tag}");
    }
}
