//! Which shards a statement concerns, and which statements a sharded collection cannot take
//! (mongodb/mongo@v4.0:src/mongo/s/write_ops/chunk_manager_targeter.cpp).

use bson::{RawBsonRef, RawDocument};
use fathom_query::Filter;
use fathom_service::parse;
use fathom_sharding::RoutingTable;
use fathom_wire::{Code, Failure};

use super::document_field;
use super::statements::{Batch, Verb};
use crate::Result;
use crate::route::Route;

impl Batch<'_> {
    /// The shards of the statement at a place.
    pub(super) fn target(&self, place: usize, route: &Route) -> Result<Vec<String>> {
        let Some(statement) = self.statements.get(place) else { return Ok(Vec::new()) };
        let Some(table) = &route.table else { return Ok(vec![route.primary.id().to_owned()]) };
        match self.verb {
            Verb::Insert => at(table, &table.key().key_to_store(statement)?),
            Verb::Update => self.target_update(statement, table),
            Verb::Delete => self.target_delete(statement, table),
        }
    }

    fn target_update(&self, statement: &RawDocument, table: &RoutingTable) -> Result<Vec<String>> {
        let filter = Filter::parse(document_field(statement, "q")?, &self.variables)?;
        let upsert = parse::boolean(statement, "upsert")?;
        let multi = parse::boolean(statement, "multi")?;
        if let Some(key) = table.key().key_of_filter(&filter) {
            return at(table, &key);
        }
        if upsert {
            let what = format!(
                "An upsert on a sharded collection must contain the shard key and have the simple collation. Update request: {statement:?}, shard key pattern: {}",
                table.key().to_document()
            );
            return Err(Failure::new(Code::ShardKeyNotFound, what));
        }
        // A document in place of another has the key that it had.
        if let Some(RawBsonRef::Document(replacement)) = parse::field(statement, "u")
            && !multi
            && is_replacement(replacement)
        {
            let with_id = table.key().is_id() && replacement.get("_id").ok().flatten().is_none();
            if !with_id {
                return at(table, &table.key().key_of(replacement)?);
            }
        }
        if !multi && filter.only_id().is_none() && !holds_id(&filter) {
            let what = format!(
                "A single update on a sharded collection must contain an exact match on _id (and have the collection default collation) or contain the shard key (and have the simple collation). Update request: {statement:?}, shard key pattern: {}",
                table.key().to_document()
            );
            return Err(Failure::new(Code::InvalidOptions, what));
        }
        Ok(table.target(&filter)?.shards)
    }

    fn target_delete(&self, statement: &RawDocument, table: &RoutingTable) -> Result<Vec<String>> {
        let filter = Filter::parse(document_field(statement, "q")?, &self.variables)?;
        if let Some(key) = table.key().key_of_filter(&filter) {
            return at(table, &key);
        }
        let one = parse::integer(statement, "limit")?.ok_or_else(|| parse::missing("limit"))? == 1;
        if one && filter.only_id().is_none() && !holds_id(&filter) {
            let what = format!(
                "A single delete on a sharded collection must contain an exact match on _id (and have the collection default collation) or contain the shard key (and have the simple collation). Delete request: {statement:?}, shard key pattern: {}",
                table.key().to_document()
            );
            return Err(Failure::new(Code::ShardKeyNotFound, what));
        }
        Ok(table.target(&filter)?.shards)
    }
}

fn at(table: &RoutingTable, key: &[u8]) -> Result<Vec<String>> {
    let shard = table.shard_of(key).ok_or_else(|| {
        Failure::new(Code::ShardKeyNotFound, "no chunk holds the shard key of the statement")
    })?;
    Ok(vec![shard.to_owned()])
}

/// Whether an update names no operator.
fn is_replacement(update: &RawDocument) -> bool {
    update
        .iter()
        .next()
        .and_then(std::result::Result::ok)
        .is_none_or(|(name, _)| !name.as_str().starts_with('$'))
}

/// Whether a filter holds `_id` to one value, among other things.
fn holds_id(filter: &Filter) -> bool {
    filter.equalities().iter().any(|(path, value)| path == "_id" && !matches!(value, bson::Bson::Array(_)))
}
