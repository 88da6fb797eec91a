//! Checks configurations: the conditions on every configuration, and the further ones on a configuration that starts a set or
//! replaces another (mongodb/mongo:src/mongo/db/repl/repl_set_config.cpp, validate; repl_set_config_checks.cpp).

use std::time::Duration;

use fathom_wire::{Code, Failure};

use super::{MAX_MEMBERS, MAX_VOTING_MEMBERS, Member, ReplicaSetConfig, invalid};
use crate::write_concern::Waits;

impl ReplicaSetConfig {
    /// Fails with InvalidReplicaSetConfig and the first reason.
    pub fn validate(&self) -> Result<(), Failure> {
        if self.version <= 0 || self.version > i64::from(i32::MAX) {
            return Err(invalid(format!("version field value of {} is out of range", self.version)));
        }
        if self.name.is_empty() {
            return Err(invalid("Replica set configuration must have non-empty _id field"));
        }
        let count = self.members.len();
        if count == 0 || count > MAX_MEMBERS {
            return Err(invalid(format!(
                "Replica set configuration contains {count} members, but must have at least 1 and no more than {MAX_MEMBERS}"
            )));
        }
        self.members.iter().try_for_each(Member::validate)?;
        self.check_distinct()?;
        self.check_hosts()?;
        self.check_votes()?;
        self.check_default_write_concern()?;
        if self.protocol_version != 1 {
            return Err(invalid(format!(
                "protocolVersion field value of {} is not 1; protocol version 0 was removed in MongoDB 4.0",
                self.protocol_version
            )));
        }
        if self.config_server { self.check_config_server() } else { Ok(()) }
    }

