//! Facts on a server from what a shell printed: `serverStatus`, `hostInfo`, `getCmdLineOpts`, `buildInfo` and `getParameter`, each alone or in the output of
//! a script such as `getMongoData.js`. The documents are recognized by their fields.

use std::io::Read;

use bson::{Bson, Document, RawDocumentBuf};

use crate::server_facts::ServerFacts;
use crate::shell_json::documents;

/// A larger file is no dump. `getMongoData.js` of a thousand collections writes some megabytes.
const MAX_BYTES: u64 = 64 << 20;
/// Binary files have a zero in their first bytes.
const HEAD_BYTES: u64 = 512;
/// How deep within the output of a script a reply of the server is looked for.
const MAX_LEVELS: usize = 8;
/// Parameters of every server.
const COMMON_PARAMETERS: [&str; 4] = ["logLevel", "quiet", "syncdelay", "featureCompatibilityVersion"];
/// The fewest of them that a reply of `getParameter` has.
const MIN_COMMON_PARAMETERS: usize = 3;

/// A dump of a server that was found in a text.
#[derive(Clone, Debug, Default)]
pub struct ServerDump {
    pub facts: ServerFacts,
}

impl ServerDump {
    /// Reads a file; `None` if it is no dump, by its content.
    pub fn read(contents: &mut dyn Read) -> Option<ServerDump> {
        let mut bytes = Vec::new();
        (&mut *contents).take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
        if bytes.contains(&0) {
            return None;
        }
        contents.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let is_whole = bytes.len() as u64 <= MAX_BYTES;
        is_whole.then(|| ServerDump::parse(&String::from_utf8_lossy(&bytes))).flatten()
    }

    /// Whether it is of the server with these facts. One without a host is of the only server.
    pub fn is_of(&self, recorded: &ServerFacts, is_only_server: bool) -> bool {
        let dumped = &self.facts;
        if recorded.hosts.is_empty() || dumped.hosts.is_empty() {
            return is_only_server;
        }
        let is_same = |one: &String, other: &String| match (one.split_once(':'), other.split_once(':')) {
            (Some(_), Some(_)) => one == other,
            _ => one.split(':').next() == other.split(':').next(),
        };
        recorded.hosts.iter().any(|one| dumped.hosts.iter().any(|other| is_same(one, other)))
    }

    /// Reads the text of a dump; `None` if no reply of a server is in it. If several servers printed it, it is one of the last one.
    pub fn parse(text: &str) -> Option<ServerDump> {
        let mut facts = ServerFacts::default();
        let mut is_found = false;
        let values = documents(text);
        let mut pending: Vec<(&Bson, usize)> = values.iter().rev().map(|value| (value, 0)).collect();
        while let Some((value, level)) = pending.pop() {
            if let Some(document) = value.as_document()
                && let Some(reply) = ServerReply::of(document)
            {
                is_found |= reply.add_to(&mut facts, document);
                continue;
            }
            if level >= MAX_LEVELS {
                continue;
            }
            match value {
                Bson::Document(inner) => pending.extend(inner.values().map(|value| (value, level + 1))),
                Bson::Array(inner) => pending.extend(inner.iter().rev().map(|value| (value, level + 1))),
                _ => {}
            }
        }
        is_found.then_some(ServerDump { facts })
    }
}

/// A reply of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerReply {
    ServerStatus,
    HostInfo,
    CommandLine,
    BuildInfo,
    Parameters,
}

impl ServerReply {
    /// The command whose reply a document is, by its fields.
    fn of(document: &Document) -> Option<ServerReply> {
        let has = |names: &[&str]| names.iter().all(|name| document.contains_key(*name));
        let has_common = COMMON_PARAMETERS.iter().filter(|name| document.contains_key(**name)).count();
        let system = document.get_document("system").ok();
        if has(&["host", "version", "process", "uptime"]) {
            Some(ServerReply::ServerStatus)
        } else if system.is_some_and(|system| system.contains_key("memSizeMB")) {
            Some(ServerReply::HostInfo)
        } else if has(&["argv", "parsed"]) {
            Some(ServerReply::CommandLine)
        } else if has(&["version", "gitVersion"]) {
            Some(ServerReply::BuildInfo)
        } else if has_common >= MIN_COMMON_PARAMETERS {
            Some(ServerReply::Parameters)
        } else {
            None
        }
    }

