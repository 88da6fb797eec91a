//! The slow operations of whole logs, each with the driver of its client.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use fathom_errors::{Error, Kind, Result};

use super::log_files::in_time_order;
use super::log_line::{LogEvent, LoggedOperation, line_time_ms, read_log_line};
use super::log_source::LogSource;

/// The number of connections whose drivers are remembered; if one log has more, all of them are forgotten at once.
const MAX_CONNECTIONS: usize = 100_000;

/// A slow operation of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowOperationEvent {
    /// When it ended, in milliseconds since 1970 by the server's clock.
    pub ended_ms: i64,
    /// The operation. If the line names no driver, the driver is that of its connection.
    pub logged: LoggedOperation,
}

/// The extent of the logs that were read.
#[derive(Debug, Default)]
pub struct LogReading {
    /// Files in the order in which they were read.
    pub files: Vec<PathBuf>,
    /// Lines with a time.
    pub lines: u64,
    /// The first and the last time in them, in milliseconds since 1970.
    pub span_ms: Option<(i64, i64)>,
    /// The parts that could not be read; the rest was read.
    pub problems: Vec<Error>,
}

/// Passes the slow operations of logs that ended in `range_ms` (milliseconds since 1970) to `visit`.
///
/// # Errors
/// If a file does not exist or may not be read, or none has a line of a server's log.
pub fn read_slow_operations(
    logs: &[LogSource],
    range_ms: RangeInclusive<i64>,
    visit: &mut dyn FnMut(SlowOperationEvent),
) -> Result<LogReading> {
    let mut reading = LogReading::default();
    let mut drivers: HashMap<String, String> = HashMap::new();
    let mut writes = WritesOfCommands::default();
    for log in in_time_order(logs) {
        let mut lines = log.lines()?;
        let before = reading.lines;
        let mut read = |line: &[u8]| {
            let text = String::from_utf8_lossy(line);
            let Some(at_ms) = line_time_ms(text.trim_ascii()) else { return };
            reading.lines += 1;
            let (first, last) = reading.span_ms.unwrap_or((at_ms, at_ms));
            reading.span_ms = Some((first.min(at_ms), last.max(at_ms)));
            let Some(line) = read_log_line(line) else { return };
            match line.what {
                LogEvent::Driver(driver) => {
                    if drivers.len() >= MAX_CONNECTIONS {
                        drivers.clear();
                    }
                    drivers.insert(line.context, driver);
                }
                LogEvent::Slow(logged) if range_ms.contains(&line.at_unix_ms) => {
                    if writes.is_counted(&line.context, &logged) {
                        return;
                    }
                    let mut logged = *logged;
                    logged.driver = logged.driver.or_else(|| drivers.get(&line.context).cloned());
                    visit(SlowOperationEvent { ended_ms: line.at_unix_ms, logged });
                }
                LogEvent::Slow(_) | LogEvent::Event(..) => {}
            }
        };
        let end = loop {
            match lines.next(&mut read) {
                Ok(true) => {}
                Ok(false) => break log.torn().map(str::to_owned),
                Err(cause) => break Some(cause.to_string()),
            }
        };
        let name = log.path().display();
        let problem = |what: String| Error::new(Kind::Malformed, what);
        let torn = |cause| problem(format!("cannot read the log {name} to its end")).because(cause);
        reading.problems.extend(end.map(torn));
        if lines.cut > 0 {
            let what = format!("{} lines of {name} were too long and were cut", lines.cut);
            reading.problems.push(problem(what));
        }
        if reading.lines == before {
            reading.problems.push(problem(format!("no line of a mongod's log is in {name}")));
        }
        reading.files.push(log.path().to_owned());
    }
    if reading.lines == 0 {
        let first = reading.problems.drain(..).next();
        let none = || Error::new(Kind::NotFound, "no log was named");
        return Err(first.unwrap_or_else(none).advise(
            "name the files of a mongod's log, as it is or compressed: mongod.log, mongod.log.2026-11-28T00-00-00.gz",
        ));
    }
    Ok(reading)
}

