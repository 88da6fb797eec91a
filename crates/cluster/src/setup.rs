//! Sets up running servers as sets and a sharded cluster: initiates sets, adds shards and users, shards collections.
//!
//! Each step first checks whether it was already done, so that an interrupted `init` can be repeated. A permanent refusal by a
//! server is reported at once; a temporary one (members that start, an election) is retried until the time limit.

use std::thread;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use fathom_client::Role;
use fathom_errors::{Error, Kind, Result};
use fathom_process::Signals;

use crate::contact::{Contact, Hello};
use crate::layout::{Node, Purpose};
use crate::set_config::{initiate, seed_list};
use crate::topology::{Auth, ReplicaSet, Topology};
use crate::version::Version;
use crate::wait::WaitLimit;

/// MongoDB's codes for steps that were already done, and for temporary failures.
const ALREADY_INITIALIZED: i32 = 23;
const USER_EXISTS: i32 = 51003;
const MAY_COME_TRUE: [i32; 12] = [6, 7, 74, 89, 91, 94, 107, 133, 189, 10107, 11602, 13435];
/// The first version in which a shard with arbiters requires a default write concern.
const DEFAULT_WRITE_CONCERN: Version = Version::release(5, 0);

/// The time after which a member that was not elected is asked to run again.
const STEP_UP_INTERVAL: Duration = Duration::from_secs(2);

/// A cluster that is being set up.
#[derive(Clone, Copy)]
pub(crate) struct ClusterSetup<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) nodes: &'a [Node],
    pub(crate) versions: &'a [Version],
    pub(crate) contact: &'a Contact,
    pub(crate) until: Instant,
    pub(crate) signals: &'a Signals,
}

