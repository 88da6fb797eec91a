//! Tests `fathom ycsb run --find-max`: the search on servers with a known limit, and its record.

use std::path::Path;
use std::time::Duration;

use bson::rawdoc;
use fathom_record::Run;
use fathom_record::disk::Entry;
use fathom_record::load::Load;
use fathom_testkit::{Fathom, Manner, NullResponder, Scratch};
use rustix::process::Signal;
use serde_json::Value;

use crate::ycsb_faults::wait_until;

/// A server that answers only at the ends of periods: four connections get at most four answers in each.
fn responder(period: Duration) -> NullResponder {
    let gap = Duration::from_micros(20);
    let manner = Manner::Stalls { period: period + gap, pause: period };
    NullResponder::with_manner(&rawdoc! { "_id": "user1", "field0": "x" }, manner).unwrap()
}

/// A search with four connections, recorded in `runs`.
fn search(responder: &NullResponder, slo: &str, step: &str, runs: &Path) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .args(["ycsb", "run", "mongodb", "-p", "workload=CoreWorkload", "-p", "recordcount=1000"])
        .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb", responder.port())])
        .args(["-p", "readproportion=1", "-p", "updateproportion=0", "-threads", "4"])
        .args(["--find-max", "--slo", slo, "--step", step, "--json", "--runs"])
        .arg(runs)
}

fn loads(run: &Run) -> Option<Vec<Load>> {
    let load = |one: Entry| if let Entry::Load(it) = one { Some(it) } else { None };
    Some(run.results().ok()?.into_iter().filter_map(load).collect())
}

/// Checks that the run folder holds the steps and the answer of a search's document. Returns its loads.
#[track_caller]
fn assert_recorded(document: &Value, slo: &str) -> Vec<Load> {
    let run = Run::open(document["run_folder"].as_str().unwrap()).unwrap();
    let results = run.results().unwrap();
    let objective =
        results.iter().find_map(|one| if let Entry::Objective(it) = one { Some(it) } else { None });
    let objective = objective.unwrap();
    assert_eq!((objective.objective.as_str(), objective.rate_per_s), (slo, document["rate_per_s"].as_f64()));
    let steps = document["steps"].as_array().unwrap();
    let offered: Vec<f64> = steps.iter().map(|step| step["offered_per_s"].as_f64().unwrap()).collect();
    let tried: Vec<f64> = objective.tried.iter().map(|one| one.0).collect();
    assert_eq!(tried, offered);
    let loads = loads(&run).unwrap();
    let kept: Vec<Option<f64>> = loads.iter().map(|load| load.offered_per_s).collect();
    let expected: Vec<Option<f64>> = std::iter::once(None).chain(offered.into_iter().map(Some)).collect();
    assert_eq!(kept, expected, "the closed loop, then each step");
    let series = run.series().unwrap();
    for tag in ["closed", "step-1"] {
        assert!(series.get(&format!("client.{tag}.operations.per_s")).is_some(), "{tag}");
    }
    loads
}

/// No rate holds the objective, so each step has a third of the last rate. The rate that holds is found in simulated time, in fathom-load.
///
/// A slow machine is no limit of the client: the first step has a quarter of the operations that the client's processors did in the closed
/// loop, so that it takes about a quarter of their time at most.
#[test]
fn every_step_of_the_search_is_in_the_run_folder() {
    let scratch = Scratch::new().unwrap();
    let responder = responder(Duration::from_millis(2));
    let slo = "p95<1us";
    let output = search(&responder, slo, "1s", &scratch.path()).run().expect_code(1);
    let document = output.json();
    assert_eq!((&document["rate_per_s"], &document["client_limited"]), (&Value::Null, &Value::Bool(false)));
    let loads = assert_recorded(&document, slo);
    // A quarter of the rate of the closed loop, which takes 5 s.
    let mut rate = (loads[0].operations as f64 / 5.0 * 0.25).max(1.0);
    for (load, step) in loads[1..].iter().zip(document["steps"].as_array().unwrap()) {
        let offered = load.offered_per_s.unwrap();
        assert!((offered / rate - 1.0).abs() < 1e-9, "{offered}, not {rate}");
        assert_eq!(step["achieved_per_s"].as_f64(), Some(load.operations as f64), "in a second");
        rate /= 3.0;
    }
    assert_eq!(document["broken_per_s"].as_f64(), loads[loads.len() - 1].offered_per_s);
    assert!(rate < 50.0, "fewer operations than 50 decide nothing: {rate}");
}

/// A step that must miss the objective is not driven to its end: a step of an hour would outlast the wait for its result. One slow
/// operation in a thousand, of those that an hour has, is too many.
#[test]
fn a_step_that_cannot_hold_ends_early() {
    first_step_s("p99.9<1us", "1h");
}

/// Waits for the end of the first step, whose objective cannot hold, and returns how long it took.
fn first_step_s(slo: &str, step: &str) -> f64 {
    let scratch = Scratch::new().unwrap();
    let responder = responder(Duration::from_millis(20));
    let mut search = search(&responder, slo, step, &scratch.path()).spawn();
    let driven = || {
        let folder = std::fs::read_dir(scratch.path()).unwrap().next()?.unwrap().path();
        loads(&Run::open(&folder).ok()?)
    };
    wait_until("a step", || search.has_ended() || driven().is_some_and(|loads| loads.len() > 1));
    search.signal(Signal::INT);
    search.wait();
    let driven = driven().unwrap();
    assert!(driven[1].offered_per_s.is_some() && driven[1].seconds >= 5.0, "{driven:?}");
    driven[1].seconds
}

mod timed {
    use super::*;

    const MAX_PER_S: f64 = 200.0;

    #[test]
    fn the_rate_of_a_slow_server_is_found() {
        let scratch = Scratch::new().unwrap();
        let responder = responder(Duration::from_millis(20));
        let slo = "p95<120ms";
        let output = search(&responder, slo, "1s", &scratch.path()).run().expect_code(0);
        let document = output.json();
        let rate = document["rate_per_s"].as_f64().unwrap();
        println!("{rate} of {MAX_PER_S}: {}", document["sentence"]);
        // Steps of one second may accept a rate slightly above the limit.
        assert!((0.4 * MAX_PER_S..1.3 * MAX_PER_S).contains(&rate), "{document:#}");
        assert_recorded(&document, slo);
    }

    #[test]
    fn a_step_that_cannot_hold_ends_within_twenty_seconds() {
        let seconds = first_step_s("p95<1us", "60s");
        assert!(seconds < 20.0, "{seconds}");
    }
}
