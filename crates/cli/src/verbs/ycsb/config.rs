//! The command line of `fathom ycsb`: translates YCSB's words, which have long options with one dash, and turns properties and settings
//! into a workload.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use fathom_errors::{Error, Kind};
use fathom_load::builtin_workloads;
use fathom_load::client_settings::{ClientSettings, phase_of};
use fathom_load::core_workload::Phase;
use fathom_load::driving::Arrivals;
use fathom_load::properties::Properties;
use fathom_load::ycsb_report::ReportSettings;
use fathom_session::{CoreLoad, DocumentLoad, SearchSpec, WorkloadSpec};
use fathom_stats::Slo;
use fathom_units::Nanos;

use crate::output;
use crate::run_page::PageArgs;

/// The number of connections of `--find-max` unless `-threads` gives another.
const FIND_MAX_THREADS: &str = "64";

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// load the records, or run operations on them
    #[arg(value_enum, value_name = "load|run")]
    pub(super) phase: Option<Word>,
    /// The binding: mongodb (mongodb-async is taken for it)
    pub(super) binding: Option<String>,
    /// A file of properties, or a built-in workload (workloada to workloadf, s1 to s5); may be repeated,
    /// later ones win
    #[arg(short = 'P', value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// One property; beats all files
    #[arg(short = 'p', value_name = "NAME=VALUE", allow_hyphen_values = true)]
    pub(super) properties: Vec<String>,
    /// Connections, each with one operation under way (-threads)
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<String>,
    /// Operations a second over all connections (-target)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) target: Option<String>,
    /// Status lines on standard error
    #[arg(short = 's')]
    pub(super) status: bool,
    /// Prefix of each status line
    #[arg(short = 'l', value_name = "LABEL", allow_hyphen_values = true)]
    pub(super) label: Option<String>,
    /// The binding's class, if no binding is named (-db)
    #[arg(long, value_name = "CLASS")]
    pub(super) db: Option<String>,
    /// load, if no phase is named (-load)
    #[arg(long)]
    pub(super) load: bool,
    /// run, if no phase is named (-t)
    #[arg(long)]
    pub(super) run: bool,
    /// Who talks to the server. official is MongoDB's Rust driver, which shows what a driver
    /// costs: closed loops and rates, but no pipelinedepth and no w=0
    #[arg(long, value_enum, value_name = "WHO", default_value_t = DriverWord::Own, hide_possible_values = true)]
    pub(super) driver: DriverWord,
    /// Exit with 0 even if operations failed, as YCSB does
    #[arg(long)]
    pub(super) ycsb_exit_codes: bool,
    /// A workload of any documents and commands (YAML) in place of YCSB's: a file, or a built-in one
    /// (nested-orders, insert-index-growth, bank-transfer); see docs/workloads.md
    #[arg(long, value_name = "FILE", conflicts_with = "find_max")]
    pub(super) workload: Option<PathBuf>,
    /// Find the highest rate that holds --slo: Poisson arrivals at rising rates
    #[arg(long, requires = "slo", conflicts_with = "target")]
    pub(super) find_max: bool,
    /// A latency objective for --find-max, such as 'p99<10ms'
    #[arg(long, requires = "find_max", conflicts_with_all = ["workload", "target"])]
    pub(super) slo: Option<Slo>,
    /// How long each step of --find-max is measured
    #[arg(long, default_value = "30s", value_name = "TIME", requires = "find_max", conflicts_with_all = ["workload", "target"])]
    pub(super) step: Nanos,
    /// Serve the progress as OpenMetrics: a port of the loopback, or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,
    /// Watch the servers and this host during the load, into the same run folder, for fathom explain
    #[arg(long, conflicts_with = "no_record")]
    pub(super) watch: bool,
    /// The directory of the data on this host, where the servers do not say it themselves
    #[arg(long, value_name = "DIR", requires = "watch", conflicts_with = "no_record")]
    pub(super) watch_dir: Option<PathBuf>,
    /// Print one JSON document in place of YCSB's report
    #[arg(long)]
    pub(super) json: bool,
    /// Directory for run folders [default: the state folder's runs/]
    #[arg(long, value_name = "DIR", conflicts_with = "no_record")]
    pub(super) runs: Option<PathBuf>,
    /// Keep no run folder
    #[arg(long)]
    pub(super) no_record: bool,
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// Accepted for compatibility; ignored (-cp)
    #[arg(long, hide = true)]
    pub(super) classpath: Option<String>,
    /// Accepted for compatibility; ignored (-jvm-args)
    #[arg(long, hide = true, allow_hyphen_values = true)]
    pub(super) jvm_args: Option<String>,
    /// The flags that set properties, in the order of the command line.
    #[arg(skip)]
    flags: Vec<PropertyFlag>,
}

