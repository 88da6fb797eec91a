//! Table: every parameter, in alphabetical order.

use std::sync::atomic::Ordering;

use bson::{Bson, Document, doc};
use fathom_query::{Code, Failure};

use super::parameter::{Parameter, SettableTime, Shape};
use crate::Result;
use crate::config::{EngineName, integer_value, version};
use crate::instance::Instance;
use crate::log::MAX_LEVEL;
use crate::parameters::milliseconds;
use crate::storage::Tickets;
use crate::users::SCHEMA_VERSION;

const WIRED_TIGER: Option<EngineName> = Some(EngineName::WiredTiger);
const ROCKS_DB: Option<EngineName> = Some(EngineName::RocksDb);
/// The maximum number of tickets: far more than the threads that a machine can run.
const MAX_TICKETS: i64 = 1 << 20;
/// The maximum interval in seconds, as in mongod.
const MAX_SECONDS: f64 = 9_000_000.0;

pub(super) static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "authSchemaVersion",
        when: SettableTime::Never,
        shape: Shape::Integer(SCHEMA_VERSION as i64, SCHEMA_VERSION as i64),
        engine: None,
        read: |_| Some(Bson::Int32(SCHEMA_VERSION)),
        write: |_, _| Ok(()),
    },
    Parameter {
        name: "authenticationMechanisms",
        when: SettableTime::Never,
        shape: Shape::Text,
        engine: None,
        read: |_| Some(Bson::Array(["SCRAM-SHA-1", "SCRAM-SHA-256"].map(Bson::from).to_vec())),
        write: |_, _| Ok(()),
    },
    Parameter {
        name: "clientCursorMonitorFrequencySecs",
        when: SettableTime::Both,
        // The thread that checks cursors has other work each minute.
        shape: Shape::Integer(1, 60),
        engine: None,
        read: |instance| Some(number(instance.parameters.cursor_monitor_secs())),
        write: |instance, value| {
            instance.parameters.cursor_monitor_secs.store(natural(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "cursorTimeoutMillis",
        when: SettableTime::Both,
        shape: Shape::Integer(1, i64::MAX),
        engine: None,
        read: |instance| Some(number(instance.parameters.cursor_timeout_ms())),
        write: |instance, value| {
            instance.parameters.cursor_timeout_ms.store(natural(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "diagnosticDataCollectionDirectorySizeMB",
        when: SettableTime::Both,
        shape: Shape::Integer(10, i32::MAX as i64),
        engine: None,
        read: |instance| {
            Some(number(instance.parameters.diagnostic_data_directory_mb.load(Ordering::Relaxed)))
        },
        write: |instance, value| {
            instance.parameters.diagnostic_data_directory_mb.store(natural(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "diagnosticDataCollectionEnabled",
        when: SettableTime::Both,
        shape: Shape::Boolean,
        engine: None,
        read: |instance| {
            Some(Bson::Boolean(instance.parameters.diagnostic_data_enabled.load(Ordering::Relaxed)))
        },
        write: |instance, value| {
            instance.parameters.diagnostic_data_enabled.store(truth(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "diagnosticDataCollectionFileSizeMB",
        when: SettableTime::Both,
        shape: Shape::Integer(1, i32::MAX as i64),
        engine: None,
        read: |instance| Some(number(instance.parameters.diagnostic_data_file_mb.load(Ordering::Relaxed))),
        write: |instance, value| {
            instance.parameters.diagnostic_data_file_mb.store(natural(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "diagnosticDataCollectionPeriodMillis",
        when: SettableTime::Both,
        shape: Shape::Integer(100, i32::MAX as i64),
        engine: None,
        read: |instance| Some(number(instance.parameters.diagnostic_data_period_ms.load(Ordering::Relaxed))),
        write: |instance, value| {
            instance.parameters.diagnostic_data_period_ms.store(natural(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "enableTestCommands",
        when: SettableTime::Start,
        shape: Shape::Boolean,
        engine: None,
        read: |instance| Some(Bson::Boolean(instance.parameters.test_commands())),
        write: |instance, value| {
            instance.parameters.test_commands.store(truth(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "featureCompatibilityVersion",
        when: SettableTime::Never,
        shape: Shape::Text,
        engine: None,
        read: |instance| {
            let [major, minor, ..] = version::numbers(&instance.config.claimed_version);
            Some(Bson::Document(doc! { "version": format!("{major}.{minor}") }))
        },
        write: |_, _| Ok(()),
    },
    Parameter {
        name: "journalCommitInterval",
        when: SettableTime::Both,
        shape: Shape::Integer(1, 500),
        engine: None,
        read: |instance| Some(number(instance.parameters.journal_commit_interval_ms())),
        write: |instance, value| {
            instance.parameters.journal_commit_interval_ms.store(natural(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "logComponentVerbosity",
        when: SettableTime::Both,
        shape: Shape::Object,
        engine: None,
        read: |instance| Some(Bson::Document(instance.log.verbosity())),
        write: |instance, value| match value.as_document() {
            Some(settings) => instance.log.set_verbosity(settings),
            None => Ok(()),
        },
    },
    Parameter {
        name: "logLevel",
        when: SettableTime::Both,
        shape: Shape::Integer(0, MAX_LEVEL as i64),
        engine: None,
        read: |instance| Some(Bson::Int32(instance.log.level().into())),
        write: |instance, value| instance.log.set_verbosity(&doc! { "verbosity": value }),
    },
    Parameter {
        name: "notablescan",
        when: SettableTime::Both,
        shape: Shape::Boolean,
        engine: None,
        read: |instance| Some(Bson::Boolean(instance.parameters.no_table_scan())),
        write: |instance, value| {
            instance.parameters.no_table_scan.store(truth(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "quiet",
        when: SettableTime::Both,
        shape: Shape::Boolean,
        engine: None,
        read: |instance| Some(Bson::Boolean(instance.log.is_quiet())),
        write: |instance, value| {
            instance.log.set_quiet(truth(value));
            Ok(())
        },
    },
    Parameter {
        name: "rocksdbBackup",
        when: SettableTime::Running,
        shape: Shape::Text,
        engine: ROCKS_DB,
        read: |_| None,
        write: |_, _| {
            let what = "this server makes no backups of RocksDB while it runs; stop it and copy the dbPath, or use fsync with lock";
            Err(Failure::new(Code::CommandNotSupported, what))
        },
    },
    Parameter {
        name: "rocksdbCompact",
        when: SettableTime::Running,
        shape: Shape::Boolean,
        engine: ROCKS_DB,
        read: |_| None,
        write: compact_all,
    },
    Parameter {
        name: "rocksdbConcurrentReadTransactions",
        when: SettableTime::Both,
        shape: Shape::Integer(1, MAX_TICKETS),
        engine: ROCKS_DB,
        read: read_tickets,
        write: set_read_tickets,
    },
    Parameter {
        name: "rocksdbConcurrentWriteTransactions",
        when: SettableTime::Both,
        shape: Shape::Integer(1, MAX_TICKETS),
        engine: ROCKS_DB,
        read: write_tickets,
        write: set_write_tickets,
    },
    Parameter {
        name: "rocksdbOptions",
        when: SettableTime::Both,
        shape: Shape::Text,
        engine: ROCKS_DB,
        read: engine_settings,
        write: reconfigure,
    },
    Parameter {
        name: "rocksdbRuntimeConfigCacheSizeGB",
        when: SettableTime::Both,
        shape: Shape::Number(0.001, 10_000.0),
        engine: ROCKS_DB,
        read: |instance| Some(Bson::Double(*instance.parameters.rocksdb_cache_gb.lock())),
        write: |instance, value| {
            let size = value.as_f64().unwrap_or_default();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within the shape's bounds"
            )]
            let bytes = (size * f64::from(1u32 << 30)) as u64;
            instance.engine.reconfigure(&format!("cache_size={bytes}"))?;
            *instance.parameters.rocksdb_cache_gb.lock() = size;
            Ok(())
        },
    },
    Parameter {
        name: "rocksdbRuntimeConfigMaxWriteMBPerSec",
        when: SettableTime::Running,
        shape: Shape::Integer(1, 1024),
        engine: ROCKS_DB,
        read: |instance| Some(Bson::from(i64::from(instance.config.storage.rocksdb.max_write_mb_per_sec))),
        write: |instance, value| {
            instance.engine.reconfigure(&format!("max_write_mb_per_sec={}", natural(value)))?;
            Ok(())
        },
    },
    Parameter {
        name: "scramIterationCount",
        when: SettableTime::Both,
        shape: Shape::Integer(5000, i32::MAX as i64),
        engine: None,
        read: |instance| Some(number(instance.parameters.scram_iterations())),
        write: |instance, value| {
            instance.parameters.scram_iterations.store(natural(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "scramSHA256IterationCount",
        when: SettableTime::Both,
        shape: Shape::Integer(5000, i32::MAX as i64),
        engine: None,
        read: |instance| Some(number(instance.parameters.scram_sha256_iterations())),
        write: |instance, value| {
            instance.parameters.scram_sha256_iterations.store(natural(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "syncdelay",
        when: SettableTime::Both,
        shape: Shape::Number(0.0, MAX_SECONDS),
        engine: None,
        read: |instance| Some(Bson::Double(instance.parameters.sync_delay_seconds())),
        write: |instance, value| {
            let delay_ms = milliseconds(value.as_f64().unwrap_or_default());
            instance.parameters.sync_delay_ms.store(delay_ms, Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "replWriterThreadCount",
        when: SettableTime::Start,
        shape: Shape::Integer(1, 256),
        engine: None,
        read: |instance| Some(number(instance.parameters.replication_writers() as u64)),
        write: |instance, value| {
            instance.parameters.replication_writers.store(natural(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "ttlMonitorEnabled",
        when: SettableTime::Both,
        shape: Shape::Boolean,
        engine: None,
        read: |instance| Some(Bson::Boolean(instance.parameters.ttl_monitor_enabled())),
        write: |instance, value| {
            instance.parameters.ttl_monitor_enabled.store(truth(value), Ordering::Relaxed);
            Ok(())
        },
    },
    Parameter {
        name: "ttlMonitorSleepSecs",
        when: SettableTime::Both,
        shape: Shape::Integer(1, i32::MAX as i64),
        engine: None,
        read: |instance| Some(number(instance.parameters.ttl_monitor_sleep_secs())),
        write: |instance, value| {
            instance.parameters.ttl_monitor_sleep_secs.store(natural(value), Ordering::Relaxed);
            instance.bell.ring();
            Ok(())
        },
    },
    Parameter {
        name: "wiredTigerConcurrentReadTransactions",
        when: SettableTime::Both,
        shape: Shape::Integer(1, MAX_TICKETS),
        engine: WIRED_TIGER,
        read: read_tickets,
        write: set_read_tickets,
    },
    Parameter {
        name: "wiredTigerConcurrentWriteTransactions",
        when: SettableTime::Both,
        shape: Shape::Integer(1, MAX_TICKETS),
        engine: WIRED_TIGER,
        read: write_tickets,
        write: set_write_tickets,
    },
    Parameter {
        name: "wiredTigerEngineRuntimeConfig",
        when: SettableTime::Both,
        shape: Shape::Text,
        engine: WIRED_TIGER,
        read: engine_settings,
        write: reconfigure,
    },
];

fn number(value: u64) -> Bson {
    integer_value(i64::try_from(value).unwrap_or(i64::MAX))
}

fn integer(value: &Bson) -> i64 {
    value.as_i64().or_else(|| value.as_i32().map(i64::from)).unwrap_or_default()
}

fn natural(value: &Bson) -> u64 {
    u64::try_from(integer(value)).unwrap_or_default()
}

fn truth(value: &Bson) -> bool {
    value.as_bool().unwrap_or_default()
}

fn read_tickets(instance: &Instance) -> Option<Bson> {
    Some(integer_value(instance.parameters.read_tickets()))
}

fn write_tickets(instance: &Instance) -> Option<Bson> {
    Some(integer_value(instance.parameters.write_tickets()))
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
fn set_read_tickets(instance: &Instance, value: &Bson) -> Result<()> {
    resize(&instance.read_tickets, &instance.parameters.read_tickets, integer(value));
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
fn set_write_tickets(instance: &Instance, value: &Bson) -> Result<()> {
    resize(&instance.write_tickets, &instance.parameters.write_tickets, integer(value));
    Ok(())
}

fn resize(tickets: &Tickets, held: &std::sync::atomic::AtomicI64, total: i64) {
    held.store(total, Ordering::Relaxed);
    tickets.resize(total);
}

fn engine_settings(instance: &Instance) -> Option<Bson> {
    Some(Bson::String(instance.parameters.engine_settings.lock().clone()))
}

/// Passes settings to the engine in its own syntax, one change at a time.
fn reconfigure(instance: &Instance, value: &Bson) -> Result<()> {
    let settings = value.as_str().unwrap_or_default();
    let mut last = instance.parameters.engine_settings.lock();
    if !settings.is_empty() {
        instance.engine.reconfigure(settings)?;
    }
    settings.clone_into(&mut last);
    let attributes: Document = doc! { "settings": settings };
    instance.log.info("STORAGE", 22432, "setParameter", "The engine was reconfigured", attributes);
    Ok(())
}

/// Compacts every table over the engine's whole key space.
fn compact_all(instance: &Instance, value: &Bson) -> Result<()> {
    if !truth(value) {
        return Ok(());
    }
    for ident in instance.engine.tables()? {
        let table = instance.engine.open_table(&ident)?;
        instance.engine.compact(&table)?;
    }
    Ok(())
}
