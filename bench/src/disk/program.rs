//! The two programs: the options for each shape, and how each reports its rate.
//!
//! fio gets the options for the behaviour that `fathom disk` has by default: O_DIRECT, offsets drawn each time, data that never
//! repeats, and threads instead of processes. A run that either program reports as failed is a failure here, never a slow result.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::place::TestLocation;
use super::shape::{BenchShape, RequestPattern};
use crate::lab::beside;

/// The file that only fio writes, of the same size and in the same folder as ours.
pub(super) const FIO_DATA: &str = "fio.dat";
/// The file that fio appends to.
pub(super) const FIO_JOURNAL: &str = "fio.journal";
/// The name of the data file of `fathom disk`.
pub(super) const FATHOM_DATA: &str = "fathom-probe.dat";

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparedProgram {
    Fathom,
    Fio,
}

impl ComparedProgram {
    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            ComparedProgram::Fathom => "fathom",
            ComparedProgram::Fio => "fio",
        }
    }
}

/// The paths of the programs.
pub(super) struct ProgramPaths {
    fathom: PathBuf,
    fio_options: Vec<String>,
    /// The version that fio reports (`fio-3.33`).
    pub(super) fio_version: String,
}

impl ProgramPaths {
    /// The `fathom` that was built with this program, and the fio on the path.
    pub(super) fn find(fio_options: &[String]) -> Result<ProgramPaths> {
        let fathom = beside("fathom")?;
        let answer = Command::new("fio").arg("--version").output();
        let answer = answer.context("fio does not start; 'apt-get install fio' brings it")?;
        let fio_version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        Ok(ProgramPaths { fathom, fio_options: fio_options.to_vec(), fio_version })
    }

    /// `program` on `shape` in `place` for `seconds`.
    pub(super) fn command(
        &self,
        program: ComparedProgram,
        place: &TestLocation,
        shape: BenchShape,
        seconds: u64,
    ) -> Command {
        match program {
            ComparedProgram::Fathom => self.fathom(place, shape, &format!("{seconds}s")),
            ComparedProgram::Fio => self.fio(place, shape, seconds),
        }
    }

    /// Our own program; it keeps its data file for the next run.
    pub(super) fn fathom(&self, place: &TestLocation, shape: BenchShape, time: &str) -> Command {
        let mut command = Command::new(&self.fathom);
        command.args(["disk", "--block", "4K", "--keep", "--no-record", "--json"]);
        command.arg("--dir").arg(&place.dir).args(["--size", &place.size.get().to_string()]);
        command.args(["--pattern", shape.pattern.word(), "--engine", shape.engine]);
        command.args(["--depth", &shape.depth.to_string(), "--time", time]);
        command
    }

    fn fio(&self, place: &TestLocation, shape: BenchShape, seconds: u64) -> Command {
        let (file, pattern) = match shape.pattern {
            RequestPattern::RandRead => (FATHOM_DATA, "randread"),
            RequestPattern::RandWrite => (FIO_DATA, "randwrite"),
            RequestPattern::Append => (FIO_JOURNAL, "write"),
        };
        let mut command = fio_job(&place.dir.join(file), place.size.get());
        command.args(["--bs=4k", "--randrepeat=0", "--norandommap", "--thread", "--group_reporting"]);
        command.args(["--time_based", &format!("--runtime={seconds}"), &format!("--rw={pattern}")]);
        let parallel = if shape.engine == "io_uring" { "iodepth" } else { "numjobs" };
        command.args([&format!("--ioengine={}", shape.engine), &format!("--{parallel}={}", shape.depth)]);
        if shape.pattern != RequestPattern::RandRead {
            command.arg("--refill_buffers=1");
        }
        if shape.pattern == RequestPattern::Append {
            command.arg("--fdatasync=1");
        }
        command.args(&self.fio_options);
        command
    }
}

/// The part of fio's command line that all jobs share.
pub(super) fn fio_job(file: &Path, size_bytes: u64) -> Command {
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--direct=1", "--fallocate=none", "--output-format=json"]);
    command.arg(format!("--filename={}", file.display())).arg(format!("--size={size_bytes}"));
    command
}

/// The last document on a program's standard output; fio puts notes before it (axboe/fio#672).
pub(super) fn document(output: &str) -> Result<Value> {
    let json = output.find('{').and_then(|at| output.get(at..)).context("it printed no JSON")?;
    serde_json::from_str(json).context("what it printed is no JSON")
}

/// Operations per second as reported by the program: reads and writes; a write counts once its sync is done.
pub(super) fn iops(program: ComparedProgram, document: &Value) -> Result<f64> {
    let per_s = match program {
        ComparedProgram::Fathom => fathom_iops(document)?,
        ComparedProgram::Fio => fio_iops(document)?,
    };
    if per_s > 0.0 { Ok(per_s) } else { bail!("{} did nothing", program.name()) }
}

fn fathom_iops(document: &Value) -> Result<f64> {
    if document["state"] != "complete" {
        bail!("it ended as {}: {}", document["state"], document["error"]);
    }
    let results = document["results"].as_array().context("no results")?;
    let step = results.iter().find(|entry| entry["type"] == "step").context("no step in its results")?;
    let operations = step["streams"][0]["operations"].as_array().context("no operations in its step")?;
    let of = |kind: &str| operations.iter().find(|o| o["kind"] == kind).and_then(|o| o["per_s"].as_f64());
    Ok(of("durable").or_else(|| of("write")).or_else(|| of("read")).unwrap_or(0.0))
}

fn fio_iops(document: &Value) -> Result<f64> {
    let job = &document["jobs"][0];
    if job["error"] != 0 {
        bail!("it ended with error {}", job["error"]);
    }
    let of = |direction: &str| job[direction]["iops"].as_f64().context("no iops in its job");
    Ok(of("read")? + of("write")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_both_programs() {
        let fathom = r#"{"state": "complete", "results": [{"type": "subject"}, {"type": "step", "streams":
            [{"operations": [{"kind": "write", "per_s": 9.0}, {"kind": "durable", "per_s": 8.0}]}]}]}"#;
        assert_eq!(iops(ComparedProgram::Fathom, &document(fathom).unwrap()).unwrap(), 8.0);
        let fio =
            "note: x\n{\"jobs\": [{\"error\": 0, \"read\": {\"iops\": 2.5}, \"write\": {\"iops\": 0.0}}]}";
        assert_eq!(iops(ComparedProgram::Fio, &document(fio).unwrap()).unwrap(), 2.5);
    }

    #[test]
    fn failures_are_no_results() {
        for (program, text) in [
            (ComparedProgram::Fathom, r#"{"state": "failed", "error": "no space", "results": []}"#),
            (ComparedProgram::Fathom, r#"{"state": "complete", "results": []}"#),
            (ComparedProgram::Fio, r#"{"jobs": [{"error": 5, "read": {"iops": 2}, "write": {"iops": 0}}]}"#),
            (ComparedProgram::Fio, r#"{"jobs": [{"error": 0, "read": {"iops": 0}, "write": {"iops": 0}}]}"#),
            (ComparedProgram::Fio, "{}"),
        ] {
            assert!(iops(program, &document(text).unwrap()).is_err(), "{text}");
        }
        assert!(document("fio: no such file").is_err());
    }
}
