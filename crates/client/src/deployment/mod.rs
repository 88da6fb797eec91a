//! The deployment behind a connection string: one server, a replica set, or routers of a sharded cluster.
//!
//! Discovery runs only on request, by [`Deployment::discover`] and again by [`Deployment::rediscover`] after a failover; no thread
//! monitors in between, so the measuring program decides when to look. A password is tried once at discovery, so that a wrong one
//! is reported before a load begins.

mod description;
mod read_preference;
mod survey;
mod topology;

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use fathom_errors::{Error, Kind, Result};

pub use description::{DeploymentKind, DeploymentServer, Role};
pub use read_preference::{ReadMode, ReadPreference};

use crate::tls::client_config;
use crate::{Address, Connection, NameService, Target};
use description::ElectionRank;
use survey::SurveyEnd;
use topology::DeploymentTopology;

/// The servers behind a connection string.
#[derive(Clone, Debug)]
pub struct Deployment {
    target: Target,
    seeds: Vec<Address>,
    kind: DeploymentKind,
    members: Vec<DeploymentServer>,
    strangers: Vec<DeploymentServer>,
    newest: Option<ElectionRank>,
}

impl Deployment {
    /// Discovers the deployment, resolving a seed list first, and tries the password, all within `connectTimeoutMS`. A set without
    /// a primary is no error: see [`Deployment::writable`].
    pub fn discover(target: &Target) -> Result<Deployment> {
        Deployment::discover_by(target, &NameService::system())
    }

    /// As [`Deployment::discover`], with another name service for `mongodb+srv://`.
    pub fn discover_by(target: &Target, names: &NameService) -> Result<Deployment> {
        let deadline = Instant::now() + target.connect_timeout;
        // Unusable TLS files are reported before any server is asked.
        target.tls.as_ref().map(client_config).transpose()?;
        let mut target = target.resolve_by(names)?;
        let mut seeds: Vec<Address> = Vec::new();
        for seed in target.addresses.drain(..).map(description::normal) {
            if !seeds.contains(&seed) {
                seeds.push(seed);
            }
        }
        target.addresses.clone_from(&seeds);
        let mut newest = None;
        let answers = survey::survey(&target, &seeds, SurveyEnd::Writable, deadline);
        let DeploymentTopology { kind, members, strangers } =
            topology::conclude(&target, &seeds, &answers, &mut newest)?;
        if let DeploymentKind::ReplicaSet { name } = &kind {
            target.replica_set = Some(name.clone());
        }
        let deployment = Deployment { target, seeds, kind, members, strangers, newest };
        deployment.try_login(deadline)?;
        Ok(deployment)
    }

    /// Asks all servers known so far, and those that they name, within `connectTimeoutMS`, and mostly within a second after the
    /// first answer: one look, to be repeated while an election lasts. A deposed primary that has not noticed yet is ignored. If no
    /// server answers, the call fails and the state stays unchanged.
    pub fn rediscover(&mut self) -> Result<()> {
        let mut ask: Vec<Address> = self.members.iter().map(|member| member.address.clone()).collect();
        ask.extend(self.seeds.iter().filter(|seed| !ask.contains(seed)).cloned().collect::<Vec<_>>());
        let deadline = Instant::now() + self.target.connect_timeout;
        let answers = survey::survey(&self.target, &ask, SurveyEnd::Anybody, deadline);
        let mut newest = self.newest;
        let found = topology::conclude(&self.target, &ask, &answers, &mut newest)?;
        (self.kind, self.members, self.newest) = (found.kind, found.members, newest);
        Ok(())
    }

    /// The kind of the deployment.
    pub fn kind(&self) -> &DeploymentKind {
        &self.kind
    }

    /// All servers that belong to it, including those that did not answer.
    pub fn members(&self) -> &[DeploymentServer] {
        &self.members
    }

    /// The servers that the target named at discovery and that do not belong to the deployment, each with its fault.
    pub fn strangers(&self) -> &[DeploymentServer] {
        &self.strangers
    }

    /// The target for [`Connection::open`]: its seed list is resolved and its replica set named.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The primary of a replica set, if it has one now.
    pub fn primary(&self) -> Option<&DeploymentServer> {
        self.members.iter().find(|member| member.role == Role::Primary)
    }

