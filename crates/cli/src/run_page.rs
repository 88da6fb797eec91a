//! The page of a run folder: made from the folder, written into it, and opened in a desktop's browser.
//!
//! Verbs that record a run make it at their end, without a second command. It is made after everything else is recorded and shown, so a
//! failure to make it is only a note and loses no measurement.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use clap::Args;
use fathom_errors::{Error, Kind};
use fathom_explain::{
    Evidence, ReadRun, WorkResource, WorkRow, WorkTable, compare, histories_up_to, judge, judge_in_turn,
    pictures, work_table,
};
use fathom_record::disk::Entry;
use fathom_record::folders::{self, RunFolder};
use fathom_record::history::History;
use fathom_record::pictures::Pictures;
use fathom_record::{Finding, FindingOrigin, Manifest, Redaction, Run};
use fathom_report::{
    Headline, OperationRow, PageLatencyLog, PageSource, ServerOperations, page, pair_page, printable,
};
use fathom_session::open_run;

use crate::output;
use crate::output_file::{OutputFile, cannot_write};

/// Its name within the run folder.
const NAME: &str = "report.html";

/// How pages are made, on the command line of every verb that makes one by itself.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PageArgs {
    /// Make no page of the run
    #[arg(long, conflicts_with_all = ["open", "redact"])]
    no_report: bool,
    #[command(flatten)]
    style: PageStyle,
}

/// Names in a page, and whether it is opened.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PageStyle {
    /// Open the page in the desktop's browser
    #[arg(long)]
    open: bool,
    /// Leave names of hosts, paths and namespaces out of the page
    #[arg(long)]
    pub(crate) redact: bool,
}

impl PageArgs {
    /// Refuses options that need a page if the verb makes none.
    ///
    /// # Errors
    /// When the page is to be opened or redacted, and one of `reasons`, for which no page is made, applies.
    pub(crate) fn check(&self, reasons: &[(bool, &str)]) -> Result<(), Error> {
        match reasons.iter().find(|(holds, _)| *holds && (self.style.open || self.style.redact)) {
            Some((_, why)) => {
                Err(Error::usage(format!("--open and --redact are of the page, and {why} makes none")))
            }
            None => Ok(()),
        }
    }
}

impl PageStyle {
    /// Refuses `--open` if no file could be opened.
    ///
    /// # Errors
    /// When the page is to be opened.
    pub(crate) fn refuse_open(&self, why: &str) -> Result<(), Error> {
        if self.open { Err(Error::usage(format!("--open opens the page's file, and {why}"))) } else { Ok(()) }
    }

    /// Opens a page if `--open` was given. A failure is a note on standard error.
    pub(crate) fn open(&self, file: &Path) {
        if self.open
            && let Err(why) = open(file)
        {
            output::note(&format!("fathom: the page was not opened: {why}"));
        }
    }
}

/// Makes the page of a run that has just ended, and opens it if `--open` was given. Returns the line with its address. `None` if no page was
/// wanted, nothing was recorded, or it cannot be made, which is a note on standard error.
pub(crate) fn of_ended_run(args: &PageArgs, folder: Option<&Path>) -> Option<String> {
    let folder = folder.filter(|_| !args.no_report)?;
    match page_of(folder, &args.style).and_then(|page| Ok(keep(&folder.join(NAME), &page.text)?)) {
        Ok(()) => {
            let file = folder.join(NAME);
            args.style.open(&file);
            Some(address_line(&file))
        }
        Err(error) => {
            output::note(&format!("fathom: no page was made of {}: {error:#}", folder.display()));
            None
        }
    }
}

/// The default file of the page of a run folder, or of a run and an earlier one.
pub(crate) fn place_of(folder: &Path, earlier: Option<&Path>) -> PathBuf {
    match earlier {
        None => folder.join(NAME),
        Some(earlier) => folder.join(format!("report-with-{}.html", name_of(earlier))),
    }
}

/// The line that says where a page is.
pub(crate) fn address_line(file: &Path) -> String {
    format!("Page: {}", address(file))
}

/// The address of a file for a browser (RFC 8089).
fn address(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let mut address = "file://".to_owned();
    for byte in file.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                address.push(char::from(*byte));
            }
            byte => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

/// Opens a file in the desktop's browser.
fn open(file: &Path) -> Result<(), Error> {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if !has_desktop {
        let what = "there is no desktop here (neither DISPLAY nor WAYLAND_DISPLAY is set)";
        return Err(Error::new(Kind::Unsupported, what).advise("copy the file to a machine that has one"));
    }
    let mut command = Command::new("xdg-open");
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| Error::io("start", "xdg-open", error))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::new(Kind::Unsupported, format!("xdg-open ended with {status}"))),
    }
}

/// The folder's own name.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The page of one run.
pub(crate) struct RunPage {
    pub(crate) text: String,
    /// The verdict on the run, else its worst finding, its main figure or its error.
    pub(crate) verdict: Option<String>,
}

