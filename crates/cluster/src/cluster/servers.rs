//! How each server of a cluster is started: as its topology says, or as mlaunch wrote it down, with the secret that all
//! share: a file that only its owner may read.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fathom_errors::{Error, Kind, Result};

use crate::arguments::{Given, Maker, Plan};
use crate::layout::{Node, layout};
use crate::mlaunch::{self, MLAUNCH_FILE};
use crate::programs::Programs;
use crate::state::{Phase, Server, State};
use crate::topology::Topology;

/// How each server of a cluster is to be started.
pub(super) fn servers(
    topology: &Topology,
    nodes: &[Node],
    programs: &Programs,
    folder: &Path,
    note: &mut dyn FnMut(&str),
) -> Result<Vec<Server>> {
    for given in Given::read(&topology.pass_through)? {
        given.check()?;
    }
    let key_file = key_file(topology, folder);
    let plan = Plan { topology, nodes, key_file: key_file.as_deref() };
    let all = programs.all();
    let mut noted: Vec<String> = Vec::new();
    let mut servers = Vec::new();
    for node in nodes {
        let program = programs.of(node, topology.binaries.as_deref())?;
        let line = plan.command_line(node, program, &all)?;
        for text in line.notes.into_iter().filter(|text| !noted.contains(text)).collect::<Vec<_>>() {
            note(&text);
            noted.push(text);
        }
        servers.push(Server {
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

/// The state of an environment that mlaunch made, with nothing recorded.
pub(super) fn imported(folder: &Path, own: &Path) -> Result<Option<State>> {
    let Some(environment) = mlaunch::read(folder)? else { return Ok(None) };
    let topology = environment.topology;
    let nodes = layout(&topology, folder)?;
    let mut servers = Vec::new();
    if environment.commands.is_empty() {
        // Version 1 has no commands: they are what we would start.
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
        servers.push(Server {
            port: node.port,
            maker: Maker::MongoDb,
            program: program.into(),
            version: None,
            arguments: arguments.to_vec(),
            process: None,
            groups: Vec::new(),
        });
    }
    let mut state = State::new(topology, servers);
    state.phase = Phase::Made;
    Ok(Some(state))
}

/// How many random bytes mlaunch takes; in base64 they are within the 1024 characters that a key may have.
const KEY_BYTES: usize = 753;

/// Where the key file of a cluster is, if it has one.
pub(super) fn key_file(topology: &Topology, folder: &Path) -> Option<PathBuf> {
    let auth = topology.auth.as_ref()?;
    Some(auth.key_file.clone().unwrap_or_else(|| folder.join("keyfile")))
}

/// Makes one, unless it is there.
pub(super) fn make_key_file(path: &Path) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut key = vec![0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|cause| {
        Error::new(Kind::Io, "the kernel gives no random numbers").because(cause.to_string())
    })?;
    let text = STANDARD.encode(&key);
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened
        .and_then(|mut file| writeln!(file, "{text}"))
        .map_err(|cause| Error::io("write the key file", path, cause))
}
