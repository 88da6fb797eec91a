//! The statements of a batch, the shards that each concerns, and the command that carries some of them to a shard
//! (mongodb/mongo@v4.0:src/mongo/s/write_ops/chunk_manager_targeter.cpp).

use std::borrow::Cow;

use bson::{Bson, RawBsonRef, RawDocument, RawDocumentBuf};
use fathom_query::{Filter, Variables};
use fathom_service::parse;
use fathom_sharding::RoutingTable;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::counters::RouterCounters;
use crate::request::Request;
use crate::route::Route;
use crate::shard_command::ShardCommand;

/// The kind of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchType {
    Insert,
    Update,
    Delete,
}

impl BatchType {
    /// The field that holds the statements.
    pub(super) fn field(self) -> &'static str {
        match self {
            BatchType::Insert => "documents",
            BatchType::Update => "updates",
            BatchType::Delete => "deletes",
        }
    }

    pub(super) fn count(self, counters: &RouterCounters, statements: usize) {
        let counter = match self {
            BatchType::Insert => &counters.inserts,
            BatchType::Update => &counters.updates,
            BatchType::Delete => &counters.deletes,
        };
        counter.add(statements as u64);
    }
}

/// A batch as the client sent it.
#[derive(Debug)]
pub(super) struct StatementBatch<'a> {
    pub(super) verb: BatchType,
    pub(super) statements: Vec<Cow<'a, RawDocument>>,
    pub(super) ordered: bool,
    pub(super) variables: Variables,
    /// The number of the first statement, by which a set recognizes each of them.
    first_number: i64,
    numbered: bool,
}

impl<'a> StatementBatch<'a> {
    pub(super) fn read(request: &Request<'a>, verb: BatchType) -> Result<StatementBatch<'a>> {
        let documents = request.documents(verb.field())?;
        let statements = documents.into_iter().map(|document| match verb {
            BatchType::Insert if document.get("_id").ok().flatten().is_none() => {
                Cow::Owned(with_id(document))
            }
            _ => Cow::Borrowed(document),
        });
        let ordered = match request.field("ordered") {
            None => true,
            Some(_) => parse::boolean(request.fields, "ordered")?,
        };
        if request.field("stmtIds").is_some() && request.generic.is_numbered {
            let what = "a client's own stmtIds are not in this router";
            return Err(fathom_wire::Failure::new(Code::CommandNotSupported, what));
        }
        Ok(StatementBatch {
            verb,
            statements: statements.collect(),
            ordered,
            variables: crate::request::variables_of(request)?,
            first_number: parse::integer(request.fields, "stmtId")?.unwrap_or(0),
            numbered: request.generic.is_numbered,
        })
    }

    /// The command for some of the statements.
    pub(super) fn command<'s>(&'s self, request: &Request<'_>, places: &[usize]) -> Result<ShardCommand<'s>> {
        let left_out = ["documents", "updates", "deletes", "stmtId"];
        let numbers: Vec<Bson> = places
            .iter()
            .map(|place| {
                let number = self.first_number.saturating_add(i64::try_from(*place).unwrap_or(i64::MAX));
                Bson::Int32(i32::try_from(number).unwrap_or(i32::MAX))
            })
            .collect();
        let command = ShardCommand::forwarded(request, &left_out, |body| {
            if self.numbered {
                body.bson("stmtIds", &Bson::Array(numbers));
            }
        })?;
        let statements = places.iter().filter_map(|place| self.statements.get(*place)).map(AsRef::as_ref);
        Ok(command.with_sequence(self.verb.field(), statements.collect()))
    }
}

/// The field of a statement that must be a document.
pub(super) fn document_field<'d>(statement: &'d RawDocument, name: &str) -> Result<&'d RawDocument> {
    parse::document(statement, name)?.ok_or_else(|| parse::missing(name))
}

/// A document as raw BSON with an `_id`; like mongos, adds one to a document without.
fn with_id(document: &RawDocument) -> RawDocumentBuf {
    let mut whole = RawDocumentBuf::new();
    whole.append(bson::cstr!("_id"), bson::oid::ObjectId::new());
    for (name, value) in document.iter().flatten() {
        whole.append(name, value);
    }
    whole
}

impl StatementBatch<'_> {
    /// The shards of the statement at a position.
    pub(super) fn target(&self, place: usize, route: &Route) -> Result<Vec<String>> {
        let Some(statement) = self.statements.get(place) else { return Ok(Vec::new()) };
        let Some(table) = &route.table else { return Ok(vec![route.primary.id().to_owned()]) };
        match self.verb {
            BatchType::Insert => at(table, &table.key().key_to_store(statement)?),
            BatchType::Update => self.target_update(statement, table),
            BatchType::Delete => self.target_delete(statement, table),
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
        // A replacement keeps the shard key of the document that it replaces.
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

/// Whether a filter requires one value of `_id`, among other conditions.
fn holds_id(filter: &Filter) -> bool {
    filter.equalities().iter().any(|(path, value)| path == "_id" && !matches!(value, bson::Bson::Array(_)))
}
