//! `profile`: what counts as slow, which share of it is logged, and which operations of a database are kept in its
//! `system.profile`. A filter for them came with 4.4.2 and is refused.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::diagnostics::slow::prepare_profile;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Answers with the settings as they were, and changes them; the level -1 only answers.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
