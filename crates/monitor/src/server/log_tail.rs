//! The sampler of a server's log: records slow operations in full, and checkpoints and stalls as events.
//!
//! If the file is on this host and may be read, it is followed each second. Otherwise the server is asked every ten seconds
//! for the last lines that it keeps in memory, which loses lines if it logs more than a thousand in that time. Of many slow
//! operations the slowest are kept: a server set to log every operation must not fill the run folder.
//!
//! The file is followed from its end, across rotation (a new file under the name) and truncation.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bson::{RawBsonRef, RawDocument, rawdoc};
use fathom_errors::{Error, Result};
use fathom_record::disk::Entry;
use fathom_record::{ServerEvent, SlowOperation};

use super::link::{Refusal, ServerLink, WatchedServer};
use crate::log::{LogEvent, LoggedOperation, duration_ms, event_of, may_be_slow, read_log_line};
use crate::sampler::Notes;
use crate::{Batch, Sampler};

/// The number of slow operations kept from each reading, and that of events.
const MAX_KEPT_OF_READING: usize = 50;

#[derive(Debug)]
enum LogSource {
    File(LogFile),
    /// `getLog`, and how many lines the server had written when it was asked last.
    Server(Box<ServerLink>, Option<i64>),
}

/// The sampler of one log.
#[derive(Debug)]
pub(crate) struct LogTail {
    number: usize,
    source: LogSource,
    notes: Notes,
}

/// Lines that are to be parsed.
type Texts = Vec<Vec<u8>>;

impl LogTail {
    /// A sampler of the log of `watched`.
    pub(crate) fn new(watched: &WatchedServer) -> LogTail {
        let path: Option<&Path> = watched.log.as_deref().filter(|_| watched.pid.is_some());
        let source = match path.and_then(|path| LogFile::open(path).ok()) {
            Some(file) => LogSource::File(file),
            None => LogSource::Server(
                Box::new(ServerLink::new(watched.number, watched.address.clone(), &watched.target)),
                None,
            ),
        };
        LogTail { number: watched.number, source, notes: Notes::default() }
    }

    /// Returns the period of its readings.
    pub(crate) fn period(&self) -> Duration {
        match self.source {
            LogSource::File(_) => Duration::from_secs(1),
            LogSource::Server(..) => Duration::from_secs(10),
        }
    }

    /// Returns the new lines, and the offset of the server's clock from ours.
    fn new_lines(&mut self, batch: &mut Batch) -> Result<(Texts, i64)> {
        let who = format!("server {}", self.number);
        match &mut self.source {
            LogSource::File(file) => {
                let lines = file.read().map_err(|cause| {
                    Error::new(fathom_errors::Kind::Io, format!("cannot read the log of {who}"))
                        .because(cause)
                })?;
                if lines.passed_over_bytes > 0 {
                    let note = "some was passed over, slow operations among it may be missing";
                    self.notes.once(batch, format!("the log of {who} grows faster than it is read: {note}"));
                }
                Ok((lines.lines, 0))
            }
            LogSource::Server(link, written) => {
                let got = poll(link, written);
                link.account(batch);
                match got {
                    Ok((mut lines, ahead_ms)) => {
                        for line in &mut lines {
                            if let Some(whole) = completed(line) {
                                *line = whole;
                                let note = "it cuts long lines for getLog, so operations in them count with the least time";
                                self.notes
                                    .once(batch, format!("{}: {note}, {DEFAULT_SLOW_MS} ms", link.who()));
                            }
                        }
                        Ok((lines, ahead_ms))
                    }
                    // The server's own sampler reports this.
                    Err(Refusal::Lost(_)) => Ok((Vec::new(), 0)),
                    Err(_) => {
                        let who = link.who();
                        let note =
                            "the user may not read its log (the role clusterMonitor is enough for getLog)";
                        self.notes
                            .once(batch, format!("{who}: {note}: no slow operation is quoted as evidence"));
                        Ok((Vec::new(), 0))
                    }
                }
            }
        }
    }
}

/// The lines that were written since the last time; an empty list the first time.
fn poll(link: &mut ServerLink, written: &mut Option<i64>) -> std::result::Result<(Texts, i64), Refusal> {
    let began = wall_ms();
    // Every version knows it by this name.
    let hello = link.ask("admin", &rawdoc! { "isMaster": 1 })?;
    let theirs = match hello.get("localTime") {
        Ok(Some(RawBsonRef::DateTime(time))) => Some(time.timestamp_millis()),
        _ => None,
    };
    let ahead_ms = theirs.map_or(0, |theirs| theirs.saturating_sub(began.midpoint(wall_ms())));
    let reply = link.ask("admin", &rawdoc! { "getLog": "global" })?;
    Ok((unseen(reply, written), ahead_ms))
}

