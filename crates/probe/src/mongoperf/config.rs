//! The eight options of mongoperf, with its defaults, parsed from the document that it read.
//!
//! Lenient if the old tool was (`r:1`, a zero that means the default, unknown fields), strict if it crashed or measured something
//! else: each invalid value is refused in one sentence.

use fathom_errors::{Error, Result};
use fathom_units::{Bytes, Nanos};
use serde::Serialize;

use super::document::{MongoperfDocument, OptionValue};

/// The old tool had no limit; above this number, kernel limits stop it anyway.
const MAX_THREADS: u64 = 16_384;
/// 1 PiB in MiB.
const MAX_FILE_MB: u64 = 1 << 30;
/// The old tool's own limit.
const MAX_RECORD_KB: u64 = 64_000;
/// One hour in microseconds.
const MAX_SLEEP_US: u64 = 3_600_000_000;
/// One day in seconds.
const MAX_SYNC_DELAY_S: u64 = 86_400;
/// The largest number of warnings about one document; a wrong input file may have a thousand fields.
const MAX_WARNINGS: usize = 10;
/// Bytes of a page: the unit in which a mapping is touched and offsets are aligned.
pub(super) const PAGE: u64 = 4096;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MongoperfOptions {
    /// Threads at the top of the ramp (`nThreads`).
    pub threads: u32,
    /// Bytes of the file that are read and written (`fileSizeMB`).
    pub file_bytes: Bytes,
    /// Pause of each thread after each round, divided among the running threads, microseconds (`sleepMicros`).
    pub sleep_us: u64,
    /// Whether I/O uses a mapping of the file instead of direct I/O (`mmf`).
    pub mapped: bool,
    /// Whether it reads (`r`).
    pub reads: bool,
    /// Whether it writes (`w`).
    pub writes: bool,
    /// Bytes of a record (`recSizeKB`).
    pub record_bytes: Bytes,
    /// Seconds between the syncs of a mapping, 0 for none (`syncDelay`).
    pub sync_delay_s: u32,
}

