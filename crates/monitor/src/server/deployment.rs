//! From a connection string to the servers that are watched: every member of a set that holds data, and behind routers those
//! of every shard that can be reached.
//!
//! They are numbered from 0: primaries and single servers first, then the other members, routers last. A server that cannot
//! be watched leaves a note with what that costs, never an error, as long as one is left.

use std::path::PathBuf;

use bson::{RawDocument, rawdoc};
use fathom_client::{Address, Deployment, DeploymentKind, Role, Target};
use fathom_errors::Result;

use super::collection::number_at;
use super::link::{Link, Refusal};
use super::{here, server_status};

/// What a watched server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchedRole {
    /// A server by itself.
    Standalone,
    /// The member that took writes when the run began.
    Primary,
    /// Another member that holds data.
    Secondary,
    /// A mongos.
    Router,
}

impl WatchedRole {
    /// As it stands in facts.
    pub fn name(self) -> &'static str {
        match self {
            WatchedRole::Standalone => "standalone",
            WatchedRole::Primary => "primary",
            WatchedRole::Secondary => "secondary",
            WatchedRole::Router => "router",
        }
    }

    /// Whether it has a storage engine.
    pub fn has_engine(self) -> bool {
        self != WatchedRole::Router
    }
}

/// A server that is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its number in the run: `server.{number}`.
    pub number: usize,
    /// Where it is, under the name that its set has for it.
    pub address: Address,
    /// What it is.
    pub role: WatchedRole,
    /// The replica set it belongs to.
    pub set: Option<String>,
    /// The shard it belongs to.
    pub shard: Option<String>,
    /// Whether it did not answer when the servers were looked for; a set names it all the same.
    pub is_silent: bool,
    /// Its process, if it runs on this host.
    pub pid: Option<u32>,
    /// Its data directory as it says; a path of this host if there is a `pid`.
    pub dbpath: Option<PathBuf>,
    /// Its log as it says; a path of this host if there is a `pid`.
    pub log: Option<PathBuf>,
    /// What to connect with.
    pub(crate) target: Target,
}

/// The servers of a deployment.
#[derive(Clone, Debug)]
pub struct Servers {
    /// Those that are watched, by their numbers.
    pub watched: Vec<Watched>,
    /// What cannot be watched and what that costs, a sentence each.
    pub notes: Vec<String>,
}

impl Servers {
    /// Asks the servers that `target` names who there is; the first that is found gets the number `first`.
    ///
    /// # Errors
    /// When none of them answers, or they let our user in nowhere.
    pub fn find(target: &Target, first: usize) -> Result<Servers> {
        let deployment = Deployment::discover(target)?;
        let mut notes = Vec::new();
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
                identify(watched, &mut notes);
            }
        }
        Ok(Servers { watched: found, notes })
    }
}

