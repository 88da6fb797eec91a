//! The simulated sets: sizes, arbiters, priorities, members without a vote, delays, no chaining.

use bson::{Bson, Document, doc};
use fathom_replication::ReplicaSetConfig;

use crate::chance::Chance;

fn member(id: usize) -> Document {
    doc! { "_id": id as i32, "host": format!("m{id}.test:{}", 27017 + id) }
}

fn config(members: Vec<Document>, settings: Document) -> ReplicaSetConfig {
    let members: Vec<Bson> = members.into_iter().map(Bson::from).collect();
    let document = doc! { "_id": "rs", "version": 1, "members": members, "settings": settings };
    let config = ReplicaSetConfig::parse(&document).unwrap();
    config.validate().unwrap();
    config
}

/// A set of this many members with default values.
pub(crate) fn plain(count: usize) -> ReplicaSetConfig {
    config((0..count).map(member).collect(), Document::new())
}

/// A set in which the last member has the highest priority.
pub(crate) fn with_priorities(priorities: &[f64]) -> ReplicaSetConfig {
    let members = priorities.iter().enumerate().map(|(id, priority)| {
        let mut member = member(id);
        member.insert("priority", *priority);
        member
    });
    config(members.collect(), Document::new())
}

/// Two members and an arbiter.
pub(crate) fn with_arbiter() -> ReplicaSetConfig {
    let mut members: Vec<Document> = (0..3).map(member).collect();
    members[2].insert("arbiterOnly", true);
    config(members, Document::new())
}

/// A set of 3, 5 or 7 members, some of which may be arbiters, without a vote, hidden, or of another priority.
pub(crate) fn any(chance: &mut Chance) -> ReplicaSetConfig {
    let count = [3, 5, 7][chance.below(3)];
    let mut members: Vec<Document> = (0..count).map(member).collect();
    // The first member stays unchanged, so that an election can succeed.
    for member in members.iter_mut().skip(1) {
        match chance.below(10) {
            0 => {
                member.insert("priority", 0);
                member.insert("votes", 0);
            }
            1 => {
                member.insert("priority", 0);
                member.insert("hidden", true);
            }
            2 => {
                member.insert("priority", 2);
            }
            3 => {
                member.insert("priority", 5.5);
            }
            _ => {}
        }
    }
    for index in 0..chance.below(count / 2 + 1).min(2) {
        let id = count - 1 - index;
        members[id] = member(id);
        members[id].insert("arbiterOnly", true);
    }
    let mut settings = Document::new();
    if chance.below(4) == 0 {
        settings.insert("chainingAllowed", false);
    }
    if chance.below(4) == 0 {
        settings.insert("catchUpTimeoutMillis", [0, 2000][chance.below(2)]);
    }
    if chance.below(4) == 0 {
        settings.insert("electionTimeoutMillis", 2000);
        settings.insert("heartbeatIntervalMillis", 500);
    }
    config(members, settings)
}
