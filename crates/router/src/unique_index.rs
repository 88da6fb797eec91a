//! Unique indexes of sharded collections.

use bson::{Bson, Document, RawDocument};
use fathom_service::parse;
use fathom_wire::{Code, Failure};

use crate::Result;

/// Refuses what could not be kept unique over several shards.
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
