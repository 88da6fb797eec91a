//! What `hello` says of the set (mongodb/mongo:src/mongo/db/repl/is_master_response.cpp).

use bson::oid::ObjectId;
use bson::{Bson, Document, doc};

use super::{Coordinator, Role};
use crate::config::Member;
use crate::fields;
use crate::member_state::MemberState;
use crate::optime::OpTime;

/// `electionId` of a term: drivers compare these to tell an old primary from a new one (mongodb/mongo:src/mongo/bson/oid.cpp, fromTerm).
pub fn election_id(term: i64) -> ObjectId {
    let mut bytes = [0; 12];
    let (mark, number) = bytes.split_at_mut(4);
    mark.copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    number.copy_from_slice(&term.to_be_bytes());
    ObjectId::from_bytes(bytes)
}

impl Coordinator {
    /// The fields of a set in `hello`, `isMaster` and `serverStatus.repl`, in mongod's order. `primary_field` is `isWritablePrimary`
    /// or `ismaster`. A primary that may not write yet, or not any more, shows as a secondary. `majority` is the newest entry that
    /// majority reads see, once they see any.
    pub fn hello_fields(&self, primary_field: &str, majority: Option<OpTime>) -> Document {
        let state = self.state();
        let (Some(config), Some(own)) = (&self.config, self.own_member()) else {
            return self.no_config_fields(primary_field);
        };
        if state == MemberState::Removed {
            return self.no_config_fields(primary_field);
        }
        let mut fields = Document::new();
        let shown = || config.members.iter().filter(|member| !member.hidden && member.delay.is_zero());
        let mut list = |name: &str, which: &dyn Fn(&Member) -> bool| {
            let hosts: Vec<Bson> =
                shown().filter(|member| which(member)).map(|member| member.host.as_str().into()).collect();
            if !hosts.is_empty() {
                fields.insert(name, hosts);
            }
        };
        list("hosts", &Member::is_electable);
        list("passives", &|member| !member.is_electable() && !member.arbiter);
        list("arbiters", &|member| member.arbiter);
        let writable = self.can_accept_writes();
        fields.insert("setName", &config.name);
        fields.insert("setVersion", fields::int_or_long(config.version));
        fields.insert(primary_field, writable);
        fields.insert(
            "secondary",
            state == MemberState::Secondary || (state == MemberState::Primary && !writable),
        );
        if let Some(primary) = self.primary() {
            fields.insert("primary", primary.as_str());
        }
        self.own_fields(own, &mut fields);
        fields.insert("me", own.host.as_str());
        if matches!(self.role, Role::Leader(_)) {
            fields.insert("electionId", election_id(self.term));
        }
        let mut last =
            doc! { "opTime": self.own.applied.to_document(), "lastWriteDate": self.own.applied.date() };
        if let Some(majority) = majority {
            last.insert("majorityOpTime", majority.to_document());
            last.insert("majorityWriteDate", majority.date());
        }
        fields.insert("lastWrite", last);
        fields
    }

    /// What sets this member apart.
    fn own_fields(&self, own: &Member, fields: &mut Document) {
        if own.arbiter {
            fields.insert("arbiterOnly", true);
        } else if own.priority == 0.0 {
            fields.insert("passive", true);
        }
        if own.hidden {
            fields.insert("hidden", true);
        }
        if !own.build_indexes {
            fields.insert("buildIndexes", false);
        }
        if !own.delay.is_zero() {
            fields.insert("slaveDelay", fields::int_or_long(fields::seconds(own.delay)));
        }
        if !own.tags.is_empty() {
            fields.insert("tags", own.tags_document());
        }
    }

    /// A member of no set says so; drivers call it a ghost.
    fn no_config_fields(&self, primary_field: &str) -> Document {
        let mut fields = Document::new();
        if let Some(config) = &self.config {
            fields.insert("setName", &config.name);
        }
        fields.insert(primary_field, false);
        fields.insert("secondary", false);
        fields.insert("info", "Does not have a valid replica set config");
        fields.insert("isreplicaset", true);
        fields
    }
}
