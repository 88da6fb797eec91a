//! The parameters of `setParameter` and `getParameter`: their values now, and the rules of reading and changing them.
//!
//! Each parameter is a row of the table in `table`. A change counts from the moment it is made. What mongod has and this
//! server would not act upon is no parameter here: it is refused by name.

mod table;
mod value;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use bson::{Bson, RawBsonRef};
use fathom_errors::{Error, Kind};
use fathom_query::{Code, Failure};
use parking_lot::Mutex;

use crate::Result as Answer;
use crate::config::{Config, EngineName, version};
use crate::instance::Instance;
use table::PARAMETERS;
use value::Shape;

/// When a parameter may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// By `--setParameter` only.
    Start,
    /// By the command only.
    Running,
    /// By both.
    Both,
    /// Never.
    Never,
}

/// One parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    when: When,
    shape: Shape,
    /// The engine that it belongs to; with another one there is no such parameter.
    engine: Option<EngineName>,
    /// Its value now; none if it is only an action.
    read: fn(&Instance) -> Option<Bson>,
    /// Changes it to a value that has the shape.
    write: fn(&Instance, &Bson) -> Answer<()>,
}

impl Parameter {
    fn is_of(&self, engine: EngineName) -> bool {
        self.engine.is_none_or(|only| only == engine)
    }
}

/// Readers and writers in the engine at once, as mongod has them to 6.0.
const USUAL_TICKETS: i64 = 128;

/// The values now.
#[derive(Debug)]
pub(crate) struct Parameters {
    sync_delay_ms: AtomicU64,
    journal_commit_interval_ms: AtomicU64,
    cursor_timeout_ms: AtomicU64,
    cursor_monitor_secs: AtomicU64,
    read_tickets: AtomicI64,
    write_tickets: AtomicI64,
    ttl_monitor_enabled: AtomicBool,
    ttl_monitor_sleep_secs: AtomicU64,
    no_table_scan: AtomicBool,
    test_commands: AtomicBool,
    replication_writers: AtomicU64,
    scram_iterations: AtomicU64,
    scram_sha256_iterations: AtomicU64,
    /// What the engine was last told at run time.
    engine_settings: Mutex<String>,
    /// What the cache of RocksDB is, in GB.
    rocksdb_cache_gb: Mutex<f64>,
    max_wire_version: i32,
}

impl Parameters {
    /// The values that a server starts with, before `--setParameter`; its names and values are checked here.
    pub(crate) fn new(config: &Config) -> Result<Parameters, Error> {
        check_start(config)?;
        Ok(Parameters {
            sync_delay_ms: AtomicU64::new(milliseconds(config.storage.sync_period_seconds)),
            journal_commit_interval_ms: AtomicU64::new(config.storage.journal_commit_interval_ms),
            cursor_timeout_ms: AtomicU64::new(600_000),
            cursor_monitor_secs: AtomicU64::new(4),
            read_tickets: AtomicI64::new(USUAL_TICKETS),
            write_tickets: AtomicI64::new(USUAL_TICKETS),
            ttl_monitor_enabled: AtomicBool::new(true),
            ttl_monitor_sleep_secs: AtomicU64::new(60),
            no_table_scan: AtomicBool::new(false),
            test_commands: AtomicBool::new(false),
            replication_writers: AtomicU64::new(16),
            scram_iterations: AtomicU64::new(10_000),
            scram_sha256_iterations: AtomicU64::new(15_000),
            engine_settings: Mutex::default(),
            rocksdb_cache_gb: Mutex::new(crate::engines::rocksdb_cache_gb(&config.storage)),
            max_wire_version: version::max_wire_version(&config.claimed_version),
        })
    }

    /// Milliseconds between two syncs of the journal.
    pub(crate) fn journal_commit_interval_ms(&self) -> u64 {
        self.journal_commit_interval_ms.load(Ordering::Relaxed)
    }

