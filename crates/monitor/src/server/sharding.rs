//! The sampler of a sharded cluster: counts the chunks of the watched namespace on each shard, and reads whether the balancer runs.

use std::collections::HashMap;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use fathom_errors::Result;

use super::collection::{Namespace, first_document, number_at};
use super::link::{Refusal, ServerLink, WatchedServer};
use crate::sampler::Notes;
use crate::{Batch, Sampler};

/// The sampler of a cluster.
#[derive(Debug)]
pub(crate) struct ShardingSampler {
    router: usize,
    link: ServerLink,
    /// The first member of each shard, by the shard's name.
    shards: HashMap<String, usize>,
    namespace: Namespace,
    notes: Notes,
}

impl ShardingSampler {
    /// Makes a sampler that asks `router`; chunks are readings of the first server of their shard.
    pub(crate) fn new(
        router: &WatchedServer,
        all: &[WatchedServer],
        namespace: Namespace,
    ) -> ShardingSampler {
        let mut shards = HashMap::new();
        for watched in all {
            if let Some(shard) = &watched.shard {
                shards.entry(shard.clone()).or_insert(watched.number);
            }
        }
        ShardingSampler {
            router: router.number,
            link: ServerLink::new(router.number, router.address.clone(), &router.target),
            shards,
            namespace,
            notes: Notes::default(),
        }
    }

    fn read_chunks(&mut self, batch: &mut Batch) -> std::result::Result<(), Refusal> {
        let Some(namespace) = self.namespace.name() else { return Ok(()) };
        let find = rawdoc! { "find": "collections", "filter": { "_id": namespace }, "limit": 1 };
        let reply = self.link.ask_owned("config", &find)?;
        // A collection that is not sharded has no chunks.
        let Some(filter) = first_document(&reply).and_then(|entry| chunks_of(entry, namespace)) else {
            return Ok(());
        };
        let pipeline = bson::rawbson!([{ "$match": filter }, { "$group": { "_id": "$shard", "chunks": { "$sum": 1 } } }]);
        let begin_ns = batch.clock.now_ns();
        let count = rawdoc! { "aggregate": "chunks", "pipeline": pipeline, "cursor": {} };
        let reply = self.link.ask("config", &count)?;
        let window = (begin_ns, batch.clock.now_ns());
        for (shard, chunks) in counted(reply, &self.shards) {
            batch.put(format!("server.{shard}.sharding.chunks"), "1", window, chunks);
        }
        Ok(())
    }

    fn read_balancer(&mut self, batch: &mut Batch) -> std::result::Result<(), Refusal> {
        let begin_ns = batch.clock.now_ns();
        let reply = self.link.ask("admin", &rawdoc! { "balancerStatus": 1 })?;
        let balancing = number_at(reply, &["inBalancerRound"]);
        let window = (begin_ns, batch.clock.now_ns());
        if let Some(balancing) = balancing {
            batch.put(format!("server.{}.sharding.balancing", self.router), "1", window, balancing);
        }
        Ok(())
    }

    fn note(&mut self, batch: &mut Batch, refusal: Refusal, what: &str, cost: &str) {
        let reason = match refusal {
            // The sampler of the router reports this.
            Refusal::Lost(_) => return,
            Refusal::Denied => "the user may not (the role clusterMonitor is enough)".to_owned(),
            Refusal::Absent => "it is not there".to_owned(),
            Refusal::Failed(reason) => reason,
        };
        let who = self.link.who();
        self.notes.once(batch, format!("{who} does not tell {what} ({reason}): {cost}"));
    }
}

impl Sampler for ShardingSampler {
    fn name(&self) -> String {
        "sharding".to_owned()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        if let Err(refusal) = self.read_chunks(batch) {
            self.note(batch, refusal, "where chunks are", "an uneven spread of data is not found as a cause");
        }
        if let Err(refusal) = self.read_balancer(batch) {
            self.note(batch, refusal, "what the balancer does", "moves of chunks are not found as a cause");
        }
        self.link.account(batch);
        Ok(())
    }
}

/// The filter on config.chunks: chunks name their collection until 4.4, and its uuid since 5.0.
fn chunks_of(entry: &RawDocument, namespace: &str) -> Option<RawDocumentBuf> {
    if entry.get_bool("dropped").unwrap_or(false) {
        return None;
    }
    let by_name = rawdoc! { "ns": namespace };
    Some(match entry.get("uuid") {
        Ok(Some(uuid)) => rawdoc! { "$or": [by_name, { "uuid": bson::RawBson::from(uuid) }] },
        _ => by_name,
    })
}

/// Chunks by the number of the shard's server.
fn counted(reply: &RawDocument, shards: &HashMap<String, usize>) -> Vec<(usize, f64)> {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch"));
    let documents = batch.into_iter().flatten().flatten().filter_map(|value| value.as_document());
    let read = |document: &RawDocument| {
        let number = shards.get(document.get_str("_id").ok()?)?;
        Some((*number, number_at(document, &["chunks"])?))
    };
    documents.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_by_name_and_by_uuid() {
        let old = rawdoc! { "_id": "a.b", "dropped": false };
        assert_eq!(chunks_of(&old, "a.b"), Some(rawdoc! { "ns": "a.b" }));
        let new = rawdoc! { "_id": "a.b", "uuid": 7 };
        assert_eq!(chunks_of(&new, "a.b"), Some(rawdoc! { "$or": [{ "ns": "a.b" }, { "uuid": 7 }] }));
        assert_eq!(chunks_of(&rawdoc! { "_id": "a.b", "dropped": true }, "a.b"), None);
        let reply = rawdoc! { "cursor": { "firstBatch": [
            { "_id": "sh1", "chunks": 2 }, { "_id": "sh2", "chunks": 3 }, { "_id": "gone", "chunks": 1 },
        ] } };
        let shards = HashMap::from([("sh1".to_owned(), 0), ("sh2".to_owned(), 4)]);
        assert_eq!(counted(&reply, &shards), [(0, 2.0), (4, 3.0)]);
    }
}
