//! A recording's facts on its server: version, host, role. They come from the documents at the beginning of each file and the text of samples.

use std::collections::{BTreeMap, BTreeSet};

use bson::{RawBsonRef, RawDocument};
use serde::Serialize;

/// Members of a sharded cluster since 8.0 nest all metrics under the role that they concern.
pub const ROLES: [&str; 3] = ["common", "shard", "router"];

/// The names of the threshold and of the sample rate of slow operations, as the profiler, the configuration file and parameters spell them.
const SLOW_MS_NAMES: [&str; 3] = ["slowms", "slowMS", "slowOpThresholdMs"];
const SAMPLE_RATE_NAMES: [&str; 2] = ["sampleRate", "slowOpSampleRate"];

/// Parameters that concern storage.
pub const STORAGE_PARAMETERS: [&str; 10] = [
    "syncdelay",
    "journalCommitInterval",
    "wiredTigerEngineRuntimeConfig",
    "wiredTigerConcurrentReadTransactions",
    "wiredTigerConcurrentWriteTransactions",
    "storageEngineConcurrentReadTransactions",
    "storageEngineConcurrentWriteTransactions",
    "storageEngineConcurrencyAdjustmentAlgorithm",
    "enableFlowControl",
    "flowControlTargetLagSeconds",
];

/// Facts on a server. Those that change while it is recorded have several values, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerFacts {
    /// The process: `mongod` or `mongos`.
    pub process: Option<String>,
    pub versions: Vec<String>,
    pub storage_engine: Option<String>,
    /// Host names, with the port if samples show it.
    pub hosts: Vec<String>,
    pub system: Option<String>,
    pub processors: Option<i64>,
    pub memory_mib: Option<i64>,
    pub replica_set: Option<String>,
    /// Hosts and ports of the members of its set, in the order of the last sample that says them.
    #[serde(skip)]
    pub set_members: Vec<String>,
    /// Roles in a sharded cluster, of [`ROLES`].
    pub roles: BTreeSet<String>,
    /// The directory of the data.
    pub db_path: Option<String>,
    /// The file of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_path: Option<String>,
    /// Operations that take less are not logged, in milliseconds (`slowms`), if it was set at the start or among the recorded parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_ms: Option<i64>,
    /// The part of slow operations that is logged, 0 to 1, if it was set in the same places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_sample_rate: Option<f64>,
    /// The size of the engine's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<i64>,
    /// Options of the command line and the configuration file that concern storage, by their paths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Parameters that concern storage, of [`STORAGE_PARAMETERS`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Files other than the recording that facts come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<String>,
    /// True if the data are on other hosts: a build with disaggregated storage.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_disaggregated: bool,
}

impl ServerFacts {
    /// Adds the facts of the document at the beginning of a file.
    pub fn add_metadata(&mut self, replies: &RawDocument) {
        if let Some(version) = text(replies, &["buildInfo", "version"]) {
            add(&mut self.versions, version);
        }
        let host = |path: &[&str]| value(replies, &[&["hostInfo"], path].concat());
        let system = [host(&["os", "name"]), host(&["os", "version"])];
        let system: Vec<&str> = system.into_iter().flatten().filter_map(|value| value.as_str()).collect();
        self.system = Some(system.join(" ")).filter(|system| !system.is_empty()).or(self.system.take());
        self.processors = host(&["system", "numCores"]).and_then(integer).or(self.processors);
        self.memory_mib = host(&["system", "memSizeMB"]).and_then(integer).or(self.memory_mib);
        let options = |path: &[&str]| text(replies, &[&["getCmdLineOpts", "parsed"], path].concat());
        self.db_path = options(&["storage", "dbPath"]).or(self.db_path.take());
        self.log_path = options(&["systemLog", "path"]).or(self.log_path.take());
        let profiling =
            |name: &str| value(replies, &["getCmdLineOpts", "parsed", "operationProfiling", name]);
        self.slow_ms = profiling("slowOpThresholdMs").and_then(integer).or(self.slow_ms);
        self.slow_sample_rate = profiling("slowOpSampleRate").and_then(number).or(self.slow_sample_rate);
        let enabled = ["getCmdLineOpts", "parsed", "setParameter", "disaggregatedStorageEnabled"];
        self.is_disaggregated |= value(replies, &enabled).is_some_and(|value| !is_false(value));
        let parsed = value(replies, &["getCmdLineOpts", "parsed"]).and_then(|parsed| parsed.as_document());
        if let Some(parsed) = parsed {
            add_options(parsed, "", 0, &mut self.options);
        }
        self.replica_set = options(&["replication", "replSetName"])
            .or_else(|| options(&["replication", "replSet"]))
            .or(self.replica_set.take());
        if self.hosts.is_empty()
            && let Some(host) = text(replies, &["hostInfo", "system", "hostname"])
        {
            self.hosts.push(host);
        }
    }

    /// Adds the facts of a document of type 2: parameters as they are at its time. A document after the first one of a file holds those that changed.
    pub fn add_parameters(&mut self, replies: &RawDocument) {
        let parameter =
            |names: &[&str]| names.iter().find_map(|name| value(replies, &["getParameter", name]));
        self.slow_ms = parameter(&SLOW_MS_NAMES).and_then(integer).or(self.slow_ms);
        self.slow_sample_rate = parameter(&SAMPLE_RATE_NAMES).and_then(number).or(self.slow_sample_rate);
        for name in STORAGE_PARAMETERS {
            if let Some(value) = parameter(&[name]).and_then(scalar) {
                self.parameters.insert(name.to_owned(), value);
            }
        }
        let enabled = parameter(&["disaggregatedStorageEnabled"]);
        self.is_disaggregated |= enabled.is_some_and(|value| !is_false(value));
    }

