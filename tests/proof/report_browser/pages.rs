//! The pages: of a probe, a checkup, a watched load, a search, a run that was killed, one that failed before it measured anything, of two
//! watched loads side by side, of the last of sixty runs, of a study, and of two recordings of servers. The program made the runs and the pages; only the failed run is
//! written here, with a hostile error, the sixty are, with a fall in the middle, and the study is, from its fixture.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bson::rawdoc;
use fathom_record::{Manifest, RunWriter, State};
use fathom_testkit::{Fathom, LabServer, Manner, NullResponder, Scratch};
use rustix::process::Signal;

use crate::clients::{WIRED_TIGER, serve, stop};
use crate::ycsb::{url, ycsb};
use crate::{report, runs, runs_serve};

/// Strings that a reader must see as text, and as nothing else.
pub(crate) const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}[31m";

/// A page and what it is of.
pub(crate) struct Page {
    pub(crate) kind: &'static str,
    pub(crate) file: PathBuf,
}

fn fathom(words: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words).limit(Duration::from_secs(300))
}

/// Makes all of them, side by side where they do not share a server.
pub(crate) fn make(scratch: &Scratch) -> Vec<Page> {
    let root = scratch.path();
    thread::scope(|scope| {
        let checkup = scope.spawn(|| vec![("checkup", checkup(&root.join("checkup")))]);
        let loads = scope.spawn(|| loads(&root.join("loads")));
        let history = scope.spawn(|| vec![("history", history(&root.join("history")))]);
        let others = scope.spawn(|| {
            vec![
                ("disk", disk(&root.join("disk"))),
                ("search", search(&root.join("search"))),
                ("failed", failed(&root.join("failed"))),
                ("study", report::study(&root.join("study"))),
            ]
        });
        let runs = [checkup, loads, others, history].into_iter().flat_map(|made| made.join().unwrap());
        let runs: Vec<(&str, PathBuf)> = runs.collect();
        let file = |kind: &str| root.join(format!("{kind}.html"));
        let mut pages: Vec<Page> =
            runs.iter().map(|(kind, run)| Page { kind, file: page(run, &file(kind)) }).collect();
        let of = |wanted: &str| &runs.iter().find(|(kind, _)| *kind == wanted).unwrap().1;
        let pair = fathom(&["report", "--output"]).arg(file("pair")).arg(of("watched")).arg(of("again"));
        pair.run().expect_code(0);
        // The second of the two is only shown together with the first.
        pages.retain(|page| page.kind != "again");
        pages.push(Page { kind: "pair", file: file("pair") });
        let recordings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/recordings");
        let two = ["iops-cap", "server-stopped"].map(|name| recordings.join(name));
        fathom(&["report", "--output"]).arg(file("recording")).args(two).run().expect_code(0);
        pages.push(Page { kind: "recording", file: file("recording") });
        pages
    })
}

/// The list that `fathom runs --serve` shows of sixty runs, as a file.
pub(crate) fn list(scratch: &Scratch) -> PathBuf {
    let file = scratch.path().join("runs.html");
    fs::write(&file, runs_serve::list_of(&scratch.path().join("history"))).unwrap();
    file
}

/// The page of a run folder.
pub(crate) fn page(run: &Path, file: &Path) -> PathBuf {
    fathom(&["report", "--output"]).arg(file).arg(run).run().expect_code(0);
    file.to_owned()
}

fn checkup(place: &Path) -> PathBuf {
    let data = place.join("data");
    fs::create_dir_all(&data).unwrap();
    let call = fathom(&["checkup", "--quick", "--size", "32M", "--mongodb", "8.0", "--dir"]).arg(&data);
    let output = call.arg("--runs").arg(place.join("runs")).limit(Duration::from_secs(400)).run();
    assert!(matches!(output.code, 0 | 1 | 4), "{}", output.stderr);
    newest(&place.join("runs"))
}