impl ClusterSetup<'_> {
    /// Initiates all sets, at once.
    pub(crate) fn sets(&self) -> Result<()> {
        let sets = self.topology.sets();
        let done: Vec<Result<()>> = thread::scope(|scope| {
            let all: Vec<_> = sets.iter().map(|set| scope.spawn(move || self.set(set))).collect();
            let broken = || Err(Error::new(Kind::Stopped, "a thread that initiates a set has broken"));
            all.into_iter().map(|one| one.join().unwrap_or_else(|_| broken())).collect()
        });
        done.into_iter().collect()
    }

    /// Initiates one set, and waits until it has a primary and all members have their intended roles.
    fn set(&self, set: &ReplicaSet) -> Result<()> {
        let members = self.members(set);
        let electable =
            set.members.iter().zip(&members).find(|(one, _)| !one.arbiter && one.priority != Some(0.0));
        let Some((_, first)) = electable else {
            return Err(Error::usage(format!("no member of the set '{}' can become primary", set.name)));
        };
        let found = self
            .patience(format!("{} does not say what it is", first.title()))
            .until(|| self.contact.hello(first).map_err(Error::from))?;
        match &found.set {
            Some(other) if *other != set.name => {
                let what =
                    format!("{} belongs to the set '{other}', and not to '{}'", first.title(), set.name);
                return Err(Error::new(Kind::NotOurs, what));
            }
            Some(_) => {}
            None if found.role == Role::Standalone => {
                let what =
                    format!("{} cannot be a member of a set: its server does not replicate", first.title());
                return Err(Error::new(Kind::Unsupported, what));
            }
            None => self.initiate(set, &members, first)?,
        }
        self.settle(set, &members)
    }

    fn initiate(&self, set: &ReplicaSet, members: &[&Node], first: &Node) -> Result<()> {
        let config = initiate(set, members, &self.topology.host, self.version(first));
        let command = doc! { "replSetInitiate": config };
        let what = format!("the set '{}' cannot be initiated", set.name);
        self.command(first, "admin", &command, &what, &[ALREADY_INITIALIZED])
    }

    /// Waits until a set has a primary among these members, and all of them have their intended roles.
    pub(crate) fn settle(&self, set: &ReplicaSet, members: &[&Node]) -> Result<()> {
        let mut asked: Option<Instant> = None;
        self.patience(format!("the set '{}' is not ready", set.name)).until(|| {
            let hellos = self.contact.hellos(members);
            if !hellos.iter().flatten().any(|hello| hello.role == Role::Primary) {
                if asked.is_none_or(|at| at.elapsed() >= STEP_UP_INTERVAL) {
                    self.elect(set, members, &hellos);
                    asked = Some(Instant::now());
                }
                return Err(Error::new(Kind::Busy, "it has no primary"));
            }
            let settled = |hello: &Option<Hello>| hello.as_ref().is_some_and(|hello| hello.has_settled);
            let late = members.iter().zip(&hellos).find(|(_, hello)| !settled(hello));
            late.map_or(Ok(()), |(node, _)| {
                Err(Error::new(Kind::Busy, format!("{} is not ready", node.title())))
            })
        })
    }

    /// Makes the member of the highest priority call an election at once, since by itself it would wait for the election time-out
    /// of ten seconds. If that fails, the time-out applies.
    fn elect(&self, set: &ReplicaSet, members: &[&Node], hellos: &[Option<Hello>]) {
        let of_set = self.members(set);
        let priority = |node: &Node| {
            let place = of_set.iter().position(|member| member.port == node.port);
            place
                .and_then(|at| set.members.get(at))
                .filter(|member| !member.arbiter)
                .map_or(0.0, |member| member.priority.unwrap_or(1.0))
        };
        let is_secondary =
            |hello: &Option<Hello>| hello.as_ref().is_some_and(|hello| hello.role == Role::Secondary);
        let ready =
            members.iter().zip(hellos).filter(|(_, hello)| is_secondary(hello)).map(|(node, _)| *node);
        let mut best: Option<&Node> = None;
        for node in ready.filter(|node| priority(node) > 0.0) {
            // Of members with equal priority the first, in the order of ports.
            if best.is_none_or(|before| priority(node) > priority(before)) {
                best = Some(node);
            }
        }
        if let Some(node) = best {
            let _ = self.contact.admin(node, &doc! { "replSetStepUp": 1 });
        }
    }

    /// Adds the shards that are not in the cluster yet.
    pub(crate) fn shards(&self) -> Result<()> {
        let Some(router) = self.nodes.iter().find(|node| node.purpose == Purpose::Router) else {
            return Ok(());
        };
        let listed = self
            .patience("the shards cannot be listed".to_owned())
            .until(|| self.contact.admin(router, &doc! { "listShards": 1 }).map_err(Error::from))?;
        let there = |name: &str| {
            let shards = listed.get_array("shards").into_iter().flatten();
            shards.filter_map(Bson::as_document).any(|shard| shard.get_str("_id").is_ok_and(|id| id == name))
        };
        let shards: Vec<&ReplicaSet> =
            self.topology.sets().into_iter().filter(|set| self.is_shard(set)).collect();
        let has_arbiters = shards.iter().any(|shard| shard.members.iter().any(|member| member.arbiter));
        if has_arbiters && self.version(router) >= DEFAULT_WRITE_CONCERN {
            let command = doc! { "setDefaultRWConcern": 1, "defaultWriteConcern": { "w": 1 } };
            self.command(router, "admin", &command, "the default write concern cannot be set", &[])?;
        }
        for shard in shards.iter().filter(|shard| !there(&shard.name)) {
            let host = seed_list(&shard.name, self.nodes, &self.topology.host);
            let command = doc! { "addShard": host, "name": &shard.name };
            self.command(
                router,
                "admin",
                &command,
                &format!("the shard '{}' cannot be added", shard.name),
                &[],
            )?;
        }
        Ok(())
    }

    /// Shards the collections that the topology lists.
    pub(crate) fn collections(&self) -> Result<()> {
        let Some(router) = self.nodes.iter().find(|node| node.purpose == Purpose::Router) else {
            return Ok(());
        };
        for collection in &self.topology.collections {
            let namespace = &collection.namespace;
            let database = namespace.split('.').next().unwrap_or_default();
            let what = format!("{namespace} cannot be sharded");
            self.command(
                router,
                "admin",
                &doc! { "enableSharding": database },
                &what,
                &[ALREADY_INITIALIZED],
            )?;
            let mut command = doc! { "shardCollection": namespace, "key": collection.key.clone() };
            if collection.unique {
                command.insert("unique", true);
            }
            if let Some(chunks) = collection.chunks {
                command.insert("numInitialChunks", i64::from(chunks));
            }
            self.command(router, "admin", &command, &what, &[])?;
        }
        Ok(())
    }

    /// Creates the user: on the server, the set, or the router and every shard.
    pub(crate) fn users(&self, auth: &Auth, password: &str) -> Result<()> {
        let Some(user) = &auth.user else { return Ok(()) };
        let mut command = doc! { "createUser": user };
        if auth.database != "$external" {
            command.insert("pwd", password);
        }
        command.insert("roles", auth.roles.clone());
        let mut nodes: Vec<&Node> = self
            .nodes
            .iter()
            .filter(|node| matches!(node.purpose, Purpose::Single | Purpose::Router))
            .take(1)
            .collect();
        for set in self
            .topology
            .sets()
            .into_iter()
            .filter(|set| self.is_shard(set) || self.nodes.iter().all(Node::is_mongod))
        {
            nodes.push(self.primary(set)?);
        }
        for node in nodes {
            let what = format!("the user '{user}' cannot be made on {}", node.title());
            self.command(node, &auth.database, &command, &what, &[USER_EXISTS])?;
        }
        self.copied(user, &auth.database)
    }

    /// Waits until every server has the user that its set took. A majority acknowledges the user, while the other members refuse the login
    /// still, and the printed connection string names them too. A delayed member is not waited for: it has the user after its delay.
    fn copied(&self, user: &str, database: &str) -> Result<()> {
        let question = doc! {
            "usersInfo": { "user": user, "db": database },
            "$readPreference": { "mode": "primaryPreferred" },
        };
        for node in
            self.nodes.iter().filter(|node| node.purpose != Purpose::Arbiter && !self.is_delayed(node))
        {
            let what = format!("{} does not have the user '{user}'", node.title());
            self.command_until(node, "admin", &question, &what, &[], |reply| {
                let has_user = reply.get_array("users").is_ok_and(|users| !users.is_empty());
                if has_user {
                    Ok(())
                } else {
                    Err(Error::new(Kind::Busy, "its set has not copied it there yet"))
                }
            })?;
        }
        Ok(())
    }

    fn is_delayed(&self, node: &Node) -> bool {
        self.topology.sets().into_iter().any(|set| {
            let mut members = set.members.iter().zip(self.members(set));
            members
                .any(|(one, member)| member.port == node.port && one.delay_secs.is_some_and(|secs| secs > 0))
        })
    }

    fn primary(&self, set: &ReplicaSet) -> Result<&Node> {
        let members = self.members(set);
        self.patience(format!("the set '{}' has no primary", set.name)).until(|| {
            let hellos = self.contact.hellos(&members);
            let primary = members
                .iter()
                .zip(&hellos)
                .find(|(_, hello)| hello.as_ref().is_some_and(|hello| hello.role == Role::Primary));
            primary.map(|(node, _)| *node).ok_or_else(|| Error::new(Kind::Busy, "no member was elected"))
        })
    }

    /// Runs a command until it succeeds or was already done; fails at once if waiting does not help.
    fn command(
        &self,
        node: &Node,
        database: &str,
        command: &Document,
        what: &str,
        done: &[i32],
    ) -> Result<()> {
        self.command_until(node, database, command, what, done, |_| Ok(()))
    }

    /// As [`ClusterSetup::command`], until its reply is also the one that is waited for.
    fn command_until(
        &self,
        node: &Node,
        database: &str,
        command: &Document,
        what: &str,
        done: &[i32],
        check: impl Fn(&Document) -> Result<()>,
    ) -> Result<()> {
        let mut final_error = None;
        let result =
            self.patience(what.to_owned()).until(|| match self.contact.run(node, database, command) {
                Ok(reply) => check(&reply),
                Err(fathom_client::Error::Server(failure)) if done.contains(&failure.code().0) => Ok(()),
                Err(fathom_client::Error::Server(failure)) if !MAY_COME_TRUE.contains(&failure.code().0) => {
                    let why =
                        format!("{} refuses: {}", node.title(), failure.message().trim_end_matches('.'));
                    final_error = Some(Error::new(Kind::Unsupported, what.to_owned()).because(why));
                    Ok(())
                }
                Err(error) => Err(error.into()),
            });
        final_error.map_or(result, Err)
    }

    fn members(&self, set: &ReplicaSet) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.set.as_ref() == Some(&set.name)).collect()
    }

    fn is_shard(&self, set: &ReplicaSet) -> bool {
        self.nodes.iter().any(|node| node.in_shard && node.set.as_ref() == Some(&set.name))
    }

    fn version(&self, node: &Node) -> Version {
        let place = self.nodes.iter().position(|other| other.port == node.port);
        place.and_then(|at| self.versions.get(at).copied()).unwrap_or(Version::release(4, 4))
    }

    fn patience(&self, what: String) -> WaitLimit<'_> {
        WaitLimit { what, until: self.until, signals: self.signals }
    }
}
