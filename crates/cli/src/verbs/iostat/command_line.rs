//! The command line of `fathom iostat`: sysstat's options, in the order and the spellings that people type.
//!
//! In sysstat the order of devices, `-p` and `-g` matters, options may be repeated, and `-p` within other letters takes no device.
//! [`plain`] rewrites the spellings that clap does not know; clap does the rest.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fathom_errors::Error;
use fathom_host::iostat::{CounterFolder, DeviceChoice, IostatOptions, PersistentNames, TimeForm, Unit};

const EXAMPLES: &str = "\
EXAMPLES:
  fathom iostat                     one report of the time since boot
  fathom iostat -xy 1 10            ten reports of one second each, all figures
  fathom iostat -xz -m nvme0n1 5    one device, in MB, every 5 s if it is busy
  fathom iostat -x --tree --more 2  md, LVM and loop devices above their disks
  fathom iostat -xh 2               sizes with units, names last, in four parts
  fathom iostat -H -g data sdb sdc  one row for two disks together
  fathom iostat -xy -o JSON 1 60    one JSON document in sysstat's shape

Device names, INTERVAL (seconds) and COUNT may be in any order as long as
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
    /// The same as --human --pretty
    #[arg(short = 'h')]
    human_and_pretty: bool,
    /// Show sizes with a unit that fits them, and percentages with a sign
    #[arg(long)]
    human: bool,
    /// Show the name of the device last, and -x in four parts
    #[arg(long)]
    pretty: bool,
    /// Show -x --pretty in one part
    #[arg(long)]
    compact: bool,
    /// Decimal places of figures [default: 2]
    #[arg(long = "dec", value_name = "N", value_parser = clap::value_parser!(u8).range(0..=2))]
    decimals: Option<u8>,
    /// Leave out the first report, of the time since boot
    #[arg(short = 'y')]
    omit_first: bool,
    /// Leave out devices that did nothing in the interval
    #[arg(short = 'z')]
    omit_idle: bool,
    /// Print the time before each report (S_TIME_FORMAT=ISO: as ISO 8601)
    #[arg(short = 't')]
    timestamp: bool,
    /// Print the time in seconds since 1970 before each report
    #[arg(short = 'U')]
    seconds: bool,
    /// Show device mapper names (vg0-data) instead of dm-0
    #[arg(short = 'N')]
    mapper_names: bool,
    /// Show names of this kind, which are also accepted: ID, LABEL, PATH, UUID or another of /dev/disk; implies --pretty
    #[arg(short = 'j', value_name = "KIND")]
    persistent: Option<String>,
    /// Show partitions too: of DEV (several with commas), of used devices (no DEV), or ALL
    #[arg(short = 'p', value_name = "DEV", num_args = 0..=1, default_missing_value = "", action = ArgAction::Append)]
    partitions: Vec<String>,
    /// Show a total of the devices that follow, called NAME
    #[arg(short = 'g', value_name = "NAME", action = ArgAction::Append, allow_hyphen_values = true)]
    groups: Vec<String>,
    /// Show the totals of groups without their devices
    #[arg(short = 'H', requires = "groups", conflicts_with = "tree")]
    totals_only: bool,
    /// Read counters only from DIR, where a driver in user space writes them; +f DIR: from the kernel too
    #[arg(short = 'f', value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The same as +f
    #[arg(long, value_name = "DIR", conflicts_with = "folder", hide = true)]
    also_from: Option<PathBuf>,
    /// Print one JSON document in sysstat's shape
    #[arg(short = 'o', value_name = "FORMAT", value_parser = ["JSON"], ignore_case = true)]
    format: Option<String>,
    /// The same as -o JSON
    #[arg(long)]
    json: bool,
    /// Show stacked devices (md, LVM, loop) above what they stand on, and a total of the bottom devices only
    #[arg(long, conflicts_with = "groups")]
    tree: bool,
    /// Add columns that sysstat does not have: cw/s, writes without empty flushes; inflight, requests out now
    #[arg(long)]
    more: bool,
    /// Print the version of sysstat whose options and columns these are
    #[arg(short = 'V')]
    pub(super) shows_version: bool,
    /// Devices, then seconds between reports, then how many reports
    #[arg(value_name = "DEVICE... [INTERVAL [COUNT]]")]
    words: Vec<String>,
    /// The devices, partitions and groups in the order of the command line.
    #[arg(skip)]
    chosen: Vec<DeviceChoice>,
}