/// Returns the lines of a reply to `getLog` that are new since the last reply, by the number of lines written since.
fn unseen(reply: &RawDocument, written: &mut Option<i64>) -> Texts {
    let total = match reply.get("totalLinesWritten") {
        Ok(Some(RawBsonRef::Int32(total))) => i64::from(total),
        Ok(Some(RawBsonRef::Int64(total))) => total,
        _ => return Vec::new(),
    };
    let Some(before) = written.replace(total) else { return Vec::new() };
    // A restarted server has written fewer.
    let new = if total < before { total } else { total - before };
    let Ok(log) = reply.get_array("log") else { return Vec::new() };
    let lines: Vec<&str> = log.into_iter().flatten().filter_map(|line| line.as_str()).collect();
    let from = lines.len().saturating_sub(usize::try_from(new).unwrap_or(0));
    lines.iter().skip(from).map(|line| line.as_bytes().to_vec()).collect()
}

/// `getLog` cuts lines before 4.4 to this length, in bytes, and with their end the duration.
const CUT_BYTES: usize = 511;
/// mongod logs operations from this duration on unless another is set.
const DEFAULT_SLOW_MS: u64 = 100;

/// Gives the line of a slow operation that the server cut the least duration that it can have; `None` for any other line.
fn completed(line: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(line);
    let (_, message) = text.split_once("] ").filter(|_| line.len() >= CUT_BYTES && !may_be_slow(&text))?;
    let kinds = ["command ", "update ", "remove ", "query ", "getmore "];
    if !kinds.iter().any(|kind| message.starts_with(kind)) || !message.contains(" command: ") {
        return None;
    }
    // The last word may be half of a number.
    let (whole, _) = text.rsplit_once(' ')?;
    Some(format!("{} numYields:0 {DEFAULT_SLOW_MS}ms", whole.trim_end_matches(',')).into_bytes())
}

/// Chooses the lines to parse: events, and the slowest of the slow operations. Returns also the number of lines left out.
fn chosen(lines: &[Vec<u8>]) -> (Vec<&[u8]>, usize) {
    let mut slow = Vec::new();
    let mut events = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let text: Cow<'_, str> = String::from_utf8_lossy(line);
        let text = text.trim_ascii();
        if may_be_slow(text) {
            slow.push((duration_ms(text).unwrap_or(0), at));
        } else if event_of(text).is_some() {
            events.push(at);
        }
    }
    let left_out =
        slow.len().saturating_sub(MAX_KEPT_OF_READING) + events.len().saturating_sub(MAX_KEPT_OF_READING);
    slow.sort_unstable_by(|one, other| other.cmp(one));
    let slow = slow.into_iter().take(MAX_KEPT_OF_READING).map(|(_, at)| at);
    let mut kept: Vec<usize> = slow.chain(events.into_iter().take(MAX_KEPT_OF_READING)).collect();
    kept.sort_unstable();
    (kept.into_iter().filter_map(|at| lines.get(at).map(Vec::as_slice)).collect(), left_out)
}

/// The facts of a slow operation in one line, without any value of its command.
fn line_without_values(context: &str, logged: &LoggedOperation) -> String {
    let SlowOperation { namespace, plan, duration_ms, .. } = &logged.operation;
    let plan = plan.as_ref().map(|plan| format!(" planSummary: {plan}")).unwrap_or_default();
    format!("[{context}] {namespace} {}{plan} {duration_ms}ms", logged.shape)
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Sampler for LogTail {
    fn name(&self) -> String {
        format!("log.{}", self.number)
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let (lines, ahead_ms) = self.new_lines(batch)?;
        let (now_ns, now_ms) = (batch.clock.now_ns(), wall_ms().saturating_add(ahead_ms));
        let (kept, left_out) = chosen(&lines);
        if left_out > 0 {
            let note = format!("the {MAX_KEPT_OF_READING} slowest of each look at its log are kept");
            self.notes.once(batch, format!("server {} logs many slow operations: {note}", self.number));
        }
        for line in kept.into_iter().filter_map(read_log_line) {
            let ago_ms = u64::try_from(now_ms.saturating_sub(line.at_unix_ms)).unwrap_or(0);
            let at_ns = now_ns.saturating_sub(ago_ms.saturating_mul(1_000_000));
            batch.entries.push(match line.what {
                LogEvent::Slow(logged) => {
                    let (server, ended_ns) = (self.number, at_ns);
                    let line = line_without_values(&line.context, &logged);
                    let operation = SlowOperation { server, ended_ns, line, ..logged.operation };
                    Entry::SlowOperation(Box::new(operation))
                }
                // None of these lines was chosen.
                LogEvent::Driver(_) => continue,
                LogEvent::Event(kind, line) => {
                    Entry::ServerEvent(ServerEvent { server: self.number, at_ns, kind, line })
                }
            });
        }
        Ok(())
    }
}

/// The number of bytes read at a time; of a log that grows faster, a part is skipped.
const READ_BYTES: usize = 8 << 20;
/// A longer line is skipped: mongod cuts its own lines far below that (`maxLogSizeKB`, 10 by default).
const MAX_LINE_BYTES: usize = 1 << 20;

/// New lines, and counts of the skipped parts.
#[derive(Debug, Default)]
pub(crate) struct LogTailLines {
    /// Whole lines without their ends.
    pub(crate) lines: Vec<Vec<u8>>,
    /// Bytes that were not read because the log grew too fast or a line was too long.
    pub(crate) passed_over_bytes: u64,
}

/// A file that is followed.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    /// The offset up to which it was read.
    at: u64,
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
    /// True if the current line is skipped because it is too long or began before the file was opened.
    skips: bool,
}

