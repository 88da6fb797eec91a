//! Finds the servers to watch behind a connection string: every data-bearing member of a set, and behind routers those of
//! every shard that can be reached.
//!
//! They are numbered from 0: primaries and single servers first, then the other members, routers last. Every server that was asked
//! for and is not watched has a note with the reason. The caller decides if no server is left.
//!
//! The process, the data and the log of a server on this host can be watched from outside too. A process id alone is
//! not enough: a server on another machine, or in a container, may have the number of an unrelated process here. The
//! process must listen on the server's port.

use std::fs;
use std::path::{Path, PathBuf};

use bson::{RawDocument, rawdoc};
use fathom_client::{Address, AddressList, Deployment, DeploymentKind, ManagedService, Role, Target};
use fathom_errors::Result;

use super::collection::number_at;
use super::link::{Refusal, ServerLink, WatchedRole, WatchedServer};
use super::replication::state_name;
use super::server_status;

/// The servers of a deployment.
#[derive(Clone, Debug)]
pub struct Servers {
    /// The watched servers, by their numbers.
    pub watched: Vec<WatchedServer>,
    /// Servers that cannot be watched and the consequence, a sentence each.
    pub notes: Vec<String>,
}

impl Servers {
    /// Finds the servers by asking those that `target` names; the first one found gets the number `first`.
    ///
    /// # Errors
    /// When no server answers, or all of them refuse our user. A deployment without a server that can be watched is none.
    pub fn find(target: &Target, first: usize) -> Result<Servers> {
        let deployment = Deployment::discover(target)?;
        let mut notes = Vec::new();
        let service = managed_service(target, &deployment);
        notes.extend(service.map(ManagedService::blind_sentence));
        let mut found = members(&deployment, None, &mut notes);
        if *deployment.kind() == DeploymentKind::Sharded {
            for (shard, target) in shards(&found, &mut notes) {
                match Deployment::discover(&target) {
                    Ok(deployment) => found.extend(members(&deployment, Some(&shard), &mut notes)),
                    Err(error) => notes.push(format!(
                        "shard {shard} cannot be watched ({error}): what its storage does is not known; users of a cluster are not \
                         users of its shards"
                    )),
                }
            }
        }
        found.sort_by_key(|watched| match watched.role {
            WatchedRole::Standalone | WatchedRole::Primary => 0,
            WatchedRole::Secondary => 1,
            WatchedRole::Router => 2,
        });
        for (number, watched) in found.iter_mut().enumerate() {
            watched.number = first + number;
            if !watched.is_silent {
                identify(watched, service, &mut notes);
            }
        }
        Ok(Servers { watched: found, notes })
    }
}

/// The service that runs the servers, by the names in the connection string and those that the servers use for each other.
fn managed_service(target: &Target, deployment: &Deployment) -> Option<ManagedService> {
    let listed = target.seed_list.iter().map(fathom_client::SeedList::host);
    let named = target.addresses.iter().map(|address| address.host.as_str());
    let members = deployment.members().iter().map(|member| member.address.host.as_str());
    listed.chain(named).chain(members).find_map(ManagedService::from_host)
}

/// The members that hold data, or the routers, unnumbered.
fn members(deployment: &Deployment, shard: Option<&str>, notes: &mut Vec<String>) -> Vec<WatchedServer> {
    let set = match deployment.kind() {
        DeploymentKind::ReplicaSet { name } => Some(name.clone()),
        _ => None,
    };
    let mut found = Vec::new();
    for stranger in deployment.strangers() {
        let reason = stranger.fault.as_deref().unwrap_or("it is not a member");
        notes.push(format!("{} is not watched: {reason}", stranger.address));
    }
    for member in deployment.members() {
        let role = match member.role {
            Role::Standalone => WatchedRole::Standalone,
            Role::Primary => WatchedRole::Primary,
            Role::Secondary | Role::Other => WatchedRole::Secondary,
            Role::Router => WatchedRole::Router,
            Role::Arbiter | Role::Uninitiated => {
                let what = member.role.name();
                let why =
                    if member.role == Role::Arbiter { ", which holds no data and no users" } else { "" };
                notes.push(format!("{} is not watched: it is {what}{why}", member.address));
                continue;
            }
            Role::Unknown => {
                let reason = member.fault.as_deref().unwrap_or("it does not answer");
                if set.is_none() {
                    notes.push(format!("{} is not watched: {reason}", member.address));
                    continue;
                }
                notes.push(format!(
                    "{} does not answer ({reason}): its counters are watched once it does, its processor, disks and log are not",
                    member.address
                ));
                WatchedRole::Secondary
            }
        };
        let is_silent = member.role == Role::Unknown;
        found.push(WatchedServer {
            number: 0,
            address: member.address.clone(),
            role,
            set: set.clone(),
            shard: shard.map(str::to_owned),
            is_silent,
            pid: None,
            dbpath: None,
            log: None,
            target: deployment.target().clone(),
        });
    }
    if set.is_some() {
        let known: Vec<&Address> = deployment.members().iter().map(|member| &member.address).collect();
        let hidden = hidden(&found, &known, notes);
        found.extend(hidden);
    }
    found
}