/// A flag that sets a property.
#[derive(Clone, Debug)]
struct PropertyFlag {
    place: usize,
    /// The property and the flag; `None` for `-p`, whose value names the property.
    named: Option<(&'static str, &'static str)>,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Word {
    Load,
    Run,
}

/// Who talks to the server, as the command line says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DriverWord {
    /// Event loops of our own
    Own,
    /// MongoDB's official driver for Rust
    Official,
}

pub(super) fn warn(warnings: &[String]) {
    warnings.iter().for_each(|warning| output::note(&format!("fathom: {warning}")));
}

/// The settings of the report. If operations are due at a rate, the two clocks differ, and the report has both.
pub(super) fn report_settings(
    properties: &Properties,
    settings: &ClientSettings,
) -> Result<(ReportSettings, Vec<String>)> {
    let mut clocks = properties.clone();
    if properties.get("measurement.interval").is_none() && settings.plan.arrivals != Arrivals::Closed {
        clocks.set("measurement.interval", "both", "default");
    }
    Ok(ReportSettings::from_properties(&clocks).map_err(|error| error.or_id("bad-property"))?)
}

/// The text of a workload file, or else of the built-in workload of that name.
fn document_workload(file: &Path) -> Result<String> {
    let failed =
        |error| Error::io("read the workload in", file, error).with_kind(Kind::Usage).with_id("no-workload");
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let builtin = builtin_workloads::document(&file.to_string_lossy()).map(str::to_owned);
            let advice =
                || format!("name a file, or a built-in workload: {}", builtin_workloads::document_names());
            Ok(builtin.ok_or_else(|| failed(error).advise(advice()))?)
        }
        read => Ok(read.map_err(failed)?),
    }
}

/// A report's file that cannot be written is refused before the load rather than after it.
pub(super) fn check_export_file(settings: &ClientSettings) -> Result<()> {
    if let Some(file) = &settings.export_file {
        let is_new = std::fs::symlink_metadata(file).is_err();
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|error| Error::io("write the report to", file, error))?;
        if is_new {
            // A load that fails leaves no empty report.
            std::fs::remove_file(file).map_err(|error| Error::io("remove", file, error))?;
        }
    }
    Ok(())
}

impl Config {
    /// Reads the command line. Of two flags that set one property the later one counts, as in YCSB.
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self> {
        let mut config = Config::from_arg_matches(matches)?;
        let indices = |id: &str| matches.indices_of(id).into_iter().flatten();
        let pair = |(place, pair): (usize, &String)| PropertyFlag { place, named: None, value: pair.clone() };
        let mut flags: Vec<PropertyFlag> = indices("properties").zip(&config.properties).map(pair).collect();
        for (id, property, flag, value) in [
            ("threads", "threadcount", "-threads", &config.threads),
            ("target", "target", "-target", &config.target),
            ("label", "label", "-l", &config.label),
            ("db", "db", "-db", &config.db),
        ] {
            let named = Some((property, flag));
            let given = indices(id).zip(value);
            flags.extend(given.map(|(place, value)| PropertyFlag { place, named, value: value.clone() }));
        }
        flags.sort_by_key(|flag| flag.place);
        config.flags = flags;
        Ok(config)
    }