fn disk(place: &Path) -> PathBuf {
    let data = place.join("data");
    fs::create_dir_all(&data).unwrap();
    let words =
        ["disk", "--pattern", "randread", "--depth", "1..32", "--time", "200ms", "--size", "16M", "--dir"];
    let output = fathom(&words).arg(&data).arg("--runs").arg(place.join("runs")).run();
    assert!(matches!(output.code, 0 | 1 | 4), "{}", output.stderr);
    newest(&place.join("runs"))
}

/// A watched load, and one that is killed while it runs.
fn loads(place: &Path) -> Vec<(&'static str, PathBuf)> {
    fs::create_dir_all(place).unwrap();
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let at = url(&server, "shop", "");
    ycsb("load", "workloada", &at, &["recordcount=1000", "--no-record"]).run().expect_code(0);
    let watched = place.join("watched");
    watch(&server, "maxexecutiontime=6").arg("--runs").arg(&watched).run().expect_code(0);
    let again = place.join("again");
    watch(&server, "maxexecutiontime=8").arg("--runs").arg(&again).run().expect_code(0);
    let killed = place.join("killed");
    let mut running = watch(&server, "maxexecutiontime=120").arg("--runs").arg(&killed).spawn();
    let deadline = Instant::now() + Duration::from_secs(100);
    while seconds_of(&killed) < 3 && !running.has_ended() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
    }
    running.signal(Signal::KILL);
    let output = running.wait();
    assert_eq!(output.code, 128 + 9, "{}", output.stderr);
    stop(server);
    vec![("watched", newest(&watched)), ("again", newest(&again)), ("killed", newest(&killed))]
}

/// The last of sixty runs, the later half of which is slower.
fn history(place: &Path) -> PathBuf {
    runs::with_a_fall(place, 60);
    let last = runs::names(place).pop().unwrap();
    place.join(last)
}

fn watch(server: &LabServer, time: &str) -> Fathom {
    let words = ["recordcount=1000", "operationcount=0", time, "-target 300", "-threads 4", "--watch"];
    ycsb("run", "workloada", &url(server, "shop", ""), &words).limit(Duration::from_secs(300))
}

/// How many seconds of a load that still runs are in its folder.
fn seconds_of(runs: &Path) -> usize {
    let folder = fs::read_dir(runs).ok().and_then(|mut entries| entries.next()?.ok());
    let text = folder.and_then(|folder| fs::read_to_string(folder.path().join("series.jsonl")).ok());
    text.unwrap_or_default().matches("\"client.operations.per_s\"").count()
}

/// A search on a server whose limit is known and low.
fn search(place: &Path) -> PathBuf {
    let slow = Manner::Stalls { period: Duration::from_micros(20_020), pause: Duration::from_micros(20_000) };
    let responder = NullResponder::with_manner(&rawdoc! { "_id": "user1", "field0": "x" }, slow).unwrap();
    fathom(&["ycsb", "run", "mongodb", "-p", "workload=CoreWorkload", "-p", "recordcount=1000"])
        .args(["-p", &format!("mongodb.url=mongodb://127.0.0.1:{}/ycsb", responder.port())])
        .args(["-p", "readproportion=1", "-p", "updateproportion=0", "-threads", "4"])
        .args(["--find-max", "--slo", "p95<120ms", "--step", "1s", "--runs"])
        .arg(place)
        .run()
        .expect_code(0);
    newest(place)
}

fn failed(place: &Path) -> PathBuf {
    let manifest = Manifest::new("disk", "0.1.0", ["fathom", "disk", HOSTILE].map(str::to_owned));
    let mut run = RunWriter::create(place, manifest).unwrap();
    run.amend(|manifest| drop(manifest.environment.insert(HOSTILE.to_owned(), HOSTILE.to_owned()))).unwrap();
    run.finish(State::Failed, Some(format!("cannot write {HOSTILE}"))).unwrap()
}

fn newest(runs: &Path) -> PathBuf {
    let folders: Vec<PathBuf> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}
