//! What is worth a warning when the server starts: settings that make it unsafe, or its figures unlike those of a
//! MongoDB that is set up as its vendor advises. `fathom doctor` knows far more; this is what mongod itself says.
//!
//! The ids are mongod's, so that tools that look for them find them.

use rustix::process::{Resource, getrlimit};

use crate::config::{Config, EngineName};
use crate::log::Log;

/// The magic number of ext2 to ext4 (statfs(2)).
const EXT: i64 = 0xEF53;
/// Open files that mongod asks for at least.
const OPEN_FILES: u64 = 64_000;

/// Logs all that apply.
pub(crate) fn log(log: &Log, config: &Config, memory_bytes: u64) {
    let warn = |component: &str, id: i32, message: &str| log.startup_warning(component, id, message);
    let storage = &config.storage;
    if storage.engine == EngineName::WiredTiger && is_ext(&storage.db_path) {
        warn(
            "STORAGE",
            22297,
            "The XFS file system is strongly recommended with WiredTiger, and the dbPath is on ext4",
        );
    }
    if let Some(size) = storage.wired_tiger.cache_size_gb
        && storage.engine == EngineName::WiredTiger
        && size * GIB > memory_bytes_as_number(memory_bytes) * 0.8
    {
        warn("STORAGE", 22300, "The configured WiredTiger cache size is more than 80% of available RAM");
    }
    if !config.auth {
        let message = "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted";
        warn("CONTROL", 22120, message);
    }
    if rustix::process::geteuid().is_root() {
        warn("CONTROL", 22138, "You are running this process as the root user, which is not recommended");
    }
    if !is_told_where(config) {
        let message = "This server is bound to localhost. Remote systems will be unable to connect to it; --bind_ip or --bind_ip_all name other addresses";
        warn("CONTROL", 22140, message);
    }
    if let Some(limit) = open_files().filter(|limit| *limit < OPEN_FILES) {
        let message = format!(
            "Soft rlimits for open file descriptors too low: {limit}, and {OPEN_FILES} are recommended"
        );
        warn("CONTROL", 22184, &message);
    }
}

const GIB: f64 = 1_073_741_824.0;

#[expect(clippy::cast_precision_loss, reason = "a share of it is all that is asked")]
fn memory_bytes_as_number(bytes: u64) -> f64 {
    bytes as f64
}

fn is_told_where(config: &Config) -> bool {
    let net = config.parsed.get("net").and_then(|net| net.as_document());
    net.is_some_and(|net| net.contains_key("bindIp") || net.contains_key("bindIpAll"))
}

fn is_ext(path: &std::path::Path) -> bool {
    #[allow(clippy::unnecessary_cast, reason = "its type differs between architectures")]
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as i64 == EXT)
}

/// Files that this process may have open; none if there is no limit.
pub(crate) fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
