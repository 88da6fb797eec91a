//! Commands that change the running server: `getParameter` and `setParameter`, `setFeatureCompatibilityVersion`, and `configureFailPoint` on a
//! server that was started with `enableTestCommands=1`.

use bson::{Bson, RawBsonRef, doc};
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::config::version;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::{Request, is_generic};
use crate::server_parameters;

/// `getParameter`: one parameter, several, or all (`*`), with details on request.
pub(super) fn get(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let (every, details) = match request.target {
        RawBsonRef::String("*") => (true, false),
        RawBsonRef::Document(options) => {
            (parse::boolean(options, "allParameters")?, parse::boolean(options, "showDetails")?)
        }
        _ => (false, false),
    };
    let mut found = false;
    for parameter in server_parameters::all(op.instance) {
        if !every && request.field(parameter.name).is_none() {
            continue;
        }
        let Some(value) = server_parameters::read(op.instance, parameter) else { continue };
        found = true;
        if details {
            let (start, running) = server_parameters::settable(parameter);
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

/// `setParameter`: changes parameters while the server runs. All names are checked before the first value changes.
///
/// Changes them; the reply contains the previous value of the first one.
pub(super) fn set(op: &mut OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut changes = Vec::new();
    for element in request.body().iter().skip(1) {
        let (name, value) = element.map_err(|error| parse::malformed(&error))?;
        let name = name.as_str();
        if !is_generic(name) {
            changes.push((server_parameters::to_change(op.instance, name)?, value));
        }
    }
    if changes.is_empty() {
        let what = "no option found to set, use help:true to see options ";
        return Err(Failure::new(Code::InvalidOptions, what));
    }
    for (place, (parameter, value)) in changes.into_iter().enumerate() {
        let before = server_parameters::read(op.instance, parameter);
        server_parameters::write(op.instance, parameter, value)?;
        let after = server_parameters::read(op.instance, parameter);
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

/// `setFeatureCompatibilityVersion`: the claimed version is fixed. A change to another would have no effect on the disk
/// here, so it is refused rather than pretended.
///
/// Accepts only the version that is set already.
pub(super) fn set_compatibility_version(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let RawBsonRef::String(wanted) = request.target else {
        let found = crate::parse::type_name(request.target);
        let what = format!("Command argument must be of type String, but was {found}");
        return Err(Failure::new(Code::TypeMismatch, what));
    };
    let [major, minor, ..] = version::numbers(&op.instance.config.claimed_version);
    let here = format!("{major}.{minor}");
    if wanted == here {
        return Ok(());
    }
    let what = format!(
        "this server stays at the feature compatibility version {here}; start it with --claimedVersion for another than '{wanted}'"
    );
    Err(Failure::new(Code::CommandNotSupported, what))
}

/// `configureFailPoint`: causes failures on demand, on a server that was started with `enableTestCommands=1`.
///
/// Sets a fail point. A server that was not started for tests does not have the command, as in mongod.
pub(super) fn configure_fail_point(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let fail_points = &op.instance.fail_points;
    if !fail_points.are_allowed() {
        return Err(Failure::new(Code::CommandNotFound, "no such command: 'configureFailPoint'"));
    }
    let bson::RawBsonRef::String(name) = request.target else {
        return Err(parse::wrong_type("configureFailPoint", request.target, "string"));
    };
    let mode = request.field("mode").ok_or_else(|| parse::missing("configureFailPoint.mode"))?;
    let data = parse::document(request.fields, "data")?.unwrap_or(parse::empty());
    let count = fail_points.configure(name, mode, data)?;
    op.instance.log.warning(
        "COMMAND",
        23829,
        &format!("conn{}", op.client.id),
        "Set failpoint",
        bson::doc! { "failPointName": name },
    );
    reply.i64("count", count);
    Ok(())
}