    /// The properties of all files and flags.
    pub(super) fn properties(&self) -> Result<Properties> {
        let mut properties = Properties::default();
        for file in &self.files {
            properties.add_file(file)?;
        }
        for PropertyFlag { named, value, .. } in &self.flags {
            match named {
                None => properties.add_flag(value)?,
                Some((name, flag)) => properties.set(name, value, flag),
            }
        }
        if self.find_max {
            self.check_search(&properties)?;
            // A search has its own time limit, and needs enough connections for the operations under way when a server stalls.
            properties.set("operationcount", "0", "--find-max");
            properties.set("maxexecutiontime", "3600", "--find-max");
            if properties.get("threadcount").is_none() {
                properties.set("threadcount", FIND_MAX_THREADS, "--find-max");
            }
        }
        if self.status {
            properties.set("status", "true", "-s");
        }
        self.phase(&mut properties)?;
        self.check_binding(&properties)?;
        Ok(properties)
    }

    /// Refuses properties of the command line that a search sets itself, and the file of a report that it does not make.
    fn check_search(&self, properties: &Properties) -> Result<()> {
        const SET: [&str; 5] = ["target", "arrivals", "operationcount", "maxexecutiontime", "warmup"];
        let pairs = self.properties.iter().filter_map(|pair| pair.split_once('='));
        let mut names = pairs.filter(|(_, value)| value.trim() != "0").map(|(name, _)| name.trim());
        if let Some(name) = names.find(|name| SET.contains(name)) {
            let what = format!("{name} has no effect with --find-max, which sets it for each step");
            return Err(Error::usage(what).advise("leave it out").into());
        }
        if let Some(file) = properties.text("exportfile") {
            let what = format!("exportfile={file} is for YCSB's report, and --find-max makes none");
            return Err(Error::usage(what).advise("leave it out; --json prints all steps").into());
        }
        Ok(())
    }

    /// The workload of the command line: that of the properties, a search on it, or a workload of documents.
    pub(super) fn workload(&self, properties: Properties) -> Result<WorkloadSpec> {
        if let Some(file) = &self.workload {
            let text = document_workload(file)?;
            return Ok(WorkloadSpec::Documents(DocumentLoad { file: file.clone(), text, properties }));
        }
        let is_load = phase_of(&properties) == Phase::Load;
        let name = if is_load { "load" } else { "run" }.to_owned();
        let load = CoreLoad { name, properties, ..CoreLoad::default() };
        Ok(match &self.slo {
            Some(slo) => WorkloadSpec::Search(SearchSpec { load, slo: slo.clone(), step: self.step()? }),
            None => WorkloadSpec::Core(vec![load]),
        })
    }

    /// The length of a step of the search.
    fn step(&self) -> Result<Nanos> {
        if !(Nanos::secs(1)..=Nanos::secs(86_400)).contains(&self.step) {
            return Err(Error::usage(format!("--step must be 1s to a day, not {}", self.step)).into());
        }
        Ok(self.step)
    }

    fn phase(&self, properties: &mut Properties) -> Result<()> {
        let named = self.phase.map(|word| word == Word::Run);
        let flagged = (self.load != self.run).then_some(self.run);
        if self.load && self.run {
            return Err(Error::usage("-load and -t cannot be used together").into());
        }
        if named.zip(flagged).is_some_and(|(named, flagged)| named != flagged) {
            let what = "a phase is named, and -load or -t names the other one";
            return Err(Error::usage(what).advise("leave one of them out").into());
        }
        if let Some(run) = named.or(flagged) {
            properties.set("dotransactions", if run { "true" } else { "false" }, "the phase");
        }
        Ok(())
    }

    fn check_binding(&self, properties: &Properties) -> Result<()> {
        const CLASSES: [&str; 4] = [
            "site.ycsb.db.MongoDbClient",
            "com.yahoo.ycsb.db.MongoDbClient",
            "site.ycsb.db.AsyncMongoDbClient",
            "com.yahoo.ycsb.db.AsyncMongoDbClient",
        ];
        let refuse = |what: &str| {
            let error =
                Error::new(Kind::Usage, format!("the binding {what} is unknown")).with_id("unknown-binding");
            Err(error.advise("use mongodb").into())
        };
        // Next to a binding, a class in a file says nothing, as in YCSB.
        let class = if self.binding.is_some() { self.db.as_deref() } else { properties.text("db") };
        match (self.binding.as_deref(), class) {
            (Some(other), _) if !["mongodb", "mongodb-async"].contains(&other) => refuse(other),
            (_, Some(class)) if !CLASSES.contains(&class) => refuse(class),
            _ => Ok(()),
        }
    }
}

