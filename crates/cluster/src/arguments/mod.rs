//! Builds the command line of each server, for its version.
//!
//! The cluster's own settings (ports, folders, sets) are written here; each further option is passed to the binaries whose `--help`
//! lists it. Every option that a server does not get is reported in a note.

mod program;

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use serde_json::Value;

use crate::layout::{Node, Purpose};
use crate::set_config::seed_list;
use crate::topology::{CONFIG_SET, Topology};
use crate::version::Version;

use program::ProgramLine;
pub(crate) use program::listed_options;
pub use program::{Maker, Program, Secrets, TypedOption, split_secrets};

/// The default cache of a server, in GiB (mlaunch's).
const CACHE_GB: f64 = 1.0;
/// The first version without the MMAPv1 engine.
const WITHOUT_MMAPV1: Version = Version::release(4, 2);

/// The program and arguments of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandLine {
    /// All arguments, without the program's file.
    pub arguments: Vec<String>,
    /// Options that were left out deliberately, a sentence each.
    pub notes: Vec<String>,
}

/// The properties of the cluster that command lines depend on.
#[derive(Clone, Copy, Debug)]
pub struct CommandLinePlan<'a> {
    pub topology: &'a Topology,
    pub nodes: &'a [Node],
    /// The secret that its servers share, if authentication is on.
    pub key_file: Option<&'a Path>,
}

impl CommandLinePlan<'_> {
    /// The command line of a server; `programs` are all programs of the cluster, since an option may be intended for another one.
    pub fn command_line(&self, node: &Node, program: &Program, programs: &[&Program]) -> Result<CommandLine> {
        let mut line = ProgramLine { words: program.words.clone(), notes: Vec::new() };
        self.place(node, program, &mut line)?;
        if let Some(key_file) = self.key_file {
            if !program.options.contains("--keyFile") {
                let what = format!("{} has no users, but the cluster requires a login", program.title());
                return Err(Error::new(Kind::Unsupported, what).advise("it has no option --keyFile"));
            }
            line.pair("--keyFile", key_file.to_string_lossy());
        }
        let mut given: Vec<TypedOption> = TypedOption::read(&self.topology.pass_through)?;
        // The options of one server override the options for all.
        let own = TypedOption::read(&node.options.arguments)?;
        given.retain(|all| all.is_repeatable() || !own.iter().any(|one| one.name == all.name));
        let specific = NodeOptions::from_node(node);
        given.retain(|all| !specific.replaces(&all.name));
        program::keep(&given, node, program, programs, &mut line)?;
        program::keep(&own, node, program, &[program], &mut line)?;
        match (node.purpose, node.in_shard) {
            (Purpose::Config, _) => line.switch("--configsvr"),
            (Purpose::Data, true) => line.switch("--shardsvr"),
            _ => {}
        }
        let has_cache = given.iter().chain(&own).any(|one| is_cache(&one.name));
        self.engine(node, program, has_cache, &mut line)?;
        for (name, value) in &node.options.parameters {
            line.pair("--setParameter", format!("{name}={}", scalar(name, value)?));
        }
        line.words.extend(self.topology.tls.server_arguments(program.version, &program.options)?);
        Ok(CommandLine { arguments: line.words, notes: line.notes })
    }

    fn place(&self, node: &Node, program: &Program, line: &mut ProgramLine) -> Result<()> {
        if node.purpose == Purpose::Router {
            line.pair("--logpath", text(&node.log_path)?);
            line.pair("--port", node.own_port.to_string());
            line.pair("--configdb", seed_list(CONFIG_SET, self.nodes, &self.topology.host));
            return Ok(());
        }
        if let Some(set) = &node.set {
            if !program.options.contains("--replSet") {
                let what = format!("{} knows no replica sets", program.title());
                return Err(Error::new(Kind::Unsupported, what).advise("it has no option --replSet"));
            }
            line.pair("--replSet", set);
        }
        if let Some(db_path) = &node.db_path {
            line.pair("--dbpath", text(db_path)?);
        }
        line.pair("--logpath", text(&node.log_path)?);
        line.pair("--port", node.own_port.to_string());
        Ok(())
    }

    /// Adds the engine and its cache, under the option names of that engine.
    fn engine(&self, node: &Node, program: &Program, has_cache: bool, line: &mut ProgramLine) -> Result<()> {
        if !node.is_mongod() {
            return Ok(());
        }
        let given = TypedOption::read(&self.topology.pass_through)?;
        let of_all =
            given.iter().find(|one| one.name == "--storageEngine" && node.purpose != Purpose::Config);
        let engine =
            node.options.engine.as_deref().or(of_all.and_then(TypedOption::value)).unwrap_or("wiredTiger");
        if engine == "mmapv1" && program.version >= WITHOUT_MMAPV1 {
            let what = format!("{} has no storage engine mmapv1, which MongoDB 4.2 removed", program.title());
            return Err(Error::new(Kind::Unsupported, what));
        }
        if let Some(engine) = &node.options.engine {
            line.pair("--storageEngine", engine);
        }
        let Some(option) = cache_option(engine) else {
            return match node.options.cache_size_gb {
                Some(_) => {
                    Err(Error::usage(format!("the engine {engine} of {} has no cache to size", node.title())))
                }
                None => Ok(()),
            };
        };
        match node.options.cache_size_gb {
            Some(size) => line.pair(option, number(size)),
            None if !has_cache && program.options.contains(option) => line.pair(option, number(CACHE_GB)),
            None => {}
        }
        Ok(())
    }
}

/// The options of one node, which override the options for all.
struct NodeOptions {
    engine: bool,
    cache: bool,
}

impl NodeOptions {
    fn from_node(node: &Node) -> NodeOptions {
        let options = &node.options;
        // The cache size of another engine is another option.
        NodeOptions {
            engine: options.engine.is_some(),
            cache: options.cache_size_gb.is_some() || options.engine.is_some(),
        }
    }

    fn replaces(&self, name: &str) -> bool {
        (self.engine && name == "--storageEngine") || (self.cache && is_cache(name))
    }
}

fn is_cache(name: &str) -> bool {
    ["--wiredTigerCacheSizeGB", "--inMemorySizeGB", "--rocksdbCacheSizeGB", "--wiredTigerCacheSizePct"]
        .contains(&name)
}

fn cache_option(engine: &str) -> Option<&'static str> {
    match engine {
        "wiredTiger" => Some("--wiredTigerCacheSizeGB"),
        "inMemory" => Some("--inMemorySizeGB"),
        "rocksdb" => Some("--rocksdbCacheSizeGB"),
        _ => None,
    }
}

/// A number, without a zero fraction.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { value.to_string() }
}

fn scalar(name: &str, value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err(Error::usage(format!("the parameter {name} takes one value"))),
    }
}

/// A path as an argument; paths that are not UTF-8 cannot be recorded.
fn text(path: &Path) -> Result<String> {
    let refused = || Error::usage(format!("the path {} is not UTF-8", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(refused)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