    fn check_distinct(&self) -> Result<(), Failure> {
        for (first, a) in self.members.iter().enumerate() {
            for (second, b) in self.members.iter().enumerate().skip(first + 1) {
                let (field, value) = if a.id == b.id {
                    ("_id", a.id.to_string())
                } else if a.host == b.host {
                    ("host", a.host.to_string())
                } else {
                    continue;
                };
                return Err(invalid(format!(
                    "Found two member configurations with same {field} field, \
                     members.{first}.{field} == members.{second}.{field} == {value}"
                )));
            }
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), Failure> {
        let local = self.members.iter().filter(|member| member.host.is_localhost()).count();
        if local != 0 && local != self.members.len() {
            return Err(invalid(format!(
                "Either all host names in a replica set configuration must be localhost references, or none must be; \
                 found {local} out of {}",
                self.members.len()
            )));
        }
        Ok(())
    }

    fn check_votes(&self) -> Result<(), Failure> {
        let voters = self.voters();
        if voters == 0 || voters > MAX_VOTING_MEMBERS {
            return Err(invalid(format!(
                "Replica set configuration contains {voters} voting members, but must be at least 1 and no more than \
                 {MAX_VOTING_MEMBERS}"
            )));
        }
        if !self.members.iter().any(Member::is_electable) {
            return Err(invalid(
                "Replica set configuration must contain at least one non-arbiter member with priority > 0",
            ));
        }
        Ok(())
    }

    fn check_default_write_concern(&self) -> Result<(), Failure> {
        match &self.settings.default_write_concern.waits {
            Waits::Members(0) => Err(invalid("Default write concern mode must wait for at least 1 member")),
            Waits::Mode(mode) if self.mode(mode).is_err() => {
                Err(invalid(format!("Default write concern requires undefined write mode {mode}")))
            }
            _ => Ok(()),
        }
    }

    fn check_config_server(&self) -> Result<(), Failure> {
        let which = "replica set configurations being used for config servers";
        if self.members.iter().any(|member| member.arbiter) {
            return Err(invalid(format!("Arbiters are not allowed in {which}")));
        }
        if self.members.iter().any(|member| !member.build_indexes) {
            return Err(invalid(format!("Members in {which} must build indexes")));
        }
        if self.members.iter().any(|member| member.delay > Duration::ZERO) {
            return Err(invalid(format!("Members in {which} cannot have a non-zero slaveDelay")));
        }
        if !self.majority_journals {
            return Err(invalid(format!("writeConcernMajorityJournalDefault must be true in {which}")));
        }
        Ok(())
    }
}

/// Checks a configuration for `replSetInitiate` on a server that was started for the set `name`. The caller checks that the server
/// itself is in it exactly once. Fails with InvalidReplicaSetConfig.
pub fn check_initiate(config: &ReplicaSetConfig, name: &str) -> Result<(), Failure> {
    if config.name != name {
        return Err(invalid(format!(
            "Attempting to initiate a replica set with name {}, but command line reports {name}; rejecting",
            config.name
        )));
    }
    if config.settings.replica_set_id.is_some() {
        return Err(invalid(
            "replica set configuration cannot contain 'replicaSetId' field when called from replSetInitiate",
        ));
    }
    config.validate()?;
    if config.version != 1 {
        return Err(invalid(format!(
            "Configuration used to initiate a replica set must have version 1, but found {}",
            config.version
        )));
    }
    Ok(())
}

/// Checks a configuration for `replSetReconfig` that replaces another. With `force`, the caller raises the version.
/// Fails with NewReplicaSetConfigurationIncompatible.
pub fn check_reconfig(old: &ReplicaSetConfig, new: &ReplicaSetConfig, force: bool) -> Result<(), Failure> {
    new.validate().map_err(|failure| incompatible(failure.message().to_owned()))?;
    if old.name != new.name {
        return Err(incompatible(format!(
            "New and old configurations differ in replica set name; old was {}, and new is {}",
            old.name, new.name
        )));
    }
    if old.settings.replica_set_id != new.settings.replica_set_id && old.settings.replica_set_id.is_some() {
        let text = |config: &ReplicaSetConfig| {
            config.settings.replica_set_id.map_or_else(|| "none".to_owned(), bson::oid::ObjectId::to_hex)
        };
        return Err(incompatible(format!(
            "New and old configurations differ in replica set ID; old was {}, and new is {}",
            text(old),
            text(new)
        )));
    }
    match (old.config_server, new.config_server) {
        (true, false) => {
            return Err(incompatible(
                "Cannot remove \"configsvr\" from replica set configuration on reconfig",
            ));
        }
        (false, true) => {
            return Err(incompatible("Cannot add \"configsvr\" to replica set configuration on reconfig"));
        }
        _ => {}
    }
    if !force && new.version <= old.version {
        return Err(incompatible(format!(
            "New replica set configuration version must be greater than old, but {} is not greater than {} for replica set {}",
            new.version, old.version, new.name
        )));
    }
    old.members.iter().try_for_each(|member| check_member(member, new))
}

/// Whether the member at an index is electable, as the member that runs `replSetReconfig` must be. Fails with NodeNotElectable.
pub fn check_electable(config: &ReplicaSetConfig, index: usize) -> Result<(), Failure> {
    match config.members.get(index) {
        Some(member) if member.is_electable() => Ok(()),
        Some(member) => Err(Failure::new(
            Code::NodeNotElectable,
            format!(
                "This node, {}, with _id {} is not electable under the new configuration version {} for replica set {}",
                member.host, member.id, config.version, config.name
            ),
        )),
        None => Err(Failure::new(Code::NodeNotFound, "This node is not in the new configuration")),
    }
}

fn check_member(old: &Member, config: &ReplicaSetConfig) -> Result<(), Failure> {
    if let Some(new) = config.members.iter().find(|new| new.host == old.host && new.id != old.id) {
        return Err(incompatible(format!(
            "New and old configurations both have members with host of {} but in the new configuration the _id field is {} \
             and in the old configuration it is {} for replica set {}",
            old.host, new.id, old.id, config.name
        )));
    }
    let Some(new) = config.members.iter().find(|new| new.id == old.id && new.host == old.host) else {
        return Ok(());
    };
    let changed = if new.build_indexes != old.build_indexes {
        "buildIndexes"
    } else if new.arbiter != old.arbiter {
        "arbiterOnly"
    } else {
        return Ok(());
    };
    Err(incompatible(format!(
        "New and old configurations differ in the setting of the {changed} field for member {}; \
         to make this change, remove then re-add the member",
        old.host
    )))
}

fn incompatible(reason: impl Into<std::borrow::Cow<'static, str>>) -> Failure {
    Failure::new(Code::NewReplicaSetConfigurationIncompatible, reason)
}