/// The page of one run, with the history of earlier runs of its kind in the same directory.
pub(crate) fn page_of(folder: &Path, style: &PageStyle) -> Result<RunPage> {
    let content = RunContent::read(folder)?;
    let error = content.read.run.manifest.error.as_deref();
    let verdict = Headline::new(error, &content.results, &content.read.findings).lines().pop();
    let histories = content.histories();
    let redaction = style.redact.then(|| Redaction::new([content.names()]));
    let text = page(&PageSource { histories: &histories, ..content.source(redaction.as_ref()) })?;
    Ok(RunPage { text, verdict })
}

/// The page of two runs.
pub(crate) fn page_of_two(a: &Path, b: &Path, style: &PageStyle) -> Result<String> {
    let (a, b) = (RunContent::read(a)?, RunContent::read(b)?);
    let redaction = style.redact.then(|| Redaction::new([a.names(), b.names()]));
    let redaction = redaction.as_ref();
    Ok(pair_page(&compare(&a.read, &b.read), &a.source(redaction), &b.source(redaction))?)
}

/// The run at `path`, or the reason why it is not a run.
pub(crate) fn look_at(path: &Path) -> Result<RunFolder> {
    // Paths such as `.` and `runs/x/` have names too.
    let path = path.canonicalize().map_err(|e| Error::io("open", path, e))?;
    folders::look(&path).map_err(|why| {
        let what = format!("{} {}", printable(&path.display().to_string()), printable(&why));
        Error::new(Kind::NotFound, what).advise("'fathom runs' lists runs").into()
    })
}

/// A run with the data for its page.
struct RunContent {
    /// Its findings are those of the page: those of the current rules, if the run was watched.
    read: ReadRun,
    evidence: Evidence,
    results: Vec<Entry>,
    operations: Vec<ServerOperations>,
    latencies: Vec<PageLatencyLog>,
    pictures: Pictures,
    notes: Vec<String>,
}

impl RunContent {
    fn read(folder: &Path) -> Result<RunContent> {
        let mut read = ReadRun::read(look_at(folder)?, open_run(folder)?)?;
        let evidence = Evidence::with_results(&read.run, read.results.clone())?;
        let (mut results, mut findings) = (read.results.clone(), read.findings.clone());
        let was_judged = results.iter().any(|entry| matches!(entry, Entry::Judged(_)));
        let is_watched =
            !evidence.members().is_empty() || results.iter().any(|entry| matches!(entry, Entry::Load(_)));
        // A checkup has judged each server by its own loads; judging the whole run would mix them.
        let is_checkup = read.run.manifest.verb == "checkup";
        let judgement = match is_checkup {
            _ if !is_watched => None,
            false => Some(judge(&evidence)),
            true => (!was_judged).then(|| judge_in_turn(&evidence)),
        };
        let pictures = pictures(&evidence, judgement.as_ref());
        if let Some(judgement) = judgement {
            // Judged by the current rules, as `explain` does, whatever an older version concluded from the same series.
            results.retain(|entry| !is_judged(entry));
            results.extend(judgement.results());
            let stays =
                |finding: &Finding| matches!(finding.origin(), FindingOrigin::Host | FindingOrigin::Disk);
            findings.retain(|finding| is_checkup && stays(finding));
            findings.extend(judgement.findings);
        }
        // Measured findings come before settings; within each group the order by cost stays.
        findings.sort_by_key(Finding::is_setting);
        read.findings = findings;
        let (latencies, notes) = (latencies(&read.run), read.run.manifest.notes());
        let operations = operations(&results);
        Ok(RunContent { read, evidence, results, operations, latencies, pictures, notes })
    }

    /// The manifest and results from which a redacted page takes the names to leave out.
    fn names(&self) -> (&Manifest, &[Entry]) {
        (&self.read.run.manifest, &self.results)
    }

    /// Its figures over the runs of its kind in the same folder; empty if these cannot be listed.
    fn histories(&self) -> Vec<History> {
        let beside = self.read.folder.path.parent().and_then(|place| folders::scan(place).ok());
        beside.map_or_else(Vec::new, |beside| histories_up_to(&self.read.folder, &beside.runs))
    }

    fn source<'c>(&'c self, redaction: Option<&'c Redaction>) -> PageSource<'c> {
        PageSource {
            name: &self.read.folder.name,
            manifest: &self.read.run.manifest,
            results: &self.results,
            findings: &self.read.findings,
            series: &self.evidence.series,
            operations: &self.operations,
            latencies: &self.latencies,
            pictures: &self.pictures,
            histories: &[],
            notes: &self.notes,
            redaction,
        }
    }
}

/// Whether an entry is the work of a rule rather than of a measurement.
fn is_judged(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Budget(_) | Entry::Queue(_) | Entry::Amplification(_) | Entry::Member(_) | Entry::Judged(_)
    )
}

