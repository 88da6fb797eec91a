//! The eight options of mongoperf, with its defaults, from the document that it read.
//!
//! Lenient where the old tool was (`r:1`, a zero that means the default, unknown fields), strict where it crashed
//! or measured something else: each value that makes no sense is refused in one sentence.

use fathom_errors::{Error, Result};
use fathom_units::{Bytes, Nanos};
use serde::Serialize;

use super::document::{Document, Value};

/// The old tool had no limit; beyond this a kernel's own limits end it anyway.
const THREADS_MAX: u64 = 16_384;
/// 1 PiB.
const FILE_MB_MAX: u64 = 1 << 30;
/// The old tool's own limit.
const RECORD_KB_MAX: u64 = 64_000;
/// One hour.
const SLEEP_US_MAX: u64 = 3_600_000_000;
/// One day.
const SYNC_DELAY_S_MAX: u64 = 86_400;
/// Warnings about one document; a wrong file fed in may have a thousand fields.
const WARNINGS_MAX: usize = 10;
/// Bytes of a page: what a mapping is touched by, and what offsets are multiples of.
pub(super) const PAGE: u64 = 4096;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Options {
    /// Threads at the top of the ramp (`nThreads`).
    pub threads: u32,
    /// Bytes of the file that are read and written (`fileSizeMB`).
    pub file_bytes: Bytes,
    /// Pause of each thread after each round, shared out over the running threads, microseconds (`sleepMicros`).
    pub sleep_us: u64,
    /// Through a mapping of the file instead of direct I/O (`mmf`).
    pub mapped: bool,
    /// Read (`r`).
    pub reads: bool,
    /// Write (`w`).
    pub writes: bool,
    /// Bytes of a record (`recSizeKB`).
    pub record_bytes: Bytes,
    /// Seconds between the syncs of a mapping, 0 for none (`syncDelay`).
    pub sync_delay_s: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: 1,
            file_bytes: Bytes::mib(1),
            sleep_us: 0,
            mapped: false,
            reads: false,
            writes: false,
            record_bytes: Bytes::kib(4),
            sync_delay_s: 0,
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The options of the document.
    pub options: Options,
    /// When to end, counted from the first thread; `None` for never.
    pub seconds: Option<Nanos>,
    /// Seconds between two doublings of the threads.
    pub step_ticks: u32,
    /// Seed of places and data.
    pub seed: u64,
}

/// Options, and what to say about their document.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The options.
    pub options: Options,
    /// The document on one line, as it was understood.
    pub echo: String,
    /// What was passed over, one sentence each.
    pub warnings: Vec<String>,
}

const FIELDS: [&str; 8] =
    ["nThreads", "fileSizeMB", "sleepMicros", "mmf", "r", "w", "recSizeKB", "syncDelay"];

