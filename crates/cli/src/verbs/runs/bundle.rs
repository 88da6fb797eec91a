//! `fathom runs export`, `import` and `verify`: pack a run into one file, unpack it, and check it.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fathom_record::bundle::{self, MAX_BYTES};
use fathom_record::folders::RunFolder;
use fathom_report::printable;
use fathom_session::open_run;
use fathom_units::Bytes;

use super::list::RunsFolder;
use crate::outcome::VerbOutcome;
use crate::output;
use crate::output_file::{OutputFile, cannot_write};
use crate::run_page::look_at;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The run: a path, its name, or a part of the name
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The file of the bundle [default: NAME.tar.zst here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The bundle to unpack
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// Maximum size of the unpacked run
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(MAX_BYTES))]
    most: Bytes,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The bundle, or the run
    #[arg(value_name = "BUNDLE|RUN")]
    subject: PathBuf,
}

pub(super) fn export(args: &ExportArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    let run = look_at(&place.find(&args.run)?)?;
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.tar.zst", run.name)));
    let output_file = OutputFile::create(&file)?;
    let mut out = BufWriter::new(output_file.file());
    let packed = bundle::pack(&run, &mut out)?;
    out.flush().map_err(|cause| cannot_write(&file, cause))?;
    drop(out);
    output_file.persist(args.force)?;
    for name in packed.left_out.iter().filter(|name| run.contents.foreign.contains(name)) {
        output::note(&format!("fathom: left out, since Fathom did not write it: {}", printable(name)));
    }
    output::line(&file.display().to_string())?;
    Ok(VerbOutcome::Clean)
}

pub(super) fn import(args: &ImportArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    let unpacked = bundle::unpack(&args.bundle, &place.parent()?, args.most.get())?;
    output::line(&unpacked.folder.display().to_string())?;
    Ok(VerbOutcome::Clean)
}

/// Checks a bundle against its checksums, or reads every part of a run.
pub(super) fn verify(args: &VerifyArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    if args.subject.is_file() {
        let list = bundle::check(&args.subject, u64::MAX >> 1)?;
        let bytes = Bytes(list.bytes().unwrap_or(0));
        let files = list.files.len();
        output::line(&format!("{}: {files} files, {bytes}, every SHA-256 is right", list.run))?;
        return Ok(VerbOutcome::Clean);
    }
    let run = look_at(&place.find(&args.subject)?)?;
    let mut wrong = unreadable(&run)?;
    wrong.extend(run.contents.foreign.iter().map(|name| format!("{name} is not of Fathom")));
    for what in &wrong {
        output::line(&printable(what))?;
    }
    let (name, word) = (printable(&run.name), run.condition.word());
    match wrong.len() {
        0 => output::line(&format!("{name}: {word}, every part can be read"))?,
        count => output::line(&format!("{name}: {word}, {count} things are wrong"))?,
    }
    Ok(if wrong.is_empty() { VerbOutcome::Clean } else { VerbOutcome::Findings })
}

/// A sentence for each part that cannot be read.
fn unreadable(folder: &RunFolder) -> Result<Vec<String>> {
    let run = open_run(&folder.path)?;
    let mut wrong = Vec::new();
    let mut note = |result: fathom_errors::Result<()>| wrong.extend(result.err().map(|e| e.to_string()));
    note(run.series().map(drop));
    note(run.results().map(drop));
    note(run.findings().map(drop));
    for name in run.latency_names()? {
        note(run.latency(&name).map(drop));
    }
    Ok(wrong)
}
