//! `fathom iostat`: sysstat's report of CPU and device activity, with its options, columns and JSON.
//!
//! The report on standard output is exactly the one that sysstat 12.6 would print, so that scripts keep working; notes on
//! this kernel are on standard error. It refuses input that it would have to guess: a device that
//! does not exist, or an interval that is not a number. `fathom_host::iostat` computes the figures.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use fathom_errors::Error;
use fathom_host::iostat::{
    IostatHeader, IostatOptions, IostatSampler, LocalTime, Partitions, Report, Selection, Snapshot, Stack,
    Unit, json, notes, report, text,
};
use fathom_host::{View, kernel};
use fathom_process::Signals;

use crate::outcome::VerbOutcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom iostat                     one report of the time since boot
  fathom iostat -xy 1 10            ten reports of one second each, all figures
  fathom iostat -xz -m nvme0n1 5    one device, in MB, every 5 s while it is busy
  fathom iostat -x --tree --more 2  md, LVM and loop devices above their disks
  fathom iostat -xy -o JSON 1 60    one JSON document in sysstat's shape

Device names, INTERVAL (seconds) and COUNT may stand in any order as long as
INTERVAL comes before COUNT. Without COUNT it reports until Ctrl-C.
docs/iostat.md has the formulas and the differences from sysstat.
Exit codes: 0 ok, 2 usage, 3 environment (no such device, no counters).";

/// The longest interval: a year, in seconds.
const MAX_INTERVAL: f64 = 31_536_000.0;

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Show CPU use (the default shows it with the devices)
    #[arg(short = 'c')]
    cpu: bool,
    /// Show devices only, without CPU use
    #[arg(short = 'd')]
    disks: bool,
    /// Show all figures: rates, merges, await, request size of each kind, queue length, utilisation
    #[arg(short = 'x')]
    extended: bool,
    /// Show a narrow report that fits 80 columns
    #[arg(short = 's')]
    short: bool,
    /// Show kilobytes (1024 bytes; the default)
    #[arg(short = 'k')]
    kilobytes: bool,
    /// Show megabytes (1024 kilobytes)
    #[arg(short = 'm', conflicts_with = "kilobytes")]
    megabytes: bool,
    /// Leave out the first report, of the time since boot
    #[arg(short = 'y')]
    omit_first: bool,
    /// Leave out devices that did nothing in the interval
    #[arg(short = 'z')]
    omit_idle: bool,
    /// Print the time before each report (S_TIME_FORMAT=ISO: as ISO 8601)
    #[arg(short = 't')]
    timestamp: bool,
    /// Show device mapper names (vg0-data) instead of dm-0
    #[arg(short = 'N')]
    mapper_names: bool,
    /// Show partitions too: of DEV (several with commas), of used devices (no DEV), or ALL
    #[arg(short = 'p', value_name = "DEV", num_args = 0..=1, default_missing_value = "")]
    partitions: Option<String>,
    /// Print one JSON document in sysstat's shape
    #[arg(short = 'o', value_name = "FORMAT", value_parser = ["JSON"], ignore_case = true)]
    format: Option<String>,
    /// The same as -o JSON
    #[arg(long)]
    json: bool,
    /// Show stacked devices (md, LVM, loop) above what they stand on, and a total of the bottom devices only
    #[arg(long)]
    tree: bool,
    /// Add columns that sysstat does not have: cw/s, writes without empty flushes; inflight, requests out now
    #[arg(long)]
    more: bool,
    /// Devices, then seconds between reports, then how many reports
    #[arg(value_name = "DEVICE... [INTERVAL [COUNT]]")]
    words: Vec<String>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("iostat"))
        .about("Show what each device does, in sysstat's columns")
        .long_about(None)
        .after_help(EXAMPLES)
}

impl Config {
    /// Reads the command line. A number after `-p` is an interval or a count, as in sysstat.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self> {
        let mut config = Config::from_arg_matches(matches)?;
        if let Some(number) = config.partitions.take_if(|value| starts_as_number(value)) {
            let place = matches.index_of("partitions").unwrap_or(0);
            let before = matches.indices_of("words").into_iter().flatten().filter(|index| *index < place);
            config.words.insert(before.count().min(config.words.len()), number);
            config.partitions = Some(String::new());
        }
        Ok(config)
    }

    fn is_json(&self) -> bool {
        self.json || self.format.is_some()
    }

    fn options(&self, devices: Vec<String>) -> IostatOptions {
        let partitions = match self.partitions.as_deref() {
            None => Partitions::None,
            Some("") => Partitions::Used,
            Some("ALL") => Partitions::All,
            Some(names) => Partitions::Of(names.split(',').map(str::to_owned).collect()),
        };
        // As in sysstat, where -c does not hide the output that another option requests.
        let asks_for_disks = self.extended || partitions != Partitions::None || !devices.is_empty();
        IostatOptions {
            cpu: self.cpu || !self.disks,
            disks: self.disks || !self.cpu || asks_for_disks,
            extended: self.extended,
            short: self.short,
            unit: if self.megabytes { Unit::Mib } else { Unit::Kib },
            omit_idle: self.omit_idle,
            timestamp: self.timestamp,
            mapper_names: self.mapper_names,
            partitions,
            devices,
            tree: self.tree,
            more: self.more,
        }
    }
}

