//! `fathom ftdc scrub`: copies recordings without the owner's text, so that they can be given to others.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use fathom_errors::{Error, Kind};
use fathom_ftdc::{ChunkBuffer, Document, RecordingEvent, Scrubber, read_recording, visit_recordings};
use fathom_process::Signals;
use fathom_units::count;

use crate::outcome::VerbOutcome;
use crate::output;
use crate::output_file::cannot_write;
use crate::recording_arguments::note_problems;

#[derive(Debug, Args)]
pub(super) struct ScrubArgs {
    /// Folders diagnostic.data or above it, their files, archives of them (tar, gz, zst, zip)
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The folder of the copy, which must not exist or be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Writes the copy. A folder that it created is deleted if it fails.
pub(super) fn run(args: &ScrubArgs) -> Result<VerbOutcome> {
    if args.paths.iter().any(|path| path == Path::new("-")) {
        let what = "scrub reads a recording twice, for its names and for its copy, and standard input can be read once";
        return Err(Error::usage(what).advise("save it to a file").into());
    }
    let is_new = !args.output.exists();
    fs::create_dir_all(&args.output).map_err(|cause| cannot_write(&args.output, cause))?;
    if fs::read_dir(&args.output).map_err(|cause| Error::io("read", &args.output, cause))?.next().is_some() {
        let what = format!("{} is not empty", args.output.display());
        return Err(Error::new(Kind::NotOurs, what).advise("name another folder with -o").into());
    }
    let copied = copy(args);
    if copied.is_err() && is_new {
        // The error of the copy is more informative than one of its removal.
        let _ = fs::remove_dir_all(&args.output);
    }
    let (files, problems) = copied?;
    let noun = if files == 1 { "file" } else { "files" };
    output::line(&format!("{} {noun} in {}", count(files as f64), args.output.display()))?;
    note_problems(&problems);
    Ok(VerbOutcome::Clean)
}

/// Returns the number of files written, and the errors of files that could not be read.
fn copy(args: &ScrubArgs) -> fathom_errors::Result<(usize, Vec<Error>)> {
    let signals = Signals::install()?;
    let check = || match signals.stopped() {
        true => Err(Error::new(Kind::Stopped, "scrub was interrupted, and its copy is deleted")),
        false => Ok(()),
    };
    let mut scrubber = Scrubber::default();
    let mut buffer = ChunkBuffer::default();
    let mut directories: Vec<String> = Vec::new();
    visit_recordings(&args.paths, &mut |file| {
        if !directories.iter().any(|directory| directory == file.directory) {
            directories.push(file.directory.to_owned());
        }
        read_recording(file.contents, &mut buffer, &mut |event| {
            check()?;
            scrubber.learn(match event {
                RecordingEvent::Metadata { replies, .. } | RecordingEvent::Parameters { replies, .. } => {
                    replies
                }
                RecordingEvent::Chunk { chunk, .. } => chunk.reference(),
            })
        })?;
        Ok(())
    })?;
    let mut files = 0;
    let mut damages = Vec::new();
    let mut problems = visit_recordings(&args.paths, &mut |file| {
        let number = directories.iter().position(|directory| directory == file.directory).unwrap_or_default();
        let folder = match directories.len() {
            1 => args.output.clone(),
            _ => args.output.join(format!("server-{}", number + 1)),
        };
        files += 1;
        let name = if is_of_mongod(file.name) { file.name.to_owned() } else { format!("metrics.{files}") };
        let path = folder.join(name);
        let failed = |cause| cannot_write(&path, cause);
        fs::create_dir_all(&folder).map_err(failed)?;
        let mut out = BufWriter::new(File::create_new(&path).map_err(failed)?);
        let end = read_recording(file.contents, &mut buffer, &mut |event| {
            check()?;
            let bytes = match event {
                RecordingEvent::Metadata { at_ms, replies } => {
                    Document::Metadata { at_ms, replies: &scrubber.scrub(replies)? }.encode()
                }
                RecordingEvent::Chunk { at_ms, chunk } => {
                    let payload = chunk.with_reference(&scrubber.scrub(chunk.reference())?)?;
                    Document::Metrics { at_ms, payload: &payload }.encode()
                }
                RecordingEvent::Parameters { at_ms, count, replies } => {
                    Document::Parameters { at_ms, count, replies: &scrubber.scrub(replies)? }.encode()
                }
            };
            out.write_all(&bytes).map_err(failed)
        })?;
        out.flush().map_err(failed)?;
        damages.extend(end.damages);
        Ok(())
    })?;
    problems.extend(damages);
    Ok((files, problems))
}

/// Whether a file has a name that mongod gives, which says a time and nothing else.
fn is_of_mongod(name: &str) -> bool {
    let is_time = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || b"TZ-".contains(&byte));
    name.strip_prefix("metrics.")
        .is_some_and(|rest| matches!(rest, "interim" | "interim.temp") || is_time(rest))
}
