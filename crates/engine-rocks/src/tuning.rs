//! The options of mongo-rocks in the words of today's RocksDB.
//!
//! From mongo-rocks 3.4 and 4.0 (server.md of the facts, section 6). What became of the old generation's options:
//!
//! - The soft and hard rate limits (2.5 and 3 times a level's size) are gone from RocksDB; its successors
//!   `soft_pending_compaction_bytes_limit` and `hard_...` (64 and 256 GiB) keep RocksDB's defaults.
//! - `max_background_compactions` and `max_background_flushes` still count, and make `max_background_jobs` of their sum.
//! - The full bloom filter in table format 2 has its old layout; a table format from 5 on, by the config string, brings
//!   the cache-friendly one.
//! - mongo-rocks sends RocksDB's messages to mongod's log. The C interface cannot, and a `LOG` beside the data is worse
//!   than none: Debian builds RocksDB 7.8 with its assertions, of which one ends the process when the `LOG` is written to
//!   a second time on a full disk, before our write can fail properly. So only what opening says stands in `db/LOG`; the
//!   config string `info_log_level=INFO_LEVEL` brings the rest.

use std::path::Path;

use fathom_errors::{Error, Kind, Result};

use crate::native::{Cache, NativeOptions, Status};
use crate::options::{Options, WRITE_MB_PER_SEC_MAX};

const MIB: u64 = 1 << 20;
/// 64 shards.
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
pub(crate) fn cache(options: &Options) -> Cache {
    Cache::new(usize::try_from(options.cache_bytes).unwrap_or(usize::MAX), CACHE_SHARD_BITS)
}

/// RocksDB's options: mongo-rocks' defaults, the person's choices, and the config string over both.
///
/// # Errors
/// [`Kind::Usage`] for a rate out of bounds, or a config string that RocksDB does not take.
pub(crate) fn native(options: &Options, cache: &Cache, log: &Path, create: bool) -> Result<NativeOptions> {
    let rate = options.max_write_mb_per_sec;
    if !(1..=WRITE_MB_PER_SEC_MAX).contains(&rate) {
        let what = format!("maxWriteMBPerSec is {rate}, not between 1 and {WRITE_MB_PER_SEC_MAX}");
        return Err(Error::usage(what));
    }
    let compression = options.compression.rocksdb_name();
    // The last entry holds for all levels below.
    let defaults = format!("{DEFAULTS}compression_per_level=kNoCompression:kNoCompression:{compression};");
    let refused = |status: Status| {
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
