//! The configuration of a server: its options, under mongod's names and defaults.

mod options;
mod setting;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bson::Bson;

use fathom_service::log::LogOptions;

pub use fathom_service::log::LogRotate;
pub(crate) use fathom_service::version;
pub use options::SETTINGS;
pub use setting::{Flag, Sets, Setting, Shape, TypedFlag};
pub(crate) use setting::{integer_value, refused};

/// All options. The table of their flags and file keys is in `options`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The network options: addresses, limits and TLS.
    pub net: NetOptions,
    /// The storage options: engine, directory and journal.
    pub storage: StorageOptions,
    /// The log file; `None` is standard output.
    pub log_path: Option<PathBuf>,
    /// Whether new lines are appended to an existing log file.
    pub log_append: bool,
    /// The effect of log rotation on the file.
    pub log_rotate: LogRotate,
    /// Whether lines about opened and closed connections are left out of the log.
    pub quiet: bool,
    /// 0 to 5; debug messages up to this level are logged.
    pub verbosity: u8,
    /// Operations that take at least this long are logged, in milliseconds.
    pub slow_ms: i64,
    /// The share of slow operations that is logged, 0 to 1.
    pub slow_sample_rate: f64,
    /// 0 off, 1 slow operations, 2 all.
    pub profile: i32,
    /// Whether the server forks into the background.
    pub fork: bool,
    /// The file to which the process id is written.
    pub pid_file: Option<PathBuf>,
    /// Whether clients must authenticate.
    pub auth: bool,
    /// The replica set that the server belongs to, if any.
    pub replication: ReplicationOptions,
    /// The secret that members of a set share; setting it enables `auth`.
    pub key_file: Option<PathBuf>,
    /// The values of `--setParameter`, as typed.
    pub set_parameters: BTreeMap<String, String>,
    /// The server's role in a sharded cluster.
    pub cluster_role: ClusterRole,
    /// The version that the server claims, such as `4.4.29`, which decides the highest wire version.
    pub claimed_version: String,
    /// The command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// The options as given, nested by their file keys, for `getCmdLineOpts`.
    pub parsed: BTreeMap<String, Bson>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationOptions {
    /// `--replSet`: the set that the server is a member of; `None` for a standalone server.
    pub set_name: Option<String>,
    /// `--oplogSize`, in megabytes; by default 5 % of the free disk, 990 MB to 50 GB.
    pub oplog_size_mb: Option<u64>,
}

/// The role of a server in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterRole {
    /// No role: a standalone server.
    #[default]
    None,
    /// A shard, which stores the cluster's documents.
    Shard,
    /// A config server, which stores the cluster's metadata.
    Config,
}

impl ClusterRole {
    /// The role as `sharding.clusterRole` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            ClusterRole::None => "",
            ClusterRole::Shard => "shardsvr",
            ClusterRole::Config => "configsvr",
        }
    }
}

/// The network options of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct NetOptions {
    /// The port; 0 means any free port.
    pub port: u16,
    /// Addresses or names to listen on.
    pub bind_ip: Vec<String>,
    /// Connections beyond this are closed at once.
    pub max_connections: usize,
    /// The compressors allowed for messages: snappy, zlib, zstd.
    pub compressors: Vec<String>,
    /// The TLS options, used unless TLS is disabled.
    pub tls: TlsOptions,
    /// The executor that runs operations.
    pub service_executor: ServiceExecutor,
}

/// The way operations are run, as in mongod's `net.serviceExecutor` from 3.6 to 4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceExecutor {
    /// Event loops for many connections while operations are brief and wait for nothing, otherwise a thread for each.
    #[default]
    Adaptive,
    /// A thread for each connection.
    Synchronous,
}

impl ServiceExecutor {
    /// The name that `serverStatus` shows.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ServiceExecutor::Adaptive => "adaptive",
            ServiceExecutor::Synchronous => "passthrough",
        }
    }
}

/// The TLS mode for incoming connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// No connection may use TLS.
    #[default]
    Disabled,
    /// A client may use TLS or not.
    Allow,
    /// The same as `Allow` for a standalone server.
    Prefer,
    /// Every connection must use TLS.
    Require,
}

/// The TLS options, as in mongod's `--tls*` flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Whether connections are encrypted.
    pub mode: TlsMode,
    /// Certificate and key in one PEM file.
    pub certificate_key_file: Option<PathBuf>,
    /// The CA certificates that must have signed clients' certificates.
    pub ca_file: Option<PathBuf>,
    /// Whether clients may connect without a certificate although a CA file is given.
    pub allow_connections_without_certificates: bool,
    /// Whether a client certificate that fails validation is accepted.
    pub allow_invalid_certificates: bool,
}

/// The engine that stores the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineName {
    #[default]
    WiredTiger,
    /// RocksDB, as mongo-rocks set it up.
    RocksDb,
    /// In memory; the data is lost when the server ends.
    Ephemeral,
}