/// The times of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ReportTimes {
    /// Seconds between them; `None` for one report only.
    interval: Option<Duration>,
    /// The number of reports; `None` for no end.
    count: Option<u64>,
}

fn starts_as_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Separates device names from numbers: no device's name begins with a digit.
fn split(words: &[String]) -> Result<(Vec<String>, ReportTimes), Error> {
    let (numbers, devices): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| starts_as_number(word));
    let devices = devices.into_iter().cloned().collect();
    let schedule = match numbers.as_slice() {
        [] => ReportTimes { interval: None, count: Some(1) },
        [interval] => {
            let interval = parse_interval(interval)?;
            ReportTimes { interval, count: interval.is_none().then_some(1) }
        }
        [interval, count] => ReportTimes {
            interval: Some(parse_interval(interval)?.ok_or_else(|| {
                Error::usage("several reports need an interval above 0").advise("try 'fathom iostat 1 10'")
            })?),
            count: Some(parse_count(count)?),
        },
        [_, _, third, ..] => {
            return Err(Error::usage(format!("'{third}' is one number too many"))
                .advise("give INTERVAL and COUNT, as in 'fathom iostat 1 10'"));
        }
    };
    Ok((devices, schedule))
}

/// The interval in seconds; `None` for 0, which is one report.
fn parse_interval(word: &str) -> Result<Option<Duration>, Error> {
    let seconds = word.parse::<f64>().ok().filter(|seconds| (0.0..=MAX_INTERVAL).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        Error::usage(format!("'{word}' is not an interval in seconds (0 to {MAX_INTERVAL})"))
            .advise("for one report a second say 'fathom iostat 1'")
    })?;
    match seconds {
        0.0 => Ok(None),
        seconds if seconds < 0.01 => Err(Error::usage(format!("an interval of {word} s is too short"))
            .advise("the kernel counts in ticks of up to 10 ms, so use 0.1 or more")),
        seconds => Ok(Some(Duration::from_secs_f64(seconds))),
    }
}

fn parse_count(word: &str) -> Result<u64, Error> {
    word.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
        Error::usage(format!("'{word}' is not a number of reports")).advise("give a whole number from 1")
    })
}

/// Prints reports until the count is reached or a signal comes.
pub(crate) fn run(config: Config) -> Result<VerbOutcome> {
    let (devices, schedule) = split(&config.words)?;
    let options = config.options(devices);
    let signals = Signals::install()?;
    let view = View::live();
    let mut sampler = IostatSampler::open(&view)?;
    let first = sampler.snapshot()?;
    let stack = Stack::read(&view);
    let selection = Selection::resolve(&options, &stack, &first.lines)?;
    let iso = std::env::var("S_TIME_FORMAT").is_ok_and(|format| format == "ISO");
    let paper = ReportOutput { options, as_json: config.is_json(), iso };
    paper.note(&view, &stack, &selection, &first);
    paper.begin(&view)?;
    let skip_first = config.omit_first && schedule.interval.is_some();
    let mut loop_ = Loop { view, sampler, stack, selection, paper, signals, printed: 0 };
    let result = loop_.run(first, schedule, skip_first);
    // The document is closed even after a failure, unless its reader has closed the pipe.
    let closed = result.as_ref().is_err_and(|error| error.kind() == fathom_errors::Kind::OutputClosed);
    if !closed {
        loop_.paper.end()?;
    }
    result?;
    Ok(VerbOutcome::Clean)
}

struct Loop {
    view: View,
    sampler: IostatSampler,
    stack: Stack,
    selection: Selection,
    paper: ReportOutput,
    signals: Signals,
    printed: u64,
}

impl Loop {
    fn run(&mut self, first: Snapshot, schedule: ReportTimes, skip_first: bool) -> Result<(), Error> {
        let start = Instant::now();
        if !skip_first {
            self.print(None, &first)?;
        } else if !self.paper.as_json {
            // sysstat prints a line in place of the first report.
            output::line("")?;
        }
        let Some(interval) = schedule.interval else { return Ok(()) };
        let mut before = first;
        let mut due = interval;
        while schedule.count.is_none_or(|count| self.printed < count) {
            // Each report is due at a multiple of the interval, so that printing does not delay the next.
            if self.signals.wait(due.saturating_sub(start.elapsed())) {
                return Ok(());
            }
            due = next_due(start.elapsed(), interval);
            let after = self.sampler.snapshot()?;
            self.print(Some(&before), &after)?;
            before = after;
        }
        Ok(())
    }

    fn print(&mut self, before: Option<&Snapshot>, after: &Snapshot) -> Result<(), Error> {
        // Devices appear and disappear; the tree is read again only if a device is unknown.
        if after.lines.iter().any(|line| self.stack.device(&line.name).is_none()) {
            self.stack = Stack::read(&self.view);
        }
        let report = report(before, after, &self.selection, &self.paper.options, &self.stack);
        self.paper.report(&report, self.printed == 0)?;
        self.printed += 1;
        Ok(())
    }
}

