//! Messages and configurations with arbitrary contents: each is refused or accepted, and an accepted one round-trips unchanged. The
//! fuzz target `replication_messages` does the same with arbitrary bytes.

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, Timestamp, doc};
use fathom_replication::messages::{
    HeartbeatArguments, HeartbeatReply, OplogQueryMetadata, ReplicationMetadata, RequestVotesArguments,
    RequestVotesReply, UpdatePosition,
};
use fathom_replication::{LastVote, ReplicaSetConfig, WriteConcern};

use crate::desk::{Desk, config, host, plain};

/// Numbers from a seed (an LCG of Knuth's).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }

    fn value(&mut self) -> Bson {
        let values = [
            Bson::Null,
            Bson::Int32(-1),
            Bson::Int32(0),
            Bson::Int32(7),
            Bson::Int64(i64::MAX),
            Bson::Int64(i64::MIN),
            Bson::Double(f64::NAN),
            Bson::Double(1e300),
            Bson::Double(0.5),
            Bson::Boolean(true),
            Bson::String(String::new()),
            Bson::String("majority".to_owned()),
            Bson::String("[::1".to_owned()),
            Bson::Document(Document::new()),
            Bson::Array(vec![Bson::Int32(1)]),
            Bson::Timestamp(Timestamp { time: u32::MAX, increment: u32::MAX }),
            Bson::DateTime(DateTime::from_millis(i64::MIN)),
            Bson::ObjectId(ObjectId::from_bytes([0; 12])),
        ];
        let index = self.below(values.len());
        values[index].clone()
    }

    /// Changes one part of a value.
    fn spoil(&mut self, value: &mut Bson) {
        match value {
            Bson::Document(document) if !document.is_empty() && self.below(4) > 0 => {
                let name = document.keys().nth(self.below(document.len())).unwrap().clone();
                if self.below(8) == 0 {
                    document.remove(&name);
                } else {
                    self.spoil(document.get_mut(&name).unwrap());
                }
            }
            Bson::Array(items) if !items.is_empty() && self.below(4) > 0 => {
                let index = self.below(items.len());
                self.spoil(&mut items[index]);
            }
            other => *other = self.value(),
        }
    }
}

macro_rules! comes_back {
    ($document:expr, $type:ident, $read:ident) => {
        if let Ok(value) = $type::$read($document) {
            let written = value.to_document();
            let again = $type::$read(&written).unwrap().to_document();
            assert_eq!(again.to_vec().unwrap(), written.to_vec().unwrap(), "{written}");
        }
    };
}

fn check(document: &Document) {
    comes_back!(document, HeartbeatArguments, from_document);
    comes_back!(document, HeartbeatReply, from_document);
    comes_back!(document, OplogQueryMetadata, from_document);
    comes_back!(document, ReplicationMetadata, from_document);
    comes_back!(document, RequestVotesArguments, from_document);
    comes_back!(document, RequestVotesReply, from_document);
    comes_back!(document, UpdatePosition, from_document);
    comes_back!(document, LastVote, from_document);
    comes_back!(document, WriteConcern, parse);
    if let Ok(config) = ReplicaSetConfig::parse(document)
        && config.validate().is_ok()
    {
        assert_eq!(ReplicaSetConfig::parse(&config.to_document()).unwrap(), config);
        assert!(config.write_majority() >= 1 && config.majority_votes() * 2 > config.voters());
    }
}

/// One complete document of each kind.
fn samples() -> Vec<Document> {
    let desk = Desk::primary(&plain(3));
    let metadata = desk.c.metadata(desk.c.own_progress().applied);
    let mut reply = desk.replies[1].clone().unwrap();
    reply.metadata = Some(metadata);
    reply.config = Some(plain(3).to_document());
    let heartbeat = HeartbeatArguments {
        set_name: "rs".to_owned(),
        config_version: 1,
        from: Some(host(1)),
        from_id: 1,
        term: 2,
        check_empty: true,
    };
    let votes = RequestVotesArguments {
        set_name: "rs".to_owned(),
        dry_run: false,
        term: 3,
        candidate_index: 1,
        config_version: 1,
        last_applied: desk.c.own_progress().applied,
    };
    let tagged = doc! { "tags": { "dc": "a" } };
    let arbiter = doc! { "arbiterOnly": true };
    let modes = doc! { "getLastErrorModes": { "one": { "dc": 1 } }, "getLastErrorDefaults": { "w": "one", "j": true } };
    vec![
        heartbeat.to_document(),
        reply.to_document(),
        votes.to_document(),
        RequestVotesReply { term: 1, granted: true, reason: "no".to_owned() }.to_document(),
        desk.c.update_position().unwrap().to_document(),
        metadata.to_document(),
        desk.c.oplog_query_metadata(1).to_document(),
        LastVote { term: 1, candidate_index: 2 }.to_document(),
        doc! { "w": "majority", "j": true, "wtimeout": 5 },
        config(&[tagged, Document::new(), arbiter], modes).to_document(),
    ]
}

#[test]
fn what_is_taken_comes_back_as_it_was() {
    let mut chance = Chance(7);
    for sample in samples() {
        check(&sample);
        for _ in 0..2000 {
            let mut spoilt = Bson::Document(sample.clone());
            for _ in 0..=chance.below(3) {
                chance.spoil(&mut spoilt);
            }
            if let Bson::Document(spoilt) = spoilt {
                check(&spoilt);
            }
        }
    }
}

#[test]
fn no_message_breaks_a_member() {
    let mut chance = Chance(11);
    let samples = samples();
    for primary in [true, false] {
        let mut desk = if primary { Desk::primary(&plain(3)) } else { Desk::new(&plain(3)) };
        for _ in 0..20_000 {
            let mut spoilt = Bson::Document(samples[chance.below(samples.len())].clone());
            chance.spoil(&mut spoilt);
            let Bson::Document(spoilt) = spoilt else { continue };
            let (term, committed) = (desk.c.term(), desk.c.last_committed());
            // Invalid input is refused, and no term or position moves back.
            if let Ok(arguments) = HeartbeatArguments::from_document(&spoilt) {
                let _ = desk.c.heartbeat_received(desk.now, &arguments);
            }
            if let Ok(arguments) = RequestVotesArguments::from_document(&spoilt) {
                let _ = desk.c.vote_requested(desk.now, &arguments);
            }
            if let Ok(update) = UpdatePosition::from_document(&spoilt) {
                let _ = desk.c.positions_received(desk.now, &update);
            }
            if let Ok(metadata) = ReplicationMetadata::from_document(&spoilt) {
                desk.c.source_answered(desk.now, &metadata, None, true);
            }
            if let Ok(reply) = HeartbeatReply::from_document(&spoilt) {
                desk.replies[1] = Some(reply);
                desk.run(700);
            }
            desk.wanted.clear();
            assert!(desk.c.term() >= term && desk.c.last_committed() >= committed);
            let _ = desk.c.hello_fields("ismaster", None);
        }
    }
}
