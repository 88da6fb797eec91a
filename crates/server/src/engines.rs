//! Opens the storage engine that the options name, with mongod's defaults for this machine's memory.

use std::sync::Arc;

use fathom_engine::{Engine, memory};
use fathom_engine_rocks::RocksEngine;
use fathom_engine_wt::{EventSeverity as EngineSeverity, WiredTiger};
use fathom_errors::{Error, Kind, Result};

use crate::config::{EngineName, StorageOptions};
use crate::log::{Log, LogSeverity};

/// Opens the engine on a dbPath.
pub(crate) fn open(storage: &StorageOptions, log: &Arc<Log>) -> Result<Arc<dyn Engine>> {
    Ok(match storage.engine {
        EngineName::WiredTiger => Arc::new(open_wired_tiger(storage, log)?),
        EngineName::RocksDb => Arc::new(RocksEngine::open(rocksdb_options(storage)?)?),
        EngineName::Ephemeral => memory::open(),
    })
}

fn open_wired_tiger(storage: &StorageOptions, log: &Arc<Log>) -> Result<WiredTiger> {
    let ours = &storage.wired_tiger;
    let mut options = fathom_engine_wt::Options::new(&storage.db_path);
    options.cache_bytes = match ours.cache_size_gb {
        Some(size) => gib(size, "--wiredTigerCacheSizeGB")?,
        None => fathom_engine_wt::default_cache_bytes(memory_bytes()),
    };
    options.journal = storage.journal;
    options.config.clone_from(&ours.engine_config);
    options.collection_config.clone_from(&ours.collection_config);
    options.index_config.clone_from(&ours.index_config);
    options.collection_compressor.clone_from(&ours.collection_block_compressor);
    options.journal_compressor.clone_from(&ours.journal_compressor);
    options.index_prefix_compression = ours.index_prefix_compression;
    log.info(
        "STORAGE",
        22315,
        "initandlisten",
        "Opening WiredTiger",
        bson::doc! { "config": options.open_string() },
    );
    let log = Arc::clone(log);
    let listen = move |message: fathom_engine_wt::EventMessage| {
        let severity =
            if message.severity == EngineSeverity::Error { LogSeverity::Error } else { LogSeverity::Info };
        let attributes = bson::doc! { "error": message.code, "message": message.text };
        log.write(severity, "STORAGE", 22430, "WiredTiger", "WiredTiger message", attributes);
    };
    WiredTiger::open_logged(options, Some(Arc::new(listen)))
}

fn rocksdb_options(storage: &StorageOptions) -> Result<fathom_engine_rocks::Options> {
    let ours = &storage.rocksdb;
    let cache_bytes = gib(rocksdb_cache_gb(storage), "--rocksdbCacheSizeGB")?;
    let mut options = fathom_engine_rocks::Options::new(&storage.db_path, cache_bytes);
    options.compression = ours.compression.parse()?;
    options.max_write_mb_per_sec = ours.max_write_mb_per_sec;
    options.config_string.clone_from(&ours.config_string);
    options.counters = ours.counters;
    options.single_delete_index = ours.single_delete_index;
    options.journal = storage.journal;
    Ok(options)
}

/// The block cache of RocksDB, in GiB.
#[expect(clippy::cast_precision_loss, reason = "memory is far below what is lost")]
pub(crate) fn rocksdb_cache_gb(storage: &StorageOptions) -> f64 {
    storage.rocksdb.cache_size_gb.unwrap_or_else(|| {
        fathom_engine_rocks::default_cache_bytes(memory_bytes()) as f64 / f64::from(1u32 << 30)
    })
}

/// A size in GiB as typed, in bytes.
fn gib(size: f64, flag: &str) -> Result<u64> {
    const MAX_GIB: f64 = 10_000.0;
    if !(size > 0.0 && size <= MAX_GIB) {
        return Err(Error::new(
            Kind::Usage,
            format!("{flag} takes a size from above 0 to {MAX_GIB} GiB, not {size}"),
        ));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "in range by the check above"
    )]
    Ok((size * f64::from(1u32 << 30)) as u64)
}

/// The memory of the machine; a lower limit of a cgroup replaces it, as in mongod.
pub(crate) fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    let total = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.iter().find_map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    total.min(limit.unwrap_or(u64::MAX))
}
