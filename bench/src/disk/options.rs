//! The options of the bench, from the environment and the command line. Options that would measure nothing, or take a day, are refused.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::shape::BenchShape;

/// The parts to run, and their lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DiskBenchOptions {
    /// `BENCH_ROUNDS`: the number of runs of each shape by each program.
    pub(super) rounds: u64,
    /// `BENCH_SECONDS`: the length of one run.
    pub(super) seconds: u64,
    /// `BENCH_PATIENCE`: the total number of seconds for runs that other programs disturbed.
    pub(super) patience_s: u64,
    /// `BENCH_DIR`: a folder on the disk; if absent, one in the tree's own target folder.
    pub(super) dir: Option<PathBuf>,
    /// `BENCH_FIO`: further options for fio, such as `--fixedbufs --registerfiles`.
    pub(super) fio: Vec<String>,
    /// One JSON document on standard output instead of the table.
    pub(super) json: bool,
    /// Words that a row's name must all contain (`loop io_uring`); all rows where empty.
    filter: Vec<String>,
}

impl DiskBenchOptions {
    /// Reads the environment and `arguments`.
    pub(super) fn read(arguments: &[String]) -> Result<DiskBenchOptions> {
        DiskBenchOptions::parse(arguments, |name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn parse(arguments: &[String], variable: impl Fn(&str) -> Option<String>) -> Result<DiskBenchOptions> {
        let number = |name: &str, default: u64, most: u64| -> Result<u64> {
            let Some(text) = variable(name) else { return Ok(default) };
            let number: u64 = text.parse().with_context(|| format!("{name}={text} is no whole number"))?;
            if !(1..=most).contains(&number) {
                bail!("{name}={number} makes no sense; take 1 to {most}");
            }
            Ok(number)
        };
        let mut options = DiskBenchOptions {
            rounds: number("BENCH_ROUNDS", 5, 1_000)?,
            seconds: number("BENCH_SECONDS", 3, 3_600)?,
            patience_s: number("BENCH_PATIENCE", 60, 86_400)?,
            dir: variable("BENCH_DIR").map(PathBuf::from),
            fio: variable("BENCH_FIO").unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
            json: false,
            filter: Vec::new(),
        };
        for argument in arguments {
            match argument.as_str() {
                "--json" => options.json = true,
                flag if flag.starts_with('-') => bail!("bench knows --json only, not '{flag}'"),
                words => options.filter.extend(words.split_whitespace().map(str::to_owned)),
            }
        }
        Ok(options)
    }

    /// Returns whether the filter lets a row of this name run.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.filter.iter().all(|word| name.contains(word.as_str()))
    }

    /// The shapes that are wanted in a place.
    pub(super) fn shapes(&self, place: &str) -> Vec<BenchShape> {
        BenchShape::ALL.into_iter().filter(|shape| self.wants(&format!("{place} {shape}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str], variables: &[(&str, &str)]) -> Result<DiskBenchOptions> {
        let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        DiskBenchOptions::parse(&arguments, find)
    }

    #[test]
    fn defaults_and_knobs() {
        let options = parse(&[], &[]).unwrap();
        assert_eq!((options.rounds, options.seconds, options.json), (5, 3, false));
        let options =
            parse(&["--json"], &[("BENCH_ROUNDS", "2"), ("BENCH_FIO", "--fixedbufs --x=1")]).unwrap();
        assert_eq!((options.rounds, options.json, options.fio.len()), (2, true, 2));
        for (name, value) in [("BENCH_ROUNDS", "0"), ("BENCH_SECONDS", "x"), ("BENCH_SECONDS", "-1")] {
            assert!(parse(&[], &[(name, value)]).is_err(), "{name}={value}");
        }
        assert!(parse(&["--jsn"], &[]).is_err());
    }

    #[test]
    fn the_filter_picks_rows_by_words() {
        let all = parse(&[], &[]).unwrap();
        assert_eq!(all.shapes("disk").len(), BenchShape::ALL.len());
        let one = parse(&["disk", "io_uring 128"], &[]).unwrap();
        assert_eq!((one.shapes("disk").len(), one.shapes("loop").len()), (1, 0));
        assert!(!one.wants("disk 1024 threads"));
    }
}
