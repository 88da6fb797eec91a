//! Runs one shape by both programs in turn, and compares the pairs of runs.
//!
//! The order changes each round, so that a disk that slows down over time favours neither. Ratios are taken within a
//! round, between runs that follow each other, and their median is judged, which a disturbed round changes little.

use anyhow::{Context, Result};
use fathom_process::Signals;
use fathom_stats::median;
use serde::Serialize;

use super::neighbours::{Neighbours, Patience};
use super::place::TestLocation;
use super::program::{ComparedProgram, ProgramPaths, document, iops};
use super::shape::{BenchShape, RequestPattern};
use super::watch::{BlockCounts, ChildProgram};

/// The minimum IOPS of `fathom disk` as a share of fio's (issue 2, "Beside fio").
pub(super) const IOPS_TARGET: f64 = 0.98;
/// The maximum CPU time per I/O of `fathom disk` as a share of fio's.
pub(super) const CPU_TARGET: f64 = 1.05;
/// The middle of a run, as shares of its length after the first request; it excludes the cost of start and end.
const MIDDLE: (f64, f64) = (0.3, 0.85);
const BLOCK_BYTES: u64 = 4096;

/// One run of one program.
#[derive(Clone, Copy, Debug)]
struct Sample {
    iops: f64,
    counted: Option<BlockCounts>,
}

/// Two programs' figures and their ratio, over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct ProgramRatio {
    /// Median of our program.
    pub(super) fathom: f64,
    pub(super) fio: f64,
    /// Median of the rounds' ratios, ours to fio's.
    pub(super) ratio: f64,
    /// Smallest ratio of a round.
    pub(super) ratio_min: f64,
    pub(super) ratio_max: f64,
    /// True if the median ratio reaches the target.
    pub(super) ok: bool,
}

impl ProgramRatio {
    /// Compares paired figures; `None` without any.
    fn new(pairs: &[(f64, f64)], reaches: impl Fn(f64) -> bool) -> Option<ProgramRatio> {
        let column = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).collect::<Vec<f64>>();
        let ratios = column(|(fathom, fio)| fathom / fio);
        let ratio = median(&ratios)?;
        Some(ProgramRatio {
            fathom: median(&column(|pair| pair.0))?,
            fio: median(&column(|pair| pair.1))?,
            ratio,
            ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_max: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ok: reaches(ratio),
        })
    }
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DuelRow {
    pub(super) place: &'static str,
    pub(super) shape: String,
    pub(super) rounds: u64,
    /// The number of rounds that other programs disturbed.
    pub(super) disturbed: u64,
    /// Operations per second, by the programs' own account.
    pub(super) iops: ProgramRatio,
    /// CPU microseconds per I/O, by the kernel's account; absent if it keeps none.
    pub(super) cpu_us_per_io: Option<ProgramRatio>,
    /// Blocks per second that the kernel counted in the middle of the runs, to check the programs' own figures.
    pub(super) counted_per_s: Option<ProgramRatio>,
}

/// Runs `shape` in `place`, `rounds` times by each program, and disturbed rounds again while `patience` lasts.
pub(super) fn fight(
    programs: &ProgramPaths,
    place: &TestLocation,
    shape: BenchShape,
    rounds: u64,
    patience: &mut Patience,
    signals: &Signals,
) -> Result<DuelRow> {
    let mut pairs = Vec::new();
    let mut disturbed = 0;
    while (pairs.len() as u64) < rounds {
        let run = |program| {
            sample(programs, program, place, shape, signals)
                .with_context(|| format!("{}, {} {shape}", program.name(), place.name))
        };
        let before = Neighbours::look();
        let pair = if pairs.len() % 2 == 0 {
            let fio = run(ComparedProgram::Fio)?;
            (run(ComparedProgram::Fathom)?, fio)
        } else {
            (run(ComparedProgram::Fathom)?, run(ComparedProgram::Fio)?)
        };
        if before.disturbed() {
            if patience.allows(&before, signals)? {
                continue;
            }
            disturbed += 1;
        }
        pairs.push(pair);
    }
    row(place.name, shape, &pairs, disturbed).context("no rounds")
}

fn sample(
    programs: &ProgramPaths,
    program: ComparedProgram,
    place: &TestLocation,
    shape: BenchShape,
    signals: &Signals,
) -> Result<Sample> {
    if shape.pattern == RequestPattern::Append && program == ComparedProgram::Fio {
        place.empty_fio_journal()?;
    }
    let command = programs.command(program, place, shape, place.seconds);
    let mut running = ChildProgram::start(command, place.seconds, signals)?;
    let counted = running.count(place.seconds, MIDDLE, BLOCK_BYTES)?;
    let (output, _) = running.finish(fine(program))?;
    Ok(Sample { iops: iops(program, &document(&output)?)?, counted })
}

/// The exit codes that are not failures: `fathom disk` ends with 1 when it has findings.
pub(super) fn fine(program: ComparedProgram) -> &'static [i32] {
    match program {
        ComparedProgram::Fathom => &[0, 1],
        ComparedProgram::Fio => &[0],
    }
}

fn row(
    place: &'static str,
    shape: BenchShape,
    pairs: &[(Sample, Sample)],
    disturbed: u64,
) -> Option<DuelRow> {
    let own: Vec<(f64, f64)> = pairs.iter().map(|(fathom, fio)| (fathom.iops, fio.iops)).collect();
    let counted = |pick: fn(&BlockCounts) -> f64| -> Vec<(f64, f64)> {
        let both = |(fathom, fio): &(Sample, Sample)| Some((pick(&fathom.counted?), pick(&fio.counted?)));
        pairs.iter().filter_map(both).collect()
    };
    let at_least = |ratio: f64| ratio >= IOPS_TARGET;
    Some(DuelRow {
        place,
        shape: shape.to_string(),
        rounds: pairs.len() as u64,
        disturbed,
        iops: ProgramRatio::new(&own, at_least)?,
        cpu_us_per_io: ProgramRatio::new(&counted(|c| c.cpu_us_per_io), |ratio| ratio <= CPU_TARGET),
        counted_per_s: ProgramRatio::new(&counted(|c| c.io_per_s), at_least),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_paired_ratios_is_judged() {
        // The disk halves its speed in the last round: the ratio of medians would be 0.9, that of the pairs is 1.0.
        let pairs = [(100.0, 100.0), (90.0, 100.0), (50.0, 50.0)];
        let comparison = ProgramRatio::new(&pairs, |ratio| ratio >= IOPS_TARGET).unwrap();
        assert_eq!((comparison.fathom, comparison.fio, comparison.ratio), (90.0, 100.0, 1.0));
        assert_eq!((comparison.ratio_min, comparison.ratio_max, comparison.ok), (0.9, 1.0, true));
        assert!(ProgramRatio::new(&[], |_| true).is_none());
    }

    #[test]
    fn a_missed_target_is_said_and_a_missing_account_is_absent() {
        let sample = |iops, cpu_us_per_io| Sample {
            iops,
            counted: Some(BlockCounts { cpu_us_per_io, io_per_s: iops }),
        };
        let [shape, ..] = BenchShape::ALL;
        let slow = row("disk", shape, &[(sample(97.0, 5.0), sample(100.0, 4.0))], 0).unwrap();
        assert!(!slow.iops.ok && !slow.cpu_us_per_io.unwrap().ok);
        let uncounted = Sample { iops: 99.0, counted: None };
        let row = row("disk", shape, &[(uncounted, sample(100.0, 4.0))], 0).unwrap();
        assert!(row.iops.ok && row.cpu_us_per_io.is_none());
    }
}
