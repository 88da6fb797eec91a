//! The commands `startSession`, `refreshSessions`, `endSessions`, and those that kill the operations of sessions.

use std::collections::HashSet;

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument};
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::sessions::{SessionKey, SessionOwner, TIMEOUT_MINUTES, read_id, read_owner, read_shown};

/// The maximum number of sessions that one command may list, as in mongod.
const MAX_LISTED: usize = 10_000;

pub(super) fn start(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let id = bson::Uuid::new().bytes();
    op.instance.sessions.note(op.client.session_key(id), op.begun)?;
    reply.begin_document("id").binary("id", BinarySubtype::Uuid, &id);
    reply.i32("timeoutMinutes", TIMEOUT_MINUTES);
    Ok(())
}

/// Keeps the listed sessions from timing out.
pub(super) fn refresh(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    for key in listed(op, request)? {
        op.instance.sessions.note(key, op.begun)?;
    }
    Ok(())
}

/// Ends sessions, with their cursors.
pub(super) fn end(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let keys: HashSet<SessionKey> = listed(op, request)?.into_iter().collect();
    end_where(op, &|key| keys.contains(key), false);
    Ok(())
}

/// Kills the operations in sessions of this user; in all of them if none is listed.
pub(super) fn kill(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let keys: HashSet<SessionKey> = listed(op, request)?.into_iter().collect();
    let owner = op.client.session_key([0; 16]).owner;
    end_where(op, &|key| if keys.is_empty() { key.owner == owner } else { keys.contains(key) }, true);
    Ok(())
}

/// Kills the operations in all sessions, or in those of the listed users.
pub(super) fn kill_all(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let mut owners = HashSet::new();
    for user in documents_of(request)? {
        let (name, database) = (parse::required_string(user, "user")?, parse::required_string(user, "db")?);
        owners.insert(SessionOwner::new(name, database));
    }
    end_where(op, &|key| owners.is_empty() || owners.contains(&key.owner), true);
    Ok(())
}

/// Kills the operations in sessions that match one of the patterns `{}`, `{lsid}` or `{uid}`.
pub(super) fn kill_by_pattern(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let (mut all, mut sessions, mut owners) = (false, HashSet::new(), HashSet::new());
    let patterns = documents_of(request)?;
    for pattern in &patterns {
        all |= pattern.is_empty();
        for element in *pattern {
            let (name, value) = element.map_err(|error| parse::malformed(&error))?;
            match (name.as_str(), value) {
                ("lsid", lsid) => {
                    sessions.insert(read_shown("KillAllSessionsByPattern.lsid", lsid)?);
                }
                ("uid", RawBsonRef::Binary(digest)) => {
                    owners.insert(read_owner(digest.bytes)?);
                }
                (other, _) => {
                    let what = format!("this server cannot pick sessions by '{other}'");
                    return Err(Failure::new(Code::CommandNotSupported, what));
                }
            }
        }
    }
    all |= patterns.is_empty();
    let is_listed =
        |key: &SessionKey| [Some(key.owner), None].iter().any(|owner| sessions.contains(&(key.id, *owner)));
    end_where(op, &|key| all || is_listed(key) || owners.contains(&key.owner), true);
    Ok(())
}

/// Ends sessions and closes their cursors; with `kill` their operations are interrupted too.
fn end_where(op: &OperationContext<'_>, ended: &dyn Fn(&SessionKey) -> bool, kill: bool) {
    op.instance.sessions.end_all(ended);
    for client in op.instance.clients.all() {
        client.forget_sessions(ended);
        if kill && client.id != op.client.id {
            client.interrupt_session(ended);
        }
    }
    op.instance.cursors.kill_where(&|cursor| {
        let owner = match cursor.users.first() {
            None => SessionOwner::default(),
            Some((name, database)) => SessionOwner::new(name, database),
        };
        session_of(&cursor.originating).is_some_and(|id| ended(&SessionKey { id, owner }))
    });
}

/// The id in the `lsid` of the command that made a cursor.
fn session_of(command: &RawDocument) -> Option<[u8; 16]> {
    parse::field(command, "lsid").and_then(|lsid| read_id("lsid", lsid).ok())
}

/// The sessions that the first field lists.
fn listed(op: &OperationContext<'_>, request: &Request<'_>) -> Result<Vec<SessionKey>> {
    let name = format!("{}Cmd.{}", request.command.name, request.command.name);
    let documents = documents_of(request)?;
    let key =
        |document: &&RawDocument| Ok(op.client.session_key(read_id(&name, RawBsonRef::Document(document))?));
    documents.iter().map(key).collect()
}

fn documents_of<'a>(request: &Request<'a>) -> Result<Vec<&'a RawDocument>> {
    let RawBsonRef::Array(_) = request.target else {
        return Err(parse::wrong_type(request.command.name, request.target, "array"));
    };
    let name = request.body().iter().next().and_then(Result::ok).map_or("", |(name, _)| name.as_str());
    let documents = parse::documents(request.fields, name)?.unwrap_or_default();
    if documents.len() > MAX_LISTED {
        let what = format!("{} takes at most {MAX_LISTED} sessions", request.command.name);
        return Err(Failure::new(Code::BadValue, what));
    }
    Ok(documents)
}

/// Refuses a transaction as mongod does; a standalone server does not support them.
pub(super) fn no_transaction(
    _op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let what = format!("{} must be run within a transaction", request.command.name);
    Err(Failure::new(Code::CommandFailed, what))
}

/// Refuses transactions over several shards.
pub(super) fn no_shards(
    _op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let what = "Cannot accept sharding commands if not started with --shardsvr";
    Err(Failure::new(Code::NoShardingEnabled, what))
}
