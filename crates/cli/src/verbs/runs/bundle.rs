//! `fathom runs export`, `import` and `verify`: a run as one file, and back.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use fathom_errors::{Error, Kind};
use fathom_record::Run;
use fathom_record::bundle::{self, BYTES_MAX};
use fathom_record::folders::{RunFolder, look};
use fathom_report::printable;
use fathom_units::Bytes;

use super::list::RunsFolder;
use crate::outcome::Outcome;
use crate::output;

/// What the command line may say.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The run: a path, its name, or a part of the name
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Where the bundle goes [default: NAME.tar.zst here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a file that is there already
    #[arg(long)]
    force: bool,
}

/// What the command line may say.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The bundle
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    /// The most that it may unpack to
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(BYTES_MAX))]
    most: Bytes,
}

/// What the command line may say.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The bundle, or the run
    #[arg(value_name = "BUNDLE|RUN")]
    subject: PathBuf,
}

/// Packs.
pub(super) fn export(args: &ExportArgs, place: &RunsFolder) -> Result<Outcome> {
    let run = look_at(&place.find(&args.run)?)?;
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.tar.zst", run.name)));
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |e: std::io::Error| Error::io("write", &file, e).advise("name another place with -o");
    let beside = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let mut out = BufWriter::new(beside.as_file());
    let packed = bundle::pack(&run, &mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    readable_by_all(beside.as_file()).map_err(failed)?;
    let kept = if args.force { beside.persist(&file) } else { beside.persist_noclobber(&file) };
    kept.map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let what = format!("{} is there already", file.display());
            Error::new(Kind::NotOurs, what).advise("--force replaces it")
        }
        _ => failed(error.error),
    })?;
    for name in packed.left_out.iter().filter(|name| run.contents.foreign.contains(name)) {
        output::note(&format!("fathom: left out, since Fathom did not write it: {}", printable(name)));
    }
    output::line(&file.display().to_string())?;
    Ok(Outcome::Clean)
}

/// A temporary file is its owner's only; a bundle is made to be handed on.
fn readable_by_all(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Unpacks.
pub(super) fn import(args: &ImportArgs, place: &RunsFolder) -> Result<Outcome> {
    let unpacked = bundle::unpack(&args.bundle, &place.parent()?, args.most.get())?;
    output::line(&unpacked.folder.display().to_string())?;
    Ok(Outcome::Clean)
}

/// Checks a bundle against its sums, or reads every part of a run.
pub(super) fn verify(args: &VerifyArgs, place: &RunsFolder) -> Result<Outcome> {
    if args.subject.is_file() {
        let list = bundle::check(&args.subject, u64::MAX >> 1)?;
        let bytes = Bytes(list.bytes().unwrap_or(0));
        let files = list.files.len();
        output::line(&format!("{}: {files} files, {bytes}, every SHA-256 is right", list.run))?;
        return Ok(Outcome::Clean);
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
    Ok(if wrong.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

/// A sentence for each part that cannot be read.
fn unreadable(folder: &RunFolder) -> Result<Vec<String>> {
    let run = Run::open(&folder.path)?;
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

/// The run at `path`, or why it is none.
pub(in crate::verbs) fn look_at(path: &Path) -> Result<RunFolder> {
    // `.` and `runs/x/` have names too.
    let path = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
    look(&path).map_err(|why| {
        let what = format!("{} {}", printable(&path.display().to_string()), printable(&why));
        Error::new(Kind::NotFound, what).advise("'fathom runs' lists runs").into()
    })
}
