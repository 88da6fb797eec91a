//! Moves a chunk to another shard: the donor copies it, compares and copies again until little changes, shuts the gate of writes,
//! copies the rest, and makes the config servers record the new owner. Then the gate opens, and the documents here are deleted
//! once no operation uses the earlier ownership.
//!
//! Changes during the copy are found by reading the whole chunk again, not from a log of changes: writes know nothing of a
//! migration and cost nothing extra. The commit is one change of one document: after a crash it has either happened or not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, Document, RawDocumentBuf, Timestamp, doc, oid::ObjectId};
use fathom_client::{AddressList, Connection};
use fathom_query::{Bound, Code, Failure, KeyBuilder};
use fathom_sharding::{Chunk, ChunkVersion, Ownership};
use sha2::{Digest, Sha256};

use super::housekeeping::{MigratedChunk, delete_gone, delete_later, walk};
use crate::Result;
use crate::execution::ScanFlow;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::sharding_state::{KeyRange, ShardIdentity, connect, unreachable};

/// The maximum documents and bytes of one message to the recipient.
const MAX_BATCH_DOCUMENTS: usize = 1000;
const MAX_BATCH_BYTES: usize = 4 << 20;
/// The maximum number of changes left for the last pass, while the gate is shut.
const MAX_LAST_CHANGES: usize = 100;
/// The maximum number of passes before the last one.
const MAX_PASSES: usize = 4;
/// The time limit for finding the outcome of a commit whose answer was lost.
const COMMIT_OUTCOME_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// The chunk to move.
#[derive(Clone, Debug)]
pub(crate) struct Migration {
    pub(crate) namespace: String,
    pub(crate) to: String,
    pub(crate) to_hosts: AddressList,
    pub(crate) min: Document,
    pub(crate) max: Document,
    pub(crate) epoch: ObjectId,
    /// The chunk's version, as the router read it.
    pub(crate) version: Timestamp,
    pub(crate) now: Timestamp,
    /// Whether to wait until the documents are deleted here.
    pub(crate) wait: bool,
}

/// The digest of each document's content when it was copied.
type Digests = HashMap<Vec<u8>, DocumentDigest>;

#[derive(Debug)]
struct DocumentDigest {
    id: Bson,
    digest: [u8; 16],
    /// The pass in which it was last seen.
    pass: u32,
}

/// Moves a chunk to another shard.
pub(crate) fn move_chunk(op: &mut OperationContext<'_>, migration: &Migration) -> Result<()> {
    let instance = op.instance;
    let sharding = &instance.sharding;
    let identity = sharding.must_be_shard(instance)?;
    let Some(_one) = sharding.giving.try_lock() else {
        let what = "Unable to start new migration because this shard is currently donating another chunk";
        return Err(Failure::new(Code::ConflictingOperationInProgress, what));
    };
    let (owned, chunk) = check(op, &identity, migration)?;
    let range = KeyRange::new(owned.key(), &migration.min, &migration.max)?;
    let mut taker = Taker::connect(migration)?;
    sharding.known.soil(&migration.namespace);
    prepare_taker(op, migration, &mut taker)?;
    let copied = copy_and_commit(op, &identity, migration, &range, &chunk, &mut taker);
    sharding.known.forget(&migration.namespace);
    if let Err(failure) = copied {
        // The recipient does not own the copies: they are never seen, and this only frees their space.
        let _ = taker.run("admin", &range_command("_recvChunkAbort", migration));
        return Err(failure);
    }
    let _ = taker.run("admin", &range_command("_recvChunkCommit", migration));
    drop(owned);
    sharding.known.collection(instance, &identity, &migration.namespace)?;
    let gone = MigratedChunk {
        namespace: migration.namespace.clone(),
        epoch: migration.epoch,
        min: migration.min.clone(),
        max: migration.max.clone(),
        since: sharding.known.newest(&migration.namespace),
    };
    if migration.wait {
        return delete_gone(op, &gone);
    }
    delete_later(instance, gone);
    Ok(())
}

