//! The configuration: the options of mongo-rocks' `storage.rocksdb.*`, with the same names and defaults, translated to
//! the option names of today's RocksDB, and the settings that change at run time.
//!
//! They come from mongo-rocks 3.4 and 4.0 (docs/methods.md#records-and-indexes). The options of the old generation:
//!
//! - The soft and hard rate limits (2.5 and 3 times a level's size) were removed from RocksDB; its successors
//!   `soft_pending_compaction_bytes_limit` and `hard_...` (64 and 256 GiB) keep RocksDB's defaults.
//! - `max_background_compactions` and `max_background_flushes` still count; their sum becomes `max_background_jobs`.
//! - The full bloom filter in table format 2 has its old layout. A table format from 5 on, set by the config string, selects
//!   the cache-friendly one.
//! - mongo-rocks sends RocksDB's messages to mongod's log. The C interface cannot, and a `LOG` in the data directory is worse
//!   than none: Debian builds RocksDB 7.8 with assertions, one of which ends the process when the `LOG` is written to
//!   a second time on a full disk, before our write can fail properly. So only the messages of opening are in `db/LOG`; the
//!   config string `info_log_level=INFO_LEVEL` adds the rest.
//!
//! Settings have the form in which `setParameter` passes them: `name=value;name=value`. `cache_size` is ours; everything
//! else is passed to RocksDB's `SetOptions`. `max_write_mb_per_sec` is refused: the C interface has no call that changes a
//! rate limiter, and RocksDB has no option of that meaning either.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use fathom_errors::{Error, Kind, Result};
use fathom_units::Bytes;

use crate::native::{BlockCache, Database, NativeOptions, RocksStatus};

const GIB: u64 = 1 << 30;
/// The share of memory, beyond the first GiB, that the cache gets: mongo-rocks' 30 %.
const CACHE_PERCENT: u64 = 30;
/// The largest `maxWriteMBPerSec`, and its default.
pub(crate) const MAX_WRITE_MB_PER_SEC: u32 = 1024;

/// The options for opening the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The `dbpath`: data is in `db` within, the log in `db/journal`.
    pub dir: PathBuf,
    /// `cacheSizeGB`, in bytes: the cache of uncompressed blocks.
    pub cache_bytes: u64,
    /// `compression` of the levels from 2 on; levels 0 and 1 are never compressed.
    pub compression: Compression,
    /// `maxWriteMBPerSec`, 1 to 1024 MiB: the rate limit of flushes and compactions together.
    pub max_write_mb_per_sec: u32,
    /// `configString`: RocksDB's own settings, `name=value;...`, which override the defaults.
    pub config_string: String,
    /// `counters`: whether RocksDB counts what it does, for [`fathom_engine::Engine::statistics`].
    pub counters: bool,
    /// `singleDeleteIndex`: whether index entries are removed with `SingleDelete`, whose markers disappear with the entry.
    pub single_delete_index: bool,
    /// Whether there is a log; without it only flushed memtables survive a crash.
    pub journal: bool,
}

impl Options {
    /// The defaults for `dir`, with a cache of `cache_bytes` (see [`default_cache_bytes`] for the one by the machine's memory).
    pub fn new(dir: impl Into<PathBuf>, cache_bytes: u64) -> Self {
        Options {
            dir: dir.into(),
            cache_bytes,
            compression: Compression::Snappy,
            max_write_mb_per_sec: MAX_WRITE_MB_PER_SEC,
            config_string: String::new(),
            counters: true,
            single_delete_index: false,
            journal: true,
        }
    }
}

/// mongo-rocks' cache size for a machine (or container) with `ram_bytes`: 30 % of all but the first GiB, at least 1 GiB.
pub fn default_cache_bytes(ram_bytes: u64) -> u64 {
    (ram_bytes.saturating_sub(GIB) / 100 * CACHE_PERCENT).max(GIB)
}

/// How blocks are compressed. An installed RocksDB may lack some; opening then fails with [`Kind::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Blocks are not compressed.
    None,
    Snappy,
    Zlib,
    Lz4,
    /// LZ4 with higher compression, slower to write.
    Lz4Hc,
    Zstd,
}

/// The name in `storage.rocksdb.compression`, and RocksDB's own.
const COMPRESSIONS: [(&str, Compression, &str); 6] = [
    ("none", Compression::None, "kNoCompression"),
    ("snappy", Compression::Snappy, "kSnappyCompression"),
    ("zlib", Compression::Zlib, "kZlibCompression"),
    ("lz4", Compression::Lz4, "kLZ4Compression"),
    ("lz4hc", Compression::Lz4Hc, "kLZ4HCCompression"),
    ("zstd", Compression::Zstd, "kZSTD"),
];

impl Compression {
    pub(crate) fn rocksdb_name(self) -> &'static str {
        COMPRESSIONS.iter().find(|(_, one, _)| *one == self).map_or("kNoCompression", |(_, _, name)| name)
    }
}

impl FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = COMPRESSIONS.iter().find(|(name, ..)| *name == text);
        found.map(|(_, compression, _)| *compression).ok_or_else(|| {
            let names = COMPRESSIONS.map(|(name, ..)| name).join(", ");
            Error::new(Kind::Usage, format!("'{text}' is not a compression"))
                .advise(format!("use one of {names}"))
        })
    }
}

const MIB: u64 = 1 << 20;
/// The cache has 2^6 = 64 shards.
const CACHE_SHARD_BITS: i32 = 6;
const BLOCK_BYTES: usize = 16 << 10;
const BLOOM_BITS_PER_KEY: f64 = 10.0;
const TABLE_FORMAT: i32 = 2;