impl EngineName {
    /// The name as `--storageEngine` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::WiredTiger => "wiredTiger",
            EngineName::RocksDb => "rocksdb",
            EngineName::Ephemeral => "ephemeralForTest",
        }
    }

    /// The engine that a value of `--storageEngine` names.
    pub fn parse(name: &str) -> Option<EngineName> {
        if name == "inMemory" {
            return Some(EngineName::Ephemeral);
        }
        [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral]
            .into_iter()
            .find(|one| one.as_str() == name)
    }
}

/// The storage options of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageOptions {
    pub db_path: PathBuf,
    pub engine: EngineName,
    /// Whether the server keeps a journal.
    pub journal: bool,
    /// Milliseconds between two syncs of the journal, 1 to 500.
    pub journal_commit_interval_ms: u64,
    /// Seconds between two checkpoints; 0 disables them.
    pub sync_period_seconds: f64,
    /// Whether the server records its counters in `diagnostic.data`. A server started from the command line does; one inside another
    /// program does not.
    pub diagnostic_data: bool,
    /// Options that only WiredTiger has.
    pub wired_tiger: WiredTigerOptions,
    /// Options that only RocksDB has.
    pub rocksdb: RocksDbOptions,
}

/// The options below `storage.wiredTiger`.
#[derive(Clone, Debug, PartialEq)]
pub struct WiredTigerOptions {
    /// `None` means half of the memory beyond 1 GB, at least 256 MB.
    pub cache_size_gb: Option<f64>,
    /// none, snappy, zlib (if built in), zstd.
    pub journal_compressor: String,
    /// Appended to the server's own open string.
    pub engine_config: String,
    /// `none`, `snappy` or `zstd`.
    pub collection_block_compressor: String,
    /// Added to the table string of every collection.
    pub collection_config: String,
    /// Whether index keys share their prefixes on a page.
    pub index_prefix_compression: bool,
    /// Added to the table string of every index.
    pub index_config: String,
}

/// The options below `storage.rocksdb`.
#[derive(Clone, Debug, PartialEq)]
pub struct RocksDbOptions {
    /// `None` means 30 % of the memory beyond 1 GB, at least 1 GB.
    pub cache_size_gb: Option<f64>,
    /// none, snappy, zlib, lz4, lz4hc, zstd.
    pub compression: String,
    /// The rate limit of flushes and compactions.
    pub max_write_mb_per_sec: u32,
    /// RocksDB options that override the defaults.
    pub config_string: String,
    /// Whether the counts of collections are right immediately after a crash instead of soon after. mongo-rocks writes them with each change; here
    /// they are recomputed before clients may connect, so that writes cost the same either way.
    pub crash_safe_counters: bool,
    /// Whether RocksDB keeps its statistics.
    pub counters: bool,
    /// SingleDelete for standard indexes.
    pub single_delete_index: bool,
}

impl Config {
    /// The options of the log.
    pub(crate) fn log_options(&self) -> LogOptions {
        LogOptions {
            path: self.log_path.clone(),
            append: self.log_append,
            rotate: self.log_rotate,
            quiet: self.quiet,
            verbosity: self.verbosity,
            shows_text: matches!(version::numbers(&self.claimed_version), [major, minor, ..] if (major, minor) < (4, 4)),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            net: NetOptions {
                port: 27017,
                bind_ip: vec!["127.0.0.1".to_owned()],
                max_connections: 65_536,
                compressors: ["snappy", "zstd", "zlib"].map(str::to_owned).to_vec(),
                tls: TlsOptions::default(),
                service_executor: ServiceExecutor::default(),
            },
            storage: StorageOptions {
                db_path: PathBuf::from("/data/db"),
                engine: EngineName::WiredTiger,
                journal: true,
                journal_commit_interval_ms: 100,
                sync_period_seconds: 60.0,
                diagnostic_data: false,
                wired_tiger: WiredTigerOptions {
                    cache_size_gb: None,
                    journal_compressor: "snappy".to_owned(),
                    engine_config: String::new(),
                    collection_block_compressor: "snappy".to_owned(),
                    collection_config: String::new(),
                    index_prefix_compression: true,
                    index_config: String::new(),
                },
                rocksdb: RocksDbOptions {
                    cache_size_gb: None,
                    compression: "snappy".to_owned(),
                    max_write_mb_per_sec: 1024,
                    config_string: String::new(),
                    crash_safe_counters: false,
                    counters: true,
                    single_delete_index: false,
                },
            },
            log_path: None,
            log_append: false,
            log_rotate: LogRotate::Rename,
            quiet: false,
            verbosity: 0,
            slow_ms: 100,
            slow_sample_rate: 1.0,
            profile: 0,
            fork: false,
            pid_file: None,
            auth: false,
            replication: ReplicationOptions::default(),
            key_file: None,
            set_parameters: BTreeMap::new(),
            cluster_role: ClusterRole::None,
            claimed_version: "4.4.29".to_owned(),
            argv: Vec::new(),
            parsed: BTreeMap::new(),
        }
    }
}
