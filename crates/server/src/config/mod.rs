//! What a server is started with: the options of mongod that it has, under mongod's names and defaults.

mod options;
mod setting;

use std::collections::BTreeMap;
use std::path::PathBuf;

use bson::Bson;

use fathom_service::log::LogOptions;

pub use fathom_service::log::LogRotate;
pub(crate) use fathom_service::version;
pub use options::SETTINGS;
pub use setting::{Flag, Given, Sets, Setting, Shape};
pub(crate) use setting::{integer_value, refused};

/// All options. The table of their flags and file keys is in `options`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where and how it listens.
    pub net: NetOptions,
    /// Where and how it stores.
    pub storage: StorageOptions,
    /// Where it logs to; none is standard output.
    pub log_path: Option<PathBuf>,
    /// Whether an old log file is kept and added to.
    pub log_append: bool,
    /// What rotating does to the log file.
    pub log_rotate: LogRotate,
    /// Connections that come and go are not logged.
    pub quiet: bool,
    /// 0 to 5; debug messages up to this level are logged.
    pub verbosity: u8,
    /// Operations at least this long are logged, in milliseconds.
    pub slow_ms: i64,
    /// The share of slow operations that is logged, 0 to 1.
    pub slow_sample_rate: f64,
    /// 0 off, 1 slow operations, 2 all.
    pub profile: i32,
    /// Whether the server goes on in the background.
    pub fork: bool,
    /// Where the process id is written.
    pub pid_file: Option<PathBuf>,
    /// Whether clients must prove who they are.
    pub auth: bool,
    /// Which replica set it belongs to, if any.
    pub replication: ReplicationOptions,
    /// The secret that members of a set share; it switches `auth` on.
    pub key_file: Option<PathBuf>,
    /// `--setParameter`, as typed.
    pub set_parameters: BTreeMap<String, String>,
    /// What it is in a cluster.
    pub cluster_role: ClusterRole,
    /// The version that it says it is, such as `4.4.29`, which decides the highest wire version.
    pub claimed_version: String,
    /// The command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// The options as given, nested by their file keys, for `getCmdLineOpts`.
    pub parsed: BTreeMap<String, Bson>,
}

/// `replication.*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationOptions {
    /// `--replSet`: the set that it is a member of; a server alone without.
    pub set_name: Option<String>,
    /// `--oplogSize`, in megabytes; 5 % of the free disk, 990 MB to 50 GB, without.
    pub oplog_size_mb: Option<u64>,
}

/// What a server is in a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterRole {
    /// Nothing: it stands alone.
    #[default]
    None,
    /// It has the cluster's documents.
    Shard,
    /// It has the cluster's metadata.
    Config,
}

impl ClusterRole {
    /// As `sharding.clusterRole` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            ClusterRole::None => "",
            ClusterRole::Shard => "shardsvr",
            ClusterRole::Config => "configsvr",
        }
    }
}

/// Where and how a server listens.
#[derive(Clone, Debug, PartialEq)]
pub struct NetOptions {
    /// 0 takes any free port.
    pub port: u16,
    /// Addresses or names to listen on.
    pub bind_ip: Vec<String>,
    /// Connections beyond this are closed at once.
    pub max_connections: usize,
    /// What messages may be compressed with: snappy, zlib, zstd.
    pub compressors: Vec<String>,
    /// TLS, if it is not disabled.
    pub tls: TlsOptions,
    /// Who runs operations.
    pub service_executor: ServiceExecutor,
}

/// Who runs operations, as mongod's `net.serviceExecutor` had it from 3.6 to 4.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceExecutor {
    /// Event loops for many connections while operations are brief and wait for nothing, else a thread for each.
    #[default]
    Adaptive,
    /// A thread for each connection.
    Synchronous,
}

impl ServiceExecutor {
    /// As `serverStatus` names it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ServiceExecutor::Adaptive => "adaptive",
            ServiceExecutor::Synchronous => "passthrough",
        }
    }
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// No connection may be.
    #[default]
    Disabled,
    /// Each connection as it likes.
    Allow,
    /// As `Allow`, for a server alone.
    Prefer,
    /// All must be.
    Require,
}

