//! Splits and moves chunks.
//!
//! A split writes the new chunks before it shortens the old one: a reader in between uses the chunk with the newer version. A move
//! is one change of one document, made by the shard that gives the chunk away.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use fathom_service::parse;
use fathom_sharding::{Chunk, ChunkRange, ChunkVersion, RoutingTable};
use fathom_wire::{Code, Failure};

use super::{note, now};
use crate::Result;
use crate::catalog::read_table;
use crate::instance::Instance;
use crate::locks;

/// The chunk, and the key at which it is to be split.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SplitPoint {
    /// The chunk with these bounds, at its middle.
    Bounds(Document, Document),
    /// The chunk that holds a document with these fields, at its middle.
    Find(Document),
    /// The chunk that holds this key, at this key.
    Middle(Document),
}

fn table_of(instance: &Instance, namespace: &str) -> Result<RoutingTable> {
    read_table(&instance.cluster, namespace)?.ok_or_else(|| {
        Failure::new(Code::NamespaceNotSharded, format!("Collection {namespace} is not sharded."))
    })
}

/// The chunk that `place` names.
fn chunk_of(table: &RoutingTable, place: &SplitPoint) -> Result<Chunk> {
    let none = |what: String| Failure::new(Code::BadValue, what);
    let found = match place {
        SplitPoint::Bounds(min, max) => {
            let (min_key, max_key) = (table.key().bound(min)?, table.key().bound(max)?);
            let chunk = table.chunk_of(&min_key).filter(|chunk| {
                chunk.bounds(table.key()).is_ok_and(|bounds| bounds == (min_key.clone(), max_key.clone()))
            });
            chunk.ok_or_else(|| none(format!("no chunk found with the shard key bounds [{min}, {max})")))?
        }
        SplitPoint::Find(document) => {
            let raw = parse::raw_of(document)?;
            if table.key().paths().any(|path| !has(document, path)) {
                return Err(none(format!("could not extract exact shard key from query {document}")));
            }
            let key = table.key().key_of(&raw)?;
            table.chunk_of(&key).ok_or_else(|| none(format!("no chunk holds {document}")))?
        }
        SplitPoint::Middle(middle) => {
            let key = table.key().bound(middle)?;
            table.chunk_of(&key).ok_or_else(|| none(format!("no chunk holds {middle}")))?
        }
    };
    Ok(found.clone())
}

/// Whether a document has a path, or a query has an equality on it.
fn has(document: &Document, path: &str) -> bool {
    if document.contains_key(path) {
        return true;
    }
    match path.split_once('.') {
        Some((first, rest)) => document.get_document(first).is_ok_and(|inner| has(inner, rest)),
        None => false,
    }
}

pub(crate) fn split(instance: &Arc<Instance>, namespace: &str, place: &SplitPoint) -> Result<()> {
    let _held = locks::hold(instance, namespace, "split")?;
    let table = table_of(instance, namespace)?;
    let chunk = chunk_of(&table, place)?;
    let middle = match place {
        SplitPoint::Middle(middle) => middle.clone(),
        _ => median(instance, namespace, &table, &chunk)?,
    };
    let (at, (min, max)) = (table.key().bound(&middle)?, chunk.bounds(table.key())?);
    if at <= min || at >= max {
        let what = format!(
            "new split key {middle} is a boundary key of existing chunk [{}, {})",
            chunk.range.min, chunk.range.max
        );
        return Err(Failure::new(Code::BadValue, what));
    }
    let newest = table.version();
    let version =
        |step: u32| ChunkVersion::new(newest.major, newest.minor.saturating_add(step), newest.epoch);
    let upper = Chunk {
        range: ChunkRange { min: middle.clone(), max: chunk.range.max.clone() },
        shard: chunk.shard.clone(),
        version: version(2),
        history: chunk.history.clone(),
    };
    let config = instance.cluster.config();
    config.config_insert("chunks", vec![upper.to_document(namespace)])?;
    let same = doc! {
        "ns": namespace, "min": chunk.range.min.clone(), "lastmod": chunk.version.timestamp(),
        "lastmodEpoch": chunk.version.epoch,
    };
    let change = doc! { "$set": { "max": middle.clone(), "lastmod": version(1).timestamp() } };
    let changed = config.config_update("chunks", same, change, false)?;
    instance.catalog.forget(namespace);
    if changed.matched == 0 {
        let what = format!("the chunk {} of {namespace} was changed by another process", chunk.range.min);
        return Err(Failure::new(Code::ConflictingOperationInProgress, what));
    }
    let before = doc! { "min": chunk.range.min.clone(), "max": chunk.range.max.clone() };
    note(instance, "split", namespace, doc! { "before": before, "splitKey": middle });
    Ok(())
}