/// The command line of the verb. `-h` is not help, but sysstat's option.
pub(crate) fn command() -> Command {
    let help = Arg::new("help").long("help").action(ArgAction::Help).help("Print help");
    Config::augment_args(Command::new("iostat"))
        .about("Show what each device does, in sysstat's columns")
        .long_about(None)
        .after_help(EXAMPLES)
        .disable_help_flag(true)
        .arg(help)
        // An alias such as "iostat -x" repeats options.
        .args_override_self(true)
}

/// The options that take the next word, whatever it looks like.
const WITH_VALUE: [&str; 5] = ["-g", "-j", "-o", "-f", "--dec"];
/// The letters that may stand together after one hyphen.
const LETTERS: &str = "cdHhkmNpstUVxyz";

/// The command line with sysstat's own spellings rewritten, if the verb is `iostat`: `-p` among other letters and before a number takes
/// no device, and `+f` is an option.
pub(crate) fn plain(words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|verb| verb != "iostat") {
        return words;
    }
    let mut plain = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let letters = text.strip_prefix('-').filter(|letters| letters.chars().all(|c| LETTERS.contains(c)));
        if WITH_VALUE.contains(&text) {
            plain.push(word);
            plain.extend(words.next());
        } else if text == "+f" {
            let mut option = OsString::from("--also-from");
            if let Some(folder) = words.next() {
                option.push("=");
                option.push(folder);
            }
            plain.push(option);
        } else if letters == Some("p") {
            let takes_number = words.peek().and_then(|next| next.to_str()).is_some_and(is_number);
            plain.push(if takes_number { "-p=".into() } else { word });
        } else if let Some(letters) = letters.filter(|letters| letters.contains('p')) {
            let option = |letter| if letter == 'p' { "-p=".to_owned() } else { format!("-{letter}") };
            plain.extend(letters.chars().map(option).map(OsString::from));
        } else {
            plain.push(word);
        }
    }
    plain
}

impl Config {
    /// Reads the command line of [`command`], after [`plain`].
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self> {
        let mut config = Config::from_arg_matches(matches)?;
        let mut placed: Vec<(usize, DeviceChoice)> = Vec::new();
        let indices = |id: &str| matches.indices_of(id).into_iter().flatten();
        let devices = indices("words").zip(&config.words).filter(|(_, word)| !config.is_time(word));
        placed.extend(devices.map(|(index, word)| match word.as_str() {
            "ALL" => (index, DeviceChoice::AllDevices),
            word => (index, DeviceChoice::Device(word.to_owned())),
        }));
        for (index, names) in indices("partitions").zip(&config.partitions) {
            let choice = |name: &str| match name {
                "ALL" => DeviceChoice::Everything { unused: true },
                name => DeviceChoice::WithPartitions(name.to_owned()),
            };
            if names.is_empty() {
                placed.push((index, DeviceChoice::Everything { unused: false }));
            }
            placed.extend(names.split(',').filter(|name| !name.is_empty()).map(|name| (index, choice(name))));
        }
        let groups = indices("groups").zip(&config.groups);
        placed.extend(groups.map(|(index, name)| (index, DeviceChoice::Group(name.clone()))));
        placed.sort_by_key(|(index, _)| *index);
        config.chosen = placed.into_iter().map(|(_, choice)| choice).collect();
        Ok(config)
    }

    pub(super) fn is_json(&self) -> bool {
        self.json || self.format.is_some()
    }

    /// Returns whether the first report is left out.
    pub(super) fn omits_first(&self) -> bool {
        self.omit_first
    }

    /// The form of dates and times.
    pub(super) fn time_form(&self) -> TimeForm {
        let iso = std::env::var("S_TIME_FORMAT").is_ok_and(|format| format == "ISO");
        TimeForm { iso, seconds: self.seconds }
    }

    /// The folder of counters to read.
    ///
    /// # Errors
    /// When it is not a directory.
    pub(super) fn counter_folder(&self) -> Result<Option<CounterFolder>, Error> {
        let Some(path) = self.folder.as_ref().or(self.also_from.as_ref()) else { return Ok(None) };
        if !path.is_dir() {
            let what = format!("{} is not a directory of counters", path.display());
            return Err(Error::usage(what).advise("-f and +f take one with diskstats or block/DEVICE/stat"));
        }
        Ok(Some(CounterFolder { path: path.clone(), with_kernel: self.folder.is_none() }))
    }

