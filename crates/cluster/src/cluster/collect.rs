//! Collects logs and diagnostics of a cluster into a folder, to send to an analyst.

use std::fs;
use std::path::{Path, PathBuf};

use bson::{Bson, Document, doc};
use fathom_errors::{Error, Kind, Result};
use serde_json::{Map, Value, json};

use super::{Cluster, stop};
use crate::contact::Contact;
use crate::layout::{Node, Purpose};

/// The commands for each kind of server, each with its file name.
fn questions(node: &Node) -> Vec<(&'static str, Document)> {
    let mut all = vec![
        ("hello", doc! { "hello": 1 }),
        ("buildInfo", doc! { "buildInfo": 1 }),
        ("getCmdLineOpts", doc! { "getCmdLineOpts": 1 }),
        ("serverStatus", doc! { "serverStatus": 1 }),
        ("getDiagnosticData", doc! { "getDiagnosticData": 1 }),
    ];
    if node.set.is_some() {
        all.push(("replSetGetStatus", doc! { "replSetGetStatus": 1 }));
        all.push(("replSetGetConfig", doc! { "replSetGetConfig": 1 }));
    }
    if node.purpose == Purpose::Router {
        all.push(("listShards", doc! { "listShards": 1 }));
        all.push(("balancerStatus", doc! { "balancerStatus": 1 }));
    }
    all
}

impl Cluster {
    /// Copies logs and queries every server that answers, into a folder that must not exist yet. Returns a sentence for each item
    /// that could not be collected.
    pub fn collect(&self, into: &Path) -> Result<Vec<String>> {
        fs::create_dir(into).map_err(|cause| {
            let taken = cause.kind() == std::io::ErrorKind::AlreadyExists;
            let error = Error::io("create", into, cause);
            if taken {
                error.with_kind(Kind::NotOurs).advise("name a folder that is not there yet")
            } else {
                error
            }
        })?;
        let contact = self.contact()?;
        let live = self.live(true)?;
        let mut missing = Vec::new();
        let mut servers = Vec::new();
        for (node, live) in self.nodes.iter().zip(&live) {
            let name = format!(
                "{}-{}",
                node.port,
                node.set.as_deref().unwrap_or(if node.is_mongod() { "mongod" } else { "mongos" })
            );
            let folder = into.join(&name);
            fs::create_dir(&folder).map_err(|cause| Error::io("create", &folder, cause))?;
            copy_logs(node, &folder, &mut missing);
            if live.runs && !live.paused {
                ask(&contact, node, &folder, &mut missing)?;
            } else {
                missing.push(format!("{} was not asked: it is not running", node.title()));
            }
            let tags: Vec<String> = crate::tags::tags_of(node, *live).into_iter().collect();
            servers.push(json!({ "folder": name, "port": node.port, "tags": tags }));
        }
        let text =
            |error| Error::new(Kind::Malformed, "the topology cannot be written as JSON").because(error);
        let topology = serde_json::to_value(&self.state.topology).map_err(text)?;
        let summary = json!({ "topology": topology, "servers": servers, "missing": missing });
        write(&into.join("cluster.json"), &summary)?;
        Ok(missing)
    }
}

fn copy_logs(node: &Node, folder: &Path, missing: &mut Vec<String>) {
    let files: Vec<PathBuf> = stop::logs(&node.log_path).into_iter().chain([node.console_path()]).collect();
    for file in files.iter().filter(|file| file.exists()) {
        let Some(name) = file.file_name() else { continue };
        if let Err(cause) = fs::copy(file, folder.join(name)) {
            missing.push(Error::io("copy", file, cause).to_string());
        }
    }
}

fn ask(contact: &Contact, node: &Node, folder: &Path, missing: &mut Vec<String>) -> Result<()> {
    for (name, question) in questions(node) {
        match contact.admin(node, &question) {
            Ok(reply) => write(&folder.join(format!("{name}.json")), &relaxed(reply))?,
            Err(error) => {
                let error = Error::from(error);
                missing.push(format!("{} has no {name}: {error}", node.title()));
            }
        }
    }
    Ok(())
}

/// Converts to relaxed extended JSON.
fn relaxed(document: Document) -> Value {
    let fields: Map<String, Value> = document
        .into_iter()
        .map(|(name, value): (String, Bson)| (name, value.into_relaxed_extjson()))
        .collect();
    Value::Object(fields)
}

fn write(path: &Path, value: &Value) -> Result<()> {
    let text = format!("{value:#}\n");
    fs::write(path, text).map_err(|cause| Error::io("write", path, cause))
}
