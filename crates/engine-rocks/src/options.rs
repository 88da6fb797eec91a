//! What a person can choose: the options that `storage.rocksdb.*` of mongo-rocks has, under the same names and defaults.

use std::path::PathBuf;
use std::str::FromStr;

use fathom_errors::{Error, Kind, Result};

const GIB: u64 = 1 << 30;
/// The share of memory, beyond the first GiB, that the cache gets: mongo-rocks' 30 %.
const CACHE_PERCENT: u64 = 30;
/// What `maxWriteMBPerSec` may be, and is if nothing is said.
pub(crate) const WRITE_MB_PER_SEC_MAX: u32 = 1024;

/// How to open the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The `dbpath`: data goes to `db` within, the log to `db/journal`.
    pub dir: PathBuf,
    /// `cacheSizeGB`, in bytes: the cache of uncompressed blocks.
    pub cache_bytes: u64,
    /// `compression` of the levels from 2 on; levels 0 and 1 are never compressed.
    pub compression: Compression,
    /// `maxWriteMBPerSec`, 1 to 1024 MiB: the rate limit of flushes and compactions together.
    pub max_write_mb_per_sec: u32,
    /// `configString`: RocksDB's own settings, `name=value;...`, put over the defaults.
    pub config_string: String,
    /// `counters`: whether RocksDB counts what it does, for [`fathom_engine::Engine::statistics`].
    pub counters: bool,
    /// `singleDeleteIndex`: whether index entries are removed with `SingleDelete`, whose markers go with the entry.
    pub single_delete_index: bool,
    /// Whether there is a log; without it only flushed memtables survive a crash.
    pub journal: bool,
}

impl Options {
    /// The defaults for `dir`, with the cache that the machine's memory suggests ([`default_cache_bytes`]).
    pub fn new(dir: impl Into<PathBuf>, cache_bytes: u64) -> Self {
        Options {
            dir: dir.into(),
            cache_bytes,
            compression: Compression::Snappy,
            max_write_mb_per_sec: WRITE_MB_PER_SEC_MAX,
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
    /// Not at all.
    None,
    /// Snappy.
    Snappy,
    /// Zlib.
    Zlib,
    /// LZ4.
    Lz4,
    /// LZ4, compressing harder.
    Lz4Hc,
    /// Zstandard.
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
}