/// TLS as mongod's `--tls*` flags have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Whether connections are encrypted.
    pub mode: TlsMode,
    /// Certificate and key in one PEM file.
    pub certificate_key_file: Option<PathBuf>,
    /// Certificates that clients' certificates must be signed by.
    pub ca_file: Option<PathBuf>,
    /// Clients need not show a certificate although there is a CA file.
    pub allow_connections_without_certificates: bool,
    /// A client's certificate that does not check out is taken all the same.
    pub allow_invalid_certificates: bool,
}

/// Which engine keeps the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineName {
    /// WiredTiger.
    #[default]
    WiredTiger,
    /// RocksDB, as mongo-rocks set it up.
    RocksDb,
    /// In memory, gone when the server ends.
    Ephemeral,
}

impl EngineName {
    /// As `--storageEngine` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            EngineName::WiredTiger => "wiredTiger",
            EngineName::RocksDb => "rocksdb",
            EngineName::Ephemeral => "ephemeralForTest",
        }
    }

    /// From what `--storageEngine` was given.
    pub fn parse(name: &str) -> Option<EngineName> {
        if name == "inMemory" {
            return Some(EngineName::Ephemeral);
        }
        [EngineName::WiredTiger, EngineName::RocksDb, EngineName::Ephemeral]
            .into_iter()
            .find(|one| one.as_str() == name)
    }
}

/// Where and how a server stores.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageOptions {
    /// The dbPath.
    pub db_path: PathBuf,
    /// The engine.
    pub engine: EngineName,
    /// Whether there is a journal.
    pub journal: bool,
    /// Milliseconds between two syncs of the journal, 1 to 500.
    pub journal_commit_interval_ms: u64,
    /// Seconds between two checkpoints; 0 switches them off.
    pub sync_period_seconds: f64,
    /// WiredTiger's own.
    pub wired_tiger: WiredTigerOptions,
    /// RocksDB's own.
    pub rocksdb: RocksDbOptions,
}

/// `storage.wiredTiger.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct WiredTigerOptions {
    /// None: half of what memory is left after 1 GB, at least 256 MB.
    pub cache_size_gb: Option<f64>,
    /// none, snappy, zlib (where built in), zstd.
    pub journal_compressor: String,
    /// Put after the server's own open string.
    pub engine_config: String,
    /// none, snappy, zstd.
    pub collection_block_compressor: String,
    /// Put into every collection's table string.
    pub collection_config: String,
    /// Whether index keys share their prefixes on the page.
    pub index_prefix_compression: bool,
    /// Put into every index's table string.
    pub index_config: String,
}

/// `storage.rocksdb.*`.
#[derive(Clone, Debug, PartialEq)]
pub struct RocksDbOptions {
    /// None: 30 % of what memory is left after 1 GB, at least 1 GB.
    pub cache_size_gb: Option<f64>,
    /// none, snappy, zlib, lz4, lz4hc, zstd.
    pub compression: String,
    /// The rate limiter of flushes and compactions.
    pub max_write_mb_per_sec: u32,
    /// RocksDB options put over the defaults.
    pub config_string: String,
    /// Counts of collections are right from the first moment after a crash, instead of soon: where mongo-rocks writes them
    /// with each change, they are made anew here before clients may connect, so that writes cost the same either way.
    pub crash_safe_counters: bool,
    /// RocksDB's statistics.
    pub counters: bool,
    /// SingleDelete for standard indexes.
    pub single_delete_index: bool,
}

impl Config {
    /// Where and how much is logged.
    pub(crate) fn log_options(&self) -> LogOptions {
        LogOptions {
            path: self.log_path.clone(),
            append: self.log_append,
            rotate: self.log_rotate,
            quiet: self.quiet,
            verbosity: self.verbosity,
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