/// Finds hidden members: they hold data, and hello does not list them. The first member that answers is asked for them.
fn hidden(found: &[WatchedServer], known: &[&Address], notes: &mut Vec<String>) -> Vec<WatchedServer> {
    /// The states of a member that holds data: secondary, recovering, first copy under way, rollback.
    const WITH_DATA: [f64; 4] = [2.0, 3.0, 5.0, 9.0];
    for member in found.iter().filter(|member| !member.is_silent) {
        let mut link = ServerLink::new(0, member.address.clone(), &member.target);
        // The set's sampler reports an error of the command.
        let Ok(status) = link.ask("admin", &rawdoc! { "replSetGetStatus": 1 }) else { continue };
        let members = status.get_array("members").into_iter().flatten().flatten();
        let members = members.filter_map(|value| value.as_document()).filter_map(|one| {
            let address: Address = one.get_str("name").ok()?.parse().ok()?;
            Some((address, number_at(one, &["state"])?, number_at(one, &["health"]).unwrap_or(1.0)))
        });
        let mut hidden = Vec::new();
        for (address, state, health) in members.filter(|(address, ..)| !known.contains(&address)) {
            let reason = if health == 0.0 {
                "the set does not reach it".to_owned()
            } else if WITH_DATA.contains(&state) {
                hidden.push(WatchedServer { address, role: WatchedRole::Secondary, ..member.clone() });
                continue;
            } else {
                format!("its state is '{}'", state_name(state))
            };
            notes.push(format!("{address}, a hidden member, is not watched: {reason}"));
        }
        return hidden;
    }
    Vec::new()
}

/// Returns the shards that the first answering router lists, and a target for each.
fn shards(routers: &[WatchedServer], notes: &mut Vec<String>) -> Vec<(String, Target)> {
    let mut reason = "no router answers".to_owned();
    for router in routers {
        let mut link = ServerLink::new(0, router.address.clone(), &router.target);
        match link.ask_owned("config", &rawdoc! { "find": "shards" }) {
            Ok(reply) => return listed(&reply, &router.target, notes),
            Err(Refusal::Denied) => "the user may not read config.shards".clone_into(&mut reason),
            Err(Refusal::Lost(why) | Refusal::Failed(why)) => reason = why,
            Err(Refusal::Absent) => "config.shards is missing".clone_into(&mut reason),
        }
    }
    notes.push(format!(
        "the shards are not known ({reason}): only routers are watched, and nothing about storage can be found"
    ));
    Vec::new()
}

/// The documents of config.shards: `{_id: "sh1", host: "sh1/host:port,host:port"}`.
fn listed(reply: &RawDocument, target: &Target, notes: &mut Vec<String>) -> Vec<(String, Target)> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.into_iter().flatten().flatten().filter_map(|value| value.as_document());
    let mut shards = Vec::new();
    for document in documents {
        let name = document.get_str("_id").unwrap_or("without a name");
        match document.get_str("host").unwrap_or_default().parse::<AddressList>() {
            Ok(hosts) => {
                let mut target = Target { seed_list: None, direct_connection: false, ..target.clone() };
                target.addresses = hosts.addresses;
                target.replica_set = hosts.set;
                shards.push((name.to_owned(), target));
            }
            Err(error) => {
                notes.push(format!("shard {name} cannot be watched: config.shards is not read ({error})"));
            }
        }
    }
    shards
}

