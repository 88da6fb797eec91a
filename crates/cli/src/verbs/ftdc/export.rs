//! `fathom ftdc export`: writes the values of metrics in a format that other programs read.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use fathom_errors::{Error, Kind};
use fathom_ftdc::{SampleBlock, visit_samples};
use fathom_process::Signals;
use jiff::tz::TimeZone;

use super::open_metrics::OpenMetrics;
use super::parquet_file::ParquetFile;
use super::rows::{CsvHeader, csv_rows, json_lines};
use crate::outcome::VerbOutcome;
use crate::output_file::{OutputFile, cannot_write};
use crate::recording_arguments::{RecordingArgs, SelectionArgs, matches, note_problems};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    selection: SelectionArgs,
    /// The format of the output
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    /// The file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    force: bool,
}

/// A format of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A row for each sample
    Csv,
    /// A JSON object for each sample, each on a line
    Jsonl,
    /// OpenMetrics text, which Prometheus reads
    #[value(name = "openmetrics")]
    OpenMetrics,
    /// A row for each value, compressed
    Parquet,
}

pub(super) fn run(args: &ExportArgs) -> Result<VerbOutcome> {
    if args.format == Format::Csv && args.recording.has_standard_input() {
        let what = "CSV needs two passes over a recording, one for the columns and one for the rows, and standard input can be read only once";
        return Err(Error::usage(what).advise("save it to a file, or use --format jsonl").into());
    }
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let problems = write(args, &mut out)?;
        out.flush().map_err(stdout_error)?;
        note_problems(&problems);
        return Ok(VerbOutcome::Clean);
    };
    let output_file = OutputFile::create(path)?;
    let problems = match args.format {
        Format::Parquet => {
            let mut parquet = ParquetFile::create(output_file.file())?;
            let problems = each_block(args, &mut |block| parquet.write(&block))?;
            parquet.close()?;
            problems
        }
        _ => {
            let mut out = BufWriter::new(output_file.file());
            let problems = write(args, &mut out)?;
            out.flush().map_err(|cause| cannot_write(path, cause))?;
            problems
        }
    };
    output_file.persist(args.force)?;
    note_problems(&problems);
    Ok(VerbOutcome::Clean)
}

fn stdout_error(cause: std::io::Error) -> Error {
    Error::io("write to", "standard output", cause)
}

/// Writes a text format, which standard output accepts too. Returns the errors of files that could not be read.
fn write(args: &ExportArgs, out: &mut dyn Write) -> Result<Vec<Error>> {
    let zone: TimeZone = args.recording.zone();
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from("standard output"));
    let failed = |cause: std::io::Error| Error::io("write to", &path, cause);
    match args.format {
        Format::Csv => {
            let mut header = CsvHeader::default();
            each_block(args, &mut |block| {
                header.add(block.metrics);
                Ok(())
            })?;
            out.write_all(header.line().as_bytes()).map_err(failed)?;
            each_block(args, &mut |block| {
                out.write_all(csv_rows(&block, &header, &zone).as_bytes()).map_err(failed)
            })
        }
        Format::Jsonl => each_block(args, &mut |block| {
            out.write_all(json_lines(&block, &zone)?.as_bytes()).map_err(failed)
        }),
        Format::Parquet => Err(Error::usage("Parquet is not written to standard output")
            .advise("name a file with -o")
            .into()),
        Format::OpenMetrics => {
            let mut metrics = OpenMetrics::default();
            let problems = each_block(args, &mut |block| metrics.add(&block))?;
            metrics.write(out).map_err(failed)?;
            Ok(problems)
        }
    }
}

/// Passes the chosen samples to `visit`. A signal ends it with an error, so that no partial file is left.
fn each_block(
    args: &ExportArgs,
    visit: &mut dyn FnMut(SampleBlock<'_>) -> fathom_errors::Result<()>,
) -> Result<Vec<Error>> {
    let signals = Signals::install()?;
    let patterns = args.selection.patterns();
    let filter = args.selection.filter(&args.recording.zone())?;
    let mut is_empty = true;
    let problems =
        visit_samples(&args.recording.paths, filter, &|path| matches(&patterns, path), &mut |block| {
            if signals.stopped() {
                return Err(Error::new(Kind::Stopped, "the export was interrupted, and no file was written"));
            }
            if block.metrics.is_empty() {
                return Ok(());
            }
            is_empty = false;
            visit(block)
        })?;
    if is_empty { Err(args.selection.nothing_found(problems).into()) } else { Ok(problems) }
}
