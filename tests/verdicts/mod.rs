//! The bench of verdicts: a fault is injected in some windows of a load, and the verdict on these windows is scored.
//!
//! The truth of a cost is what the same load on the same server gains in the windows without the fault. `make verdicts` records the cells of
//! the table (`ONLY=name,name` selects; recorded cells stay, so that it continues after them) and keeps for each a bundle of the judged
//! windows and a line in `results.jsonl`; controls are recorded three times. `make test` judges the bundles.

mod cell;
mod cells;
mod draw;
mod faults;
mod guest;
mod hold_out;
mod journal_estimate;
mod page;
mod recording;
mod rig;
mod scoring;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_testkit::{Scratch, assert, assert_eq, test};

use self::cell::Cell;
use self::cells::CELLS;
use self::scoring::{Answer, Score, Truth};
use crate::faults::diagnosis::Diagnosis;
use crate::faults::study::import_bundle;

/// Recordings of a control.
const REPEATS: u32 = 3;

/// Where bundles and results are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verdicts/recorded")
}

fn bundle_of(cell: &Cell) -> PathBuf {
    folder().join(format!("{}.tar.zst", cell.name))
}

/// The truth of each recording, by the name of its cell and its number.
type Truths = BTreeMap<(String, u32), Truth>;

fn truths() -> Truths {
    let text = fs::read_to_string(folder().join("results.jsonl")).unwrap_or_default();
    let truth = |line: &str| serde_json::from_str::<Truth>(line).unwrap();
    text.lines().map(truth).map(|truth| ((truth.cell.clone(), truth.repeat), truth)).collect()
}

/// Keeps a truth among the others.
fn keep(truth: Truth) {
    let mut truths = truths();
    truths.insert((truth.cell.clone(), truth.repeat), truth);
    let lines: Vec<String> =
        truths.values().map(|truth| serde_json::to_string(truth).unwrap() + "\n").collect();
    fs::write(folder().join("results.jsonl"), lines.concat()).unwrap();
}

/// The verdict on a bundle.
fn answer_of(bundle: &Path) -> Answer {
    let scratch = Scratch::new().unwrap();
    Answer::new(&Diagnosis::of_run(&import_bundle(bundle, &scratch.path().join("run"))))
}

/// A recorded cell with its verdict.
pub(crate) struct CellVerdict {
    pub(crate) cell: &'static Cell,
    pub(crate) truth: Truth,
    pub(crate) answer: Answer,
    pub(crate) score: Score,
}

impl CellVerdict {
    fn new(cell: &'static Cell, truth: Truth, answer: Answer, truths: &Truths) -> CellVerdict {
        let score = scoring::score(cell, &truth, &answer, |name| truths.get(&(name.to_owned(), 0)));
        CellVerdict { cell, truth, answer, score }
    }

    fn row(&self) -> String {
        scoring::row(self.cell, &self.truth, &self.answer, self.score)
    }
}

/// The verdicts on the bundles, in the order of the table.
fn judge() -> Vec<CellVerdict> {
    let truths = truths();
    let judged = CELLS.iter().filter_map(|cell| {
        let truth = truths.get(&(cell.name.to_owned(), 0))?;
        Some(CellVerdict::new(cell, truth.clone(), answer_of(&bundle_of(cell)), &truths))
    });
    judged.collect()
}

fn assert_none_wrong(judged: &[CellVerdict]) {
    let rows: String = judged.iter().map(CellVerdict::row).collect();
    println!("{rows}");
    assert!(!judged.is_empty(), "no cell is recorded");
    let wrong: Vec<&str> =
        judged.iter().filter(|one| one.score.is_wrong()).map(|one| one.cell.name).collect();
    assert!(wrong.is_empty(), "judged wrong: {wrong:?}\n{rows}");
}

#[test]
fn recorded_cells_are_judged_right_or_not_at_all() {
    let judged = judge();
    assert_none_wrong(&judged);
    page::check(&judged, &truths().into_values().collect::<Vec<_>>(), &draw::draws());
}