/// Refuses a chunk that the shard does not own, or that was changed since the router read it.
fn check(
    op: &OperationContext<'_>,
    identity: &ShardIdentity,
    migration: &Migration,
) -> Result<(Arc<Ownership>, Chunk)> {
    let conflict = |what: String| Failure::new(Code::ConflictingOperationInProgress, what);
    let known = op.instance.sharding.known.read(op.instance, identity, &migration.namespace)?;
    let crate::sharding_state::Collection::Sharded(owned) = known else {
        let what = format!("Collection {} is not sharded.", migration.namespace);
        return Err(Failure::new(Code::NamespaceNotSharded, what));
    };
    let found = identity.config.chunk(&migration.namespace, &migration.min)?;
    let chunk = found.map(|found| Chunk::parse(&found, migration.epoch)).transpose()?;
    let chunk = chunk.filter(|chunk| {
        chunk.range.max == migration.max
            && chunk.shard == identity.shard
            && chunk.version == ChunkVersion::from_timestamp(migration.version, migration.epoch)
    });
    let chunk = chunk.ok_or_else(|| {
        conflict(format!(
            "the chunk [{}, {}) of {} is not as the router knew it",
            migration.min, migration.max, migration.namespace
        ))
    })?;
    Ok((owned, chunk))
}

fn range_command(name: &str, migration: &Migration) -> Document {
    doc! { name: &migration.namespace, "min": migration.min.clone(), "max": migration.max.clone() }
}

/// Makes the recipient create the collection and delete the remains of an earlier attempt.
fn prepare_taker(op: &OperationContext<'_>, migration: &Migration, taker: &mut Taker) -> Result<()> {
    let Some(collection) = op.instance.catalog.get(&migration.namespace) else { return Ok(()) };
    let (options, indexes) = {
        let state = op.lock(&collection)?;
        let indexes: Vec<Document> = state
            .indexes
            .iter()
            .filter(|index| !index.spec().is_id())
            .map(|index| index.document())
            .collect();
        (state.options.document.clone(), indexes)
    };
    let (database, name) = (collection.database(), collection.name());
    let mut create = doc! { "create": name };
    create.extend(options);
    match taker.run(database, &create) {
        Err(failure) if failure.code() != Code::NamespaceExists => return Err(failure),
        _ => {}
    }
    if !indexes.is_empty() {
        let indexes: Vec<Document> = indexes
            .into_iter()
            .map(|index| index.into_iter().filter(|(field, _)| field != "ns").collect())
            .collect();
        taker.run(database, &doc! { "createIndexes": name, "indexes": indexes })?;
    }
    taker.run("admin", &range_command("_recvChunkStart", migration)).map(drop)
}

