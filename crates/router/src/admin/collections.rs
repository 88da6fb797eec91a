//! Shards and drops collections, and enables sharding for databases and drops them (mongodb/mongo@v4.0:src/mongo/db/s/shardsvr_shard_collection.cpp).
//! A drop removes the data on the shards first and the documents on the config servers second, so that an interrupted drop can be repeated.

use std::sync::Arc;

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, RawDocument, doc};
use fathom_service::parse;
use fathom_sharding::{Chunk, InitialChunks, ShardKey};
use fathom_wire::{Code, Failure};

use super::{note, now, tell_shards};
use crate::Result;
use crate::backend::Backend;
use crate::catalog::DatabaseEntry;
use crate::instance::Instance;
use crate::locks;
use crate::request::SendPolicy;

/// Refuses an index whose uniqueness cannot be enforced across shards.
pub(crate) fn check_unique(index: &RawDocument, shard_key: &Document) -> Result<()> {
    let Some(key) = parse::document(index, "key")? else { return Ok(()) };
    let is_id = key.iter().flatten().map(|(name, _)| name.as_str().to_owned()).eq(["_id".to_owned()]);
    if is_id || !parse::boolean(index, "unique")? {
        return Ok(());
    }
    let names = key.iter().flatten().map(|(name, _)| name.as_str().to_owned());
    let begins = shard_key
        .keys()
        .cloned()
        .zip(names.chain(std::iter::repeat(String::new())))
        .all(|(one, other)| one == other);
    if begins && shard_key.values().all(|value| !matches!(value, Bson::String(_))) {
        return Ok(());
    }
    let what =
        format!("cannot create unique index over {} with shard key pattern {shard_key}", parse::owned(key)?);
    Err(Failure::new(Code::CannotCreateIndex, what))
}

/// `enableSharding`: the collections of a database may be sharded from now on.
///
/// Enables it. A database that does not exist is created, on `primary` if one is given.
pub(crate) fn enable_sharding(instance: &Arc<Instance>, database: &str, primary: Option<&str>) -> Result<()> {
    if matches!(database, "admin" | "local" | "config") {
        let what = format!("can't shard {database} database");
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    if database.contains(['/', '\\', '.', ' ', '"', '$', '\0']) || database.len() > 63 {
        return Err(Failure::new(Code::InvalidNamespace, format!("invalid db name specified: {database}")));
    }
    let _held = locks::hold(instance, database, "enableSharding")?;
    if let Some(primary) = primary {
        instance.cluster.shard(primary)?;
    }
    let entry = match (instance.catalog.database(&instance.cluster, database)?, primary) {
        (None, Some(primary)) => instance.catalog.create(&instance.cluster, database, primary, true)?,
        (None, None) => instance.catalog.database_or_new(&instance.cluster, database)?,
        (Some(entry), _) => entry,
    };
    if let Some(primary) = primary.filter(|primary| *primary != entry.primary) {
        let what = format!(
            "database {database} is on the shard {} already, and cannot be made on {primary}",
            entry.primary
        );
        return Err(Failure::new(Code::NamespaceExists, what));
    }
    if !entry.partitioned {
        let change = doc! { "$set": { "partitioned": true } };
        instance.cluster.config().config_update("databases", doc! { "_id": database }, change, false)?;
        instance.catalog.forget_database(database);
    }
    Ok(())
}

/// The options of the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardCollection<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) key: &'a RawDocument,
    pub(crate) unique: bool,
    pub(crate) initial_chunks: Option<u64>,
}

/// The state of the collection on the primary shard.
struct CollectionPresence {
    options: Document,
    uuid: Option<Bson>,
    indexes: Vec<Document>,
    empty: bool,
}

fn invalid<T>(what: String) -> Result<T> {
    Err(Failure::new(Code::InvalidOptions, what))
}

