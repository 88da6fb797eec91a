//! Tests `fathom ycsb run --find-max`: the search on a server with a known limit, and its record.

use std::path::PathBuf;
use std::time::Duration;

use bson::rawdoc;
use fathom_record::Run;
use fathom_record::disk::Entry;
use fathom_testkit::{Fathom, Manner, NullResponder, Scratch};
use rustix::process::Signal;

/// A server that answers only at the ends of periods of 20 ms: four connections get at most 200 answers a second from it.
const SLOW: Manner =
    Manner::Stalls { period: Duration::from_micros(20_020), pause: Duration::from_micros(20_000) };
const MAX_PER_S: f64 = 200.0;

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
    println!("{rate} of {MAX_PER_S}: {}", document["sentence"]);
    // Steps of one second may accept a rate slightly above the limit.
    assert!((0.4 * MAX_PER_S..1.3 * MAX_PER_S).contains(&rate), "{document:#}");

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

/// A step that must miss the objective is not driven to its end.
#[test]
fn a_step_that_cannot_hold_ends_early() {
    let scratch = Scratch::new().unwrap();
    let responder = NullResponder::with_manner(&rawdoc! { "_id": "user1", "field0": "x" }, SLOW).unwrap();
    let mut search = Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["ycsb", "run", "mongodb", "-p", "workload=CoreWorkload", "-p", "recordcount=1000"])
        .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb", responder.port())])
        .args(["-p", "readproportion=1", "-p", "updateproportion=0", "-threads", "4"])
        .args(["--find-max", "--slo", "p95<1us", "--step", "60s", "--runs"])
        .arg(scratch.path())
        .limit(Duration::from_secs(120))
        .spawn();
    let loads = || {
        let folder = std::fs::read_dir(scratch.path()).unwrap().next()?.unwrap().path();
        let results = Run::open(&folder).ok()?.results().ok()?;
        let loads = results.into_iter().filter_map(|one| match one {
            Entry::Load(load) => Some(load),
            _ => None,
        });
        Some(loads.collect::<Vec<_>>())
    };
    let mut driven = loads();
    while driven.as_ref().is_none_or(|loads| loads.len() < 2) && !search.has_ended() {
        std::thread::sleep(Duration::from_millis(200));
        driven = loads();
    }
    search.signal(Signal::INT);
    search.wait();
    let driven = driven.unwrap();
    assert!(driven[1].offered_per_s.is_some(), "{driven:?}");
    assert!((5.0..20.0).contains(&driven[1].seconds), "{driven:?}");
}