    /// Adds the facts of the first sample of a chunk.
    pub fn add_sample(&mut self, sample: &RawDocument) {
        let status = |name: &str| text(sample, &["serverStatus", name]);
        if let Some(version) = status("version") {
            add(&mut self.versions, version);
        }
        if let Some(host) = status("host") {
            // The name without a port, from the beginning of a file, is of the same host.
            self.hosts.retain(|known| !host.starts_with(&format!("{known}:")));
            add(&mut self.hosts, host);
        }
        // On Windows it is the path of the program.
        let process = status("process").map(|process| {
            let name = process.rsplit(['/', '\\']).next().unwrap_or_default();
            name.trim_end_matches(".exe").to_owned()
        });
        self.process = process.or(self.process.take());
        self.storage_engine =
            text(sample, &["serverStatus", "storageEngine", "name"]).or(self.storage_engine.take());
        let cache = ["serverStatus", "wiredTiger", "cache", "maximum bytes configured"];
        self.cache_bytes = value(sample, &cache).and_then(integer).or(self.cache_bytes);
        self.replica_set = text(sample, &["replSetGetStatus", "set"]).or(self.replica_set.take());
        if let Some(members) =
            value(sample, &["replSetGetStatus", "members"]).and_then(|members| members.as_array())
        {
            let names = members
                .into_iter()
                .flatten()
                .filter_map(|member| Some(member.as_document()?.get_str("name").ok()?.to_owned()));
            self.set_members = names.collect();
        }
        for role in ROLES {
            if sample.get_document(role).is_ok() {
                self.roles.insert(role.to_owned());
            }
        }
    }
}

impl ServerFacts {
    /// Adds the facts of another source where this one has none.
    pub fn fill_from(&mut self, other: &ServerFacts) {
        let fill = |value: &mut Option<String>, other: &Option<String>| {
            *value = value.take().or_else(|| other.clone());
        };
        fill(&mut self.process, &other.process);
        fill(&mut self.storage_engine, &other.storage_engine);
        fill(&mut self.system, &other.system);
        fill(&mut self.replica_set, &other.replica_set);
        fill(&mut self.db_path, &other.db_path);
        fill(&mut self.log_path, &other.log_path);
        for (values, others) in [(&mut self.versions, &other.versions), (&mut self.hosts, &other.hosts)] {
            if values.is_empty() {
                values.clone_from(others);
            }
        }
        self.processors = self.processors.or(other.processors);
        self.memory_mib = self.memory_mib.or(other.memory_mib);
        self.slow_ms = self.slow_ms.or(other.slow_ms);
        self.slow_sample_rate = self.slow_sample_rate.or(other.slow_sample_rate);
        self.cache_bytes = self.cache_bytes.or(other.cache_bytes);
        self.is_disaggregated |= other.is_disaggregated;
        for (values, others) in
            [(&mut self.options, &other.options), (&mut self.parameters, &other.parameters)]
        {
            for (name, value) in others {
                values.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// The nesting depth of options.
const MAX_OPTION_DEPTH: usize = 8;
/// The sections of options that concern storage.
const STORAGE_OPTIONS: [&str; 4] = ["storage.", "operationProfiling.", "replication.oplog", "setParameter."];

/// Adds the options below a document that concern storage.
fn add_options(document: &RawDocument, above: &str, depth: usize, options: &mut BTreeMap<String, String>) {
    for (name, value) in document.iter().flatten() {
        let path = format!("{above}{}", name.as_str());
        match value {
            RawBsonRef::Document(inner) if depth < MAX_OPTION_DEPTH => {
                add_options(inner, &format!("{path}."), depth + 1, options);
            }
            value => {
                let is_of_storage = STORAGE_OPTIONS.iter().any(|section| path.starts_with(section));
                if let Some(value) = scalar(value).filter(|_| is_of_storage) {
                    options.insert(path, value);
                }
            }
        }
    }
}

/// A text, a number or a Boolean in words.
fn scalar(value: RawBsonRef<'_>) -> Option<String> {
    let text = value.as_str().map(str::to_owned);
    text.or_else(|| value.as_bool().map(|value| value.to_string()))
        .or_else(|| value.as_f64().map(|value| value.to_string()))
        .or_else(|| integer(value).map(|value| value.to_string()))
}

fn add(values: &mut Vec<String>, value: String) {
    if !values.contains(&value) {
        values.push(value);
    }
}

fn text(document: &RawDocument, path: &[&str]) -> Option<String> {
    value(document, path)?.as_str().map(str::to_owned)
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_i32().map(i64::from))
        .or_else(|| value.as_f64().map(|value| value as i64))
}

fn number(value: RawBsonRef<'_>) -> Option<f64> {
    value.as_f64().or_else(|| integer(value).map(|value| value as f64))
}

/// Parameters on a command line are text.
fn is_false(value: RawBsonRef<'_>) -> bool {
    value.as_bool() == Some(false) || value.as_str().is_some_and(|text| text == "false" || text == "0")
}

/// The value at a path, or at the same path below a role. Text that is not UTF-8 counts as absent.
fn value<'d>(document: &'d RawDocument, path: &[&str]) -> Option<RawBsonRef<'d>> {
    let below = |document: &'d RawDocument| {
        let (last, parents) = path.split_last()?;
        let parent = parents.iter().try_fold(document, |document, name| document.get_document(name).ok())?;
        parent.get(last).ok().flatten()
    };
    below(document).or_else(|| ROLES.iter().find_map(|role| document.get_document(role).ok().and_then(below)))
}