impl Default for MongoperfOptions {
    fn default() -> Self {
        MongoperfOptions {
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

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct MongoperfPlan {
    /// The options of the document.
    pub options: MongoperfOptions,
    /// The end of the run, counted from the start of the first thread; `None` for no end.
    pub seconds: Option<Nanos>,
    /// Seconds between two doublings of the threads.
    pub step_ticks: u32,
    /// The seed of offsets and data.
    pub seed: u64,
}

/// The options, and the remarks on their document.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedOptions {
    pub options: MongoperfOptions,
    /// The document on one line, as the parser understood it.
    pub echo: String,
    /// The ignored options, one sentence each.
    pub warnings: Vec<String>,
}

const FIELDS: [&str; 8] =
    ["nThreads", "fileSizeMB", "sleepMicros", "mmf", "r", "w", "recSizeKB", "syncDelay"];

impl MongoperfOptions {
    /// Reads a document.
    ///
    /// # Errors
    /// One sentence about the first invalid part; its kind gives exit code 2.
    pub fn parse(text: &str) -> Result<ParsedOptions> {
        let document = MongoperfDocument::parse(text)?;
        let mut warnings = Vec::new();
        let mut options = MongoperfOptions::default();
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
        if warnings.len() > MAX_WARNINGS {
            let more = warnings.len() - MAX_WARNINGS;
            warnings.truncate(MAX_WARNINGS);
            warnings.push(format!("and {more} more such fields"));
        }
        options.check()?;
        Ok(ParsedOptions { options, echo: document.to_string(), warnings })
    }

    fn set(&mut self, name: &str, value: &OptionValue) -> Result<()> {
        match name {
            "nThreads" => self.threads = u32_of(whole(name, value, 1, 1..=MAX_THREADS)?),
            // The old tool treated a missing number and 0 alike.
            "fileSizeMB" => self.file_bytes = Bytes::mib(whole(name, value, 1, 0..=MAX_FILE_MB)?.max(1)),
            "recSizeKB" => {
                let kib = whole(name, value, 0, 0..=MAX_RECORD_KB)?;
                self.record_bytes = Bytes::kib(if kib == 0 { 4 } else { kib });
            }
            "sleepMicros" => self.sleep_us = whole(name, value, 0, 0..=MAX_SLEEP_US)?,
            "syncDelay" => self.sync_delay_s = u32_of(whole(name, value, 0, 0..=MAX_SYNC_DELAY_S)?),
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

    /// Bytes that a record occupies in the file: whole pages if mapped.
    pub(super) fn record_room(&self) -> u64 {
        let record = self.record_bytes.get();
        if self.mapped { record.next_multiple_of(PAGE) } else { record }
    }
}

fn u32_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A whole number in `range`, `1e3` and `16.0` included; null counts as absent.
fn whole(name: &str, value: &OptionValue, default: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
    let senseless = || {
        let (first, last) = (range.start(), range.end());
        Error::usage(format!("{name} is {value}, but must be a whole number from {first} to {last}"))
    };
    let number = match value {
        OptionValue::Null => return Ok(default),
        OptionValue::Integer(number) => u64::try_from(*number).map_err(|_| senseless())?,
        OptionValue::Double(number) if number.fract() == 0.0 && (0.0..=9e15).contains(number) => {
            *number as u64
        }
        OptionValue::Double(_) => return Err(senseless()),
        other => {
            return Err(Error::usage(format!("{name} is {} and should be a whole number", other.kind())));
        }
    };
    if range.contains(&number) { Ok(number) } else { Err(senseless()) }
}

/// A boolean, or a number where any non-zero value is true, as in the shell; null is false.
fn truth(name: &str, value: &OptionValue) -> Result<bool> {
    match value {
        OptionValue::Bool(value) => Ok(*value),
        OptionValue::Integer(number) => Ok(*number != 0),
        OptionValue::Double(number) if number.is_finite() => Ok(*number != 0.0),
        OptionValue::Null => Ok(false),
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

    fn options(text: &str) -> MongoperfOptions {
        MongoperfOptions::parse(text).unwrap().options
    }

    #[test]
    fn the_study_document_and_the_defaults() {
        let study = "{ nThreads:1024, fileSizeMB:1000, mmf:false, r:true, w:true, syncDelay:60 }";
        let parsed = MongoperfOptions::parse(study).unwrap();
        let expected = MongoperfOptions {
            threads: 1024,
            file_bytes: Bytes::mib(1000),
            reads: true,
            writes: true,
            sync_delay_s: 60,
            ..MongoperfOptions::default()
        };
        assert_eq!((parsed.options, parsed.warnings), (expected, Vec::<String>::new()));
        assert_eq!(
            parsed.echo,
            "{ nThreads: 1024, fileSizeMB: 1000, mmf: false, r: true, w: true, syncDelay: 60 }"
        );
        assert_eq!(options("{r:true}"), MongoperfOptions { reads: true, ..MongoperfOptions::default() });
    }

    #[test]
    fn numbers_and_truths_as_shells_write_them() {
        let loose = "{nThreads:16.0, fileSizeMB:1e3, mmf:1, r:0, w:1.0, recSizeKB:0, syncDelay:null}";
        let expected = MongoperfOptions {
            threads: 16,
            file_bytes: Bytes::mib(1000),
            mapped: true,
            writes: true,
            ..MongoperfOptions::default()
        };
        assert_eq!(options(loose), expected);
        assert_eq!(options("{r:true,fileSizeMB:0}").file_bytes, Bytes::mib(1));
    }

    #[test]
    fn what_is_not_known_is_a_warning() {
        let parsed = MongoperfOptions::parse("{r:true, nthreads:9, colour:'red', r:false} trailing").unwrap();
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
            let error = MongoperfOptions::parse(text).unwrap_err();
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
            let _ = MongoperfOptions::parse(&text);
        }

        #[test]
        fn no_near_document_panics(text in r#"[{}\[\]:,'"/*\\ nThreadswr0-9.eE+\-NumberInt()\n]{0,60}"#) {
            // Some whole, some not.
            for text in [format!("{{{text}"), format!("{{r:1,{text}}}")] {
                let Ok(parsed) = MongoperfOptions::parse(&text) else { continue };
                prop_assert!(!parsed.echo.contains('\n'));
                if !parsed.echo.contains("...") {
                    let again = MongoperfOptions::parse(&parsed.echo).map(|again| again.options);
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
            let expected = MongoperfOptions {
                threads,
                file_bytes: Bytes::mib(mb),
                sleep_us: sleep,
                mapped,
                reads,
                writes: true,
                record_bytes: Bytes::kib(kb),
                sync_delay_s: delay,
            };
            prop_assert_eq!(MongoperfOptions::parse(&text).unwrap().options, expected);
        }
    }
}
