//! One trial: storage is made, servers are started, loaded and asked, or the disk is probed; then all of it goes again.
//!
//! A trial that fails leaves nothing behind and says why; the study goes on with the next.

mod child;
mod figures;
mod probing;
pub(crate) mod serving;
pub(crate) mod targets;

use std::path::Path;
use std::time::{Duration, Instant};

use fathom_errors::Result;

pub(crate) use figures::Figures;

use crate::{Bench, Measures, Setup, Study};

/// What a trial brought.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it measured.
    pub figures: Figures,
    /// What was made for it, and what the kernel said of that.
    pub facts: Vec<(String, String)>,
    /// How long all of it took.
    pub took: Duration,
}

/// Runs a trial whose records go below `folder`.
pub(crate) fn run(bench: &Bench, study: &Study, setup: &Setup, seed: u64, folder: &Path) -> Result<Outcome> {
    let began = Instant::now();
    let targets = targets::prepare(bench, setup)?;
    let facts = targets.facts();
    let figures = match study.measures {
        Measures::Load => serving::run(bench, setup, &targets, seed, folder),
        Measures::Probe => probing::run(bench, setup, &targets, seed, folder),
    };
    let undone = targets.undo();
    let figures = figures?;
    undone?;
    Ok(Outcome { figures, facts, took: began.elapsed() })
}
