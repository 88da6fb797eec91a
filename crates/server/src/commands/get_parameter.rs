//! `getParameter`: one parameter, several, or all (`*`), with details where they are asked for.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parameters;
use crate::parse;
use crate::request::Request;

/// Writes them.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let (every, details) = match request.target {
        RawBsonRef::String("*") => (true, false),
        RawBsonRef::Document(options) => {
            (parse::boolean(options, "allParameters")?, parse::boolean(options, "showDetails")?)
        }
        _ => (false, false),
    };
    let mut found = false;
    for parameter in parameters::all(op.instance) {
        if !every && request.field(parameter.name).is_none() {
            continue;
        }
        let Some(value) = parameters::read(op.instance, parameter) else { continue };
        found = true;
        if details {
            let (start, running) = parameters::settable(parameter);
            let mut detail = reply.begin_document(parameter.name);
            detail.bson("value", &value);
            detail.bool("settableAtRuntime", running);
            detail.bool("settableAtStartup", start);
        } else {
            reply.bson(parameter.name, &value);
        }
    }
    if found { Ok(()) } else { Err(Failure::new(Code::InvalidOptions, "no option found to get")) }
}