/// The members that hold data, or the routers, unnumbered.
fn members(deployment: &Deployment, shard: Option<&str>, notes: &mut Vec<String>) -> Vec<Watched> {
    let set = match deployment.kind() {
        DeploymentKind::ReplicaSet { name } => Some(name.clone()),
        _ => None,
    };
    let mut found = Vec::new();
    for member in deployment.members() {
        let role = match member.role {
            Role::Standalone => WatchedRole::Standalone,
            Role::Primary => WatchedRole::Primary,
            Role::Secondary | Role::Other => WatchedRole::Secondary,
            Role::Router => WatchedRole::Router,
            Role::Arbiter | Role::Uninitiated => continue,
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
        found.push(Watched {
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

/// Members that hold data and that no client is told of; the first member that answers knows them.
fn hidden(found: &[Watched], known: &[&Address], notes: &mut Vec<String>) -> Vec<Watched> {
    /// The states of a member that holds data: secondary, recovering, first copy under way, rollback.
    const WITH_DATA: [f64; 4] = [2.0, 3.0, 5.0, 9.0];
    for member in found.iter().filter(|member| !member.is_silent) {
        let mut link = Link::new(0, member.address.clone(), &member.target);
        // What is wrong with the command the set's sampler says.
        let Ok(status) = link.ask("admin", &rawdoc! { "replSetGetStatus": 1 }) else { continue };
        let members = status.get_array("members").into_iter().flatten().flatten();
        let members = members.filter_map(|value| value.as_document()).filter_map(|one| {
            let address: Address = one.get_str("name").ok()?.parse().ok()?;
            Some((address, number_at(one, &["state"])?, number_at(one, &["health"]).unwrap_or(1.0)))
        });
        let mut hidden = Vec::new();
        for (address, state, health) in members.filter(|(address, ..)| !known.contains(&address)) {
            if health == 0.0 {
                notes.push(format!("{address}, a hidden member, is not watched: the set does not reach it"));
            } else if WITH_DATA.contains(&state) {
                hidden.push(Watched { address, role: WatchedRole::Secondary, ..member.clone() });
            }
        }
        return hidden;
    }
    Vec::new()
}

/// The shards that the first router which answers knows, and how to reach each.
fn shards(routers: &[Watched], notes: &mut Vec<String>) -> Vec<(String, Target)> {
    let mut reason = "no router answers".to_owned();
    for router in routers {
        let mut link = Link::new(0, router.address.clone(), &router.target);
        match link.ask_owned("config", &rawdoc! { "find": "shards" }) {
            Ok(reply) => return listed(&reply, &router.target),
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
fn listed(reply: &RawDocument, target: &Target) -> Vec<(String, Target)> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.into_iter().flatten().flatten().filter_map(|value| value.as_document());
    let shard = |document: &RawDocument| {
        let name = document.get_str("_id").ok()?.to_owned();
        let host = document.get_str("host").ok()?;
        let (set, hosts) = host.split_once('/').map_or((None, host), |(set, hosts)| (Some(set), hosts));
        let mut target = target.clone();
        target.addresses = hosts.split(',').filter_map(|address| address.parse().ok()).collect();
        target.replica_set = set.map(str::to_owned);
        target.seed_list = None;
        target.direct_connection = false;
        (!target.addresses.is_empty()).then_some((name, target))
    };
    documents.filter_map(shard).collect()
}

/// Asks a server for its process, its data directory and its log, and looks whether it is on this host.
fn identify(watched: &mut Watched, notes: &mut Vec<String>) {
    let mut link = Link::new(watched.number, watched.address.clone(), &watched.target);
    let status = link.ask("admin", &server_status::lean());
    // What is wrong with serverStatus its sampler says.
    let pid = status.ok().and_then(|status| number_at(status, &["pid"]));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a process id")]
    let pid = pid.map(|pid| pid as u32).filter(|pid| *pid > 0);
    watched.pid = pid.filter(|pid| here::listens(*pid, watched.address.port));
    let who = link.who();
    match link.ask("admin", &rawdoc! { "getCmdLineOpts": 1 }) {
        Ok(reply) => {
            let text = |section, field| {
                let parsed = reply.get_document("parsed").ok()?;
                parsed.get_document(section).ok()?.get_str(field).ok().map(PathBuf::from)
            };
            let own = |path: PathBuf| match watched.pid {
                Some(pid) => here::absolute(pid, &path),
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
    if watched.pid.is_none() {
        notes.push(format!(
            "{who} does not run on this host, or in a container: its counters are watched, its processor, disks and kernel are not"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_reached_by_what_the_cluster_says_of_them() {
        let reply = rawdoc! { "cursor": { "id": 0_i64, "ns": "config.shards", "firstBatch": [
            { "_id": "sh1", "host": "set1/a:1,b:2", "state": 1 },
            { "_id": "old", "host": "c:3" },
            { "_id": "odd", "host": "set3/" },
            { "host": 7 },
        ] } };
        let target: Target = "mongodb://user:secret@router:27017/?replicaSet=x".parse().unwrap();
        let found = listed(&reply, &target);
        let told: Vec<_> = found
            .iter()
            .map(|(name, target)| (name.as_str(), target.replica_set.as_deref(), target.addresses.len()))
            .collect();
        assert_eq!(told, [("sh1", Some("set1"), 2), ("old", None, 1)]);
        assert!(found.iter().all(|(_, target)| target.credential.is_some()));
    }
}