/// A rule that fires everywhere or nowhere tells nothing; one that no recording shows says in its output that it is provisional.
#[test]
fn each_rule_fires_in_one_recording_and_is_silent_in_another() {
    let cells = judge().into_iter().map(|one| one.answer.findings);
    let bundles = fs::read_dir(folder().join("../../faults/bundles")).unwrap();
    let studies = bundles.map(|entry| answer_of(&entry.unwrap().path()).findings);
    let all: Vec<Vec<String>> = cells.chain(studies).collect();
    let fired = |id: &str| all.iter().filter(|ids| ids.iter().any(|one| one == id)).count();
    let wrong: Vec<String> = fathom_explain::cause_ids()
        .filter(|(id, is_proven)| (1..all.len()).contains(&fired(id)) != *is_proven)
        .map(|(id, is_proven)| {
            format!("{id} fires in {} of {}, and is proven: {is_proven}", fired(id), all.len())
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_has_the_cells_that_it_promises() {
    let names: BTreeSet<&str> = CELLS.iter().map(|cell| cell.name).collect();
    assert_eq!(names.len(), CELLS.len());
    for cell in CELLS {
        assert_eq!(cell.causes.is_empty(), cell.is_control() || !cell.costs(), "{}", cell.name);
    }
    let count = |is: fn(&Cell) -> bool| CELLS.iter().filter(|cell| is(cell)).count();
    assert!(CELLS.len() >= 60);
    assert!(count(|cell| cell.server.engine == "rocksdb") >= 12);
    assert!(count(|cell| cell.server.set != cell::Set::Standalone) >= 6);
    assert!(count(Cell::is_control) >= 10);
    assert_eq!(CELLS.iter().filter(|cell| hold_out::holds(cell)).count(), 25 + 5);
}

/// Hours: run by `make verdicts` alone.
#[test]
#[ignore = "records for hours; make verdicts runs it"]
fn record() {
    let only = env::var("ONLY").unwrap_or_default();
    let names = || only.split(',').filter(|name| !name.is_empty());
    let is_known = |name: &str| crate::capacity::is_disk(name) || CELLS.iter().any(|cell| cell.name == name);
    let unknown: Vec<&str> = names().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "ONLY names no cell and no disk of a capacity: {unknown:?}");
    let is_wanted = |cell: &&Cell| only.is_empty() || names().any(|name| name == cell.name);
    fs::create_dir_all(folder()).unwrap();
    let scratch = Scratch::new().unwrap();
    let mut count = 0;
    for cell in CELLS.iter().filter(is_wanted) {
        for repeat in 0..if cell.is_control() { REPEATS } else { 1 } {
            if only.is_empty() && truths().contains_key(&(cell.name.to_owned(), repeat)) {
                continue;
            }
            // Of a control the first recording alone is kept.
            let bundle = if repeat == 0 { bundle_of(cell) } else { scratch.path().join("repeat.tar.zst") };
            let mut truth = recording::record(cell, &bundle);
            let answer = answer_of(&bundle);
            (truth.repeat, truth.said) = (repeat, Some(answer.clone()));
            keep(truth.clone());
            count += 1;
            print!("{}", CellVerdict::new(cell, truth, answer, &truths()).row());
        }
    }
    println!("{count} recordings");
}

mod proof {
    use std::process::Command;

    use super::draw::Draw;
    use fathom_stats::SeededRandom;
    use fathom_testkit::{DisturbanceLimit, Scratch, assert, assert_eq, test, with_disturbance};

    use super::*;

    /// The limits of a recording: faults that keep the processors busy do so on purpose.
    const LIMIT: DisturbanceLimit =
        DisturbanceLimit { standstill: Duration::from_millis(500), wait_share: 1.0 };

    /// The first 16 digits of the commit's hash.
    fn commit() -> String {
        let hash = Command::new("git").args(["rev-parse", "HEAD"]).output().unwrap();
        String::from_utf8_lossy(&hash.stdout).chars().take(16).collect()
    }

    /// Two of the cells that are recorded, drawn with the commit's hash: controls, and faults that cost something when they were recorded.
    fn drawn(commit: &str) -> Vec<&'static Cell> {
        let seed = u64::from_str_radix(commit, 16).unwrap();
        let truths = truths();
        let is_recorded = |cell: &&Cell| {
            let truth = truths.get(&(cell.name.to_owned(), 0));
            truth.is_some_and(|truth| cell.is_control() || cell.is_made() && truth.holds_back(cell))
        };
        let mut cells: Vec<&Cell> = CELLS.iter().filter(is_recorded).collect();
        SeededRandom::from_seed(seed).shuffle(&mut cells);
        cells.truncate(2);
        cells
    }

    /// A wrong verdict is listed, and counts in the rate of docs/known-truth.md. Only "not held back" over a fault fails.
    #[test]
    fn two_cells_that_the_commit_draws_are_judged_right_or_not_at_all() {
        let commit = commit();
        let cells = drawn(&commit);
        assert_eq!(cells.len(), 2);
        let names: Vec<&str> = cells.iter().map(|cell| cell.name).collect();
        println!("drawn by {commit}; again with: make verdicts ONLY={}", names.join(","));
        let scratch = Scratch::new().unwrap();
        let bundle = scratch.path().join("bundle.tar.zst");
        for cell in cells {
            let (truth, disturbance) = with_disturbance(|| recording::record(cell, &bundle));
            let judged = CellVerdict::new(cell, truth, answer_of(&bundle), &truths());
            print!("{}", judged.row());
            let draw = Draw::new(&commit, &judged, disturbance.exceeds(LIMIT));
            draw.save();
            if draw.is_disturbed {
                println!("{}: the machine was disturbed, so nothing follows: {disturbance}", cell.name);
            } else if judged.score.is_wrong() {
                println!(
                    "{}: judged wrong; its bundle is {}",
                    cell.name,
                    draw.save_bundle(&bundle).display()
                );
                assert!(judged.score != Score::Green, "{}", judged.row());
            }
        }
    }
}