    /// The servers that accept writes: the server, the primary, or all routers that answered. Never empty.
    pub fn writable(&self) -> Result<Vec<Address>> {
        let found: Vec<Address> = match self.kind {
            DeploymentKind::ReplicaSet { .. } => {
                self.primary().into_iter().map(|it| it.address.clone()).collect()
            }
            _ => self.members.iter().filter(|it| it.role.holds_data()).map(|it| it.address.clone()).collect(),
        };
        if found.is_empty() { Err(self.nobody("takes writes")) } else { Ok(found) }
    }

    /// The servers that answer reads of this preference, the nearest first. Never empty. Routers choose among the members of their
    /// shards themselves, so all routers qualify; and `directConnection=true` leaves no choice.
    pub fn readable(&self, preference: &ReadPreference) -> Result<Vec<Address>> {
        let is_set = matches!(self.kind, DeploymentKind::ReplicaSet { .. });
        let found: Vec<&DeploymentServer> = if is_set && !self.target.direct_connection {
            preference.choose(&self.members)
        } else {
            self.members.iter().filter(|member| member.role.holds_data()).collect()
        };
        if found.is_empty() {
            let tags = if preference.tag_sets.is_empty() { "" } else { " with its tags" };
            return Err(self.nobody(&format!("fits the read preference {}{tags}", preference.mode.name())));
        }
        Ok(found.into_iter().map(|member| member.address.clone()).collect())
    }

    /// The error that no member qualifies, with the state of each.
    fn nobody(&self, purpose: &str) -> Error {
        let one = |member: &DeploymentServer| match &member.fault {
            Some(fault) if fault.contains(&member.address.to_string()) => fault.clone(),
            Some(fault) => format!("{}: {fault}", member.address),
            None => format!("{} is {}", member.address, member.role.name()),
        };
        let all = self.members.iter().map(one).collect::<Vec<_>>().join("; ");
        let whose = match &self.kind {
            DeploymentKind::ReplicaSet { name } => format!("no member of the replica set '{name}'"),
            _ => "no server".to_owned(),
        };
        let error = Error::new(Kind::NotFound, format!("{whose} {purpose} now: {all}"));
        if self.target.direct_connection {
            error.advise("leave out directConnection=true to use the other members too")
        } else if self.members.iter().any(|member| !member.is_resolvable) {
            error.advise(
                "make the members' names known to this machine, or name one and add directConnection=true",
            )
        } else {
            error
        }
    }

    /// Logs in at the server that the first commands would use.
    fn try_login(&self, deadline: Instant) -> Result<()> {
        let Some(credential) = &self.target.credential else { return Ok(()) };
        let nearest = || self.readable(&ReadMode::Nearest.into());
        // Without a data-bearing member there is no server to ask.
        let Ok(addresses) = self.writable().or_else(|_| nearest()) else { return Ok(()) };
        let Some(address) = addresses.into_iter().next() else { return Ok(()) };
        let (sender, receiver) = mpsc::channel();
        let (target, asked) = (self.target.clone(), address.clone());
        let spawned = thread::Builder::new().name("login".to_owned()).spawn(move || {
            // The receiver is already dropped if this comes late.
            let _ = sender.send(Connection::open(&asked, &target).map(drop));
        });
        spawned.map_err(|cause| Error::new(Kind::Io, "cannot log in for want of a thread").because(cause))?;
        match survey::next(&receiver, deadline) {
            Some(Ok(())) => Ok(()),
            Some(Err(crate::Error::Network(error))) => Err(error),
            Some(Err(crate::Error::Server(failure))) => {
                let (user, source) = (&credential.user, &credential.source);
                // A server's message may be a complete sentence with a full stop.
                let reason = failure.message().trim_end_matches('.');
                let what = format!(
                    "{address} does not let in the user '{user}' of the database '{source}': {reason}"
                );
                let advice = "check the user, the password and authSource";
                Err(Error::new(Kind::Permission, what).with_id("login-refused").advise(advice))
            }
            None => {
                let timeout = self.target.connect_timeout;
                Err(Error::new(Kind::Io, format!("{address} did not finish the login within {timeout:?}")))
            }
        }
    }
}