/// `shardCollection`: cuts a collection into chunks (mongodb/mongo@v4.0:src/mongo/db/s/shardsvr_shard_collection.cpp).
///
/// The chunks are written first; they take effect when the entry in `config.collections` is written. The primary shard writes it
/// while it holds back writes, so that no unrouted document is inserted after the check that the collection is empty.
///
/// Shards a collection and returns its UUID.
pub(crate) fn shard_collection(
    instance: &Arc<Instance>,
    asked: &ShardCollection<'_>,
) -> Result<Option<Bson>> {
    let namespace = asked.namespace;
    let Some((database, collection)) = namespace.split_once('.') else { return Ok(None) };
    let key = ShardKey::parse(asked.key)?;
    if matches!(database, "admin" | "local" | "config") || collection.starts_with("system.") {
        return Err(Failure::new(
            Code::IllegalOperation,
            format!("can't shard system namespaces: {namespace}"),
        ));
    }
    if asked.unique && key.is_hashed() {
        let what = "Hashed shard keys cannot be declared unique. It's possible to ensure uniqueness on the hashed value by declaring an additional (non-hashed) unique index on the field.";
        return invalid(what.to_owned());
    }
    if asked.initial_chunks.is_some_and(|chunks| chunks > 0) && !key.is_hashed() {
        return invalid("numInitialChunks is not supported when the shard key is not hashed.".to_owned());
    }
    let _held = locks::hold(instance, namespace, "shardCollection")?;
    instance.catalog.forget_database(database);
    let not_enabled =
        || Failure::new(Code::IllegalOperation, format!("sharding not enabled for db {database}"));
    let entry = instance.catalog.database(&instance.cluster, database)?.ok_or_else(not_enabled)?;
    if !entry.partitioned {
        return Err(not_enabled());
    }
    instance.catalog.forget(namespace);
    if let Some(table) = instance.catalog.table(&instance.cluster, namespace)? {
        if *table.key() == key && table.entry().unique == asked.unique {
            return Ok(table.entry().uuid.clone());
        }
        let what = format!("sharding already enabled for collection {namespace}");
        return Err(Failure::new(Code::AlreadyInitialized, what));
    }
    cut(instance, asked, &key, &entry)
}

/// Writes the chunks, has every shard that receives one create the collection, and has the primary shard commit.
fn cut(
    instance: &Arc<Instance>,
    asked: &ShardCollection<'_>,
    key: &ShardKey,
    entry: &DatabaseEntry,
) -> Result<Option<Bson>> {
    let namespace = asked.namespace;
    let (database, collection) = namespace.split_once('.').unwrap_or_default();
    instance.cluster.reload()?;
    let primary = instance.cluster.shard(&entry.primary)?;
    let there = prepare(&primary, (database, collection), key, asked.unique)?;
    let shards: Vec<String> = instance
        .cluster
        .shards()
        .into_iter()
        .filter(|shard| !shard.draining)
        .map(|shard| shard.backend.id().to_owned())
        .collect();
    let initial = match key.is_hashed() && there.empty {
        true => InitialChunks::Hashed(asked.initial_chunks),
        false => InitialChunks::One,
    };
    let chunks = initial.make(key, &shards, &entry.primary, ObjectId::new(), now())?;
    let epoch = chunks.first().map(|chunk: &Chunk| chunk.version.epoch).unwrap_or_default();
    note(
        instance,
        "shardCollection.start",
        namespace,
        doc! { "shardKey": key.to_document().clone(), "numChunks": i64::try_from(chunks.len()).unwrap_or(0) },
    );
    let mut others: Vec<&str> = chunks.iter().map(|chunk| chunk.shard.as_str()).collect();
    others.sort_unstable();
    others.dedup();
    let spread = others.len() > 1 || others.first() != Some(&entry.primary.as_str());
    for shard in others.into_iter().filter(|shard| *shard != entry.primary) {
        copy_collection(&*instance.cluster.shard(shard)?, (database, collection), &there)?;
    }
    let config = instance.cluster.config();
    config.config_delete("chunks", doc! { "ns": namespace })?;
    config.config_insert("chunks", chunks.iter().map(|chunk| chunk.to_document(namespace)).collect())?;
    let mut document = doc! {
        "_id": namespace,
        "lastmodEpoch": epoch,
        "lastmod": bson::DateTime::from_millis(4_294_967_296_i64 / 1000),
        "dropped": false,
        "key": key.to_document().clone(),
        "unique": asked.unique,
    };
    if let Some(uuid) = &there.uuid {
        document.insert("uuid", uuid.clone());
    }
    // A router that used the earlier route learns from its shard that it is stale.
    let commit = doc! { "_shardsvrShardCollection": namespace, "entry": document, "mustBeEmpty": spread };
    primary.command("admin", &commit, &SendPolicy::write())?;
    instance.catalog.forget(namespace);
    tell_shards(instance, namespace)?;
    note(instance, "shardCollection.end", namespace, doc! { "epoch": epoch });
    Ok(there.uuid)
}