    /// Adds the facts of a reply, as those of a recording are added; false if it cannot be encoded.
    fn add_to(self, facts: &mut ServerFacts, reply: &Document) -> bool {
        let named = |name: &str| {
            let mut document = Document::new();
            document.insert(name, reply.clone());
            RawDocumentBuf::try_from(&document).ok()
        };
        let (name, add): (&str, fn(&mut ServerFacts, &bson::RawDocument)) = match self {
            ServerReply::ServerStatus => ("serverStatus", ServerFacts::add_sample),
            ServerReply::HostInfo => ("hostInfo", ServerFacts::add_metadata),
            ServerReply::CommandLine => ("getCmdLineOpts", ServerFacts::add_metadata),
            ServerReply::BuildInfo => ("buildInfo", ServerFacts::add_metadata),
            ServerReply::Parameters => ("getParameter", ServerFacts::add_parameters),
        };
        match named(name) {
            Some(document) => {
                add(facts, &document);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD_SHELL: &str = r#"MongoDB shell version v4.0.3
** Server status:
{ "host" : "db1:27017", "version" : "4.0.3", "process" : "mongod", "pid" : NumberLong(7), "uptime" : 12.0,
  "storageEngine" : { "name" : "wiredTiger" },
  "wiredTiger" : { "cache" : { "maximum bytes configured" : NumberLong("4294967296") } } }
"#;
    const SCRIPT: &str = r#"[ { "section": "server_info", "subsection": "host_info", "output": { "system": { "hostname": "db1", "memSizeMB": {"$numberInt": "7963"}, "numCores": 4 }, "os": { "name": "Ubuntu", "version": "22.04" } } },
 { "section": "server_info", "subsection": "command_line_info", "output": { "argv": ["mongod"], "parsed": { "storage": { "dbPath": "/data", "wiredTiger": { "engineConfig": { "cacheSizeGB": 4 } } }, "net": { "port": 27017 } } } },
 { "subsection": "server_build_info", "output": { "version": "7.0.12", "gitVersion": "abc" } },
 { "subsection": "server_parameters", "output": { "logLevel": 0, "quiet": false, "syncdelay": 60, "journalCommitInterval": 30, "slowms": 200 } } ]"#;

    #[test]
    fn facts_of_a_status_are_read_as_the_old_shell_prints_it() {
        let facts = ServerDump::parse(OLD_SHELL).unwrap().facts;
        assert_eq!((facts.versions, facts.hosts), (vec!["4.0.3".to_owned()], vec!["db1:27017".to_owned()]));
        assert_eq!((facts.cache_bytes, facts.storage_engine.as_deref()), (Some(4 << 30), Some("wiredTiger")));
    }

    #[test]
    fn facts_of_a_script_are_read_from_all_its_sections() {
        let facts = ServerDump::parse(SCRIPT).unwrap().facts;
        assert_eq!((facts.memory_mib, facts.processors, facts.slow_ms), (Some(7963), Some(4), Some(200)));
        assert_eq!(
            (facts.system.as_deref(), facts.versions),
            (Some("Ubuntu 22.04"), vec!["7.0.12".to_owned()])
        );
        let text = |map: &std::collections::BTreeMap<String, String>, name: &str| map.get(name).cloned();
        assert_eq!(text(&facts.options, "storage.wiredTiger.engineConfig.cacheSizeGB").as_deref(), Some("4"));
        assert_eq!(text(&facts.options, "net.port"), None, "it says nothing of storage");
        assert_eq!(text(&facts.parameters, "journalCommitInterval").as_deref(), Some("30"));
    }

    #[test]
    fn a_recording_has_precedence_and_the_rest_is_filled_in() {
        let mut facts = ServerFacts { versions: vec!["7.0.0".to_owned()], ..ServerFacts::default() };
        facts.fill_from(&ServerDump::parse(SCRIPT).unwrap().facts);
        assert_eq!((facts.versions, facts.memory_mib), (vec!["7.0.0".to_owned()], Some(7963)));
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "no dump",
            "{ \"version\": 1 }",
            "[1, 2]",
            "{ \"host\": \"a\", \"uptime\": 3 }",
            "{\"t\":{\"$date\":\"2026-11-28T00:00:00Z\"},\"s\":\"I\"}",
        ] {
            assert!(ServerDump::parse(text).is_none(), "{text}");
        }
    }
}
