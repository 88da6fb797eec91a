//! What every configuration must be, whoever brings it (mongodb/mongo:src/mongo/db/repl/repl_set_config.cpp, validate).

use std::time::Duration;

use fathom_wire::Failure;

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