/// Makes sure that the collection and an index on the key exist.
fn prepare(
    primary: &Backend,
    (database, collection): (&str, &str),
    key: &ShardKey,
    unique: bool,
) -> Result<CollectionPresence> {
    let list = doc! { "listCollections": 1, "filter": { "name": collection } };
    let mut found = primary.find_all(database, &list)?.into_iter().next();
    if found.is_none() {
        primary.command(database, &doc! { "create": collection }, &SendPolicy::write())?;
        found = primary.find_all(database, &list)?.into_iter().next();
    }
    let found = found.unwrap_or_default();
    let options = found.get_document("options").cloned().unwrap_or_default();
    if found.get_str("type").is_ok_and(|kind| kind == "view") {
        return Err(Failure::new(Code::CommandNotSupportedOnView, "Views cannot be sharded."));
    }
    if options.get_bool("capped").unwrap_or(false) {
        return invalid("can't shard a capped collection".to_owned());
    }
    refuse_views(primary, database, collection)?;
    let first =
        primary.find_all(database, &doc! { "find": collection, "limit": 1, "projection": { "_id": 1 } })?;
    let empty = first.is_empty();
    let list = doc! { "listIndexes": collection };
    let mut indexes = primary.find_all(database, &list)?;
    for index in &indexes {
        check_unique(&parse::raw_of(index)?, key.to_document())?;
    }
    if !indexes.iter().any(|index| serves(index, key, unique)) {
        if !empty {
            return invalid("Please create an index that starts with the proposed shard key before sharding the collection".to_owned());
        }
        let name: Vec<String> = key
            .to_document()
            .iter()
            .map(|(path, kind)| {
                format!("{path}_{}", kind.as_str().map_or_else(|| "1".to_owned(), str::to_owned))
            })
            .collect();
        let mut index = doc! { "name": name.join("_"), "key": key.to_document().clone() };
        if unique {
            index.insert("unique", true);
        }
        primary.command(
            database,
            &doc! { "createIndexes": collection, "indexes": [index] },
            &SendPolicy::write(),
        )?;
        indexes = primary.find_all(database, &list)?;
    }
    let uuid = found.get_document("info").ok().and_then(|info| info.get("uuid")).cloned();
    Ok(CollectionPresence { options, uuid, indexes, empty })
}

/// Refuses a collection that a view reads: the primary shard, which resolves the view, would read only its own part of the
/// collection. (A view on a sharded collection is refused when it is created.)
fn refuse_views(primary: &Backend, database: &str, collection: &str) -> Result<()> {
    let list = doc! { "listCollections": 1, "filter": { "type": "view" } };
    for view in primary.find_all(database, &list)? {
        let Ok(options) = view.get_document("options") else { continue };
        let on = options.get_str("viewOn").is_ok_and(|on| on == collection);
        if on || options.get("pipeline").is_some_and(|pipeline| reads(pipeline, collection)) {
            let name = view.get_str("name").unwrap_or_default();
            let what = format!(
                "the view {database}.{name} reads {database}.{collection}, and this router has no views on sharded collections: drop it first"
            );
            return Err(Failure::new(Code::CommandNotSupported, what));
        }
    }
    Ok(())
}

/// Whether a pipeline reads a collection: `from` of $lookup and $graphLookup, `coll` of $unionWith, or its short form.
fn reads(value: &Bson, collection: &str) -> bool {
    match value {
        Bson::Array(values) => values.iter().any(|value| reads(value, collection)),
        Bson::Document(document) => document.iter().any(|(name, value)| {
            let names = matches!(name.as_str(), "from" | "coll" | "$unionWith");
            (names && value.as_str() == Some(collection)) || reads(value, collection)
        }),
        _ => false,
    }
}

/// Whether an index begins with the shard key, covers every document, and is unique if `unique` asks for it.
fn serves(index: &Document, key: &ShardKey, unique: bool) -> bool {
    let Ok(pattern) = index.get_document("key") else { return false };
    let begins = key.to_document().iter().zip(pattern).all(|((path, kind), (other, theirs))| {
        let same = match kind {
            Bson::String(_) => theirs == kind,
            _ => !matches!(theirs, Bson::String(_)),
        };
        path == other && same
    });
    let is_id = pattern.len() == 1 && pattern.contains_key("_id") && !key.is_hashed();
    let is_unique =
        is_id || (index.get_bool("unique").unwrap_or(false) && pattern.len() == key.to_document().len());
    begins
        && pattern.len() >= key.to_document().len()
        && !index.get_bool("sparse").unwrap_or(false)
        && !index.contains_key("partialFilterExpression")
        && (!unique || is_unique)
}

