//! Test cases that compare long random histories of several sessions with a model, call by call.
//!
//! A history is made from a seed before it is played, so a failing history can be shortened: parts are left out as long as it
//! still fails, and the rest is printed. `FATHOM_MODEL_SEED` plays one seed; otherwise `FATHOM_MODEL_ROUNDS` sets how many
//! seeds are played.

mod history;
mod play;
mod state;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::Subject;
use super::fixture::{Fixture, OwnedKey, all};
use history::ModelStep;
use state::ModelRows;

/// The time limit for shortening a failing history.
const SHRINK_TIMEOUT: Duration = Duration::from_secs(20);

/// A dozen keys that all sessions use: frequent conflicts, duplicates and removals.
pub fn few_keys_many_conflicts(subject: &Subject<'_>) {
    run(subject, 12, 1500);
}

/// Hundreds of keys, so that tables have structure: long scans and ranges.
pub fn many_keys_long_walks(subject: &Subject<'_>) {
    run(subject, 400, 4000);
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn run(subject: &Subject<'_>, keys: u64, steps: usize) {
    let seeds: Vec<u64> = match from_environment("FATHOM_MODEL_SEED") {
        Some(seed) => vec![seed],
        None => (1..=from_environment("FATHOM_MODEL_ROUNDS").unwrap_or(5)).collect(),
    };
    for seed in seeds {
        let history = history::make(seed, keys, steps);
        let mut place = Fixture::new(subject);
        match play::play(&*place.engine, "model", &history) {
            Ok(rows) if subject.durable => compare_after_reopen(&mut place, &rows, seed),
            Ok(_) => (),
            Err(complaint) => {
                let (shortest, complaint) = shorten(&place, history, complaint);
                panic!("{}", describe(seed, &shortest, &complaint));
            }
        }
    }
}

/// The rows of the model at the end are those of the engine after a close.
fn compare_after_reopen(place: &mut Fixture<'_>, rows: &[ModelRows; 2], seed: u64) {
    place.reopen();
    let session = place.session();
    for (ident, expected) in play::idents("model").iter().zip(rows) {
        let table = place.engine.open_table(ident).unwrap();
        let found: Vec<(OwnedKey, Vec<u8>)> = all(&*session, &table);
        let expected: Vec<_> = expected.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        assert!(
            found == expected,
            "seed {seed}: table {ident} is another one after closing and opening again"
        );
    }
}

/// Leaves out parts, large ones first, as long as the rest still fails.
fn shorten(
    place: &Fixture<'_>,
    mut history: Vec<ModelStep>,
    mut complaint: String,
) -> (Vec<ModelStep>, String) {
    let deadline = Instant::now() + SHRINK_TIMEOUT;
    let mut part = history.len() / 2;
    let mut trial = 0;
    while part > 0 && Instant::now() < deadline {
        let mut start = 0;
        while start < history.len() && Instant::now() < deadline {
            let end = (start + part).min(history.len());
            let kept = [history.get(..start), history.get(end..)].into_iter().flatten().flatten();
            let shorter: Vec<ModelStep> = kept.cloned().collect();
            trial += 1;
            match play::play(&*place.engine, &format!("shorter-{trial}"), &shorter) {
                Ok(_) => start = end,
                Err(new) => (history, complaint) = (shorter, new),
            }
        }
        part /= 2;
    }
    (history, complaint)
}

fn describe(seed: u64, history: &[ModelStep], complaint: &str) -> String {
    let mut text = format!("seed {seed}: {complaint}\nin this history of {} steps:\n", history.len());
    for (place, step) in history.iter().enumerate() {
        let _ = writeln!(text, "{place:5}  session {}: {:?}", step.session, step.act);
    }
    text
}