fn copy_and_commit(
    op: &mut OperationContext<'_>,
    identity: &ShardIdentity,
    migration: &Migration,
    range: &KeyRange,
    chunk: &Chunk,
    taker: &mut Taker,
) -> Result<()> {
    let figures = &op.instance.sharding.figures;
    figures.moves.add(1);
    let began = Instant::now();
    let mut digests = Digests::new();
    for pass in 0..MAX_PASSES {
        let changes = copy(op, migration, range, &mut digests, u32::try_from(pass).unwrap_or(0), taker)?;
        if pass > 0 && changes <= MAX_LAST_CHANGES {
            break;
        }
    }
    figures.copying_ms.add(millis(began));
    let began = Instant::now();
    let shut = op.instance.sharding.gates.shut(&migration.namespace, &|| op.check_interrupt())?;
    let last = u32::try_from(MAX_PASSES).unwrap_or(u32::MAX);
    copy(op, migration, range, &mut digests, last, taker)?;
    taker.make_durable(migration)?;
    let committing = Instant::now();
    let committed = commit(op, identity, migration, chunk);
    figures.committing_ms.add(millis(committing));
    // The next operation reads the ownership again.
    op.instance.sharding.known.forget(&migration.namespace);
    drop(shut);
    figures.shut_ms.add(millis(began));
    committed
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Sends documents that the recipient lacks or has in another version, and has it delete those that were deleted here. Returns how many.
fn copy(
    op: &mut OperationContext<'_>,
    migration: &Migration,
    range: &KeyRange,
    digests: &mut Digests,
    pass: u32,
    taker: &mut Taker,
) -> Result<usize> {
    let mut changes = 0;
    let collection = op.instance.catalog.get(&migration.namespace);
    let mut batch: Vec<RawDocumentBuf> = Vec::new();
    let mut bytes = 0;
    if let Some(collection) = collection {
        walk(op, &collection, range, &mut |document| {
            let Some(id) = parse::field(document, "_id") else { return Ok(ScanFlow::More) };
            let mut key = KeyBuilder::new();
            key.append(id, false);
            let key = key.finish(Bound::Exact);
            let key = [key.bytes, key.type_bits].concat();
            let whole = Sha256::digest(document.as_bytes());
            let digest: [u8; 16] = *whole.first_chunk().unwrap_or(&[0; 16]);
            let known = digests.insert(key, DocumentDigest { id: parse::owned_value(id)?, digest, pass });
            if known.is_none_or(|known| known.digest != digest) {
                changes += 1;
                bytes += document.as_bytes().len();
                batch.push(document.to_owned());
                if batch.len() >= MAX_BATCH_DOCUMENTS || bytes >= MAX_BATCH_BYTES {
                    bytes = 0;
                    taker.send(migration, std::mem::take(&mut batch))?;
                }
            }
            Ok(ScanFlow::More)
        })?;
    }
    taker.send(migration, batch)?;
    let mut gone = Vec::new();
    digests.retain(|_, copied| {
        let here = copied.pass == pass;
        if !here {
            gone.push(copied.id.clone());
        }
        here
    });
    changes += gone.len();
    taker.delete(migration, &gone)?;
    Ok(changes)
}

/// Makes the config servers record the recipient as the chunk's owner.
fn commit(
    op: &OperationContext<'_>,
    identity: &ShardIdentity,
    migration: &Migration,
    chunk: &Chunk,
) -> Result<()> {
    if op.instance.set.as_ref().is_some_and(|set| !set.is_writable()) {
        // Another member is primary by now, and accepts writes that were not copied.
        return Err(crate::replica_set::not_primary());
    }
    let table = identity.config.table(&migration.namespace)?;
    let newest = table.map_or(chunk.version, |table| table.version());
    let version = ChunkVersion::new(newest.major.saturating_add(1), 0, migration.epoch);
    let moved = chunk.moved(&migration.to, version, migration.now).to_document(&migration.namespace);
    let field = |name: &str| moved.get(name).cloned().unwrap_or(Bson::Null);
    let change = doc! {
        "$set": { "shard": field("shard"), "lastmod": field("lastmod"), "history": field("history") },
    };
    match identity.config.update("chunks", same_chunk(identity, migration, chunk), change, false) {
        Ok(1..) => Ok(()),
        Ok(_) => {
            let what = format!(
                "the chunk {} of {} was changed by another process",
                migration.min, migration.namespace
            );
            Err(Failure::new(Code::ConflictingOperationInProgress, what))
        }
        Err(failure) => settle(op, identity, migration, chunk, failure),
    }
}

/// Finds out whether a commit whose answer was lost took effect, while the gate stays shut: a change of the chunk's version succeeds
/// only if the commit did not, and then it never will.
fn settle(
    op: &OperationContext<'_>,
    identity: &ShardIdentity,
    migration: &Migration,
    chunk: &Chunk,
    failure: Failure,
) -> Result<()> {
    let until = Instant::now() + COMMIT_OUTCOME_TIMEOUT;
    let version =
        ChunkVersion::new(chunk.version.major, chunk.version.minor.saturating_add(1), migration.epoch);
    let change = doc! { "$set": { "lastmod": version.timestamp() } };
    loop {
        let undone =
            identity.config.update("chunks", same_chunk(identity, migration, chunk), change.clone(), false);
        let found = identity.config.chunk(&migration.namespace, &migration.min);
        match (undone, found) {
            (Ok(1..), _) => return Err(failure),
            (_, Ok(Some(found))) => {
                let there = Chunk::parse(&found, migration.epoch)?;
                if there.shard == migration.to {
                    return Ok(());
                }
                if there.version != chunk.version {
                    return Err(failure);
                }
            }
            (_, Ok(None)) => return Err(failure),
            (_, Err(_)) => {}
        }
        if Instant::now() >= until {
            return Err(failure);
        }
        op.check_interrupt()?;
        std::thread::sleep(PAUSE);
    }
}

/// A filter for the chunk's document, if it is still unchanged.
fn same_chunk(identity: &ShardIdentity, migration: &Migration, chunk: &Chunk) -> Document {
    doc! {
        "ns": &migration.namespace,
        "min": migration.min.clone(),
        "shard": &identity.shard,
        "lastmod": chunk.version.timestamp(),
        "lastmodEpoch": migration.epoch,
    }
}

/// The recipient of the chunk.
struct Taker {
    connection: Connection,
    whom: String,
}

impl Taker {
    fn connect(migration: &Migration) -> Result<Taker> {
        let whom = format!("the shard '{}'", migration.to);
        let connection = connect(&migration.to_hosts).map_err(|error| unreachable(&whom, &error))?;
        Ok(Taker { connection, whom })
    }

    fn run(&mut self, database: &str, command: &Document) -> Result<RawDocumentBuf> {
        self.connection.run(database, command).map_err(|error| unreachable(&self.whom, &error))
    }

    /// Replaces documents with the same `_id`, or inserts new ones.
    fn send(&mut self, migration: &Migration, documents: Vec<RawDocumentBuf>) -> Result<()> {
        if documents.is_empty() {
            return Ok(());
        }
        let updates = documents
            .into_iter()
            .map(|document| {
                let id = parse::field(&*document, "_id")
                    .map(parse::owned_value)
                    .transpose()?
                    .unwrap_or(Bson::Null);
                let mut update = parse::raw_of(&doc! { "q": { "_id": { "$eq": id } }, "upsert": true })?;
                update.append(bson::cstr!("u"), document);
                Ok(update)
            })
            .collect::<Result<Vec<_>>>()?;
        self.write(migration, ("update", "updates"), &updates)
    }

    fn delete(&mut self, migration: &Migration, ids: &[Bson]) -> Result<()> {
        for part in ids.chunks(MAX_BATCH_DOCUMENTS) {
            let deletes = part
                .iter()
                .map(|id| parse::raw_of(&doc! { "q": { "_id": { "$eq": id } }, "limit": 1 }))
                .collect::<Result<Vec<_>>>()?;
            self.write(migration, ("delete", "deletes"), &deletes)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        migration: &Migration,
        (verb, field): (&str, &str),
        statements: &[RawDocumentBuf],
    ) -> Result<()> {
        let (database, collection) = migration.namespace.split_once('.').unwrap_or_default();
        let mut command = doc! { verb: collection, "ordered": false };
        if verb == "update" {
            command.insert("bypassDocumentValidation", true);
        }
        let reply = self
            .connection
            .run_with_sequences(database, &command, &[(field, statements)])
            .map_err(|error| unreachable(&self.whom, &error))?;
        let failed = reply.get_array("writeErrors").ok().and_then(|errors| errors.into_iter().next());
        match failed.and_then(std::result::Result::ok).and_then(|error| error.as_document()) {
            None => Ok(()),
            Some(error) => {
                let what = format!(
                    "{} refused a document: {}",
                    self.whom,
                    error.get_str("errmsg").unwrap_or_default()
                );
                Err(Failure::new(Code(error.get_i32("code").unwrap_or(Code::OperationFailed.0)), what))
            }
        }
    }

    /// Waits until the documents sent would survive a failure of any one member.
    fn make_durable(&mut self, migration: &Migration) -> Result<()> {
        let (database, collection) = migration.namespace.split_once('.').unwrap_or_default();
        let nothing = doc! { "q": { "_id": ObjectId::new() }, "limit": 1 };
        let command = doc! {
            "delete": collection, "deletes": [nothing], "writeConcern": { "w": "majority", "j": true },
        };
        let reply = self.run(database, &command)?;
        match reply.get_document("writeConcernError") {
            Err(_) => Ok(()),
            Ok(error) => {
                let what = error.get_str("errmsg").unwrap_or_default().to_owned();
                Err(Failure::new(Code::WriteConcernFailed, what))
            }
        }
    }
}

impl std::fmt::Debug for Taker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.whom)
    }
}