/// The operations of each server over the whole run.
fn operations(results: &[Entry]) -> Vec<ServerOperations> {
    let of_servers = results.iter().filter_map(|entry| match entry {
        Entry::ServerWork(work) => Some(work),
        _ => None,
    });
    let shared = of_servers.clone().flat_map(|work| work.threads.iter().map(|thread| (work.server, thread)));
    let shared: BTreeMap<usize, &str> = shared
        .filter(|(_, thread)| thread.is_shared())
        .map(|(server, thread)| (server, thread.name.as_str()))
        .collect();
    let numbers: BTreeSet<usize> = of_servers.map(|work| work.server).collect();
    let of_server = |server: usize| {
        let table = work_table(results, server, (0, u64::MAX))?;
        Some(ServerOperations {
            server,
            rows: table.rows.iter().map(|row| operation_row(row, &table)).collect(),
            readings: table.readings,
            shared_threads: shared.get(&server).map(|name| (*name).to_owned()),
        })
    };
    numbers.into_iter().filter_map(of_server).collect()
}

fn operation_row(row: &WorkRow, table: &WorkTable) -> OperationRow {
    OperationRow {
        kind: row.kind.clone(),
        namespace: row.namespace.clone(),
        plan: row.plan.clone(),
        application: row.application.clone(),
        time_us: row.used.time_us,
        share: table.share_of_rows(&[row], WorkResource::Time).and_then(|share| share.words()),
        longest_us: row.longest_us,
        processor_us: row.used.processor_us,
        disk_bytes: row.used.disk_bytes(),
    }
}

/// Every latency log that can be read; a broken log must not prevent the page.
fn latencies(run: &Run) -> Vec<PageLatencyLog> {
    let names = run.latency_names().unwrap_or_default();
    let read = |name: String| match run.latency_over_time(&name) {
        Ok((whole, map)) => Some((name, whole, map)),
        Err(error) => {
            output::note(&format!("fathom: {error}; the page is made without it"));
            None
        }
    };
    names.into_iter().filter_map(read).collect()
}

/// Writes the page under a temporary name and renames it.
pub(crate) fn keep(file: &Path, text: &str) -> Result<(), Error> {
    let output_file = OutputFile::create(file)?;
    output_file.file().write_all(text.as_bytes()).map_err(|cause| cannot_write(file, cause))?;
    output_file.persist(true)
}

#[cfg(test)]
mod tests {
    use fathom_record::{OperationGroup, ServerWork, ThreadUse};

    use super::*;

    #[test]
    fn an_address_is_one_that_a_browser_takes() {
        assert_eq!(address(Path::new("/a b/ü#?%.html")), "file:///a%20b/%C3%BC%23%3F%25.html");
    }

    #[test]
    fn the_operations_of_a_run_are_those_of_its_servers() {
        let group = |kind: &str, running_us: u64| OperationGroup {
            kind: kind.to_owned(),
            namespace: "shop.orders".into(),
            application: Some("billing".into()),
            count: 1,
            running_us,
            longest_us: running_us,
            connections: vec![7],
            ..OperationGroup::default()
        };
        let reading = |server: usize, second: u64, operations: Vec<OperationGroup>| {
            let threads =
                vec![ThreadUse { name: "EventLoop".into(), processor_us: 5, ..ThreadUse::default() }];
            Entry::ServerWork(Box::new(ServerWork {
                server,
                begin_ns: (second - 1) * 1_000_000_000,
                end_ns: second * 1_000_000_000,
                has_read_operations: true,
                operations,
                threads: if server == 1 { threads } else { Vec::new() },
                ..ServerWork::default()
            }))
        };
        let results = [
            reading(0, 1, vec![group("find", 9000)]),
            reading(1, 1, vec![group("insert", 10)]),
            reading(0, 2, vec![group("find", 8000)]),
        ];
        let servers = operations(&results);
        let [first, second] = servers.as_slice() else { panic!("{servers:?}") };
        assert_eq!((first.server, first.readings, first.shared_threads.as_deref()), (0, 2, None));
        assert_eq!((second.server, second.shared_threads.as_deref()), (1, Some("EventLoop")));
        let [row] = first.rows.as_slice() else { panic!("{first:?}") };
        assert_eq!(
            (row.kind.as_str(), row.namespace.as_str(), row.longest_us),
            ("find", "shop.orders", 9000)
        );
        // It ran at both readings, each of which counts for a second.
        assert_eq!((row.time_us, row.application.as_deref()), (2e6, Some("billing")));
        assert_eq!(operations(&[]), []);
    }

    #[test]
    fn a_page_that_cannot_be_made_is_a_note() {
        let nothing = PageArgs::default();
        assert_eq!(of_ended_run(&nothing, Some(Path::new("/no/such/run"))), None);
        assert_eq!(of_ended_run(&nothing, None), None);
    }
}