/// The next multiple of the interval; those that passed while the process was stopped are left out.
fn next_due(elapsed: Duration, interval: Duration) -> Duration {
    let passed = elapsed.as_nanos().checked_div(interval.as_nanos()).unwrap_or(0);
    interval.saturating_mul(u32::try_from(passed.saturating_add(1)).unwrap_or(u32::MAX))
}

/// The destination and the format of the reports.
struct ReportOutput {
    options: IostatOptions,
    as_json: bool,
    iso: bool,
}

impl ReportOutput {
    fn note(&self, view: &View, stack: &Stack, selection: &Selection, first: &Snapshot) {
        let shown = first.lines.iter().filter(|line| selection.shows(line, &first.lines, stack));
        let shown: Vec<&str> = shown.map(|line| line.name.as_str()).collect();
        let util = self.options.disks && self.options.extended;
        for note in notes(kernel::read(view).as_ref(), stack, &shown, util) {
            output::note(&format!("fathom: note: {note}"));
        }
    }

    fn begin(&self, view: &View) -> Result<(), Error> {
        let header = IostatHeader::read(view, &LocalTime::now(self.iso));
        self.write(&if self.as_json { json::begin(&header) } else { text::header(&header) })
    }

    fn report(&self, report: &Report, first: bool) -> Result<(), Error> {
        let stamp = LocalTime::now(self.iso).timestamp;
        self.write(&if self.as_json {
            json::statistics(report, &self.options, &stamp, first)
        } else {
            text::report(report, &self.options, &stamp)
        })
    }

    fn end(&self) -> Result<(), Error> {
        if self.as_json { self.write(json::end()) } else { Ok(()) }
    }

    /// All pieces end with a line's end, which `output::line` adds itself.
    fn write(&self, piece: &str) -> Result<(), Error> {
        output::line(piece.strip_suffix('\n').unwrap_or(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Config {
        let matches = command().try_get_matches_from([&["iostat"], words].concat()).unwrap();
        Config::from_matches(&matches).unwrap()
    }

    fn schedule(words: &[&str]) -> (Vec<String>, Option<f64>, Option<u64>) {
        let (devices, schedule) = split(&parse(words).words).unwrap();
        (devices, schedule.interval.map(|interval| interval.as_secs_f64()), schedule.count)
    }

    #[test]
    fn numbers_are_interval_and_count_wherever_they_stand() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(schedule(&[]), (vec![], None, Some(1)));
        assert_eq!(schedule(&["-x", "2"]), (vec![], Some(2.0), None));
        assert_eq!(
            schedule(&["sda", "-xm", "0.5", "3", "md0"]),
            (names(&["sda", "md0"]), Some(0.5), Some(3))
        );
        assert_eq!(schedule(&["0"]), (vec![], None, Some(1)));
        assert_eq!(schedule(&["-p", "1", "2"]), (vec![], Some(1.0), Some(2)));
        assert_eq!(schedule(&["1", "-p", "2"]), (vec![], Some(1.0), Some(2)));
        assert_eq!(parse(&["-p", "1", "2"]).options(vec![]).partitions, Partitions::Used);
        assert_eq!(parse(&["-p", "ALL", "2"]).options(vec![]).partitions, Partitions::All);
        assert_eq!(parse(&["-p"]).options(vec![]).partitions, Partitions::Used);
        let two = Partitions::Of(vec!["sda".to_owned(), "sdb".to_owned()]);
        assert_eq!(parse(&["-dp", "sda,sdb"]).options(vec![]).partitions, two);
    }

    #[test]
    fn numbers_that_make_no_sense_are_usage_errors() {
        for words in [
            &["5s"][..],
            &["1", "0"],
            &["1", "1.5"],
            &["1", "x1", "2x"],
            &["1", "2", "3"],
            &["0", "3"],
            &["0.001"],
            &["1e99"],
            &["99999999999999999999999"],
            &["1.2.3"],
        ] {
            let error = split(&parse(words).words).unwrap_err();
            assert_eq!(error.kind().exit_code(), 2, "{words:?}: {error}");
        }
    }

    #[test]
    fn reports_that_were_slept_through_are_left_out() {
        let due = |elapsed_ms, interval_ms| {
            next_due(Duration::from_millis(elapsed_ms), Duration::from_millis(interval_ms)).as_millis()
        };
        assert_eq!((due(1000, 1000), due(1001, 1000), due(3700, 1000)), (2000, 2000, 4000));
    }

    #[test]
    fn the_default_shows_both_blocks() {
        let blocks = |words: &[&str]| {
            let options = parse(words).options(vec![]);
            (options.cpu, options.disks)
        };
        assert_eq!(blocks(&["-x"]), (true, true));
        assert_eq!(blocks(&["-c"]), (true, false));
        assert_eq!(blocks(&["-d"]), (false, true));
        assert_eq!(blocks(&["-cd"]), (true, true));
        assert_eq!((blocks(&["-cx"]), blocks(&["-cp"])), ((true, true), (true, true)));
    }
}