/// The time of writes that were logged one by one before the line of their command, by connection, in milliseconds.
#[derive(Debug, Default)]
struct WritesOfCommands(HashMap<String, u64>);

impl WritesOfCommands {
    /// Returns whether an operation is a command whose writes were logged one by one for most of its time.
    fn is_counted(&mut self, context: &str, logged: &LoggedOperation) -> bool {
        let duration_ms = logged.operation.duration_ms;
        if logged.is_part_of_command {
            if self.0.len() >= MAX_CONNECTIONS {
                self.0.clear();
            }
            let sum_ms = self.0.entry(context.to_owned()).or_default();
            *sum_ms = sum_ms.saturating_add(duration_ms);
            return false;
        }
        let written_ms = self.0.remove(context).unwrap_or(0);
        let is_write =
            matches!(logged.operation.operation.as_str(), "update" | "delete" | "insert" | "bulkWrite");
        is_write && written_ms > 0 && written_ms.saturating_mul(2) >= duration_ms
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn sources(inputs: &[PathBuf]) -> Vec<LogSource> {
        inputs.iter().cloned().map(LogSource::from).collect()
    }

    /// Returns every operation of the logs, one per line.
    fn operations(inputs: &[PathBuf]) -> Vec<String> {
        let mut found = Vec::new();
        read_slow_operations(&sources(inputs), i64::MIN..=i64::MAX, &mut |event| {
            let logged = event.logged;
            let driver = logged.driver.unwrap_or_default();
            found
                .push(format!("{} {} {} {driver}", event.ended_ms, logged.operation.namespace, logged.shape));
        })
        .unwrap();
        found
    }

    const TEXT: &str = "\
2026-11-21T05:35:50.000+0000 I NETWORK  [conn11] received client metadata from 127.0.0.1:47876 conn11: { driver: { name: \"PyMongo\", version: \"4.10.1\" }, os: { type: \"Linux\" } }
2026-11-21T05:35:53.472+0000 I COMMAND  [conn11] command a.b appName: \"web\" command: find { find: \"b\", filter: { x: 1 } } planSummary: COLLSCAN keysExamined:0 docsExamined:7 numYields:1 nreturned:1 reslen:1274 locks:{} protocol:op_msg 199ms
2026-11-21T05:35:54.472+0000 I COMMAND  [conn12] command a.b command: getMore { getMore: 7, collection: \"b\", $db: \"a\" } originatingCommand: { find: \"b\", filter: { x: 1 } } planSummary: COLLSCAN cursorid:7 keysExamined:0 docsExamined:7 numYields:1 nreturned:1 reslen:1274 locks:{} protocol:op_msg 200ms
";
    const STRUCTURED: &str = r#"{"t":{"$date":"2026-11-21T05:35:50.000+00:00"},"s":"I","c":"NETWORK","id":51800,"ctx":"conn11","msg":"client metadata","attr":{"remote":"127.0.0.1:47876","client":"conn11","doc":{"driver":{"name":"PyMongo","version":"4.10.1"}}}}
{"t":{"$date":"2026-11-21T05:35:53.472+00:00"},"s":"I","c":"COMMAND","id":51803,"ctx":"conn11","msg":"Slow query","attr":{"type":"command","ns":"a.b","appName":"web","command":{"find":"b","filter":{"x":1}},"planSummary":"COLLSCAN","docsExamined":7,"durationMillis":199}}
{"t":{"$date":"2026-11-21T05:35:54.472+00:00"},"s":"I","c":"COMMAND","id":51803,"ctx":"conn12","msg":"Slow query","attr":{"type":"command","ns":"a.b","command":{"getMore":7,"collection":"b"},"originatingCommand":{"find":"b","filter":{"x":1}},"planSummary":"COLLSCAN","docsExamined":7,"durationMillis":200}}
"#;
    const EXPECTED: [&str; 2] = [
        "1795239353472 a.b find { filter: { x: ? } } PyMongo 4.10.1",
        "1795239354472 a.b getMore of find { filter: { x: ? } } ",
    ];

    #[test]
    fn both_forms_plain_and_compressed_give_the_same() {
        let folder = tempfile::tempdir().unwrap();
        for text in [TEXT, STRUCTURED] {
            let plain = folder.path().join("mongod.log");
            fs::write(&plain, text).unwrap();
            let gzip = folder.path().join("mongod.log.gz");
            let mut encoder =
                flate2::write::GzEncoder::new(fs::File::create(&gzip).unwrap(), flate2::Compression::fast());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap();
            let zstd = folder.path().join("mongod.log.zst");
            fs::write(&zstd, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
            for path in [plain, gzip, zstd] {
                assert_eq!(operations(&[path]), EXPECTED);
            }
        }
    }

    #[test]
    fn a_command_whose_writes_were_logged_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mongod.log");
        let write = "2026-11-21T05:35:53.472+0000 I WRITE    [conn1] update a.b command: { q: { x: 1 }, u: { $set: { y: 1 } }, multi: false } planSummary: IDHACK keysExamined:1 docsExamined:1 nMatched:1 nModified:1 numYields:1 locks:{} 198ms";
        let command = |ms: u64| {
            format!(
                "2026-11-21T05:35:53.472+0000 I COMMAND  [conn1] command a.$cmd command: update {{ update: \"b\", ordered: true }} numYields:0 reslen:60 locks:{{}} protocol:op_msg {ms}ms"
            )
        };
        let short = "1795239353472 a.b update { q: { x: ? }, u: { $set: ? } } ";
        fs::write(&path, format!("{write}\n{}\n{}\n", command(199), command(150))).unwrap();
        // The second command is another one.
        assert_eq!(operations(std::slice::from_ref(&path)), [short, "1795239353472 a.$cmd update "]);
        fs::write(&path, format!("{write}\n{}\n", command(1000))).unwrap();
        assert_eq!(operations(&[path]), [short, "1795239353472 a.$cmd update "]);
    }

    #[test]
    fn rotated_files_are_read_in_the_order_of_time() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<&str> = TEXT.split_inclusive('\n').collect();
        let (older, newer) = (folder.path().join("z.log"), folder.path().join("a.log"));
        fs::write(&older, lines[0]).unwrap();
        // The last line was cut off.
        fs::write(&newer, format!("{}{}", lines[1], &lines[2][..90])).unwrap();
        assert_eq!(operations(&[newer, older]), EXPECTED[..1]);
    }

    #[test]
    fn long_lines_and_other_files_are_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mongod.log");
        let long = format!(
            r#"{{"t":{{"$date":"2026-11-21T05:35:53.472+00:00"}},"ctx":"conn1","msg":"Slow query","attr":{{"type":"command","ns":"a.b","command":{{"find":"b","filter":{{"x":{{"$in":[{}1]}}}}}},"durationMillis":7}}}}"#,
            "1,".repeat(8 << 20)
        );
        fs::write(&path, format!("{long}\n{STRUCTURED}")).unwrap();
        let found = operations(std::slice::from_ref(&path));
        assert_eq!(found[0], "1795239353472 a.b find { filter: { x: { $in: [?] } } } ");
        assert_eq!(found[1..], EXPECTED);
        let read = |inputs: &[PathBuf]| read_slow_operations(&sources(inputs), 0..=i64::MAX, &mut |_| {});
        for text in ["", "not a log\n", "\0\0\0"] {
            fs::write(&path, text).unwrap();
            let error = read(std::slice::from_ref(&path)).unwrap_err();
            assert!(error.to_string().contains("no line of a mongod's log"), "{error}");
        }
        assert!(read(&[folder.path().join("none")]).is_err() && read(&[]).is_err());
        assert!(read(&[folder.path().to_owned()]).unwrap_err().to_string().contains("is a directory"));
    }
}
