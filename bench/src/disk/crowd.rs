//! Measures a thousand threads: the memory that each program takes for them, and the time until all of them run.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use fathom_process::Signals;
use fathom_stats::median;
use serde::Serialize;

use super::duel::fine;
use super::place::TestLocation;
use super::program::{ComparedProgram, ProgramPaths, document, iops};
use super::shape::{BenchShape, RequestPattern};
use super::watch::{ChildProgram, has_moved, status_number, threads};

/// Threads, each with one request in flight.
pub(super) const THREADS: u32 = 1024;
/// The maximum memory of `fathom disk` with all of them (issue 2, "Beside fio").
pub(super) const MEMORY_TARGET_BYTES: u64 = 200 << 20;
/// The maximum time until all of them run, in seconds.
pub(super) const START_TARGET_S: f64 = 1.0;
/// The interval between two counts of a program's threads.
const COUNT_INTERVAL: Duration = Duration::from_millis(2);
/// A run must outlast the start of its threads.
const SECONDS: u64 = 2;

/// Medians over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CrowdFigures {
    /// Largest resident set (`VmHWM`), bytes.
    pub(super) peak_bytes: u64,
    /// From the program's start until every thread has made its first read, seconds; the worst round too.
    pub(super) all_running_s: f64,
    /// The longest of the rounds.
    pub(super) all_running_max_s: f64,
    pub(super) iops: f64,
}

/// Both programs with a thousand threads.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Crowd {
    /// Threads that did the work.
    pub(super) threads: u32,
    pub(super) fathom: CrowdFigures,
    pub(super) fio: CrowdFigures,
    /// True if our memory is below the target.
    pub(super) memory_ok: bool,
    /// True if our threads all ran in time.
    pub(super) start_ok: bool,
}

/// The row's name, for the filter.
pub(super) fn name() -> String {
    format!("disk {THREADS} threads")
}

/// Runs both programs with [`THREADS`] threads, `rounds` times.
pub(super) fn gather(
    programs: &ProgramPaths,
    place: &TestLocation,
    rounds: u64,
    signals: &Signals,
) -> Result<Crowd> {
    let mut fathom = Vec::new();
    let mut fio = Vec::new();
    for _ in 0..rounds {
        for (program, runs) in [(ComparedProgram::Fio, &mut fio), (ComparedProgram::Fathom, &mut fathom)] {
            let run = once(programs, program, place, signals);
            runs.push(run.with_context(|| format!("{} with {THREADS} threads", program.name()))?);
        }
    }
    let (fathom, fio) = (figures(&fathom).context("no rounds")?, figures(&fio).context("no rounds")?);
    Ok(Crowd {
        threads: THREADS,
        memory_ok: fathom.peak_bytes < MEMORY_TARGET_BYTES,
        start_ok: fathom.all_running_s <= START_TARGET_S,
        fathom,
        fio,
    })
}

/// Peak bytes, seconds until all ran, operations per second.
type Run = (u64, f64, f64);

fn once(
    programs: &ProgramPaths,
    program: ComparedProgram,
    place: &TestLocation,
    signals: &Signals,
) -> Result<Run> {
    let shape = BenchShape { pattern: RequestPattern::RandRead, engine: "psync", depth: THREADS };
    let mut running =
        ChildProgram::start(programs.command(program, place, shape, SECONDS), SECONDS, signals)?;
    running.until(COUNT_INTERVAL, |pid| status_number(pid, "Threads:") > Some(u64::from(THREADS)))?;
    let mut busy = HashSet::new();
    let all_run = |pid| {
        for thread in threads(pid) {
            // A thread that was seen running is not read again: a thousand files are too many to read each time.
            if thread != pid && !busy.contains(&thread) && has_moved(pid, thread) {
                busy.insert(thread);
            }
        }
        busy.len() >= THREADS as usize
    };
    let all_running = running.until(COUNT_INTERVAL, all_run)?;
    let all_running = all_running.context("it ended before all its threads had made a read")?;
    let (output, peak_bytes) = running.finish(fine(program))?;
    Ok((peak_bytes, all_running.as_secs_f64(), iops(program, &document(&output)?)?))
}

fn figures(runs: &[Run]) -> Option<CrowdFigures> {
    let column = |pick: fn(&Run) -> f64| runs.iter().map(pick).collect::<Vec<f64>>();
    let starts = column(|run| run.1);
    Some(CrowdFigures {
        peak_bytes: runs.iter().map(|run| run.0).max()?,
        all_running_s: median(&starts)?,
        all_running_max_s: starts.iter().copied().fold(0.0, f64::max),
        iops: median(&column(|run| run.2))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_worst_and_time_the_median() {
        let figures = figures(&[(10, 0.3, 5.0), (30, 0.1, 7.0), (20, 0.9, 6.0)]).unwrap();
        assert_eq!((figures.peak_bytes, figures.all_running_s, figures.iops), (30, 0.3, 6.0));
        assert_eq!(figures.all_running_max_s, 0.9);
    }
}
