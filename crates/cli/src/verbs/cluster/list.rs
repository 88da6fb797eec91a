//! `fathom cluster list`: the servers as a table, as JSON, or the connection string alone.

use anyhow::Result;
use clap::Args;
use fathom_client::Role;
use fathom_cluster::{Cluster, Node, Purpose, ServerCondition, ServerState, TagSelection, quoted, tags_of};
use fathom_errors::{Error, Kind};
use serde_json::{Value, json};

use super::common::{ClusterFolder, say};
use crate::outcome::VerbOutcome;
use crate::output;

/// The command line of `list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only servers that have all of these tags
    #[arg(value_name = "TAG")]
    only: Vec<String>,
    #[command(flatten)]
    place: ClusterFolder,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Show the tags of each server, by which other actions select (--json has them anyway)
    #[arg(long)]
    tags: bool,
    /// Show the command line of each server (--json has it anyway)
    #[arg(long)]
    startup: bool,
    /// The same as --tags
    #[arg(long)]
    verbose: bool,
    /// Print only the connection string; with tags, that of each server that has them
    #[arg(long, conflicts_with_all = ["json", "tags", "startup", "verbose"])]
    uri: bool,
}

pub(super) fn run(args: &ListArgs) -> Result<VerbOutcome> {
    let cluster = args.place.look()?;
    let live = cluster.live(true)?;
    let chosen = TagSelection::read(&args.only)?.choose(cluster.nodes(), &live)?;
    if args.uri {
        let strings = cluster.connection_strings(&chosen);
        if strings.is_empty() {
            let what = if args.only.is_empty() {
                "this cluster has no router to connect to"
            } else {
                "no server has all of these tags"
            };
            return Err(Error::new(Kind::NotFound, what)
                .with_id("no-server")
                .advise("see 'fathom cluster list --tags'")
                .into());
        }
        strings.iter().try_for_each(|text| output::line(text))?;
        return Ok(VerbOutcome::Clean);
    }
    if args.json {
        output::line(&document_of(&cluster, &live, &chosen).to_string())?;
        return Ok(VerbOutcome::Clean);
    }
    let rows = rows(&cluster, &live, &chosen, args);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len))
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        output::line(cells.join("  ").trim_end())?;
    }
    let connect = cluster.connection_string();
    if !connect.is_empty() {
        output::line(&format!("\nconnect with {connect}"))?;
    }
    for phrase in cluster.rules()?.phrases() {
        output::line(&format!("network: {phrase}"))?;
    }
    if cluster.is_unfinished() {
        say("the creation of this cluster was interrupted: run 'init' again, or destroy it");
    }
    Ok(VerbOutcome::Clean)
}

fn rows(cluster: &Cluster, live: &[ServerCondition], chosen: &[usize], args: &ListArgs) -> Vec<Vec<String>> {
    let processes = cluster.processes();
    let mut head = vec!["PROCESS", "PORT", "STATUS", "PID", "PROGRAM"];
    head.extend((args.tags || args.verbose).then_some("TAGS"));
    head.extend(args.startup.then_some("STARTUP COMMAND"));
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<String>>()];
    let mut set = None;
    for at in chosen.iter().copied() {
        let (Some(node), Some(live)) = (cluster.nodes().get(at), live.get(at)) else { continue };
        if node.set != set {
            set.clone_from(&node.set);
            let mut title = vec![String::new(); rows.first().map_or(0, Vec::len)];
            title.iter_mut().zip(&set).for_each(|(cell, name)| cell.clone_from(name));
            rows.extend(set.is_some().then_some(title));
        }
        let indent = if node.set.is_some() { "  " } else { "" };
        let pid =
            processes.get(at).copied().flatten().map_or_else(|| "-".to_owned(), |id| id.pid.to_string());
        let mut row = vec![
            format!("{indent}{}", process(node, *live)),
            node.port.to_string(),
            status(*live).to_owned(),
            pid,
            cluster.servers().get(at).map(ServerState::title).unwrap_or_default(),
        ];
        if args.tags || args.verbose {
            row.push(tags_of(node, *live).into_iter().collect::<Vec<_>>().join(", "));
        }
        if args.startup {
            row.push(startup(cluster, at));
        }
        rows.push(row);
    }
    rows
}

/// mlaunch's name for the process: its role, if it has one.
fn process(node: &Node, live: ServerCondition) -> &'static str {
    match (node.purpose, live.role) {
        (Purpose::Router, _) => "mongos",
        (Purpose::Config, _) => "config server",
        (Purpose::Arbiter, _) => "arbiter",
        (Purpose::Single, _) => "single",
        (_, Some(Role::Primary)) => "primary",
        (_, Some(Role::Secondary)) => "secondary",
        _ => "mongod",
    }
}

fn status(live: ServerCondition) -> &'static str {
    match live {
        ServerCondition { runs: false, .. } => "down",
        ServerCondition { paused: true, .. } => "paused",
        ServerCondition { role: None, .. } => "silent",
        _ => "running",
    }
}

fn startup(cluster: &Cluster, at: usize) -> String {
    let Some(server) = cluster.servers().get(at) else { return String::new() };
    let words = std::iter::once(server.program.display().to_string()).chain(server.arguments.iter().cloned());
    words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// The cluster as JSON, with all of its servers.
pub(super) fn document(cluster: &Cluster) -> Result<Value> {
    let all: Vec<usize> = (0..cluster.nodes().len()).collect();
    Ok(document_of(cluster, &cluster.live(true)?, &all))
}

fn document_of(cluster: &Cluster, live: &[ServerCondition], chosen: &[usize]) -> Value {
    let processes = cluster.processes();
    let one = |at: usize| {
        let node = cluster.nodes().get(at)?;
        let live = live.get(at).copied().unwrap_or(ServerCondition::DOWN);
        let server = cluster.servers().get(at);
        Some(json!({
            "process": process(node, live),
            "port": node.port,
            "status": status(live),
            "pid": processes.get(at).copied().flatten().map(|id| id.pid),
            "set": node.set,
            "tags": tags_of(node, live),
            "db_path": node.db_path,
            "log_path": node.log_path,
            "program": server.map(ServerState::title),
            "version": server.and_then(|server| server.version).map(|version| version.to_string()),
            "startup_command": startup(cluster, at),
        }))
    };
    let servers: Vec<Value> = chosen.iter().copied().filter_map(one).collect();
    json!({
        "folder": cluster.folder(),
        "connection_string": cluster.connection_string(),
        "finished": !cluster.is_unfinished(),
        "servers": servers,
    })
}