/// The key in the middle of a chunk: of a hashed key the middle of the bounds, of others the median of the documents in the chunk.
fn median(instance: &Instance, namespace: &str, table: &RoutingTable, chunk: &Chunk) -> Result<Document> {
    let key = table.key();
    if key.is_hashed() {
        let path = key.paths().next().unwrap_or_default();
        let end = |document: &Document, open: i64| match document.get(path) {
            Some(Bson::Int64(hash)) => i128::from(*hash),
            _ => i128::from(open),
        };
        let middle = i128::midpoint(end(&chunk.range.min, i64::MIN), end(&chunk.range.max, i64::MAX));
        return Ok(doc! { path: i64::try_from(middle).unwrap_or(0) });
    }
    let backend = instance.cluster.shard(&chunk.shard)?;
    let (database, collection) = namespace.split_once('.').unwrap_or_default();
    let cannot =
        || Failure::new(Code::CannotSplit, format!("cannot find a middle of the chunk {}", chunk.range.min));
    let fields: Document = key.paths().map(|path| (path.to_owned(), Bson::Int32(1))).collect();
    let mut projection = fields.clone();
    projection.entry("_id".to_owned()).or_insert(Bson::Int32(0));
    let find = doc! {
        "find": collection, "min": chunk.range.min.clone(), "max": chunk.range.max.clone(),
        "hint": key.to_document().clone(), "projection": projection, "sort": fields,
    };
    let documents = backend.find_all(database, &find)?;
    let keys = documents
        .iter()
        .map(|document| key.values_of(&parse::raw_of(document)?))
        .collect::<Result<Vec<_>>>()?;
    let middle = keys.get(keys.len() / 2).ok_or_else(cannot)?;
    // Documents with the same key stay together.
    keys.iter().find(|other| *other == middle && **other != chunk.range.min).cloned().ok_or_else(cannot)
}

/// Moves a chunk to another shard.
pub(crate) fn move_chunk(
    instance: &Arc<Instance>,
    namespace: &str,
    place: &SplitPoint,
    to: &str,
    wait: bool,
) -> Result<()> {
    let _held = locks::hold(instance, namespace, "moveChunk")?;
    instance.cluster.reload()?;
    let table = table_of(instance, namespace)?;
    let chunk = chunk_of(&table, place)?;
    let target = instance.cluster.shard(to)?;
    if chunk.shard == to {
        return Ok(());
    }
    let details = doc! {
        "min": chunk.range.min.clone(), "max": chunk.range.max.clone(), "from": &chunk.shard, "to": to,
    };
    note(instance, "moveChunk.start", namespace, details.clone());
    let donor = instance.cluster.shard(&chunk.shard)?;
    let command = doc! {
        "moveChunk": namespace,
        "fromShard": &chunk.shard,
        "toShard": to,
        "toHost": target.hosts().to_string(),
        "min": chunk.range.min.clone(),
        "max": chunk.range.max.clone(),
        "epoch": chunk.version.epoch,
        "chunkVersion": chunk.version.timestamp(),
        "now": now(),
        "waitForDelete": wait,
    };
    let moved = donor.command("admin", &command, &crate::request::SendPolicy::write());
    instance.catalog.forget(namespace);
    note(instance, if moved.is_ok() { "moveChunk.commit" } else { "moveChunk.error" }, namespace, details);
    moved.map(|_| ())
}
