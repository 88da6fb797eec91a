//! The bench of verdicts: a fault is injected in some windows of a load, and the verdict on these windows is scored.
//!
//! The truth of a cost is what the same load on the same server gains in the windows without the fault. `make verdicts` records the cells of
//! the table (`ONLY=name,name` selects; a cell that is recorded stays, so that it goes on where it was) and keeps for each a bundle of the judged
//! windows and a line in `results.jsonl`. `make test` judges the bundles.

mod cells;
mod faults;
mod recording;
mod scoring;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::{Fathom, Scratch, assert, test};

use self::cells::{CELLS, Cell};
use self::scoring::{Answer, Score};
use crate::faults::diagnosis::Diagnosis;
use crate::faults::study::{PROGRAM, only_entry};

/// Where bundles and results are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verdicts/recorded")
}

fn bundle_of(cell: &Cell) -> PathBuf {
    folder().join(format!("{}.tar.zst", cell.name))
}

/// The truth of each recorded cell, by its name.
fn truths() -> BTreeMap<String, scoring::Truth> {
    let text = fs::read_to_string(folder().join("results.jsonl")).unwrap_or_default();
    let truth = |line: &str| serde_json::from_str::<scoring::Truth>(line).unwrap();
    text.lines().map(truth).map(|truth| (truth.cell.clone(), truth)).collect()
}

/// The verdict on a cell's bundle.
fn answer_of(bundle: &Path) -> Answer {
    let scratch = Scratch::new().unwrap();
    let into = scratch.path().join("run");
    let import = Fathom::new(PROGRAM).args(["runs", "import"]).arg(bundle).arg("--runs").arg(&into);
    import.run().expect_code(0);
    Answer::of(&Diagnosis::of_run(&only_entry(&into)))
}

#[test]
fn recorded_cells_are_judged_right_or_not_at_all() {
    let truths = truths();
    let mut wrong = Vec::new();
    let mut table = String::new();
    for cell in CELLS {
        let Some(truth) = truths.get(cell.name) else { continue };
        let answer = answer_of(&bundle_of(cell));
        let score = scoring::score(cell, truth, &answer);
        table.push_str(&scoring::row(cell, truth, &answer, score));
        if matches!(score, Score::WrongCause | Score::Green) {
            wrong.push(cell.name);
        }
    }
    println!("{table}");
    assert!(!truths.is_empty(), "no cell is recorded");
    assert!(wrong.is_empty(), "judged wrong: {wrong:?}\n{table}");
}

#[test]
fn cells_have_names_of_their_own_and_causes_that_exist() {
    let names: std::collections::BTreeSet<&str> = CELLS.iter().map(|cell| cell.name).collect();
    assert!(names.len() == CELLS.len());
    for cell in CELLS {
        assert!(cell.causes.is_empty() == cell.is_control(), "{}", cell.name);
    }
}

/// Hours: run by `make verdicts` alone.
#[test]
#[ignore = "records for hours; make verdicts runs it"]
fn record() {
    let only = env::var("ONLY").unwrap_or_default();
    let is_wanted = |cell: &&Cell| only.is_empty() || only.split(',').any(|name| name == cell.name);
    fs::create_dir_all(folder()).unwrap();
    let mut count = 0;
    for cell in CELLS.iter().filter(is_wanted) {
        if only.is_empty() && truths().contains_key(cell.name) {
            continue;
        }
        let truth = recording::record(cell, &bundle_of(cell));
        let mut truths = truths();
        truths.insert(cell.name.to_owned(), truth.clone());
        let lines: Vec<String> =
            truths.values().map(|truth| serde_json::to_string(truth).unwrap() + "\n").collect();
        fs::write(folder().join("results.jsonl"), lines.concat()).unwrap();
        let answer = answer_of(&bundle_of(cell));
        let score = scoring::score(cell, &truth, &answer);
        print!("{}", scoring::row(cell, &truth, &answer, score));
        count += 1;
    }
    println!("{count} cells recorded");
    assert!(!CELLS.is_empty());
}