/// Table: YCSB's options with their names here. The others (`-P`, `-p`, `-s`, `-l`) have the same names.
const WORDS: [(&str, &str); 7] = [
    ("-threads", "--threads"),
    ("-target", "--target"),
    ("-db", "--db"),
    ("-load", "--load"),
    ("-t", "--run"),
    ("-cp", "--classpath"),
    ("-jvm-args", "--jvm-args"),
];

/// Whether a word is a long option with one dash, as in YCSB, and not a short one with its value.
fn is_long(word: &str) -> bool {
    let name = word.strip_prefix('-').unwrap_or_default();
    name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic() && !"PpslhV".contains(first))
}

/// The command line with YCSB's options translated, if the verb is `ycsb`.
pub(crate) fn plain(words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_none_or(|verb| verb != "ycsb") {
        return words;
    }
    let mut value_of_last = false;
    let translate = |word: OsString| {
        // A word after -p may look like an option but is none.
        let is_value = std::mem::replace(&mut value_of_last, word == "-p" || word == "-P" || word == "-l");
        let Some(text) = word.to_str().filter(|_| !is_value) else { return word };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        match (WORDS.iter().find(|(theirs, _)| *theirs == name), value) {
            (Some((_, ours)), None) => OsString::from(ours),
            (Some((_, ours)), Some(value)) => OsString::from(format!("{ours}={value}")),
            // A misspelled option such as -thread is refused as a long option, with the intended one in the message.
            (None, _) if is_long(name) => OsString::from(format!("-{text}")),
            (None, _) => word,
        }
    };
    words.into_iter().map(translate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let words = plain(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    /// `-threads` counted before each `-p`, and a flag that a script repeats was refused.
    #[test]
    fn the_later_of_two_flags_counts() {
        let value = |line: &str, name: &str| {
            let words = plain(line.split(' ').map(OsString::from).collect()).into_iter().skip(1);
            let matches = super::super::command().try_get_matches_from(words).unwrap();
            let properties = Config::from_matches(&matches).unwrap().properties().unwrap();
            properties.get(name).map(str::to_owned)
        };
        for (line, threads) in [
            ("fathom ycsb run mongodb -threads 4 -p threadcount=8", "8"),
            ("fathom ycsb run mongodb -p threadcount=8 -threads 4", "4"),
            ("fathom ycsb run mongodb -p threadcount=8 -p threadcount=2", "2"),
            ("fathom ycsb run mongodb -threads 4 -p threadcount=8 -threads 3 -s -s", "3"),
        ] {
            assert_eq!(value(line, "threadcount").as_deref(), Some(threads), "{line}");
        }
        let twice = "fathom ycsb run mongodb -target 5 -l one -target 6 -l two";
        assert_eq!(value(twice, "target").as_deref(), Some("6"));
        assert_eq!(value(twice, "label").as_deref(), Some("two"));
    }

    #[test]
    fn long_options_get_their_second_dash() {
        assert_eq!(
            after("fathom ycsb run mongodb -threads 8 -target=100 -p -t=1 -s -P -db"),
            "fathom ycsb run mongodb --threads 8 --target=100 -p -t=1 -s -P -db"
        );
        assert_eq!(after("fathom ycsb -load -db x -t"), "fathom ycsb --load --db x --run");
        assert_eq!(after("fathom disk -t"), "fathom disk -t");
        assert_eq!(after("fathom ycsb -thread 4"), "fathom ycsb --thread 4");
        let same = "fathom ycsb run -Pworkloada -pa=b -s -target --json -x -9";
        assert_eq!(after(same), same.replace("-target", "--target"));
    }
}
