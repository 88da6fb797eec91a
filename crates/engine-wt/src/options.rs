//! The options for opening a database, and mongod's configuration string made of them.
//!
//! The order matters: in WiredTiger a later setting wins over an earlier one, so the user's own string comes after ours and
//! before those that must not change. This module refuses nothing; WiredTiger reports settings that it does not accept.

use std::path::PathBuf;

use fathom_engine_wt_sys::EXTENSIONS;

const MIB: u64 = 1024 * 1024;
/// The smallest cache that mongod gives.
const MIN_CACHE_MIB: u64 = 256;
/// The largest cache that mongod accepts.
const MAX_CACHE_MIB: u64 = 10_000_000;
/// The first version whose log setting is called `remove` and no longer `archive`.
const REMOVE_SINCE: (u32, u32) = (10, 0);

/// The options of a database; [`Options::new`] gives mongod's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The directory, which is created if it does not exist.
    pub dir: PathBuf,
    /// WiredTiger's cache in bytes; whole mebibytes count (`wiredTigerCacheSizeGB`).
    pub cache_bytes: u64,
    /// Whether there is a journal (`--nojournal` switches it off).
    pub journal: bool,
    /// The user's own settings of the whole engine (`wiredTigerEngineConfigString`), which override ours.
    pub config: String,
    /// The user's own settings of every new collection table (`wiredTigerCollectionConfigString`).
    pub collection_config: String,
    /// The user's own settings of every new index table (`wiredTigerIndexConfigString`).
    pub index_config: String,
    /// The compressor of collection tables: none, snappy, zlib or zstd (`wiredTigerCollectionBlockCompressor`).
    pub collection_compressor: String,
    /// The compressor of the journal (`wiredTigerJournalCompressor`).
    pub journal_compressor: String,
    /// Whether index tables store the common prefix of keys once (`wiredTigerIndexPrefixCompression`).
    pub index_prefix_compression: bool,
    /// The most sessions at a time, the engine's own included.
    pub session_max: u32,
}

impl Options {
    /// Mongod's defaults for a directory, with its smallest cache; see [`default_cache_bytes`] for the one by memory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Options {
            dir: dir.into(),
            cache_bytes: MIN_CACHE_MIB * MIB,
            journal: true,
            config: String::new(),
            collection_config: String::new(),
            index_config: String::new(),
            collection_compressor: "snappy".to_owned(),
            journal_compressor: "snappy".to_owned(),
            index_prefix_compression: true,
            session_max: 20_000,
        }
    }

    /// The settings that the linked library is opened with: mongod's, in its order, under this version's names.
    pub fn open_string(&self) -> String {
        self.open_string_for(crate::connection::version(), EXTENSIONS)
    }

    /// The same for a given version (major, minor) and compressors to load.
    fn open_string_for(&self, version: (u32, u32, u32), extensions: &str) -> String {
        let cache_mib = (self.cache_bytes / MIB).clamp(1, MAX_CACHE_MIB);
        let remove = if (version.0, version.1) >= REMOVE_SINCE { "remove" } else { "archive" };
        let mut string = format!("create,cache_size={cache_mib}M,session_max={},", self.session_max);
        string.push_str("eviction=(threads_min=4,threads_max=4),config_base=false,statistics=(fast),");
        // The sessions keep their cursors themselves.
        string.push_str("cache_cursors=false,");
        let compressor = &self.journal_compressor;
        string.push_str(&format!("log=(enabled=true,{remove}=true,path=journal,compressor={compressor}),"));
        string.push_str(
            "file_manager=(close_idle_time=100000),statistics_log=(wait=0),verbose=(recovery_progress),",
        );
        if !extensions.is_empty() {
            string.push_str(&format!("extensions=[{extensions}],"));
        }
        if !self.config.is_empty() {
            string.push_str(&self.config);
            string.push(',');
        }
        string.push_str("compatibility=(require_min=\"3.1.0\"),");
        if !self.journal {
            string.push_str("log=(enabled=false),");
        }
        string
    }
}

/// The cache size that mongod chooses on a machine with this much memory, in bytes: half of the memory above 1 GiB, and at
/// least 256 MiB.
pub fn default_cache_bytes(ram_bytes: u64) -> u64 {
    let half_mib = (ram_bytes / MIB).saturating_sub(1024) / 2;
    half_mib.clamp(MIN_CACHE_MIB, MAX_CACHE_MIB) * MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_string_is_that_of_mongod() {
        let options = Options { config: "eviction_target=70".to_owned(), ..Options::new("/data") };
        assert_eq!(
            options.open_string_for((3, 1, 1), ""),
            "create,cache_size=256M,session_max=20000,eviction=(threads_min=4,threads_max=4),config_base=false,\
             statistics=(fast),cache_cursors=false,log=(enabled=true,archive=true,path=journal,compressor=snappy),\
             file_manager=(close_idle_time=100000),statistics_log=(wait=0),verbose=(recovery_progress),\
             eviction_target=70,compatibility=(require_min=\"3.1.0\"),"
        );
        let options = Options { journal: false, cache_bytes: 3 << 30, ..Options::new("/data") };
        let string = options.open_string_for((11, 3, 1), "/lib/snappy.so");
        assert!(string.contains("cache_size=3072M,"), "{string}");
        assert!(string.contains(",remove=true,"), "{string}");
        assert!(string.contains(",extensions=[/lib/snappy.so],"), "{string}");
        assert!(string.ends_with("compatibility=(require_min=\"3.1.0\"),log=(enabled=false),"), "{string}");
    }

    #[test]
    fn the_default_cache_is_half_of_what_is_over_one_gibibyte() {
        let gib = 1u64 << 30;
        assert_eq!(default_cache_bytes(16 * gib), 15 * gib / 2);
        assert_eq!(default_cache_bytes(gib), 256 * MIB);
        assert_eq!(default_cache_bytes(0), 256 * MIB);
        assert_eq!(default_cache_bytes(1 << 60), MAX_CACHE_MIB * MIB);
    }
}
