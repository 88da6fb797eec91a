//! `setParameter`: changes parameters while the server runs. All names are checked before the first value changes.

use bson::{Bson, doc};
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::command::GENERIC_FIELDS;
use crate::operation::Operation;
use crate::parameters;
use crate::parse;
use crate::request::Request;

/// Changes them; the reply says what the first one was.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut changes = Vec::new();
    for element in request.body().iter().skip(1) {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        let name = name.as_str();
        let shared = ["$db", "maxTimeMS", "writeConcern", "readConcern"];
        if !shared.contains(&name) && !GENERIC_FIELDS.contains(&name) {
            changes.push((parameters::to_change(op.instance, name)?, value));
        }
    }
    if changes.is_empty() {
        let what = "no option found to set, use help:true to see options ";
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    for (place, (parameter, value)) in changes.into_iter().enumerate() {
        let before = parameters::read(op.instance, parameter);
        parameters::write(op.instance, parameter, value)?;
        let after = parameters::read(op.instance, parameter);
        let attributes = doc! {
            "parameterName": parameter.name,
            "oldValue": before.clone().unwrap_or(Bson::Null),
            "newValue": after.unwrap_or(Bson::Null),
        };
        let context = format!("conn{}", op.client.id);
        op.instance.log.info("COMMAND", 23435, &context, "Successfully set parameter to value", attributes);
        if let (0, Some(before)) = (place, before) {
            reply.bson("was", &before);
        }
    }
    Ok(())
}