impl Options {
    /// Reads a document.
    ///
    /// # Errors
    /// One sentence about the first thing that makes no sense; its kind gives exit code 2.
    pub fn parse(text: &str) -> Result<Parsed> {
        let document = Document::parse(text)?;
        let mut warnings = Vec::new();
        let mut options = Options::default();
        for (index, (name, value)) in document.fields.iter().enumerate() {
            let earlier = document.fields.iter().take(index);
            if !FIELDS.contains(&name.as_str()) {
                warnings.push(unknown(name));
            } else if earlier.clone().any(|(earlier, _)| earlier == name) {
                warnings.push(format!("'{name}' is given twice; the first counts"));
            } else {
                options.set(name, value)?;
            }
        }
        if let Some(rest) = &document.rest {
            warnings.push(format!("what follows the document is not read: {rest}"));
        }
        if warnings.len() > WARNINGS_MAX {
            let more = warnings.len() - WARNINGS_MAX;
            warnings.truncate(WARNINGS_MAX);
            warnings.push(format!("and {more} more such fields"));
        }
        options.check()?;
        Ok(Parsed { options, echo: document.to_string(), warnings })
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<()> {
        match name {
            "nThreads" => self.threads = u32_of(whole(name, value, 1, 1..=THREADS_MAX)?),
            // The old tool read no number and 0 alike.
            "fileSizeMB" => self.file_bytes = Bytes::mib(whole(name, value, 1, 0..=FILE_MB_MAX)?.max(1)),
            "recSizeKB" => {
                let kib = whole(name, value, 0, 0..=RECORD_KB_MAX)?;
                self.record_bytes = Bytes::kib(if kib == 0 { 4 } else { kib });
            }
            "sleepMicros" => self.sleep_us = whole(name, value, 0, 0..=SLEEP_US_MAX)?,
            "syncDelay" => self.sync_delay_s = u32_of(whole(name, value, 0, 0..=SYNC_DELAY_S_MAX)?),
            "mmf" => self.mapped = truth(name, value)?,
            "r" => self.reads = truth(name, value)?,
            "w" => self.writes = truth(name, value)?,
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if !self.reads && !self.writes {
            let what = "neither r nor w is true, so there is nothing to do";
            return Err(Error::usage(what).advise("add r:true, w:true or both to the document"));
        }
        if self.record_room() > self.file_bytes.get() {
            let what =
                format!("a record of {} does not fit into a file of {}", self.record_bytes, self.file_bytes);
            return Err(Error::usage(what).advise("take a larger fileSizeMB or a smaller recSizeKB"));
        }
        Ok(())
    }

    /// Bytes that a record takes in the file: through a mapping, whole pages.
    pub(super) fn record_room(&self) -> u64 {
        let record = self.record_bytes.get();
        if self.mapped { record.next_multiple_of(PAGE) } else { record }
    }
}

fn u32_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A whole number in `range`, `1e3` and `16.0` included; null counts as absent.
fn whole(name: &str, value: &Value, default: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
    let senseless = || {
        let (first, last) = (range.start(), range.end());
        Error::usage(format!(
            "{name} is {value}, which makes no sense; take a whole number from {first} to {last}"
        ))
    };
    let number = match value {
        Value::Null => return Ok(default),
        Value::Integer(number) => u64::try_from(*number).map_err(|_| senseless())?,
        Value::Double(number) if number.fract() == 0.0 && (0.0..=9e15).contains(number) => *number as u64,
        Value::Double(_) => return Err(senseless()),
        other => {
            return Err(Error::usage(format!("{name} is {} and should be a whole number", other.kind())));
        }
    };
    if range.contains(&number) { Ok(number) } else { Err(senseless()) }
}

/// A boolean, or a number where all but 0 is true, as in the shell; null is false.
fn truth(name: &str, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Integer(number) => Ok(*number != 0),
        Value::Double(number) if number.is_finite() => Ok(*number != 0.0),
        Value::Null => Ok(false),
        other => Err(Error::usage(format!("{name} is {} and should be true or false", other.kind()))),
    }
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
    match FIELDS.iter().find(|field| field.eq_ignore_ascii_case(name)) {
        Some(field) => format!("there is no option '{shown}'; it is not read (did you mean {field}?)"),
        None => format!("there is no option '{shown}'; it is not read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_errors::Kind;
    use proptest::prelude::*;

    fn options(text: &str) -> Options {
        Options::parse(text).unwrap().options
    }

    #[test]
    fn the_study_document_and_the_defaults() {
        let study = "{ nThreads:1024, fileSizeMB:1000, mmf:false, r:true, w:true, syncDelay:60 }";
        let parsed = Options::parse(study).unwrap();
        let expected = Options {
            threads: 1024,
            file_bytes: Bytes::mib(1000),
            reads: true,
            writes: true,
            sync_delay_s: 60,
            ..Options::default()
        };
        assert_eq!((parsed.options, parsed.warnings), (expected, Vec::<String>::new()));
        assert_eq!(
            parsed.echo,
            "{ nThreads: 1024, fileSizeMB: 1000, mmf: false, r: true, w: true, syncDelay: 60 }"
        );
        assert_eq!(options("{r:true}"), Options { reads: true, ..Options::default() });
    }

    #[test]
    fn numbers_and_truths_as_shells_write_them() {
        let loose = "{nThreads:16.0, fileSizeMB:1e3, mmf:1, r:0, w:1.0, recSizeKB:0, syncDelay:null}";
        let expected = Options {
            threads: 16,
            file_bytes: Bytes::mib(1000),
            mapped: true,
            writes: true,
            ..Options::default()
        };
        assert_eq!(options(loose), expected);
        assert_eq!(options("{r:true,fileSizeMB:0}").file_bytes, Bytes::mib(1));
    }

    #[test]
    fn what_is_not_known_is_a_warning() {
        let parsed = Options::parse("{r:true, nthreads:9, colour:'red', r:false} trailing").unwrap();
        assert!(parsed.options.reads && parsed.options.threads == 1);
        assert_eq!(parsed.warnings.len(), 4, "{:?}", parsed.warnings);
        assert!(parsed.warnings[0].contains("did you mean nThreads?"));
        assert!(parsed.warnings[2].contains("'r' is given twice"));
    }

    #[test]
    fn what_makes_no_sense_is_one_sentence() {
        for (text, word) in [
            ("{r:true,nThreads:0}", "nThreads is 0"),
            ("{r:true,nThreads:-4}", "nThreads is -4"),
            ("{r:true,nThreads:1.5}", "nThreads is 1.5"),
            ("{r:true,nThreads:NaN}", "nThreads is NaN"),
            ("{r:true,nThreads:1e300}", "nThreads is 1e300"),
            ("{r:true,nThreads:99999999999999999999999999999}", "nThreads is 1e29"),
            ("{r:true,nThreads:'16'}", "nThreads is a text"),
            ("{r:true,nThreads:true}", "nThreads is a boolean"),
            ("{r:true,fileSizeMB:[1]}", "fileSizeMB is a list"),
            ("{r:true,fileSizeMB:1e18}", "fileSizeMB is 1e18"),
            ("{r:true,recSizeKB:64001}", "recSizeKB is 64001"),
            ("{r:true,sleepMicros:-1}", "sleepMicros is -1"),
            ("{r:true,syncDelay:Infinity}", "syncDelay is Infinity"),
            ("{r:'true'}", "r is a text"),
            ("{r:NaN}", "r is a number"),
            ("{mmf:{},r:true}", "mmf is a document"),
            ("{}", "neither r nor w"),
            ("{r:false,w:0}", "neither r nor w"),
            ("{r:true,recSizeKB:2048}", "does not fit"),
        ] {
            let error = Options::parse(text).unwrap_err();
            assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Usage, 2), "{text}");
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_mapped_record_takes_whole_pages() {
        assert_eq!(options("{r:1,mmf:1,recSizeKB:5}").record_room(), 8192);
        assert_eq!(options("{r:1,recSizeKB:5}").record_room(), 5120);
    }

    proptest! {
        #[test]
        fn no_input_panics(text in any::<String>()) {
            let _ = Options::parse(&text);
        }

        #[test]
        fn no_near_document_panics(text in r#"[{}\[\]:,'"/*\\ nThreadswr0-9.eE+\-NumberInt()\n]{0,60}"#) {
            // Some whole, some not.
            for text in [format!("{{{text}"), format!("{{r:1,{text}}}")] {
                let Ok(parsed) = Options::parse(&text) else { continue };
                prop_assert!(!parsed.echo.contains('\n'));
                if !parsed.echo.contains("...") {
                    let again = Options::parse(&parsed.echo).map(|again| again.options);
                    prop_assert_eq!(again.ok(), Some(parsed.options), "{}", parsed.echo);
                }
            }
        }

        #[test]
        fn what_is_in_range_is_taken_as_it_is(
            threads in 1..=16_384u32, mb in 64..=1_000_000u64, kb in 1..=64_000u64, sleep in 0..=1_000_000u64,
            mapped: bool, reads: bool, delay in 0..=86_400u32,
        ) {
            let text = format!(
                "{{nThreads:{threads},fileSizeMB:{mb},recSizeKB:{kb},sleepMicros:{sleep},mmf:{mapped},r:{reads},w:1,syncDelay:{delay}}}"
            );
            let expected = Options {
                threads,
                file_bytes: Bytes::mib(mb),
                sleep_us: sleep,
                mapped,
                reads,
                writes: true,
                record_bytes: Bytes::kib(kb),
                sync_delay_s: delay,
            };
            prop_assert_eq!(Options::parse(&text).unwrap().options, expected);
        }
    }
}
