//! `cargo measure disk`: compares `fathom disk` with fio; the results are ratios.
//!
//! Both run the same requests on the same file, in turn, and are measured from outside. A missed target is printed but
//! is not a failure: the bench measures a machine, and fails only if a program fails.

mod crowd;
mod duel;
mod neighbours;
mod options;
mod place;
mod program;
mod shape;
mod table;
mod watch;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Result, bail};
use fathom_process::{Ledger, Signals};
use serde_json::json;

use crowd::Crowd;
use duel::DuelRow;
use neighbours::Patience;
use options::DiskBenchOptions;
use place::TestLocation;
use program::ProgramPaths;
use shape::RequestPattern;
pub(crate) use watch::status_number;

/// Compares in every place that the machine offers; `false` when a program failed.
pub(crate) fn run(root: PathBuf, arguments: &[String]) -> Result<bool> {
    let options = DiskBenchOptions::read(arguments)?;
    let signals = Signals::install()?;
    let ledger = Ledger::open()?;
    let mut bench = DiskBench {
        programs: ProgramPaths::find(&options.fio)?,
        rows: Vec::new(),
        crowd: None,
        places: Vec::new(),
        failures: Vec::new(),
        patience: Patience::new(options.patience_s),
        options,
        ledger,
        signals,
    };
    let load_before = load();
    bench.say(&format!(
        "fathom disk beside {}, {} rounds, load average {load_before}",
        bench.programs.fio_version, bench.options.rounds
    ))?;
    if bench.is_wanted("disk") {
        let place = TestLocation::on_disk(&root, &bench.options, &bench.ledger)?;
        bench.compare(place)?;
    }
    if bench.is_wanted("loop") {
        match TestLocation::in_memory(&bench.options, &bench.ledger) {
            Ok(place) => bench.compare(place)?,
            Err(error) => bench.say(&format!("\nloop: skipped: {error:#}"))?,
        }
    }
    if bench.places.is_empty() && bench.failures.is_empty() {
        bail!("nothing was compared; the filter fits no shape here");
    }
    bench.sum_up(&load_before)
}

struct DiskBench {
    options: DiskBenchOptions,
    programs: ProgramPaths,
    ledger: Ledger,
    signals: Signals,
    patience: Patience,
    places: Vec<serde_json::Value>,
    rows: Vec<DuelRow>,
    crowd: Option<Crowd>,
    failures: Vec<String>,
}

impl DiskBench {
    fn is_wanted(&self, place: &str) -> bool {
        !self.options.shapes(place).is_empty() || (place == "disk" && self.options.wants(&crowd::name()))
    }

    /// Runs all wanted comparisons in a place, and removes the place afterwards.
    fn compare(&mut self, mut place: TestLocation) -> Result<()> {
        let compared = self.compare_in(&mut place);
        let undone = place.undo().or_else(|error| self.failed(&error));
        compared.and(undone)
    }

    fn compare_in(&mut self, place: &mut TestLocation) -> Result<()> {
        let shapes = self.options.shapes(place.name);
        let writes = shapes.iter().any(|shape| shape.pattern != RequestPattern::RandRead);
        if let Err(error) = place.lay_out(&self.programs, &self.ledger, &self.signals, writes) {
            return self.failed(&error);
        }
        self.say(&format!(
            "\n{}: {}, files of {}, {} s a run",
            place.name, place.what, place.size, place.seconds
        ))?;
        self.places.push(json!({
            "name": place.name,
            "what": place.what,
            "file_bytes": place.size.get(),
            "seconds": place.seconds,
        }));
        if !shapes.is_empty() {
            self.say(&table::header())?;
        }
        for shape in shapes {
            match duel::fight(
                &self.programs,
                place,
                shape,
                self.options.rounds,
                &mut self.patience,
                &self.signals,
            ) {
                Ok(row) => {
                    self.say(&table::row(&row))?;
                    self.rows.push(row);
                }
                Err(error) => self.failed(&error)?,
            }
        }
        if place.name == "disk" && self.options.wants(&crowd::name()) {
            match crowd::gather(&self.programs, place, self.options.rounds, &self.signals) {
                Ok(crowd) => {
                    self.say(&table::crowd(&crowd))?;
                    self.crowd = Some(crowd);
                }
                Err(error) => self.failed(&error)?,
            }
        }
        Ok(())
    }

    /// Notes a failure and continues; an interruption ends all.
    fn failed(&mut self, error: &anyhow::Error) -> Result<()> {
        if self.signals.stopped() {
            bail!("interrupted");
        }
        let failure = format!("{error:#}");
        self.say(&format!("failed: {failure}"))?;
        self.failures.push(failure);
        Ok(())
    }

    fn sum_up(&self, load_before: &str) -> Result<bool> {
        if self.options.json {
            let document = json!({
                "fio_version": self.programs.fio_version,
                "fio_options": self.options.fio,
                "rounds": self.options.rounds,
                "load_average_before": load_before,
                "load_average_after": load(),
                "targets": { "iops_ratio_min": duel::IOPS_TARGET, "cpu_ratio_max": duel::CPU_TARGET },
                "places": self.places,
                "rows": self.rows,
                "threads": self.crowd,
                "failures": self.failures,
            });
            writeln!(io::stdout(), "{document}")?;
        } else {
            if !self.rows.is_empty() {
                self.say(&format!("\n{}", table::targets(&self.rows)))?;
            }
            self.say(&format!("load average at the end {}; {} failures", load(), self.failures.len()))?;
        }
        Ok(self.failures.is_empty())
    }

    /// Prints a line for the user: on standard output, or on standard error if the former carries JSON.
    fn say(&self, text: &str) -> Result<()> {
        if self.options.json {
            writeln!(io::stderr(), "{text}")?
        } else {
            writeln!(io::stdout(), "{text}")?
        }
        Ok(())
    }
}

/// The three load averages (proc_loadavg(5)).
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
