//! `getLog`: the last lines of the log, or the warnings of the start.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::request::Request;

static NAMES: [&str; 2] = ["global", "startupWarnings"];

/// Writes them.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::String(name) = request.target else {
        let found = crate::parse::type_name(request.target);
        let what = format!("Argument to getLog must be of type String; found a value of type {found}");
        return Err(Failure::new(Code::TypeMismatch, what));
    };
    if name == "*" {
        let mut names = reply.begin_array("names");
        NAMES.iter().for_each(|name| names.string(name));
        return Ok(());
    }
    let (lines, total) = match name {
        "global" => op.instance.log.recent(),
        "startupWarnings" => {
            let lines = op.instance.log.startup_warnings();
            let total = u64::try_from(lines.len()).unwrap_or(u64::MAX);
            (lines, total)
        }
        _ => return Err(Failure::new(Code::OperationFailed, format!("no RamLog named: {name}"))),
    };
    reply.i32("totalLinesWritten", i32::try_from(total).unwrap_or(i32::MAX));
    let mut log = reply.begin_array("log");
    lines.iter().for_each(|line| log.string(line));
    Ok(())
}
