//! Cells that `make proof` drew: each draw is recorded, and wrong verdicts are scored as a rate over all of them.
//!
//! One wrong verdict among many is what a judgement that errs now and then gives. The bundle of a wrong one is kept in
//! `tests/verdicts/drawn`, so that it can become a test when the cause is mended.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fathom_stats::wilson_interval;
use serde::{Deserialize, Serialize};

use super::scoring::{self, Answer, Score, Truth};
use super::{CELLS, CellVerdict};
use fathom_testkit::{assert, test};

/// A cell that was recorded again, and the verdict on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Draw {
    /// The first digits of the commit whose hash drew it.
    pub(crate) commit: String,
    pub(crate) truth: Truth,
    pub(crate) answer: Answer,
    pub(crate) score: Score,
    /// True if the machine was disturbed, so that the draw does not count.
    pub(crate) is_disturbed: bool,
}

impl Draw {
    pub(crate) fn new(commit: &str, judged: &CellVerdict, is_disturbed: bool) -> Draw {
        let CellVerdict { truth, answer, score, .. } = judged;
        Draw {
            commit: commit.to_owned(),
            truth: truth.clone(),
            answer: answer.clone(),
            score: *score,
            is_disturbed,
        }
    }

    /// Appends the draw to the file of all draws.
    pub(crate) fn save(&self) {
        fs::create_dir_all(folder()).unwrap();
        let mut file =
            OpenOptions::new().create(true).append(true).open(folder().join("draws.jsonl")).unwrap();
        writeln!(file, "{}", serde_json::to_string(self).unwrap()).unwrap();
    }

    /// Keeps the bundle of a wrong draw, and returns its path.
    pub(crate) fn save_bundle(&self, bundle: &Path) -> PathBuf {
        let path = folder().join(format!("{}-{}.tar.zst", self.commit, self.truth.cell));
        fs::copy(bundle, &path).unwrap();
        path
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/verdicts/drawn")
}

/// All draws that were recorded.
pub(crate) fn draws() -> Vec<Draw> {
    let text = fs::read_to_string(folder().join("draws.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rates of wrong verdicts, when the recordings were made: of the table's cells, and of those that were drawn.
pub(crate) fn table(truths: &[Truth], draws: &[Draw]) -> String {
    let recorded = truths.iter().filter_map(|truth| {
        let cell = CELLS.iter().find(|cell| cell.name == truth.cell)?;
        let find = |name: &str| truths.iter().find(|one| one.cell == name && one.repeat == 0);
        Some(scoring::score(cell, truth, truth.said.as_ref()?, find))
    });
    let drawn = draws.iter().filter(|draw| !draw.is_disturbed).map(|draw| draw.score);
    let mut text = "Verdicts at the time of the recordings, with the 95 % interval of the share of wrong ones (Wilson's):\n\n\
                    | recordings | number | right | cannot tell | wrong cost | wrong cause or \"not held back\" | 95 % interval |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    text.push_str(&row("of the table", &recorded.collect::<Vec<_>>()));
    text.push_str(&row("drawn by `make proof`", &drawn.collect::<Vec<_>>()));
    text.push('\n');
    text
}

fn row(name: &str, scores: &[Score]) -> String {
    let count = |is: fn(Score) -> bool| scores.iter().filter(|score| is(**score)).count();
    let wrong = count(Score::is_wrong);
    let interval = wilson_interval(wrong as u64, scores.len() as u64)
        .map_or_else(String::new, |(low, high)| format!("{:.1} to {:.1} %", 100.0 * low, 100.0 * high));
    format!(
        "| {name} | {} | {} | {} | {} | {wrong} | {interval} |\n",
        scores.len(),
        count(|score| matches!(score, Score::Right | Score::NoControl)),
        count(|score| matches!(score, Score::CannotTell | Score::NotMade)),
        count(|score| score == Score::WrongCost),
    )
}

#[test]
fn a_draw_counts_unless_the_machine_was_disturbed() {
    let truth: Truth = serde_json::from_str(
        r#"{"cell": "a", "calm_us": 1.0, "faulty_us": 2.0, "calm_per_s": 1.0, "faulty_per_s": 1.0, "disturbance": ""}"#,
    )
    .unwrap();
    let answer: Answer = serde_json::from_str(r#"{"outcome": "not_held_back"}"#).unwrap();
    let draw = |score, is_disturbed| Draw {
        commit: "0123".to_owned(),
        truth: truth.clone(),
        answer: answer.clone(),
        score,
        is_disturbed,
    };
    let text = table(&[], &[draw(Score::Right, false), draw(Score::Green, false), draw(Score::Green, true)]);
    assert!(text.contains("| drawn by `make proof` | 2 | 1 | 0 | 0 | 1 | 9.5 to 90.5 % |"), "{text}");
}