/// Asks a server for its process, its data directory and its log, and checks whether it runs on this host.
fn identify(watched: &mut WatchedServer, service: Option<ManagedService>, notes: &mut Vec<String>) {
    let mut link = ServerLink::new(watched.number, watched.address.clone(), &watched.target);
    let who = link.who();
    // The sampler of serverStatus reports what else a refusal costs.
    let status = match link.ask("admin", &server_status::lean()) {
        Ok(status) => Ok(number_at(status, &["pid"])),
        Err(Refusal::Lost(reason)) => {
            notes.push(format!(
                "{who} cannot be asked ({reason}): its counters are watched once it answers, its processor, disks and log are not"
            ));
            watched.is_silent = true;
            return;
        }
        Err(Refusal::Denied) => {
            Err("the user may not run serverStatus (the role clusterMonitor is enough)".to_owned())
        }
        Err(Refusal::Absent) => Err("it does not know serverStatus".to_owned()),
        Err(Refusal::Failed(reason)) => Err(format!("it refuses serverStatus ({reason})")),
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a process id")]
    let pid = status.as_ref().ok().copied().flatten().map(|pid| pid as u32).filter(|pid| *pid > 0);
    watched.pid = pid.filter(|pid| listens(*pid, watched.address.port));
    match link.ask("admin", &rawdoc! { "getCmdLineOpts": 1 }) {
        Ok(reply) => {
            let text = |section, field| {
                let parsed = reply.get_document("parsed").ok()?;
                parsed.get_document(section).ok()?.get_str(field).ok().map(PathBuf::from)
            };
            let own = |path: PathBuf| match watched.pid {
                Some(pid) => absolute(pid, &path),
                None => path,
            };
            let (dbpath, log) = (text("storage", "dbPath"), text("systemLog", "path"));
            (watched.dbpath, watched.log) = (dbpath.map(own), log.map(own));
        }
        Err(Refusal::Denied) => notes.push(format!(
            "{who}: the user may not run getCmdLineOpts (the role clusterMonitor is enough): where its data lies is not known, so \
             no disk is watched under it"
        )),
        Err(_) => {}
    }
    match status {
        // The limits of watching a service are noted once for all its servers.
        Ok(_) if watched.pid.is_none() && service.is_none() => notes.push(format!(
            "{who} does not run on this host, or in a container: its counters are watched, its processor, disks and kernel are not"
        )),
        Ok(_) => {}
        Err(reason) => notes.push(format!(
            "{who}: {reason}: whether it runs on this host is not known, so its processor, disks and kernel are not watched"
        )),
    }
}

/// Prefixes of the names of programs that speak MongoDB's protocol: used only if the kernel does not show which process owns
/// a socket.
const PROGRAMS: [&str; 3] = ["mongod", "mongos", "fathom"];

/// Returns whether process `pid` of this host listens on `port`.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let tables =
        ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(process.join(name)).unwrap_or_default());
    let listening: Vec<String> = tables.iter().flat_map(|table| sockets(table, port)).collect();
    if listening.is_empty() {
        return false;
    }
    match fs::read_dir(process.join("fd")) {
        Ok(files) => files.flatten().any(|file| {
            let link = fs::read_link(file.path()).unwrap_or_default();
            listening.iter().any(|socket| link == Path::new(socket))
        }),
        Err(_) => {
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
            let program = String::from_utf8_lossy(program);
            let program = program.rsplit('/').next().unwrap_or_default();
            PROGRAMS.iter().any(|name| program.starts_with(name))
        }
    }
}

/// The sockets of a table of TCP connections (proc(5), `/proc/net/tcp`) that listen on `port`, in the form of links to them.
fn sockets(table: &str, port: u16) -> impl Iterator<Item = String> {
    const LISTENING: &str = "0A";
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (_, local_port) = fields.next()?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let is_ours = u16::from_str_radix(local_port, 16).ok()? == port && state == LISTENING;
        let inode = fields.nth(5)?;
        is_ours.then(|| format!("socket:[{inode}]"))
    })
}

/// Makes a path absolute that process `pid` may have written relative to its starting directory.
pub(crate) fn absolute(pid: u32, path: &Path) -> PathBuf {
    if path.is_absolute() {
        return path.to_owned();
    }
    let directory = fs::read_link(Path::new("/proc").join(pid.to_string()).join("cwd")).unwrap_or_default();
    directory.join(path)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn shards_are_reached_by_what_the_cluster_says_of_them() {
        let reply = rawdoc! { "cursor": { "id": 0_i64, "ns": "config.shards", "firstBatch": [
            { "_id": "sh1", "host": "set1/a:1,b:2", "state": 1 },
            { "_id": "old", "host": "c:3" },
            { "_id": "odd", "host": "set3/" },
            { "host": 7 },
        ] } };
        let mut notes = Vec::new();
        let target: Target = "mongodb://user:secret@router:27017/?replicaSet=x".parse().unwrap();
        let found = listed(&reply, &target, &mut notes);
        let told: Vec<_> = found
            .iter()
            .map(|(name, target)| (name.as_str(), target.replica_set.as_deref(), target.addresses.len()))
            .collect();
        assert_eq!(told, [("sh1", Some("set1"), 2), ("old", None, 1)]);
        assert!(found.iter().all(|(_, target)| target.credential.is_some()));
        let [odd, nameless] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(odd.starts_with("shard odd cannot be watched: config.shards is not read ("), "{odd}");
        assert!(nameless.starts_with("shard without a name cannot be watched"), "{nameless}");
    }

    #[test]
    fn a_process_is_here_if_it_listens_on_the_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pid = std::process::id();
        assert!(listens(pid, port));
        assert!(!listens(1, port), "init does not listen there");
        drop(listener);
        assert!(!listens(pid, port));
    }

    #[test]
    fn tables_that_make_no_sense_name_no_socket() {
        let line =
            "  1: 0100007F:6989 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 4711 1 x\n";
        let table = format!("head\n{line}\n0: : :\n  2: x:zz\n");
        assert_eq!(sockets(&table, 27017).collect::<Vec<_>>(), ["socket:[4711]"]);
        assert_eq!(sockets(&table, 1).count(), 0);
    }
}
