//! The command line of each server of a cluster, from its topology or from mlaunch's state file, and the secret that all servers
//! share: a key file that only its owner may read.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fathom_errors::{Error, Kind, Result};

use crate::arguments::{CommandLinePlan, Maker, TypedOption};
use crate::layout::{Node, layout};
use crate::mlaunch::{self, MLAUNCH_FILE};
use crate::programs::Programs;
use crate::state::{ClusterState, CreationPhase, ServerState};
use crate::topology::Topology;

/// The command line of each server of a cluster.
pub(super) fn servers(
    topology: &Topology,
    nodes: &[Node],
    programs: &Programs,
    folder: &Path,
    note: &mut dyn FnMut(&str),
) -> Result<Vec<ServerState>> {
    for given in TypedOption::read(&topology.pass_through)? {
        given.check()?;
    }
    let key_file = key_file(topology, folder);
    let plan = CommandLinePlan { topology, nodes, key_file: key_file.as_deref() };
    let all = programs.all();
    let mut noted: Vec<String> = Vec::new();
    let mut servers = Vec::new();
    for node in nodes {
        let program = programs.program(node, topology.binaries.as_deref())?;
        let line = plan.command_line(node, program, &all)?;
        for text in line.notes.into_iter().filter(|text| !noted.contains(text)).collect::<Vec<_>>() {
            note(&text);
            noted.push(text);
        }
        servers.push(ServerState {
            port: node.port,
            maker: program.maker,
            program: program.path.clone(),
            version: Some(program.version),
            arguments: line.arguments,
            process: None,
            groups: Vec::new(),
        });
    }
    Ok(servers)
}

/// The state of an environment that mlaunch created, without recorded processes.
pub(super) fn imported(folder: &Path, own: &Path) -> Result<Option<ClusterState>> {
    let Some(environment) = mlaunch::read(folder)? else { return Ok(None) };
    let topology = environment.topology;
    let nodes = layout(&topology, folder)?;
    let mut servers = Vec::new();
    if environment.commands.is_empty() {
        // Version 1 contains no commands: we use those that we would start ourselves.
        let mut programs = Programs::new(own.to_owned());
        programs.find(&nodes, topology.binaries.as_deref())?;
        servers = self::servers(&topology, &nodes, &programs, folder, &mut |_| ())?;
    }
    for node in nodes.iter().filter(|_| !environment.commands.is_empty()) {
        let words = environment.commands.get(&node.port).and_then(|words| words.split_first());
        let Some((program, arguments)) = words else {
            let what = format!("{MLAUNCH_FILE} has no command for {}", node.title());
            return Err(Error::new(Kind::Malformed, what));
        };
        servers.push(ServerState {
            port: node.port,
            maker: Maker::MongoDb,
            program: program.into(),
            version: None,
            arguments: arguments.to_vec(),
            process: None,
            groups: Vec::new(),
        });
    }
    let mut state = ClusterState::new(topology, servers);
    state.phase = CreationPhase::Made;
    state.made_by_mlaunch = Some(true);
    Ok(Some(state))
}

/// The number of random bytes in mlaunch's keys; in base64 they stay within the 1024 characters that a key may have.
const KEY_BYTES: usize = 753;

/// The path of a cluster's key file, if it has one.
pub(super) fn key_file(topology: &Topology, folder: &Path) -> Option<PathBuf> {
    let auth = topology.auth.as_ref()?;
    Some(auth.key_file.clone().unwrap_or_else(|| folder.join("keyfile")))
}

/// Creates the key file, unless it exists; returns whether it did.
pub(super) fn make_key_file(path: &Path) -> Result<bool> {
    if path.exists() {
        return Ok(false);
    }
    let mut key = vec![0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|cause| {
        Error::new(Kind::Io, "the kernel gives no random numbers").because(cause.to_string())
    })?;
    let text = STANDARD.encode(&key);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| writeln!(file, "{text}"))
        .map_err(|cause| Error::io("write the key file", path, cause))?;
    Ok(true)
}
