//! The statements of a batch, and the command that carries some of them to a shard.

use std::borrow::Cow;

use bson::{Bson, RawDocument};
use fathom_query::Variables;
use fathom_service::parse;
use fathom_wire::Code;

use super::with_id;
use crate::Result;
use crate::counters::Counters;
use crate::outgoing::Outgoing;
use crate::request::Request;

/// What a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    /// The field that holds the statements.
    pub(super) fn field(self) -> &'static str {
        match self {
            Verb::Insert => "documents",
            Verb::Update => "updates",
            Verb::Delete => "deletes",
        }
    }

    pub(super) fn count(self, counters: &Counters, statements: usize) {
        let counter = match self {
            Verb::Insert => &counters.inserts,
            Verb::Update => &counters.updates,
            Verb::Delete => &counters.deletes,
        };
        counter.add(statements as u64);
    }
}

/// A batch as it came.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) verb: Verb,
    pub(super) statements: Vec<Cow<'a, RawDocument>>,
    pub(super) ordered: bool,
    pub(super) variables: Variables,
    /// The number of the first statement, by which a set knows each of them again.
    first_number: i64,
    numbered: bool,
}

impl<'a> Batch<'a> {
    pub(super) fn read(request: &Request<'a>, verb: Verb) -> Result<Batch<'a>> {
        let documents = request.documents(verb.field())?;
        let statements = documents.into_iter().map(|document| match verb {
            Verb::Insert if document.get("_id").ok().flatten().is_none() => Cow::Owned(with_id(document)),
            _ => Cow::Borrowed(document),
        });
        let ordered = match request.field("ordered") {
            None => true,
            Some(_) => parse::boolean(request.fields, "ordered")?,
        };
        if request.field("stmtIds").is_some() && request.is_numbered {
            let what = "a client's own stmtIds are not in this router";
            return Err(fathom_wire::Failure::new(Code::CommandNotSupported, what));
        }
        Ok(Batch {
            verb,
            statements: statements.collect(),
            ordered,
            variables: crate::variables::variables_of(request)?,
            first_number: parse::integer(request.fields, "stmtId")?.unwrap_or(0),
            numbered: request.is_numbered,
        })
    }

    /// The command for some of the statements.
    pub(super) fn command<'s>(&'s self, request: &Request<'_>, places: &[usize]) -> Result<Outgoing<'s>> {
        let left_out = ["documents", "updates", "deletes", "stmtId"];
        let numbers: Vec<Bson> = places
            .iter()
            .map(|place| {
                let number = self.first_number.saturating_add(i64::try_from(*place).unwrap_or(i64::MAX));
                Bson::Int32(i32::try_from(number).unwrap_or(i32::MAX))
            })
            .collect();
        let command = Outgoing::forwarded(request, &left_out, |body| {
            if self.numbered {
                body.bson("stmtIds", &Bson::Array(numbers));
            }
        })?;
        let statements = places.iter().filter_map(|place| self.statements.get(*place)).map(AsRef::as_ref);
        Ok(command.with_sequence(self.verb.field(), statements.collect()))
    }
}
