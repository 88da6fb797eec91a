//! The sampler of a server's log: slow operations whole, checkpoints and stalls as events.
//!
//! The file is followed where it is on this host and may be read, each second; else the last lines that the server keeps in
//! memory are asked for every ten seconds, which loses lines of a server that logs more than a thousand in that time. Of many
//! slow operations the slowest are kept: a server told to log every operation must not fill the run folder.

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bson::{RawBsonRef, RawDocument, rawdoc};
use fathom_errors::{Error, Result};
use fathom_record::ServerEvent;
use fathom_record::disk::Entry;

use super::deployment::Watched;
use super::link::{Link, Refusal};
use super::log_file::LogFile;
use super::log_line::{LogWhat, duration_ms, event_of, may_be_slow, read_log_line};
use super::notes::Notes;
use crate::{Batch, Sampler};

/// As many slow operations are kept of each look, and as many events.
const KEPT: usize = 50;

#[derive(Debug)]
enum Source {
    File(LogFile),
    /// `getLog`, and how many lines the server had written when it was asked last.
    Server(Box<Link>, Option<i64>),
}

/// The sampler of one log.
#[derive(Debug)]
pub(crate) struct LogTail {
    number: usize,
    source: Source,
    notes: Notes,
}

/// Lines to look at.
type Texts = Vec<Vec<u8>>;

impl LogTail {
    /// A sampler of the log of `watched`.
    pub(crate) fn new(watched: &Watched) -> LogTail {
        let path: Option<&Path> = watched.log.as_deref().filter(|_| watched.pid.is_some());
        let source = match path.and_then(|path| LogFile::open(path).ok()) {
            Some(file) => Source::File(file),
            None => Source::Server(
                Box::new(Link::new(watched.number, watched.address.clone(), &watched.target)),
                None,
            ),
        };
        LogTail { number: watched.number, source, notes: Notes::default() }
    }

    /// How often it is worth a look.
    pub(crate) fn period(&self) -> Duration {
        match self.source {
            Source::File(_) => Duration::from_secs(1),
            Source::Server(..) => Duration::from_secs(10),
        }
    }

    /// The new lines, and how far the server's clock is ahead of ours.
    fn new_lines(&mut self, batch: &mut Batch) -> Result<(Texts, i64)> {
        let who = format!("server {}", self.number);
        match &mut self.source {
            Source::File(file) => {
                let lines = file.read().map_err(|cause| {
                    Error::new(fathom_errors::Kind::Io, format!("cannot read the log of {who}"))
                        .because(cause)
                })?;
                if lines.passed_over_bytes > 0 {
                    let note = "some was passed over, slow operations among it may be missing";
                    self.notes.say(batch, format!("the log of {who} grows faster than it is read: {note}"));
                }
                Ok((lines.lines, 0))
            }
            Source::Server(link, written) => {
                let got = poll(link, written);
                link.account(batch);
                match got {
                    Ok(lines) => Ok(lines),
                    // The server's own sampler says so.
                    Err(Refusal::Lost(_)) => Ok((Vec::new(), 0)),
                    Err(_) => {
                        let who = link.who();
                        let note =
                            "the user may not read its log (the role clusterMonitor is enough for getLog)";
                        self.notes
                            .say(batch, format!("{who}: {note}: no slow operation is quoted as evidence"));
                        Ok((Vec::new(), 0))
                    }
                }
            }
        }
    }
}

/// The lines that were written since the last time; none the first time.
fn poll(link: &mut Link, written: &mut Option<i64>) -> std::result::Result<(Texts, i64), Refusal> {
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

/// The lines of a reply to `getLog` that were not there the last time, by the number of lines written since.
fn unseen(reply: &RawDocument, written: &mut Option<i64>) -> Texts {
    let total = match reply.get("totalLinesWritten") {
        Ok(Some(RawBsonRef::Int32(total))) => i64::from(total),
        Ok(Some(RawBsonRef::Int64(total))) => total,
        _ => return Vec::new(),
    };
    let Some(before) = written.replace(total) else { return Vec::new() };
    // A server that began anew has written fewer.
    let new = if total < before { total } else { total - before };
    let Ok(log) = reply.get_array("log") else { return Vec::new() };
    let lines: Vec<&str> = log.into_iter().flatten().filter_map(|line| line.as_str()).collect();
    let from = lines.len().saturating_sub(usize::try_from(new).unwrap_or(0));
    lines.iter().skip(from).map(|line| line.as_bytes().to_vec()).collect()
}

/// The lines that are worth reading: events, and of the slow operations the slowest; and how many were left out.
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
    let left_out = slow.len().saturating_sub(KEPT) + events.len().saturating_sub(KEPT);
    slow.sort_unstable_by(|one, other| other.cmp(one));
    let slow = slow.into_iter().take(KEPT).map(|(_, at)| at);
    let mut kept: Vec<usize> = slow.chain(events.into_iter().take(KEPT)).collect();
    kept.sort_unstable();
    (kept.into_iter().filter_map(|at| lines.get(at).map(Vec::as_slice)).collect(), left_out)
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
            let note = format!("the {KEPT} slowest of each look at its log are kept");
            self.notes.say(batch, format!("server {} logs many slow operations: {note}", self.number));
        }
        for line in kept.into_iter().filter_map(read_log_line) {
            let ago_ms = u64::try_from(now_ms.saturating_sub(line.at_unix_ms)).unwrap_or(0);
            let at_ns = now_ns.saturating_sub(ago_ms.saturating_mul(1_000_000));
            batch.entries.push(match line.what {
                LogWhat::Slow(mut operation) => {
                    (operation.server, operation.ended_ns) = (self.number, at_ns);
                    Entry::SlowOperation(operation)
                }
                LogWhat::Event(kind, line) => {
                    Entry::ServerEvent(ServerEvent { server: self.number, at_ns, kind, line })
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn of_many_the_slowest_are_kept_in_their_order() {
        let line = |n: usize| {
            format!(r#"{{"msg":"Slow query","attr":{{"n":{n},"durationMillis":{n}}}}}"#).into_bytes()
        };
        let mut lines: Vec<Vec<u8>> = (0..KEPT + 20).map(line).collect();
        lines.push(b"serverStatus was very slow".to_vec());
        lines.push(b"nothing".to_vec());
        let (kept, left_out) = chosen(&lines);
        assert_eq!((kept.len(), left_out), (KEPT + 1, 20));
        assert_eq!((kept[0], kept[KEPT]), (lines[20].as_slice(), lines[KEPT + 20].as_slice()));
    }
}
