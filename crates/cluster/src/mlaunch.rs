//! Reads environments that mlaunch created: its state file `.mlaunch_startup` is read and never written.
//!
//! Version 2 holds the parsed arguments and a shell command for each port; version 1 holds only the arguments, from which the
//! commands are computed. The clear-text password in it is not taken over.
//!
//! A command in the state file was written for a shell, with double quotes around paths.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use bson::Bson;
use fathom_errors::{Error, Kind, Result};
use serde_json::{Map, Value};

use crate::tls_arguments::TlsArguments;
use crate::topology::{Auth, CONFIG_SET, ClusterShape, ReplicaSet, ServerOptions, Topology};

pub const MLAUNCH_FILE: &str = ".mlaunch_startup";

/// An environment of mlaunch.
#[derive(Clone, Debug, PartialEq)]
pub struct Environment {
    pub topology: Topology,
    /// Program and arguments of each port, without `--fork`; empty for version 1.
    pub commands: BTreeMap<u16, Vec<String>>,
}

/// Reads the environment in a folder; `None` if there is none.
pub(crate) fn read(folder: &Path) -> Result<Option<Environment>> {
    let path = folder.join(MLAUNCH_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    let because = |cause: Error| {
        Error::new(Kind::Malformed, format!("{} is not a file of mlaunch", path.display())).because(cause)
    };
    parse(&text).map(Some).map_err(because)
}

/// Reads the text of a state file.
pub fn parse(text: &str) -> Result<Environment> {
    let root: Map<String, Value> = serde_json::from_str(text)
        .map_err(|cause| Error::new(Kind::Malformed, "it is not a JSON object").because(cause))?;
    match root.get("protocol_version").map(Value::as_u64) {
        None => Ok(Environment { topology: topology(&root, &[])?, commands: BTreeMap::new() }),
        Some(Some(2)) => {
            let arguments =
                root.get("parsed_args").and_then(Value::as_object).ok_or_else(|| missing("parsed_args"))?;
            let unknown = strings(root.get("unknown_args"));
            let commands =
                root.get("startup_info").and_then(Value::as_object).ok_or_else(|| missing("startup_info"))?;
            let commands: BTreeMap<u16, Vec<String>> = commands.iter().map(command).collect::<Result<_>>()?;
            Ok(Environment { topology: topology(arguments, &unknown)?, commands })
        }
        Some(other) => {
            let other =
                other.map_or_else(|| "a value that is not a number".to_owned(), |number| number.to_string());
            Err(Error::new(
                Kind::Unsupported,
                format!("it has protocol version {other}, and 1 and 2 are known"),
            ))
        }
    }
}

fn missing(name: &str) -> Error {
    Error::new(Kind::Malformed, format!("it has no '{name}'"))
}

fn command((port, line): (&String, &Value)) -> Result<(u16, Vec<String>)> {
    let port = port.parse().map_err(|_| missing("port before each command"))?;
    let mut words = split(line.as_str().unwrap_or_default())?;
    // Without this option, the server stays our child.
    words.retain(|word| word != "--fork");
    if words.is_empty() {
        return Err(missing("command"));
    }
    Ok((port, words))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// The parsed arguments as a topology; fields that older versions of mlaunch did not write get defaults.
fn topology(arguments: &Map<String, Value>, unknown: &[String]) -> Result<Topology> {
    let flag = |name: &str| arguments.get(name).and_then(Value::as_bool).unwrap_or(false);
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    let count = |name: &str, default: usize| {
        arguments
            .get(name)
            .and_then(Value::as_u64)
            .and_then(|number| usize::try_from(number).ok())
            .unwrap_or(default)
    };
    let arbiters = usize::from(flag("arbiter"));
    let set = |name: &str| {
        let mut set = ReplicaSet::plain(name, count("nodes", 3), arbiters);
        if flag("priority") {
            set.members.iter_mut().take(1).for_each(|first| first.priority = Some(10.0));
        }
        set
    };
    let shards = shard_names(&strings(arguments.get("sharded")))?;
    let shape = if !shards.is_empty() {
        ClusterShape::Sharded {
            shards: shards.iter().map(|name| set(name)).collect(),
            config: ReplicaSet::plain(CONFIG_SET, count("config", 1).max(1), 0),
            routers: vec![ServerOptions::default(); count("mongos", 1).min(usize::from(u16::MAX))],
        }
    } else if flag("replicaset") {
        ClusterShape::ReplicaSet(set(&text("name").unwrap_or_else(|| "replset".to_owned())))
    } else {
        ClusterShape::Single(ServerOptions::default())
    };
    let mut tls = TlsArguments::default();
    for (name, value) in TlsArguments::options() {
        let given = text(name).or_else(|| (value.is_none() && flag(name)).then(String::new));
        if let Some(given) = given {
            tls.set(name, value.is_some().then_some(given))?;
        }
    }
    let auth = (flag("auth") || flag("authentication")).then(|| Auth {
        user: text("username")
            .filter(|_| arguments.get("initial-user").is_none_or(|value| value != &Value::Bool(false))),
        database: text("auth_db").unwrap_or_else(|| "admin".to_owned()),
        roles: strings(arguments.get("auth_roles")).into_iter().map(Bson::from).collect(),
        key_file: None,
    });
    let topology = Topology {
        shape,
        first_port: u16::try_from(count("port", 27017)).map_err(|_| missing("port that exists"))?,
        host: text("hostname").unwrap_or_else(|| "localhost".to_owned()),
        binaries: text("binarypath"),
        pass_through: unknown.to_vec(),
        tls,
        auth,
        proxied: false,
        collections: Vec::new(),
    };
    topology.check()?;
    Ok(topology)
}

/// The names of shards, from one number or from names, as mlaunch reads `--sharded`.
pub fn shard_names(words: &[String]) -> Result<Vec<String>> {
    let [word] = words else { return Ok(words.to_vec()) };
    match word.parse::<usize>() {
        Ok(0) => Err(Error::usage("a sharded cluster needs at least one shard")),
        Ok(count @ 1..=200) => Ok((1..=count).map(|number| format!("shard{number:02}")).collect()),
        Ok(_) => Err(Error::usage("a cluster has 200 shards at most")),
        Err(_) => Ok(vec![word.clone()]),
    }
}

/// Splits as a POSIX shell does, without expanding anything. A line that a shell would run as more than one program is refused.
pub(crate) fn split(line: &str) -> Result<Vec<String>> {
    let refused =
        |what: &str| Error::new(Kind::Malformed, format!("a start command in .mlaunch_startup {what}"));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '"' | '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| refused("has a quote that does not end"))? {
                        end if end == c => break,
                        '\\' if c == '"' => word.extend(chars.next()),
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '|' | '&' | ';' | '<' | '>' | '`' | '$' | '(' | ')' => {
                return Err(refused(&format!("holds '{c}', which asks for a shell")));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Quotes a word for a shell, for users to copy.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of mtools 1.7.2, shortened.
    const VERSION_2: &str = r#"{
"protocol_version": 2, "mtools_version": "1.7.2",
"parsed_args": {"no_progressbar": false, "command": "init", "single": false, "replicaset": true, "nodes": 2,
 "arbiter": true, "name": "replset", "priority": true, "sharded": ["2"], "config": 1, "csrs": true, "mongos": 1,
 "verbose": false, "port": 27017, "binarypath": null, "dir": "/data/x", "hostname": "localhost", "auth": true,
 "username": "user", "password": "secret", "auth_db": "admin", "auth_roles": ["clusterAdmin"],
 "auth_role_docs": false, "initial-user": true, "tlsCAFile": null, "tlsAllowInvalidHostnames": false},
"unknown_args": ["--slowms", "5"],
"startup_info": {"27018": "\"mongod\" --replSet shard01 --dbpath \"/data/x/shard01/rs1/db\" --port 27018 --fork  --shardsvr"}
}"#;

    #[test]
    fn version_2_is_read_without_its_password() {
        let environment = parse(VERSION_2).unwrap();
        let topology = &environment.topology;
        let ClusterShape::Sharded { shards, config, routers } = &topology.shape else {
            panic!("{topology:?}")
        };
        assert_eq!((shards.len(), shards[1].name.as_str(), shards[0].members.len()), (2, "shard02", 3));
        assert_eq!((shards[0].members[0].priority, shards[0].members[2].arbiter), (Some(10.0), true));
        assert_eq!((config.members.len(), routers.len()), (1, 1));
        assert_eq!(topology.auth.as_ref().unwrap().user.as_deref(), Some("user"));
        let words = [
            "mongod",
            "--replSet",
            "shard01",
            "--dbpath",
            "/data/x/shard01/rs1/db",
            "--port",
            "27018",
            "--shardsvr",
        ];
        assert_eq!(environment.commands[&27018], words);
        assert!(!format!("{environment:?}").contains("secret"));
    }

    #[test]
    fn version_1_is_the_bare_arguments() {
        let text = r#"{"single": true, "replicaset": false, "port": 30000, "authentication": true, "username": "u"}"#;
        let environment = parse(text).unwrap();
        assert_eq!(environment.topology.shape, ClusterShape::Single(ServerOptions::default()));
        assert_eq!(environment.topology.first_port, 30000);
        assert!(environment.topology.auth.is_some() && environment.commands.is_empty());
    }

    #[test]
    fn what_is_no_environment_is_refused() {
        for text in ["", "[]", r#"{"protocol_version": 3}"#, r#"{"protocol_version": 2}"#] {
            assert!(parse(text).is_err(), "{text}");
        }
        let evil = VERSION_2.replace("--shardsvr", "; rm -rf x");
        assert!(parse(&evil).unwrap_err().to_string().contains("asks for a shell"));
    }

    #[test]
    fn shards_are_counted_or_named() {
        let names =
            |words: &[&str]| shard_names(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["2"]).unwrap(), ["shard01", "shard02"]);
        assert_eq!(names(&["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["a"]).unwrap(), ["a"]);
        assert!(names(&["0"]).is_err());
    }

    #[test]
    fn mlaunch_commands_come_apart() {
        let line = r#""mongod" --replSet replset --dbpath "/data/a b/rs1/db"   --port 27017 --fork  "#;
        let words =
            ["mongod", "--replSet", "replset", "--dbpath", "/data/a b/rs1/db", "--port", "27017", "--fork"];
        assert_eq!(split(line).unwrap(), words);
        assert_eq!(split(r#"a "" 'b c' d\ e"#).unwrap(), ["a", "", "b c", "d e"]);
    }

    #[test]
    fn nothing_else_is_run() {
        for line in ["mongod; rm -rf x", "mongod $(x)", "mongod \"open", "mongod > y"] {
            assert_eq!(split(line).unwrap_err().kind(), Kind::Malformed, "{line}");
        }
    }

    #[test]
    fn words_are_quoted_only_where_they_must_be() {
        assert_eq!(quoted("--dbpath=/a/b"), "--dbpath=/a/b");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
