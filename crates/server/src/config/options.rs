//! Table: every option of the server, in the order in which the help lists them.
//!
//! Flags, configuration files, `getCmdLineOpts` and the documentation are all derived from this table. Names and defaults
//! are mongod's and mongo-rocks' (docs/methods.md#records-and-indexes); the keys under `fathom` are our own.

use std::path::PathBuf;

use fathom_errors::Error;

use super::setting::{Flag, Sets, Setting, Shape, boolean, list, natural, number, path, text};
use super::{ClusterRole, EngineName, LogRotate, ServiceExecutor, TlsMode};

macro_rules! flag {
    ($name:literal $(| $alias:literal)*, $sets:expr, $help:literal) => {
        Flag { name: $name, aliases: &[$($alias),*], sets: $sets, help: $help }
    };
}

/// The maximum of sizes in GB, which bounds later multiplications.
const MAX_GB: f64 = 10_000.0;

/// Table: all options of the command line and the file.
pub static SETTINGS: &[Setting] = &[
    Setting {
        key: "net.port",
        shape: Shape::Integer(0, 65_535),
        default: "27017",
        flags: &[flag!(
            "port",
            Sets::Value("PORT"),
            "Port to listen on; 0 takes a free one and logs which [default: 27017]"
        )],
        set: |config, value| {
            config.net.port = u16::try_from(natural(value)).unwrap_or(0);
            Ok(())
        },
    },
    Setting {
        key: "net.bindIp",
        shape: Shape::Text,
        default: "127.0.0.1",
        flags: &[flag!(
            "bind_ip",
            Sets::Value("HOSTS"),
            "Addresses or names to listen on, separated by commas [default: 127.0.0.1]"
        )],
        set: |config, value| {
            config.net.bind_ip = list(value);
            if config.net.bind_ip.is_empty() {
                return Err(Error::usage("--bind_ip takes one address at least"));
            }
            Ok(())
        },
    },
    Setting {
        key: "net.bindIpAll",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!("bind_ip_all", Sets::Always("true"), "Listen on all addresses of the machine")],
        set: |config, value| {
            if boolean(value) {
                config.net.bind_ip = vec!["0.0.0.0".to_owned()];
            }
            Ok(())
        },
    },
    Setting {
        key: "net.maxIncomingConnections",
        shape: Shape::Integer(1, 1_000_000),
        default: "65536",
        flags: &[flag!(
            "maxConns",
            Sets::Value("N"),
            "Maximum number of connections; others are closed [default: 65536]"
        )],
        set: |config, value| {
            config.net.max_connections = usize::try_from(natural(value)).unwrap_or(1);
            Ok(())
        },
    },
    Setting {
        key: "net.compression.compressors",
        shape: Shape::Text,
        default: "snappy,zstd,zlib",
        flags: &[flag!(
            "networkMessageCompressors",
            Sets::Value("NAMES"),
            "Compressors of messages: snappy, zstd, zlib, or disabled [default: all]"
        )],
        set: |config, value| {
            let names = list(value);
            if names == ["disabled"] {
                config.net.compressors.clear();
                return Ok(());
            }
            if let Some(other) =
                names.iter().find(|name| !["snappy", "zstd", "zlib"].contains(&name.as_str()))
            {
                return Err(Error::usage(format!(
                    "--networkMessageCompressors takes snappy, zstd and zlib, or disabled, not '{other}'"
                )));
            }
            config.net.compressors = names;
            Ok(())
        },
    },
    Setting {
        key: "net.serviceExecutor",
        shape: Shape::Choice(&["adaptive", "synchronous"]),
        default: "adaptive",
        flags: &[flag!(
            "serviceExecutor",
            Sets::Value("EXECUTOR"),
            "How operations run: adaptive (event loops while they are brief) or synchronous (a thread for each connection) [default: adaptive]"
        )],
        set: |config, value| {
            config.net.service_executor = match text(value).as_str() {
                "synchronous" => ServiceExecutor::Synchronous,
                _ => ServiceExecutor::Adaptive,
            };
            Ok(())
        },
    },
    Setting {
        key: "net.tls.mode",
        shape: Shape::Choice(&["disabled", "allowTLS", "preferTLS", "requireTLS"]),
        default: "disabled",
        flags: &[flag!(
            "tlsMode",
            Sets::Value("MODE"),
            "Encrypt connections: disabled, allowTLS, preferTLS or requireTLS [default: disabled]"
        )],
        set: |config, value| {
            config.net.tls.mode = match text(value).as_str() {
                "allowTLS" => TlsMode::Allow,
                "preferTLS" => TlsMode::Prefer,
                "requireTLS" => TlsMode::Require,
                _ => TlsMode::Disabled,
            };
            Ok(())
        },
    },
    Setting {
        key: "net.tls.certificateKeyFile",
        shape: Shape::Path,
        default: "none",
        flags: &[flag!(
            "tlsCertificateKeyFile" | "sslPEMKeyFile",
            Sets::Value("FILE"),
            "Certificate and key in one PEM file"
        )],
        set: |config, value| {
            config.net.tls.certificate_key_file = Some(path(value)?);
            Ok(())
        },
    },
    Setting {
        key: "net.tls.CAFile",
        shape: Shape::Path,
        default: "none",
        flags: &[flag!(
            "tlsCAFile" | "sslCAFile",
            Sets::Value("FILE"),
            "Authorities that must have signed clients' certificates"
        )],
        set: |config, value| {
            config.net.tls.ca_file = Some(path(value)?);
            Ok(())
        },
    },
    Setting {
        key: "net.tls.allowConnectionsWithoutCertificates",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!(
            "tlsAllowConnectionsWithoutCertificates" | "sslAllowConnectionsWithoutCertificates",
            Sets::Always("true"),
            "Accept clients without a certificate despite --tlsCAFile"
        )],
        set: |config, value| {
            config.net.tls.allow_connections_without_certificates = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "net.unixDomainSocket.pathPrefix",
        shape: Shape::Refused("it listens on TCP only"),
        default: "",
        flags: &[flag!("unixSocketPrefix", Sets::Value("DIR"), "Refused: no Unix sockets")],
        set: |_, _| Ok(()),
    },
    Setting {
        key: "storage.dbPath",
        shape: Shape::Path,
        default: "/data/db",
        flags: &[flag!(
            "dbpath",
            Sets::Value("DIR"),
            "Directory of the data; created if it does not exist [default: /data/db]"
        )],
        set: |config, value| {
            config.storage.db_path = path(value)?;
            Ok(())
        },
    },
    Setting {
        key: "storage.engine",
        shape: Shape::Choice(&["wiredTiger", "rocksdb", "ephemeralForTest", "inMemory"]),
        default: "wiredTiger",
        flags: &[flag!(
            "storageEngine",
            Sets::Value("NAME"),
            "wiredTiger, rocksdb, or ephemeralForTest (inMemory), which loses all at a stop [default: wiredTiger]"
        )],
        set: |config, value| {
            config.storage.engine = EngineName::parse(&text(value)).unwrap_or_default();
            Ok(())
        },
    },
    Setting {
        key: "storage.journal.enabled",
        shape: Shape::Boolean,
        default: "true",
        flags: &[
            flag!("journal", Sets::Always("true"), "Keep a journal (the default)"),
            flag!(
                "nojournal",
                Sets::Always("false"),
                "Keep no journal: a crash loses all since the last checkpoint"
            ),
        ],
        set: |config, value| {
            config.storage.journal = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.journal.commitIntervalMs",
        shape: Shape::Integer(1, 500),
        default: "100",
        flags: &[flag!(
            "journalCommitInterval",
            Sets::Value("MS"),
            "Milliseconds between two syncs of the journal, 1 to 500 [default: 100]"
        )],
        set: |config, value| {
            config.storage.journal_commit_interval_ms = natural(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.syncPeriodSecs",
        shape: Shape::Number(0.0, 1_000_000.0),
        default: "60",
        flags: &[flag!(
            "syncdelay",
            Sets::Value("SECONDS"),
            "Seconds between two checkpoints; 0 makes none [default: 60]"
        )],
        set: |config, value| {
            config.storage.sync_period_seconds = number(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.directoryPerDB",
        shape: Shape::Refused("all tables are in one directory"),
        default: "",
        flags: &[flag!("directoryperdb", Sets::Always("true"), "Refused: all tables are in one directory")],
        set: |_, _| Ok(()),
    },
    Setting {
        key: "storage.wiredTiger.engineConfig.cacheSizeGB",
        shape: Shape::Number(0.000_001, MAX_GB),
        default: "half of what memory is left after 1 GB, at least 0.25",
        flags: &[flag!(
            "wiredTigerCacheSizeGB",
            Sets::Value("GB"),
            "Cache of WiredTiger [default: half of memory less 1 GB, at least 0.25]"
        )],
        set: |config, value| {
            config.storage.wired_tiger.cache_size_gb = Some(number(value));
            Ok(())
        },
    },
    Setting {
        key: "storage.wiredTiger.engineConfig.journalCompressor",
        shape: Shape::Choice(&["none", "snappy", "zlib", "zstd"]),
        default: "snappy",
        flags: &[flag!(
            "wiredTigerJournalCompressor",
            Sets::Value("NAME"),
            "none, snappy, zlib or zstd [default: snappy]"
        )],
        set: |config, value| {
            config.storage.wired_tiger.journal_compressor = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.wiredTiger.engineConfig.configString",
        shape: Shape::Text,
        default: "",
        flags: &[flag!(
            "wiredTigerEngineConfigString",
            Sets::Value("STRING"),
            "Configuration appended to the server's own when WiredTiger is opened"
        )],
        set: |config, value| {
            config.storage.wired_tiger.engine_config = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.wiredTiger.engineConfig.directoryForIndexes",
        shape: Shape::Refused("all tables are in one directory"),
        default: "",
        flags: &[flag!(
            "wiredTigerDirectoryForIndexes",
            Sets::Always("true"),
            "Refused: all tables are in one directory"
        )],
        set: |_, _| Ok(()),
    },
    Setting {
        key: "storage.wiredTiger.collectionConfig.blockCompressor",
        shape: Shape::Choice(&["none", "snappy", "zlib", "zstd"]),
        default: "snappy",
        flags: &[flag!(
            "wiredTigerCollectionBlockCompressor",
            Sets::Value("NAME"),
            "none, snappy, zlib or zstd, for new collections [default: snappy]"
        )],
        set: |config, value| {
            config.storage.wired_tiger.collection_block_compressor = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.wiredTiger.collectionConfig.configString",
        shape: Shape::Text,
        default: "",
        flags: &[flag!(
            "wiredTigerCollectionConfigString",
            Sets::Value("STRING"),
            "Configuration of each new collection's table"
        )],
        set: |config, value| {
            config.storage.wired_tiger.collection_config = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.wiredTiger.indexConfig.prefixCompression",
        shape: Shape::Boolean,
        default: "true",
        flags: &[flag!(
            "wiredTigerIndexPrefixCompression",
            Sets::Value("BOOL"),
            "Whether keys of new indexes share their prefixes on a page [default: true]"
        )],
        set: |config, value| {
            config.storage.wired_tiger.index_prefix_compression = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.wiredTiger.indexConfig.configString",
        shape: Shape::Text,
        default: "",
        flags: &[flag!(
            "wiredTigerIndexConfigString",
            Sets::Value("STRING"),
            "Configuration of each new index's table"
        )],
        set: |config, value| {
            config.storage.wired_tiger.index_config = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.cacheSizeGB",
        shape: Shape::Number(0.000_001, MAX_GB),
        default: "30 % of what memory is left after 1 GB, at least 1",
        flags: &[flag!(
            "rocksdbCacheSizeGB",
            Sets::Value("GB"),
            "Block cache of RocksDB [default: 30 % of memory less 1 GB, at least 1]"
        )],
        set: |config, value| {
            config.storage.rocksdb.cache_size_gb = Some(number(value));
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.compression",
        shape: Shape::Choice(&["none", "snappy", "zlib", "lz4", "lz4hc", "zstd"]),
        default: "snappy",
        flags: &[flag!(
            "rocksdbCompression",
            Sets::Value("NAME"),
            "none, snappy, zlib, lz4, lz4hc or zstd [default: snappy]"
        )],
        set: |config, value| {
            config.storage.rocksdb.compression = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.maxWriteMBPerSec",
        shape: Shape::Integer(1, 1024),
        default: "1024",
        flags: &[flag!(
            "rocksdbMaxWriteMBPerSec",
            Sets::Value("MB"),
            "Maximum MB a second that flushes and compactions write, 1 to 1024 [default: 1024]"
        )],
        set: |config, value| {
            config.storage.rocksdb.max_write_mb_per_sec = u32::try_from(natural(value)).unwrap_or(1);
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.configString",
        shape: Shape::Text,
        default: "",
        flags: &[flag!(
            "rocksdbConfigString",
            Sets::Value("STRING"),
            "RocksDB options, which override the defaults"
        )],
        set: |config, value| {
            config.storage.rocksdb.config_string = text(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.crashSafeCounters",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!(
            "rocksdbCrashSafeCounters",
            Sets::Always("true"),
            "After a crash, count all collections before clients may connect"
        )],
        set: |config, value| {
            config.storage.rocksdb.crash_safe_counters = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.counters",
        shape: Shape::Boolean,
        default: "true",
        flags: &[flag!(
            "rocksdbCounters",
            Sets::Value("BOOL"),
            "Keep RocksDB's statistics for serverStatus [default: true]"
        )],
        set: |config, value| {
            config.storage.rocksdb.counters = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "storage.rocksdb.singleDeleteIndex",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!(
            "rocksdbSingleDeleteIndex",
            Sets::Always("true"),
            "Remove keys of indexes by SingleDelete"
        )],
        set: |config, value| {
            config.storage.rocksdb.single_delete_index = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "operationProfiling.slowOpThresholdMs",
        shape: Shape::Integer(-1, i32::MAX as i64),
        default: "100",
        flags: &[flag!(
            "slowms",
            Sets::Value("MS"),
            "Log operations that take at least this long; 0 logs all [default: 100]"
        )],
        set: |config, value| {
            config.slow_ms = value.as_i32().map_or(100, i64::from);
            Ok(())
        },
    },
    Setting {
        key: "operationProfiling.slowOpSampleRate",
        shape: Shape::Number(0.0, 1.0),
        default: "1.0",
        flags: &[flag!(
            "slowOpSampleRate",
            Sets::Value("SHARE"),
            "Share of slow operations to log, 0 to 1 [default: 1.0]"
        )],
        set: |config, value| {
            config.slow_sample_rate = value.as_f64().unwrap_or(1.0);
            Ok(())
        },
    },
    Setting {
        key: "operationProfiling.mode",
        shape: Shape::Choice(&["off", "slowOp", "all"]),
        default: "off",
        flags: &[flag!(
            "profile",
            Sets::Place("LEVEL"),
            "Keep operations in system.profile: 0 none, 1 slow ones, 2 all [default: 0]"
        )],
        set: |config, value| {
            config.profile = match text(value).as_str() {
                "slowOp" => 1,
                "all" => 2,
                _ => 0,
            };
            Ok(())
        },
    },
    Setting {
        key: "systemLog.destination",
        shape: Shape::Choice(&["file"]),
        default: "standard output",
        flags: &[],
        set: |_, _| Ok(()),
    },
    Setting {
        key: "systemLog.path",
        shape: Shape::Path,
        default: "standard output",
        flags: &[flag!(
            "logpath",
            Sets::Value("FILE"),
            "Write the log to this file [default: standard output]"
        )],
        set: |config, value| {
            config.log_path = Some(path(value)?);
            Ok(())
        },
    },
    Setting {
        key: "systemLog.logAppend",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!(
            "logappend",
            Sets::Always("true"),
            "Add to an old log file instead of moving it aside"
        )],
        set: |config, value| {
            config.log_append = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "systemLog.logRotate",
        shape: Shape::Choice(&["rename", "reopen"]),
        default: "rename",
        flags: &[flag!(
            "logRotate",
            Sets::Value("HOW"),
            "What SIGUSR1 does to the log file: rename or reopen [default: rename]"
        )],
        set: |config, value| {
            config.log_rotate = if text(value) == "reopen" { LogRotate::Reopen } else { LogRotate::Rename };
            Ok(())
        },
    },
    Setting {
        key: "systemLog.verbosity",
        shape: Shape::Integer(0, 5),
        default: "0",
        flags: &[flag!("verbose", Sets::Count('v'), "Log more; up to five times")],
        set: |config, value| {
            config.verbosity = u8::try_from(natural(value)).unwrap_or(0);
            Ok(())
        },
    },
    Setting {
        key: "systemLog.quiet",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!("quiet", Sets::Always("true"), "Do not log connections and disconnections")],
        set: |config, value| {
            config.quiet = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "processManagement.fork",
        shape: Shape::Boolean,
        default: "false",
        flags: &[flag!(
            "fork",
            Sets::Always("true"),
            "Continue in the background once clients may connect; needs --logpath"
        )],
        set: |config, value| {
            config.fork = boolean(value);
            Ok(())
        },
    },
    Setting {
        key: "processManagement.pidFilePath",
        shape: Shape::Path,
        default: "none",
        flags: &[flag!(
            "pidfilepath",
            Sets::Value("FILE"),
            "Write the process id to this file, and delete it at the end"
        )],
        set: |config, value| {
            config.pid_file = Some(path(value)?);
            Ok(())
        },
    },
    Setting {
        key: "processManagement.timeZoneInfo",
        shape: Shape::Refused("it has no time zones but UTC and offsets from it"),
        default: "",
        flags: &[flag!(
            "timeZoneInfo",
            Sets::Value("DIR"),
            "Refused: no time zones but UTC and offsets from it"
        )],
        set: |_, _| Ok(()),
    },
    Setting {
        key: "security.authorization",
        shape: Shape::Choice(&["enabled", "disabled"]),
        default: "disabled",
        flags: &[
            flag!("auth", Sets::Always("enabled"), "Clients must log in, and may do what their roles allow"),
            flag!("noauth", Sets::Always("disabled"), "Clients need not log in (the default)"),
        ],
        set: |config, value| {
            config.auth = text(value) == "enabled";
            Ok(())
        },
    },
    Setting {
        key: "security.keyFile",
        shape: Shape::Path,
        default: "none",
        flags: &[flag!(
            "keyFile",
            Sets::Value("FILE"),
            "File with the secret that members of a set share; implies --auth"
        )],
        set: |config, value| {
            let file: PathBuf = path(value)?;
            config.key_file = Some(file);
            Ok(())
        },
    },
    Setting {
        key: "setParameter",
        shape: Shape::Pairs,
        default: "none",
        flags: &[flag!(
            "setParameter",
            Sets::Pair,
            "Start with a parameter at another value; may be repeated"
        )],
        set: |config, value| {
            let pairs = value.as_document().into_iter().flatten();
            config.set_parameters.extend(pairs.map(|(name, value)| (name.clone(), text(value))));
            Ok(())
        },
    },
    Setting {
        key: "replication.replSetName",
        shape: Shape::Text,
        default: "",
        flags: &[flag!("replSet", Sets::Value("NAME"), "Be a member of the replica set of this name")],
        set: |config, value| {
            // The name may be followed by members in the old syntax: name/host1,host2.
            let name = text(value).split('/').next().unwrap_or_default().to_owned();
            if name.is_empty() {
                return Err(Error::usage(format!(
                    "--replSet takes the name of a replica set, not '{}'",
                    text(value)
                )));
            }
            config.replication.set_name = Some(name);
            Ok(())
        },
    },
    Setting {
        key: "replication.oplogSizeMB",
        shape: Shape::Integer(1, 1 << 30),
        default: "5 % of the free disk, 990 to 51200",
        flags: &[flag!("oplogSize", Sets::Value("MB"), "Size of the oplog of a replica set's member [MB]")],
        set: |config, value| {
            config.replication.oplog_size_mb = Some(natural(value));
            Ok(())
        },
    },
    Setting {
        key: "sharding.clusterRole",
        shape: Shape::Choice(&["shardsvr", "configsvr"]),
        default: "none",
        flags: &[
            flag!("shardsvr", Sets::Always("shardsvr"), "Run as a shard of a cluster; default port 27018"),
            flag!(
                "configsvr",
                Sets::Always("configsvr"),
                "Run as the config server of a cluster; default port 27019"
            ),
        ],
        set: |config, value| {
            config.cluster_role = match value.as_str() {
                Some("shardsvr") => ClusterRole::Shard,
                _ => ClusterRole::Config,
            };
            Ok(())
        },
    },
    Setting {
        key: "fathom.claimedVersion",
        shape: Shape::Text,
        default: "4.4.29",
        flags: &[flag!(
            "claimedVersion",
            Sets::Value("VERSION"),
            "The version of MongoDB that the server claims, 4.0 to 4.4 [default: 4.4.29]"
        )],
        set: |config, value| {
            config.claimed_version = super::version::claimed(&text(value))?;
            Ok(())
        },
    },
];
