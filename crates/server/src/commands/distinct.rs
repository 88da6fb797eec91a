//! `distinct`: the different values under a path, arrays taken apart.
//!
//! An index that has the path spares the records. If it begins with the path and nothing else is asked, the walk jumps from
//! one value to the next.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use fathom_query::{Code, Failure, Filter};

use super::{Reply, hint_of, refuse_collation};
use crate::Result;
use crate::execution::{Aggregation, FindQuery, FindState, Planned, Taken, Values, first_values, needed};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Writes the values.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    op.figures.namespace = request.namespace()?;
    let (query, key) = query_of(op, request.body())?;
    let _ticket = op.read_ticket()?;
    let mut values = Values::new(&key);
    collect(op, query, request.body(), &mut values)?;
    values.write(&mut reply.begin_array("values"));
    Ok(())
}

/// The query of a `distinct` command, also within `explain`, and its path.
pub(super) fn query_of(op: &mut Operation<'_>, body: &RawDocument) -> Result<(FindQuery, String)> {
    refuse_collation(parse::field(body, "collation"))?;
    let key = match parse::field(body, "key") {
        Some(RawBsonRef::String(key)) => key,
        None => return Err(parse::missing("distinct.key")),
        Some(other) => return Err(parse::wrong_type("distinct.key", other, "string")),
    };
    if key.contains('\0') {
        return Err(Failure::new(Code(31032), "Key field cannot contain an embedded null byte"));
    }
    let variables = op.variables().clone();
    let filter = parse::document(body, "query")?.unwrap_or_else(|| parse::empty());
    let mut query = FindQuery::of(Filter::parse(filter, &variables)?);
    query.hint = hint_of(parse::field(body, "hint"))?;
    let top = key.split('.').next().unwrap_or(key).to_owned();
    query.needed = needed(&std::iter::once(top).collect(), &variables)?;
    Ok((query, key.to_owned()))
}

fn collect(op: &mut Operation<'_>, query: FindQuery, body: &RawDocument, values: &mut Values) -> Result<()> {
    let Some(collection) = op.instance.catalog.get(&op.figures.namespace) else {
        op.figures.plan = Some("EOF".into());
        return Ok(());
    };
    let state = collection.lock();
    if state.options.is_view() {
        drop(state);
        let asked = on_view(&op.figures.namespace, body)?;
        let mut rows = Planned::new(op, &asked)?.into_rows();
        while let Some(row) = rows.next(op)? {
            values.add(&row)?;
        }
        return Ok(());
    }
    let all_own =
        op.ownership.is_none() || op.instance.sharding.known.is_clean(op.instance, &op.figures.namespace);
    if all_own
        && query.filter.is_empty()
        && query.hint.is_none()
        && first_values(op, &collection, &state, values)?
    {
        return Ok(());
    }
    FindState::new(op, &state, query)?.fill(op, &collection, &state, &mut |document| {
        values.add(document)?;
        Ok(Taken::More)
    })
}

/// The pipeline that a distinct on a view is; its rows are taken apart as those of a collection.
pub(super) fn on_view(namespace: &str, body: &RawDocument) -> Result<Aggregation> {
    let filter: RawDocumentBuf = parse::document(body, "query")?.unwrap_or_else(|| parse::empty()).to_owned();
    super::aggregate::find_on_view(namespace, &rawdoc! { "filter": filter })
}