impl LogFile {
    /// Opens the file at its end: its present content is from before the run.
    pub(crate) fn open(path: &Path) -> io::Result<LogFile> {
        let mut file = File::open(path)?;
        let at = file.seek(SeekFrom::End(0))?;
        let mut last = [b'\n'];
        if at > 0 {
            file.seek(SeekFrom::Start(at - 1))?;
            file.read_exact(&mut last)?;
        }
        Ok(LogFile { path: path.to_owned(), file, at, begun: Vec::new(), skips: last != [b'\n'] })
    }

    /// The lines that came since the last time.
    pub(crate) fn read(&mut self) -> io::Result<LogTailLines> {
        let mut lines = LogTailLines::default();
        self.read_on(&mut lines)?;
        let is_replaced = match (std::fs::metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) != (open.dev(), open.ino()),
            // The old file was renamed and the new one does not exist yet.
            _ => false,
        };
        if is_replaced {
            // The old file may have received its last lines in the meantime.
            self.read_on(&mut lines)?;
            self.file = File::open(&self.path)?;
            self.start_anew();
            self.read_on(&mut lines)?;
        }
        Ok(lines)
    }

    fn start_anew(&mut self) {
        self.at = 0;
        self.begun.clear();
        self.skips = false;
    }

    fn read_on(&mut self, lines: &mut LogTailLines) -> io::Result<()> {
        let size = self.file.metadata()?.len();
        if size < self.at {
            self.start_anew();
        }
        let new = size - self.at;
        if new > READ_BYTES as u64 {
            let passed = new - READ_BYTES as u64;
            lines.passed_over_bytes += passed;
            self.at += passed;
            self.begun.clear();
            self.skips = true;
        }
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut chunk = Vec::new();
        (&mut self.file).take(READ_BYTES as u64).read_to_end(&mut chunk)?;
        self.at += chunk.len() as u64;
        self.split(&chunk, lines);
        Ok(())
    }

    fn split(&mut self, chunk: &[u8], lines: &mut LogTailLines) {
        let mut pieces = chunk.split(|byte| *byte == b'\n');
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            self.extend(piece, lines);
            let line = std::mem::take(&mut self.begun);
            if !std::mem::take(&mut self.skips) && !line.is_empty() {
                lines.lines.push(line);
            }
        }
        self.extend(last, lines);
    }

    fn extend(&mut self, piece: &[u8], lines: &mut LogTailLines) {
        if self.skips {
            return;
        }
        if self.begun.len() + piece.len() > MAX_LINE_BYTES {
            lines.passed_over_bytes += (self.begun.len() + piece.len()) as u64;
            self.begun.clear();
            self.skips = true;
        } else {
            self.begun.extend_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_that_the_server_keeps_are_taken_once() {
        let reply = |total: i32, lines: &[&str]| {
            let log: bson::RawArrayBuf = lines.iter().map(|line| (*line).to_owned()).collect();
            rawdoc! { "totalLinesWritten": total, "log": log, "ok": 1 }
        };
        let mut written = None;
        let mut seen = |total, lines| {
            let texts = unseen(&reply(total, lines), &mut written);
            texts.into_iter().map(|line| String::from_utf8(line).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(seen(2, &["a", "a"]), Vec::<String>::new());
        assert_eq!(seen(2, &["a", "a"]), Vec::<String>::new());
        assert_eq!(seen(3, &["a", "a", "a"]), ["a"]);
        // More than it keeps, and a restart.
        assert_eq!(seen(99, &["x", "y"]), ["x", "y"]);
        assert_eq!(seen(1, &["z"]), ["z"]);
    }

    /// Of a mongod 4.0 no scan of a collection was recorded: their lines have 550 bytes, and `getLog` gives the first 511.
    #[test]
    fn a_line_that_the_server_cut_is_an_operation_of_at_least_its_threshold() {
        let line = format!(
            "2026-11-28T16:11:12.822+0000 I COMMAND  [conn38] command ycsb.usertable command: find {{ find: \"usertable\", \
             filter: {{ field3: BinData(0, 6E6F) }}, limit: 1, comment: \"{}\", $db: \"ycsb\" }} planSummary: COLLSCAN keysExamined:0 \
             docsExamined:100000 cursorExhausted:1 numYields:781 nreturned:0 reslen:103 locks:{{ Global: {{ acquireCount: \
             {{ r: 782 }} }} }} protocol:op_msg 141ms",
            "x".repeat(200)
        );
        assert!(line.len() > CUT_BYTES && completed(line.as_bytes()).is_none(), "a whole line is as it is");
        for cut in [CUT_BYTES, CUT_BYTES + 1] {
            let read = read_log_line(&completed(&line.as_bytes()[..cut]).unwrap()).unwrap();
            let LogEvent::Slow(logged) = read.what else { panic!("{read:?}") };
            assert_eq!(
                (logged.operation.plan.as_deref(), logged.operation.duration_ms),
                (Some("COLLSCAN"), DEFAULT_SLOW_MS)
            );
            assert_eq!(logged.operation.documents_examined, Some(100_000));
            assert_eq!(logged.shape, "find { filter: { field3: ? } }");
        }
        assert!(
            completed(b"2026-11-28T16:11:12.822+0000 I NETWORK  [listener] connection accepted").is_none()
        );
    }

    #[test]
    fn of_many_the_slowest_are_kept_in_their_order() {
        let line = |n: usize| {
            format!(r#"{{"msg":"Slow query","attr":{{"n":{n},"durationMillis":{n}}}}}"#).into_bytes()
        };
        let mut lines: Vec<Vec<u8>> = (0..MAX_KEPT_OF_READING + 20).map(line).collect();
        lines.push(b"serverStatus was very slow".to_vec());
        lines.push(b"nothing".to_vec());
        let (kept, left_out) = chosen(&lines);
        assert_eq!((kept.len(), left_out), (MAX_KEPT_OF_READING + 1, 20));
        assert_eq!(
            (kept[0], kept[MAX_KEPT_OF_READING]),
            (lines[20].as_slice(), lines[MAX_KEPT_OF_READING + 20].as_slice())
        );
    }

    fn texts(lines: &LogTailLines) -> Vec<String> {
        lines.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    fn append(path: &Path, text: &[u8]) {
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text).unwrap();
    }

    #[test]
    fn it_is_followed_from_its_end_across_rotation_and_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, b"old\nhalf of one");
        let mut log = LogFile::open(&path).unwrap();
        append(&path, b" that began before\nfirst\nsec");
        assert_eq!(texts(&log.read().unwrap()), ["first"]);
        append(&path, b"ond\n");
        assert_eq!(texts(&log.read().unwrap()), ["second"]);
        // Renamed, then a new one under the name; the old one still gets a line.
        let old = folder.path().join("log.1");
        fs::rename(&path, &old).unwrap();
        assert_eq!(texts(&log.read().unwrap()), Vec::<String>::new());
        append(&old, b"last of the old\n");
        append(&path, b"first of the new\n");
        assert_eq!(texts(&log.read().unwrap()), ["last of the old", "first of the new"]);
        // Copied away and truncated.
        fs::File::create(&path).unwrap();
        append(&path, b"x\n");
        assert_eq!(texts(&log.read().unwrap()), ["x"]);
    }

    #[test]
    fn lines_without_end_and_floods_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, b"");
        let mut log = LogFile::open(&path).unwrap();
        let long = vec![b'x'; 3 << 20];
        for part in [&long[..], &long, b"\nshort\n", &long, b"\n", b"\xff\n"] {
            append(&path, part);
        }
        let lines = log.read().unwrap();
        assert_eq!(lines.lines, [b"short".to_vec(), vec![0xff]]);
        assert!(lines.passed_over_bytes >= 2 * MAX_LINE_BYTES as u64, "{}", lines.passed_over_bytes);
        let many = b"0123456789abcdef\n".repeat(READ_BYTES / 16);
        append(&path, &many);
        let lines = log.read().unwrap();
        assert!(lines.passed_over_bytes > 0 && lines.lines.iter().all(|line| line == b"0123456789abcdef"));
    }
}