    pub(super) fn options(&self) -> Result<IostatOptions, Error> {
        let persistent = self.persistent.as_deref();
        let persistent =
            persistent.map(|kind| PersistentNames::read(Path::new("/dev/disk"), kind)).transpose()?;
        // As in sysstat, where -c does not hide the output that another option requests.
        let is_device = |choice: &DeviceChoice| !matches!(choice, DeviceChoice::Group(_));
        let asks_for_disks = self.extended || self.chosen.iter().any(is_device);
        let is_posix = std::env::var_os("POSIXLY_CORRECT").is_some();
        Ok(IostatOptions {
            cpu: self.cpu || !self.disks,
            disks: self.disks || !self.cpu || asks_for_disks,
            extended: self.extended,
            short: self.short,
            unit: match (self.megabytes, self.kilobytes) {
                (true, _) => Unit::Mib,
                (false, false) if is_posix => Unit::Sectors,
                (false, _) => Unit::Kib,
            },
            omit_idle: self.omit_idle,
            timestamp: self.timestamp || self.seconds,
            mapper_names: self.mapper_names,
            pretty: self.pretty || self.human_and_pretty || persistent.is_some(),
            persistent,
            chosen: self.chosen.clone(),
            totals_only: self.totals_only,
            human: self.human || self.human_and_pretty,
            compact: self.compact,
            decimals: self.decimals.map(usize::from),
            tree: self.tree,
            more: self.more,
        })
    }

    /// Returns whether a word is an interval or a count. No device's name begins with a digit, but a name of `-j` may.
    fn is_time(&self, word: &str) -> bool {
        is_number(word) || (starts_as_number(word) && self.persistent.is_none())
    }

    /// The times of reports among the words.
    ///
    /// # Errors
    /// When a number is no interval or no count, or there is one too many.
    pub(super) fn times(&self) -> Result<ReportTimes, Error> {
        let numbers: Vec<&String> = self.words.iter().filter(|word| self.is_time(word)).collect();
        Ok(match numbers.as_slice() {
            [] => ReportTimes { interval: None, count: Some(1) },
            [interval] => {
                let interval = parse_interval(interval)?;
                ReportTimes { interval, count: interval.is_none().then_some(1) }
            }
            [interval, count] => ReportTimes {
                interval: Some(parse_interval(interval)?.ok_or_else(|| {
                    Error::usage("several reports need an interval above 0")
                        .advise("try 'fathom iostat 1 10'")
                })?),
                count: Some(parse_count(count)?),
            },
            [_, _, third, ..] => {
                return Err(Error::usage(format!("'{third}' is one number too many"))
                    .advise("give INTERVAL and COUNT, as in 'fathom iostat 1 10'"));
            }
        })
    }
}

/// The times of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReportTimes {
    /// Seconds between them; `None` for one report only.
    pub(super) interval: Option<Duration>,
    /// The number of reports; `None` for no end.
    pub(super) count: Option<u64>,
}

