//! The commands on clients' operations: list and kill running ones (`currentOp`, `killOp`), and log and record slow ones (`profile`).

use bson::{Document, RawBsonRef};
use fathom_query::{Code, Failure, Filter};

use super::Reply;
use crate::Result;
use crate::completion::prepare_profile;
use crate::execution::stages::{StageDescription, current_operations, kill_operation};
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::{Request, is_generic};

/// `currentOp`: the running operations, and whether `fsync` locked the server. Fields other than the common ones are conditions on
/// the documents, as in mongod.
///
/// Writes one document for each operation that matches the conditions.
pub(super) fn current(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let own = parse::boolean(request.fields, "$ownOps")?;
    let idle = parse::boolean(request.fields, "$all")?;
    let shown = StageDescription { idle, all_users: !own, ..StageDescription::default() };
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

fn conditions(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<Filter> {
    let mut conditions = Document::new();
    for element in request.body().iter().skip(1) {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        let name = name.as_str();
        if !matches!(name, "$all" | "$ownOps") && !is_generic(name) {
            conditions.insert(name, parse::owned_value(value)?);
        }
    }
    Filter::parse(&parse::raw_of(&conditions)?, op.variables())
}

/// `killOp`: asks an operation to stop, which it does at its next check for interrupts.
///
/// Sends the request; like mongod, the reply does not reveal whether the operation existed.
pub(super) fn kill(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let value = request
        .field("op")
        .ok_or_else(|| Failure::new(Code::NoSuchKey, "Did not provide \"op\" field".to_owned()))?;
    let number = parse::integer_of(value).ok_or_else(|| parse::wrong_type("op", value, "number"))?;
    reply.string("info", "attempting to kill op");
    if let Ok(number) = u64::try_from(number) {
        kill_operation(op.instance, op.client, number, true);
    }
    Ok(())
}

/// `profile`: sets the threshold of slow operations, the share of them that is logged, and the operations of a database
/// that its `system.profile` records. A filter for them came with 4.4.2 and is refused.
///
/// Returns the previous settings and changes them; the level -1 only returns them.
pub(super) fn profile(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    if request.field("filter").is_some() {
        return Err(Failure::new(Code::CommandNotSupported, "this server does not have 'filter' of profile"));
    }
    let level = parse::integer_of(request.target)
        .ok_or_else(|| parse::wrong_type("profile", request.target, "int"))?;
    let level = i32::try_from(level)
        .ok()
        .filter(|level| (-1..=2).contains(level))
        .ok_or_else(|| Failure::new(Code::BadValue, "profiling level has to be >=0 and <= 2".to_owned()))?;
    let slow_ms = parse::integer(request.fields, "slowms")?;
    let sample_rate = match request.field("sampleRate") {
        None => None,
        Some(value) => Some(share(value)?),
    };
    let profiler = &op.instance.profiler;
    reply.i32("was", profiler.level(request.database));
    reply.i32("slowms", i32::try_from(profiler.slow_ms()).unwrap_or(i32::MAX));
    reply.f64("sampleRate", profiler.sample_rate());
    if level > 0 {
        prepare_profile(op.instance, request.database)?;
    }
    if level >= 0 {
        profiler.set_level(request.database, level);
    }
    slow_ms.into_iter().for_each(|slow_ms| profiler.set_slow_ms(slow_ms));
    sample_rate.into_iter().for_each(|share| profiler.set_sample_rate(share));
    Ok(())
}

fn share(value: RawBsonRef<'_>) -> Result<f64> {
    let share = match value {
        RawBsonRef::Double(share) => share,
        RawBsonRef::Int32(share) => f64::from(share),
        #[expect(clippy::cast_precision_loss, reason = "0 and 1 are exact, and nothing else is taken")]
        RawBsonRef::Int64(share) => share as f64,
        other => return Err(parse::wrong_type("sampleRate", other, "double")),
    };
    if !(0.0..=1.0).contains(&share) {
        return Err(Failure::new(Code::BadValue, "'sampleRate' must be between 0.0 and 1.0 inclusive"));
    }
    Ok(share)
}
