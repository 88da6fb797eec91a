//! `currentOp`: what runs at the moment, and whether `fsync` locked the server. Fields beyond the common ones are conditions on the
//! documents, as in mongod.

use bson::Document;
use fathom_query::Filter;

use super::Reply;
use crate::Result;
use crate::command::GENERIC_FIELDS;
use crate::diagnostics::current_op::{Shown, current_operations};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Writes one document for each operation that the conditions let through.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let own = parse::boolean(request.fields, "$ownOps")?;
    let shown = Shown { idle: parse::boolean(request.fields, "$all")?, all_users: !own };
    let filter = conditions(op, request)?;
    {
        let mut operations = reply.begin_array("inprog");
        for operation in current_operations(op.instance, op.client, shown) {
            let operation = parse::raw_of(&operation)?;
            if filter.matches(&operation)?.is_some() {
                operations.document(&operation);
            }
        }
    }
    if op.instance.write_gate.is_shut() {
        reply.bool("fsyncLock", true);
        reply.string("info", "writes wait until db.fsyncUnlock()");
    }
    Ok(())
}

fn conditions(op: &mut Operation<'_>, request: &Request<'_>) -> Result<Filter> {
    let mut conditions = Document::new();
    for element in request.body().iter().skip(1) {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        let name = name.as_str();
        let common = ["$all", "$ownOps", "$db", "maxTimeMS", "readConcern", "writeConcern"];
        if !common.contains(&name) && !GENERIC_FIELDS.contains(&name) {
            conditions.insert(name, parse::owned_value(value)?);
        }
    }
    Filter::parse(&parse::raw_of(&conditions)?, op.variables())
}