fn starts_as_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Returns whether a word has digits only, or a fraction.
fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.')
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses words as the program does.
    fn try_parse(words: &[&str]) -> Result<Config> {
        let words = [&["fathom", "iostat"], words].concat();
        let words = plain(words.into_iter().map(OsString::from).collect());
        Config::from_matches(&command().try_get_matches_from(words.into_iter().skip(1))?)
    }

    fn parse(words: &[&str]) -> Config {
        try_parse(words).unwrap()
    }

    fn line(line: &str) -> Config {
        parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn times(config: &Config) -> (Option<f64>, Option<u64>) {
        let times = config.times().unwrap();
        (times.interval.map(|interval| interval.as_secs_f64()), times.count)
    }

    fn device(name: &str) -> DeviceChoice {
        DeviceChoice::Device(name.to_owned())
    }

    fn with_partitions(name: &str) -> DeviceChoice {
        DeviceChoice::WithPartitions(name.to_owned())
    }

    const USED: DeviceChoice = DeviceChoice::Everything { unused: false };
    const EVERYTHING: DeviceChoice = DeviceChoice::Everything { unused: true };

    #[test]
    fn numbers_are_interval_and_count_wherever_they_stand() {
        assert_eq!(times(&line("")), (None, Some(1)));
        assert_eq!(times(&line("-x 2")), (Some(2.0), None));
        let mixed = line("sda -xm 0.5 3 md0");
        assert_eq!((times(&mixed), mixed.chosen), ((Some(0.5), Some(3)), vec![device("sda"), device("md0")]));
        assert_eq!(times(&line("0")), (None, Some(1)));
        for partitions in ["-p 1 2", "1 -p 2", "-xp 1 2", "1 2 -p"] {
            let config = line(partitions);
            assert_eq!((times(&config), config.chosen), ((Some(1.0), Some(2)), vec![USED]), "{partitions}");
        }
    }

    #[test]
    fn devices_partitions_and_groups_keep_their_order() {
        assert_eq!(line("-p ALL 2").chosen, [EVERYTHING]);
        assert_eq!(line("-p sda,sdb").chosen, [with_partitions("sda"), with_partitions("sdb")]);
        assert_eq!(line("-p sda -x -p sdb").chosen, [with_partitions("sda"), with_partitions("sdb")]);
        assert_eq!(line("-p sda,ALL").chosen, [with_partitions("sda"), EVERYTHING]);
        assert_eq!(line("-d sdr -p").chosen, [device("sdr"), USED]);
        assert_eq!(line("-p -d sdr").chosen, [USED, device("sdr")]);
        // Among other letters -p takes no device.
        let grouped = line("-dp sda");
        assert_eq!((grouped.disks, grouped.chosen), (true, vec![USED, device("sda")]));
        assert_eq!(line("-px sda,sdb").chosen, [USED, device("sda,sdb")]);
        assert_eq!(line("sda12 ALL").chosen, [device("sda12"), DeviceChoice::AllDevices]);
        let group = |name: &str| DeviceChoice::Group(name.to_owned());
        let grouped = line("sdz -g one sda -p sdb -g -dp sdc -H");
        let one =
            [device("sdz"), group("one"), device("sda"), with_partitions("sdb"), group("-dp"), device("sdc")];
        assert_eq!((grouped.totals_only, grouped.chosen), (true, one.to_vec()));
    }

    #[test]
    fn options_may_be_repeated_and_mean_what_they_mean_in_sysstat() {
        let repeated = line("-x -d -x -d -o JSON -y -yx --dec=1 --dec=0 -o JSON --human --human 1");
        assert!(repeated.extended && repeated.disks && repeated.omit_first && repeated.is_json());
        assert_eq!(repeated.options().unwrap().decimals, Some(0));
        let human = line("-xh 2").options().unwrap();
        assert!(human.human && human.pretty && human.extended && !human.compact);
        assert!(line("-V").shows_version && line("-xV").shows_version);
        let seconds = line("-U");
        assert!(seconds.options().unwrap().timestamp && seconds.time_form().seconds);
        let folder = |text: &str| line(text).counter_folder().unwrap().unwrap();
        assert_eq!(folder("-f / sda"), CounterFolder { path: "/".into(), with_kernel: false });
        assert_eq!(folder("+f / sda"), CounterFolder { path: "/".into(), with_kernel: true });
        assert!(
            line("+f /no/such").counter_folder().is_err() && line("").counter_folder().unwrap().is_none()
        );
    }

    #[test]
    fn a_persistent_name_may_begin_with_a_digit() {
        let config = line("-j UUID 2578463f-6947 1 2");
        assert_eq!((times(&config), config.chosen), ((Some(1.0), Some(2)), vec![device("2578463f-6947")]));
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        for words in [
            "-H",
            "--dec=3",
            "--dec=A",
            "-k -m",
            "-1",
            "-q",
            "-g",
            "-j",
            "+f",
            "-f /a +f /b",
            "-o XML",
            "--tree -g a",
            "--tree -H",
        ] {
            let error = try_parse(&words.split_whitespace().collect::<Vec<_>>()).unwrap_err();
            assert_eq!(error.downcast_ref::<clap::Error>().unwrap().exit_code(), 2, "{words}");
        }
        for words in [
            "5s",
            "1 0",
            "1 1.5",
            "1 2x",
            "1 2 3",
            "0 3",
            "0.001",
            "1e99",
            "99999999999999999999999",
            "1.2.3",
        ] {
            let error = line(words).times().unwrap_err();
            assert_eq!(error.kind().exit_code(), 2, "{words}: {error}");
        }
    }

    #[test]
    fn the_default_shows_both_blocks() {
        let blocks = |words: &str| {
            let options = line(words).options().unwrap();
            (options.cpu, options.disks)
        };
        assert_eq!(blocks("-x"), (true, true));
        assert_eq!(blocks("-c"), (true, false));
        assert_eq!(blocks("-d"), (false, true));
        assert_eq!(blocks("-cd"), (true, true));
        assert_eq!(
            (blocks("-cx"), blocks("-cp"), blocks("-c sda")),
            ((true, true), (true, true), (true, true))
        );
        assert_eq!(blocks("-c -g none"), (true, false));
    }
}
