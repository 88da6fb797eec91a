//! The stage `$graphLookup`: finds the documents that a row reaches through links in another collection, level by level.

use std::collections::HashSet;

use bson::{Bson, Document, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::context::{Query, Rows, StageContext, StageMemory, sized};
use super::document::with;
use super::parse::{StageLimits, kind, members, object, refused, whole};
use super::stages::Stage;
use crate::expression::canonical;
use crate::expression::path::{of_document, split};
use crate::expression::value::{Value, decode_document, malformed};
use crate::{Expression, Filter, Result};

/// A search through links.
#[derive(Clone, Debug)]
pub(super) struct GraphLookup {
    from: String,
    start: Expression,
    /// The path of the values that a document links to.
    connect_from: Vec<String>,
    /// The path at which other documents link to a document.
    connect_to: String,
    into: Vec<String>,
    depth_max: Option<i64>,
    depth_field: Option<Vec<String>>,
    restriction: Option<Document>,
}

/// `$graphLookup: {from, startWith, connectFromField, connectToField, as, maxDepth, depthField, restrictSearchWithMatch}`.
pub(super) fn parse(_: &'static str, value: RawBsonRef<'_>, limits: &StageLimits<'_>) -> Result<Vec<Stage>> {
    let document = object(value, 40327, "the $graphLookup stage specification must be an object")?;
    let names = [
        "from",
        "startWith",
        "connectFromField",
        "connectToField",
        "as",
        "maxDepth",
        "depthField",
        "restrictSearchWithMatch",
    ];
    let [from, start, connect_from, connect_to, into, depth_max, depth_field, restriction] =
        members(document, names, (40104, "Unknown argument to $graphLookup"))?;
    let text = |name: &str, value: Option<RawBsonRef<'_>>| match value {
        Some(RawBsonRef::String(text)) => Ok(text.to_owned()),
        Some(other) => {
            refused(40103, format!("expected string as argument for {name}, found: {}", kind(other)))
        }
        None => refused(
            40105,
            format!(
                "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified, and {name} is not"
            ),
        ),
    };
    let depth_max = parse_depth(depth_max)?;
    let restriction = match restriction {
        None => None,
        Some(RawBsonRef::Document(filter)) => {
            Filter::parse(filter, limits.variables)?;
            Some(decode_document(filter)?)
        }
        Some(other) => {
            return refused(
                40185,
                format!("restrictSearchWithMatch must be an object, found {}", kind(other)),
            );
        }
    };
    let Some(start) = start else {
        return refused(
            40105,
            "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be specified",
        );
    };
    let connect_to = text("connectToField", connect_to)?;
    split(&connect_to)?;
    Ok(vec![Stage::GraphLookup(GraphLookup {
        from: text("from", from)?,
        start: Expression::parse_with(start, limits.variables)?,
        connect_from: split(&text("connectFromField", connect_from)?)?,
        connect_to,
        into: split(&text("as", into)?)?,
        depth_max,
        depth_field: depth_field
            .map(|field| text("depthField", Some(field)).and_then(|field| split(&field)))
            .transpose()?,
        restriction,
    })])
}

fn parse_depth(depth: Option<RawBsonRef<'_>>) -> Result<Option<i64>> {
    match depth.map(|depth| (depth, whole(depth))) {
        None => Ok(None),
        Some((_, Some(depth))) if depth >= 0 => Ok(Some(depth)),
        Some((_, Some(_))) => refused(40101, "maxDepth requires a nonnegative argument"),
        Some((depth, None)) => refused(
            40100,
            format!("maxDepth must be numeric and a 64-bit integer, found type: {}", kind(depth)),
        ),
    }
}

impl GraphLookup {
    /// The collection that it reads.
    pub(super) fn collection(&self) -> &str {
        &self.from
    }

    pub(super) fn run(self, rows: Rows, context: &StageContext) -> Rows {
        let context = context.clone();
        Box::new(rows.map(move |row| {
            let row = row?;
            let found = self.search(&row, &context)?;
            with(&row, &self.into, &Value::Raw(RawBsonRef::Array(&found))).and_then(sized)
        }))
    }

    fn search(&self, row: &RawDocument, context: &StageContext) -> Result<RawArrayBuf> {
        let mut memory = StageMemory::new("$graphLookup");
        let mut found = RawArrayBuf::new();
        let (mut asked, mut visited) = (HashSet::new(), HashSet::new());
        let mut frontier = Vec::new();
        spread(self.start.evaluate(row, &context.variables)?, &mut asked, &mut frontier)?;
        let mut depth = 0;
        while !frontier.is_empty() && self.depth_max.is_none_or(|most| depth <= most) {
            let mut next = Vec::new();
            for document in self.level(std::mem::take(&mut frontier), context)? {
                let id = of_document(&document, &["_id".to_owned()])?;
                if !visited.insert(canonical::encode(&id)?) {
                    continue;
                }
                memory.take(document.as_bytes().len())?;
                spread(of_document(&document, &self.connect_from)?.into_bson()?, &mut asked, &mut next)?;
                match &self.depth_field {
                    Some(field) => {
                        let document = with(&document, field, &Value::Own(Bson::Int64(depth)))?;
                        found.push(RawBsonRef::Document(&document));
                    }
                    None => found.push(RawBsonRef::Document(&document)),
                }
            }
            frontier = next;
            depth += 1;
        }
        Ok(found)
    }

    /// The documents that have one of the values at the linked path.
    fn level(&self, values: Vec<Bson>, context: &StageContext) -> Result<Vec<RawDocumentBuf>> {
        let mut filter = doc! { self.connect_to.as_str(): { "$in": values } };
        if let Some(restriction) = &self.restriction {
            filter = doc! { "$and": [filter, restriction.clone()] };
        }
        let filter = RawDocumentBuf::try_from(&filter).map_err(malformed)?;
        let filter = Filter::parse(&filter, &context.variables)?;
        context.host.find(&self.from, Query { filter, sort: None, limit: None })?.collect()
    }
}

/// The values to look for next: each element of an array, each only once.
fn spread(value: Option<Bson>, asked: &mut HashSet<Vec<u8>>, frontier: &mut Vec<Bson>) -> Result<()> {
    let values = match value {
        None => Vec::new(),
        Some(Bson::Array(values)) => values,
        Some(value) => vec![value],
    };
    for value in values {
        if asked.insert(canonical::encode(&Value::Ref(&value))?) {
            frontier.push(value);
        }
    }
    Ok(())
}
