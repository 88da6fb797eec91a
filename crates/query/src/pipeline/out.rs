//! `$out`: the rows take a collection's place.

use bson::RawBsonRef;

use super::Rows;
use super::context::Context;
use super::options::{kind, members, refused};
use super::parse::Limits;
use super::stages::Stage;
use crate::Result;

/// Where to.
#[derive(Clone, Debug)]
pub(super) struct Out {
    database: Option<String>,
    collection: String,
}

/// `$out: "collection"` or `{db, coll}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, _: &Limits<'_>) -> Result<Vec<Stage>> {
    let text = |value: Option<RawBsonRef<'_>>| value.and_then(RawBsonRef::as_str).map(str::to_owned);
    let (database, collection) = match value {
        RawBsonRef::String(collection) => (None, Some(collection.to_owned())),
        RawBsonRef::Document(document) => {
            let [database, collection] = members(
                document,
                ["db", "coll"],
                (16994, "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'"),
            )?;
            let (database, collection) = (text(database), text(collection));
            if database.is_none() || collection.is_none() {
                return refused(
                    16994,
                    "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'",
                );
            }
            (database, collection)
        }
        other => {
            return refused(
                16990,
                format!("$out only supports a string or object argument, but found {}", kind(other)),
            );
        }
    };
    match collection {
        Some(collection) if !collection.is_empty() => Ok(vec![Stage::Out(Out { database, collection })]),
        _ => refused(73, "Invalid $out target namespace: the collection has no name"),
    }
}

impl Out {
    /// Where to: the database, if it is named, and the collection.
    pub(super) fn target(&self) -> (Option<&str>, &str) {
        (self.database.as_deref(), &self.collection)
    }

    pub(super) fn run(self, rows: Rows, context: &Context) -> Result<Rows> {
        context.host.out(self.database.as_deref(), &self.collection, rows)?;
        Ok(Box::new(std::iter::empty()))
    }
}
