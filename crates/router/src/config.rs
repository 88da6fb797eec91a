//! The configuration of a router.

use std::collections::BTreeMap;

use bson::Bson;
use fathom_client::AddressList;
use fathom_service::log::LogOptions;

#[derive(Clone, Debug)]
pub struct Config {
    pub config_db: AddressList,
    /// 0 takes any free port.
    pub port: u16,
    /// Addresses or names to listen on.
    pub bind_ip: Vec<String>,
    /// Further connections are closed at once.
    pub max_connections: usize,
    /// The compressors for messages: snappy, zlib, zstd.
    pub compressors: Vec<String>,
    /// The destination and the level of the log.
    pub log: LogOptions,
    /// The version that it reports, such as `4.4.29`, which decides the highest wire version.
    pub claimed_version: String,
    /// Whether this router moves chunks by itself if the cluster's settings allow it.
    pub balancer: bool,
    /// The command line, for `getCmdLineOpts`.
    pub argv: Vec<String>,
    /// The options as given, nested by their file keys, for `getCmdLineOpts`.
    pub parsed: BTreeMap<String, Bson>,
}

impl Config {
    /// The defaults of mongos, with the version and the loopback address of the lab server.
    pub fn new(config_db: AddressList) -> Config {
        Config {
            config_db,
            port: 27017,
            bind_ip: vec!["127.0.0.1".to_owned()],
            max_connections: 65_536,
            compressors: ["snappy", "zstd", "zlib"].map(str::to_owned).to_vec(),
            log: LogOptions::default(),
            claimed_version: "4.4.29".to_owned(),
            balancer: true,
            argv: Vec::new(),
            parsed: BTreeMap::new(),
        }
    }
}
