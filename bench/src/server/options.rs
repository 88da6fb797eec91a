//! The options of the bench of the server, from the environment and the command line.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::lab::BenchEngine;

/// The parts to run, and their lengths.
#[derive(Clone, Debug)]
pub(super) struct ServerBenchOptions {
    /// Engines named on the command line; both if none is.
    pub(super) engines: Vec<BenchEngine>,
    /// Rows named on the command line; all if none is.
    rows: Vec<String>,
    /// `BENCH_ROUNDS`: pairs of runs for each ratio.
    pub(super) rounds: u64,
    /// `BENCH_SECONDS`: the length of one run of a pair.
    pub(super) seconds: u64,
    /// `BENCH_MINUTES`: the time for which memory is watched.
    pub(super) minutes: u64,
    /// `BENCH_CACHE_GB`: the engine's cache; if absent, mongod's default for the machine. Below ten times the data, updates
    /// reach the dirty target of 5 % and eviction writes pages all the time, which is not the subject here.
    cache_gb: Option<u64>,
    /// `BENCH_DIR`: the directory of the data; by default the tree's own target folder.
    pub(super) dir: Option<PathBuf>,
}

/// The rows that can be named.
pub(super) const ROWS: [&str; 4] = ["reads", "cpu", "load", "memory"];

impl ServerBenchOptions {
    /// Reads the environment and `arguments`.
    pub(super) fn read(arguments: &[String]) -> Result<ServerBenchOptions> {
        ServerBenchOptions::parse(arguments, |name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn parse(arguments: &[String], variable: impl Fn(&str) -> Option<String>) -> Result<ServerBenchOptions> {
        let number = |name: &str, default: u64| -> Result<u64> {
            let Some(text) = variable(name) else { return Ok(default) };
            let number: u64 = text.parse().with_context(|| format!("{name}={text} is no whole number"))?;
            if number == 0 || number > 3600 {
                bail!("{name}={number} makes no sense; take 1 to 3600");
            }
            Ok(number)
        };
        let mut options = ServerBenchOptions {
            engines: Vec::new(),
            rows: Vec::new(),
            rounds: number("BENCH_ROUNDS", 5)?,
            seconds: number("BENCH_SECONDS", 3)?,
            minutes: number("BENCH_MINUTES", 3)?,
            cache_gb: variable("BENCH_CACHE_GB").map(|_| number("BENCH_CACHE_GB", 1)).transpose()?,
            dir: variable("BENCH_DIR").map(PathBuf::from),
        };
        for argument in arguments {
            let engine = BenchEngine::ALL.into_iter().find(|engine| engine.name() == argument);
            match engine {
                Some(engine) => options.engines.push(engine),
                None if ROWS.contains(&argument.as_str()) => options.rows.push(argument.clone()),
                None => {
                    bail!("server takes wiredTiger, rocksdb, {}, not '{argument}'", ROWS.join(", "))
                }
            }
        }
        if options.engines.is_empty() {
            options.engines.extend(BenchEngine::ALL);
        }
        Ok(options)
    }

    /// Returns whether a row is wanted.
    pub(super) fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|name| name == row)
    }

    pub(super) fn flags(&self) -> Vec<String> {
        let gb = self.cache_gb.iter();
        gb.flat_map(|gb| ["wiredTiger", "rocksdb"].map(|engine| format!("--{engine}CacheSizeGB={gb}")))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_and_rows_are_picked_by_name() {
        let parse = |words: &[&str]| {
            ServerBenchOptions::parse(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), |_| {
                None
            })
        };
        let all = parse(&[]).unwrap();
        assert_eq!((all.engines.len(), all.wants("cpu"), all.rounds), (2, true, 5));
        let one = parse(&["rocksdb", "reads"]).unwrap();
        assert_eq!((one.engines, one.rows), (vec![BenchEngine::RocksDb], vec!["reads".to_owned()]));
        assert!(parse(&["read"]).is_err());
        assert!(ServerBenchOptions::parse(&[], |_| Some("0".to_owned())).is_err());
    }
}