/// The options that are plain settings. After a failed write RocksDB would try again by itself in the background, on files
/// that it knows to be broken (Debian's build then aborts on an assertion); here the first failure stops the store.
const DEFAULTS: &str = "write_buffer_size=67108864;max_write_buffer_number=4;level0_slowdown_writes_trigger=8;\
    max_background_compactions=8;max_background_flushes=2;target_file_size_base=67108864;\
    level_compaction_dynamic_level_bytes=true;max_bytes_for_level_base=536870912;max_open_files=-1;\
    optimize_filters_for_hits=true;enable_thread_tracking=true;allow_concurrent_memtable_write=true;\
    enable_write_thread_adaptive_yield=true;keep_log_file_num=4;info_log_level=FATAL_LEVEL;\
    max_bgerror_resume_count=0;";

/// The block cache of these options.
pub(crate) fn cache(options: &Options) -> BlockCache {
    BlockCache::new(usize::try_from(options.cache_bytes).unwrap_or(usize::MAX), CACHE_SHARD_BITS)
}

/// RocksDB's options: mongo-rocks' defaults, the user's choices, and the config string, which overrides both.
///
/// # Errors
/// [`Kind::Usage`] for a rate out of bounds, or a config string that RocksDB does not accept.
pub(crate) fn native(
    options: &Options,
    cache: &BlockCache,
    log: &Path,
    create: bool,
) -> Result<NativeOptions> {
    let rate = options.max_write_mb_per_sec;
    if !(1..=MAX_WRITE_MB_PER_SEC).contains(&rate) {
        let what = format!("maxWriteMBPerSec is {rate}, not between 1 and {MAX_WRITE_MB_PER_SEC}");
        return Err(Error::usage(what));
    }
    let compression = options.compression.rocksdb_name();
    // The last entry holds for all levels below.
    let defaults = format!("{DEFAULTS}compression_per_level=kNoCompression:kNoCompression:{compression};");
    let refused = |status: RocksStatus| {
        Error::new(Kind::Unsupported, "this RocksDB does not take the defaults").because(status)
    };
    let mut native = NativeOptions::new().with_string(&defaults).map_err(refused)?;
    native.set_home(create, log, options.counters).map_err(refused)?;
    native.set_table(BLOCK_BYTES, BLOOM_BITS_PER_KEY, TABLE_FORMAT, cache);
    native.set_rate_limit((u64::from(rate) * MIB).cast_signed());
    if options.config_string.is_empty() {
        return Ok(native);
    }
    native.with_string(&options.config_string).map_err(|status| {
        let what = format!("RocksDB does not take the config string '{}'", options.config_string);
        Error::new(Kind::Usage, what).because(status)
    })
}

/// Applies `settings`; of RocksDB's own settings all are applied or none.
///
/// # Errors
/// [`Kind::Usage`] names a setting that is not accepted.
pub(crate) fn apply_settings(settings: &str, cache: &BlockCache, database: &Database) -> Result<()> {
    let mut capacity = None;
    let mut native = Vec::new();
    for (name, value) in split(settings)? {
        match name.as_str() {
            "cache_size" => {
                let bytes: Bytes = value.parse()?;
                let too_large = |e| Error::usage(format!("cache_size {value} is too large")).because(e);
                capacity = Some(usize::try_from(bytes.0).map_err(too_large)?);
            }
            "max_write_mb_per_sec" => {
                let what = "max_write_mb_per_sec cannot change while RocksDB runs: its C interface has no call for it";
                return Err(Error::usage(what).advise("close and open with another maxWriteMBPerSec"));
            }
            _ => native.push((name, value)),
        }
    }
    if !native.is_empty() {
        database.set_options(&native).map_err(|status| {
            let names: Vec<&str> = native.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("RocksDB does not take '{}' at run time", names.join(", "));
            let kind = if status.kind() == Kind::Unsupported { Kind::Usage } else { status.kind() };
            Error::new(kind, what).because(status)
        })?;
    }
    if let Some(bytes) = capacity {
        cache.set_capacity(bytes);
    }
    Ok(())
}

/// The names and values; a semicolon within braces belongs to a value.
fn split(settings: &str) -> Result<Vec<(String, String)>> {
    let mut depth = 0usize;
    let parts = settings.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| match part.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(Error::usage(format!("'{part}' is not of the form name=value"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_mongo_rocks() {
        assert_eq!(default_cache_bytes(0), GIB);
        assert_eq!(default_cache_bytes(4 * GIB), GIB, "30 % of 3 GiB is less than the least");
        let of_64 = default_cache_bytes(64 * GIB);
        assert!((63 * GIB * 3 / 10 - of_64) < 100, "{of_64}");
    }

    #[test]
    fn compressions_have_mongo_rocks_names() {
        assert_eq!("lz4hc".parse::<Compression>().unwrap(), Compression::Lz4Hc);
        let error = "brotli".parse::<Compression>().unwrap_err();
        assert!(error.to_string().contains("none, snappy, zlib, lz4, lz4hc, zstd"), "{error}");
    }

    #[test]
    fn settings_split_at_semicolons_outside_braces() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(split("a=1; b={c=2;d=3};").unwrap(), [pair("a", "1"), pair("b", "{c=2;d=3}")]);
        assert_eq!(split("").unwrap(), []);
        let error = split("a=1;what").unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().contains("what"), "{error}");
    }
}