    /// Seconds between two checkpoints; 0: none.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a day fit")]
    pub(crate) fn sync_delay_seconds(&self) -> f64 {
        self.sync_delay_ms.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Milliseconds after which a cursor that nobody asked for goes.
    pub(crate) fn cursor_timeout_ms(&self) -> u64 {
        self.cursor_timeout_ms.load(Ordering::Relaxed)
    }

    /// Seconds between two looks at cursors that nobody asked for.
    pub(crate) fn cursor_monitor_secs(&self) -> u64 {
        self.cursor_monitor_secs.load(Ordering::Relaxed)
    }

    /// Readers in the engine at once.
    pub(crate) fn read_tickets(&self) -> i64 {
        self.read_tickets.load(Ordering::Relaxed)
    }

    /// Writers in the engine at once.
    pub(crate) fn write_tickets(&self) -> i64 {
        self.write_tickets.load(Ordering::Relaxed)
    }

    /// Whether somebody has made tickets scarcer than they usually are.
    pub(crate) fn tickets_are_scarce(&self) -> bool {
        self.read_tickets().min(self.write_tickets()) < USUAL_TICKETS
    }

    /// Threads that apply what other members logged (`replWriterThreadCount`).
    pub(crate) fn replication_writers(&self) -> usize {
        usize::try_from(self.replication_writers.load(Ordering::Relaxed)).unwrap_or(1)
    }

    /// The highest wire version that goes with the claimed version.
    pub(crate) fn max_wire_version(&self) -> i32 {
        self.max_wire_version
    }

    /// Rounds of new SCRAM-SHA-1 credentials (`scramIterationCount`).
    pub(crate) fn scram_iterations(&self) -> u64 {
        self.scram_iterations.load(Ordering::Relaxed)
    }

    /// Rounds of new SCRAM-SHA-256 credentials (`scramSHA256IterationCount`).
    pub(crate) fn scram_sha256_iterations(&self) -> u64 {
        self.scram_sha256_iterations.load(Ordering::Relaxed)
    }

    /// Whether documents of TTL indexes are removed.
    pub(crate) fn ttl_monitor_enabled(&self) -> bool {
        self.ttl_monitor_enabled.load(Ordering::Relaxed)
    }

    /// Seconds between two rounds of the TTL monitor; a change rings the bell.
    pub(crate) fn ttl_monitor_sleep_secs(&self) -> u64 {
        self.ttl_monitor_sleep_secs.load(Ordering::Relaxed)
    }

    /// Whether queries that would scan a whole collection are refused.
    pub(crate) fn no_table_scan(&self) -> bool {
        self.no_table_scan.load(Ordering::Relaxed)
    }

    /// Whether commands for tests (`configureFailPoint`) are there; decided at the start.
    pub(crate) fn test_commands(&self) -> bool {
        self.test_commands.load(Ordering::Relaxed)
    }
}

/// Seconds in whole milliseconds; what is not 0 is one at least.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturating cast of what is in bounds"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).ceil() as u64
}

/// Refuses what `--setParameter` cannot mean, before anything is opened.
pub(crate) fn check_start(config: &Config) -> Result<(), Error> {
    for (name, text) in &config.set_parameters {
        let parameter = PARAMETERS.iter().find(|one| one.name == name && one.is_of(config.storage.engine));
        let Some(parameter) = parameter else {
            return Err(Error::usage(format!("Unknown --setParameter '{name}'")));
        };
        if matches!(parameter.when, When::Running | When::Never) {
            return Err(Error::usage(format!("the parameter {name} cannot be set at start")));
        }
        parameter.shape.of_text(name, text).map_err(|failure| usage(&failure))?;
    }
    Ok(())
}

/// Sets what `--setParameter` says.
pub(crate) fn apply_start(instance: &Instance) -> Result<(), Error> {
    for (name, text) in &instance.config.set_parameters {
        if let Some(parameter) = PARAMETERS.iter().find(|one| one.name == name) {
            let value = parameter.shape.of_text(name, text).map_err(|failure| usage(&failure))?;
            (parameter.write)(instance, &value).map_err(|failure| usage(&failure))?;
        }
    }
    Ok(())
}

fn usage(failure: &Failure) -> Error {
    Error::new(Kind::Usage, "--setParameter is refused").because(failure.message().to_owned())
}

/// The parameters that there are with this engine, in the order of their names.
pub(crate) fn all(instance: &Instance) -> impl Iterator<Item = &'static Parameter> {
    let engine = instance.config.storage.engine;
    PARAMETERS.iter().filter(move |parameter| parameter.is_of(engine))
}

/// The value of a parameter now, if it has one.
pub(crate) fn read(instance: &Instance, parameter: &Parameter) -> Option<Bson> {
    (parameter.read)(instance)
}

/// When it may be set, as `getParameter` with `showDetails` says it.
pub(crate) fn settable(parameter: &Parameter) -> (bool, bool) {
    let start = matches!(parameter.when, When::Start | When::Both);
    let running = matches!(parameter.when, When::Running | When::Both);
    (start, running)
}

/// The parameter of a name, if a client may change it.
pub(crate) fn to_change(instance: &Instance, name: &str) -> Answer<&'static Parameter> {
    let Some(parameter) = all(instance).find(|parameter| parameter.name == name) else {
        let what = format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
        return Err(Failure::new(Code::InvalidOptions, what));
    };
    if !settable(parameter).1 {
        return Err(Failure::new(
            Code::IllegalOperation,
            format!("not allowed to change [{name}] at runtime"),
        ));
    }
    Ok(parameter)
}

/// Changes a parameter to what a client gave.
pub(crate) fn write(instance: &Instance, parameter: &Parameter, value: RawBsonRef<'_>) -> Answer<()> {
    let value = parameter.shape.of_bson(parameter.name, value)?;
    (parameter.write)(instance, &value)
}