/// Creates the same collection, with the same indexes, on another shard.
fn copy_collection(
    shard: &Backend,
    (database, collection): (&str, &str),
    there: &CollectionPresence,
) -> Result<()> {
    let mut create = doc! { "create": collection };
    create.extend(there.options.clone());
    match shard.command(database, &create, &SendPolicy::write()) {
        Err(failure) if failure.code() != Code::NamespaceExists => return Err(failure),
        _ => {}
    }
    // An earlier collection of that name may have left documents on this shard.
    let left =
        shard.find_all(database, &doc! { "find": collection, "limit": 1, "projection": { "_id": 1 } })?;
    if !left.is_empty() {
        let what = format!(
            "the shard {} has documents of a collection {database}.{collection} that is not its own: drop it there first",
            shard.id()
        );
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    let indexes: Vec<Document> = there
        .indexes
        .iter()
        .filter(|index| index.get_str("name").is_ok_and(|name| name != "_id_"))
        .map(|index| index.clone().into_iter().filter(|(name, _)| name != "ns").collect())
        .collect();
    if !indexes.is_empty() {
        shard.command(
            database,
            &doc! { "createIndexes": collection, "indexes": indexes },
            &SendPolicy::write(),
        )?;
    }
    Ok(())
}

/// Drops a sharded collection.
pub(crate) fn drop_sharded(instance: &Arc<Instance>, namespace: &str) -> Result<()> {
    let _held = locks::hold(instance, namespace, "drop")?;
    drop_locked(instance, namespace)
}

fn drop_locked(instance: &Arc<Instance>, namespace: &str) -> Result<()> {
    let Some((database, collection)) = namespace.split_once('.') else { return Ok(()) };
    note(instance, "dropCollection.start", namespace, doc! {});
    instance.cluster.reload()?;
    for shard in instance.cluster.shards() {
        let dropped = shard.backend.command(database, &doc! { "drop": collection }, &SendPolicy::write());
        match dropped {
            Err(failure) if failure.code() != Code::NamespaceNotFound => return Err(failure),
            _ => {}
        }
    }
    let config = instance.cluster.config();
    let change = doc! { "$set": { "dropped": true, "lastmod": DateTime::now() } };
    config.config_update("collections", doc! { "_id": namespace }, change, false)?;
    config.config_delete("chunks", doc! { "ns": namespace })?;
    instance.catalog.forget(namespace);
    tell_shards(instance, namespace)?;
    note(instance, "dropCollection", namespace, doc! {});
    Ok(())
}

/// Drops a database with all its collections; returns whether it existed.
pub(crate) fn drop_database(instance: &Arc<Instance>, database: &str) -> Result<bool> {
    let _held = locks::hold(instance, database, "dropDatabase")?;
    instance.catalog.forget_all_of(database);
    let Some(entry) = instance.catalog.database(&instance.cluster, database)? else { return Ok(false) };
    note(instance, "dropDatabase.start", database, doc! {});
    let config = instance.cluster.config();
    for collection in
        config.config_find("collections", doc! { "dropped": { "$ne": true } }, doc! { "_id": 1 })?
    {
        let namespace = collection.get_str("_id").unwrap_or_default().to_owned();
        if namespace.split_once('.').is_some_and(|(name, _)| name == database) {
            let _held = locks::hold(instance, &namespace, "dropDatabase")?;
            drop_locked(instance, &namespace)?;
        }
    }
    instance.cluster.reload()?;
    let primary = instance.cluster.shard(&entry.primary)?;
    for shard in instance.cluster.shards().into_iter().map(|shard| shard.backend).chain([primary]) {
        shard.command(database, &doc! { "dropDatabase": 1 }, &SendPolicy::write())?;
    }
    config.config_delete("databases", doc! { "_id": database })?;
    instance.catalog.forget_all_of(database);
    for shard in instance.cluster.shards() {
        let command = doc! { "_flushDatabaseCacheUpdates": database };
        shard.backend.command("admin", &command, &SendPolicy { idempotent: true, ..SendPolicy::write() })?;
    }
    note(instance, "dropDatabase", database, doc! {});
    Ok(true)
}
