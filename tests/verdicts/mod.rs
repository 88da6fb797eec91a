//! The bench of verdicts: a fault is injected in some windows of a load, and the verdict on these windows is scored.
//!
//! The truth of a cost is what the same load on the same server gains in the windows without the fault. `make verdicts` records the cells of
//! the table (`ONLY=name,name` selects; what is recorded stays, so that it goes on where it was) and keeps for each a bundle of the judged
//! windows and a line in `results.jsonl`; controls are recorded three times. `make test` judges the bundles.

mod cell;
mod cells;
mod faults;
mod hold_out;
mod recording;
mod rig;
mod scoring;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::{Fathom, Scratch, assert, assert_eq, test};

use self::cell::Cell;
use self::cells::CELLS;
use self::scoring::{Answer, Score, Truth};
use crate::faults::diagnosis::Diagnosis;
use crate::faults::study::{PROGRAM, only_entry};

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
fn truths() -> BTreeMap<(String, u32), Truth> {
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
    let into = scratch.path().join("run");
    let import = Fathom::new(PROGRAM).args(["runs", "import"]).arg(bundle).arg("--runs").arg(&into);
    import.run().expect_code(0);
    Answer::of(&Diagnosis::of_run(&only_entry(&into)))
}

/// The table of cells, and the names of those that were judged wrong.
fn judge(is_wanted: impl Fn(&Cell) -> bool) -> (String, Vec<&'static str>) {
    let truths = truths();
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for cell in CELLS.iter().filter(|cell| is_wanted(cell)) {
        let Some(truth) = truths.get(&(cell.name.to_owned(), 0)) else { continue };
        let answer = answer_of(&bundle_of(cell));
        let score = scoring::score(cell, truth, &answer);
        table.push_str(&scoring::row(cell, truth, &answer, score));
        if matches!(score, Score::WrongCause | Score::Green) {
            wrong.push(cell.name);
        }
    }
    (table, wrong)
}

#[test]
fn recorded_cells_are_judged_right_or_not_at_all() {
    let (table, wrong) = judge(|cell| !hold_out::holds(cell));
    println!("{table}");
    assert!(!table.is_empty(), "no cell is recorded");
    assert!(wrong.is_empty(), "judged wrong: {wrong:?}\n{table}");
}

/// Looked at once, when the rules stand.
#[test]
#[ignore = "the cells that are held out are scored once"]
fn cells_that_are_held_out() {
    let (table, wrong) = judge(hold_out::holds);
    println!("{table}judged wrong: {wrong:?}");
    assert!(!table.is_empty(), "no cell is recorded");
}

#[test]
fn the_table_has_the_cells_that_it_promises() {
    let names: BTreeSet<&str> = CELLS.iter().map(|cell| cell.name).collect();
    assert_eq!(names.len(), CELLS.len());
    for cell in CELLS {
        assert_eq!(cell.causes.is_empty(), cell.is_control(), "{}", cell.name);
    }
    let count = |is: fn(&Cell) -> bool| CELLS.iter().filter(|cell| is(cell)).count();
    assert!(CELLS.len() >= 60);
    assert!(count(|cell| cell.server.engine == "rocksdb") >= 12);
    assert!(count(|cell| cell.server.set != cell::Set::Standalone) >= 6);
    assert!(count(Cell::is_control) >= 10);
    assert_eq!(CELLS.iter().filter(|cell| hold_out::holds(cell)).count(), CELLS.len() / 3);
}

/// Hours: run by `make verdicts` alone.
#[test]
#[ignore = "records for hours; make verdicts runs it"]
fn record() {
    let only = env::var("ONLY").unwrap_or_default();
    let is_wanted = |cell: &&Cell| only.is_empty() || only.split(',').any(|name| name == cell.name);
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
            if !hold_out::holds(cell) {
                print!("{}", scoring::row(cell, &truth, &answer, scoring::score(cell, &truth, &answer)));
            }
        }
    }
    println!("{count} recordings");
    assert!(!CELLS.is_empty());
}
