//! The commands `replSetInitiate`, `replSetReconfig` and `replSetGetConfig`: set and show the members of a set.

use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::{Bson, Document, RawBsonRef, rawdoc};
use fathom_engine::Durability;
use fathom_query::{Code, Failure};
use fathom_replication::config::{check_electable, check_initiate, check_reconfig};
use fathom_replication::{Host, NO_TERM, OpTime, ReplicaSetConfig};

use super::Reply;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::replica_set::{ChangeKind, LoggedChange, ReplicaSetState};
use crate::replication;
use crate::request::Request;

/// The time within which other members must answer whether they are ready.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(10);

/// The set; a failure if this server is not a member of any.
pub(super) fn set_of<'a>(op: &OperationContext<'a>) -> Result<&'a std::sync::Arc<ReplicaSetState>> {
    op.instance
        .set
        .as_ref()
        .ok_or_else(|| Failure::new(Code::NoReplicationEnabled, "not running with --replSet"))
}

/// Makes a set of this server and other servers without data.
pub(super) fn initiate(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let instance = op.instance;
    let Some(set) = &instance.set else {
        let what = "This node was not started with the replSet option";
        return Err(Failure::new(Code::NoReplicationEnabled, what));
    };
    if set.ask(|one| one.config().is_some()) {
        return Err(Failure::new(Code::AlreadyInitialized, "already initialized"));
    }
    let given = match request.target {
        RawBsonRef::Document(given) if !given.is_empty() => Some(parse::owned(given)?),
        _ => None,
    };
    let mut config = match given {
        Some(given) => ReplicaSetConfig::parse(&given)?,
        None => ReplicaSetConfig::with_one_member(set.name(), own_host(op)?),
    };
    config.config_server |= instance.config.cluster_role == crate::ClusterRole::Config;
    check_initiate(&config, set.name())?;
    config.validate()?;
    let config = config.with_replica_set_id(ObjectId::new());
    let own = replication::own_index(instance, &config)?.ok_or_else(|| {
        let port = instance.port.get().copied().unwrap_or_default();
        let what = format!(
            "No host described in new configuration {} for replica set {} maps to this node (port {port})",
            config.version, config.name
        );
        Failure::new(Code::NodeNotFound, what)
    })?;
    check_electable(&config, own)?;
    check_others(op, set, &config, own, true)?;
    // The first entry is written before the configuration: a member that has a configuration has an oplog.
    let collection = replication::make_oplog(instance)?;
    set.oplog().open(collection, None);
    let first = first_entry(op, set)?;
    replication::set_config(instance, &config)?;
    instance.checkpoint().map_err(|error| Failure::new(Code::InternalError, error.to_string()))?;
    set.tell(|one, now| {
        one.applied_advanced(now, first);
        one.durable_advanced(now, first);
    });
    replication::join(instance, set, config)
}

/// The first entry of an oplog, which belongs to no term.
fn first_entry(op: &OperationContext<'_>, set: &ReplicaSetState) -> Result<OpTime> {
    let session = op.session();
    let stamp = set.oplog().clock().reserve(now_seconds(), 1);
    let at = OpTime::new(stamp.first(), NO_TERM);
    let change = LoggedChange::new(ChangeKind::Noop, "", rawdoc! { "msg": "initiating set" });
    session.begin()?;
    let written =
        set.oplog().write_first(session, &change, at).and_then(|()| Ok(session.commit(Durability::Durable)?));
    if written.is_err() {
        session.rollback();
    }
    written?;
    stamp.commit();
    set.oplog().publish(at.timestamp);
    Ok(at)
}

fn now_seconds() -> u32 {
    u32::try_from(bson::DateTime::now().timestamp_millis() / 1000).unwrap_or(u32::MAX)
}

/// The host name for a set of this server alone: the first address that it listens on.
fn own_host(op: &OperationContext<'_>) -> Result<Host> {
    let port = op.instance.port.get().copied().unwrap_or_default();
    let name = op.instance.config.net.bind_ip.first().map_or("127.0.0.1", String::as_str);
    let name = if name == "0.0.0.0" || name == "::" { "localhost" } else { name };
    format!("{name}:{port}").parse()
}

/// Asks the other members whether they can join the set; a majority must answer, and none may refuse.
fn check_others(
    op: &OperationContext<'_>,
    set: &ReplicaSetState,
    config: &ReplicaSetConfig,
    own: usize,
    initiating: bool,
) -> Result<()> {
    let mut answering = usize::from(config.members.get(own).is_some_and(|member| member.is_voter()));
    let term = set.ask(fathom_replication::Coordinator::term);
    let mut down = Vec::new();
    for (place, member) in config.members.iter().enumerate().filter(|(place, _)| *place != own) {
        let arguments = fathom_replication::messages::HeartbeatArguments {
            set_name: config.name.clone(),
            config_version: if initiating { fathom_replication::config::NO_VERSION } else { config.version },
            from: config.members.get(own).map(|member| member.host.clone()),
            from_id: config.members.get(own).map_or(-1, |member| i64::from(member.id)),
            term,
            check_empty: initiating,
        };
        let asked =
            replication::ask(op.instance, &member.host, &mut None, &arguments.to_document(), MEMBER_TIMEOUT);
        match asked {
            Ok(reply) => {
                let reply = fathom_replication::messages::HeartbeatReply::from_document(&reply)?;
                if initiating && reply.has_data == Some(true) {
                    let what = format!("'{}' has data already, cannot initiate set.", member.host);
                    return Err(Failure::new(Code::CannotInitializeNodeWithData, what));
                }
                answering += usize::from(member.is_voter());
            }
            Err(failure) if failure.code() == Code::HostUnreachable => {
                down.push(format!("{}: {}", place, failure.message()))
            }
            Err(failure) => {
                let what = format!("{} does not take the configuration: {}", member.host, failure.message());
                return Err(Failure::new(Code::NewReplicaSetConfigurationIncompatible, what));
            }
        }
    }
    let reachable = if initiating { down.is_empty() } else { answering >= config.majority_votes() };
    if reachable {
        return Ok(());
    }
    let what = format!(
        "replSetInitiate quorum check failed because not all proposed set members responded affirmatively: {}",
        down.join("; ")
    );
    Err(Failure::new(Code::NodeNotFound, what))
}

/// Changes the members of the set.
pub(super) fn reconfigure(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let Some(old) = set.ask(|one| one.config().cloned()) else {
        return Err(Failure::new(
            Code::NotYetInitialized,
            "Node not yet initialized; use the replSetInitiate command",
        ));
    };
    let force = parse::boolean(request.fields, "force")?;
    if !force && !set.is_writable() {
        let what = format!(
            "replSetReconfig should only be run on a writable PRIMARY. Current state {};",
            set.state().name()
        );
        return Err(Failure::new(Code::NotWritablePrimary, what));
    }
    let RawBsonRef::Document(given) = request.target else {
        return Err(parse::wrong_type("replSetReconfig", request.target, "object"));
    };
    let mut config = ReplicaSetConfig::parse(&parse::owned(given)?)?;
    if config.settings.replica_set_id.is_none()
        && let Some(id) = old.settings.replica_set_id
    {
        config = config.with_replica_set_id(id);
    }
    if force {
        // Large enough that another member's change does not get the same version.
        let jump = i64::try_from(crate::random::number() % 90_000).unwrap_or(0) + 10_000;
        let version = config.version.max(old.version) + jump;
        config = config.with_version(version);
    }
    check_reconfig(&old, &config, force)?;
    let own = replication::own_index(op.instance, &config)?;
    match own {
        Some(own) if !force => {
            check_electable(&config, own)?;
            check_others(op, set, &config, own, false)?;
        }
        None if !force => {
            return Err(Failure::new(Code::NodeNotFound, "This node is not in the new configuration"));
        }
        _ => {}
    }
    replication::set_config(op.instance, &config)?;
    set.tell(|one, now| one.config_installed(now, config, own));
    set.announce();
    Ok(())
}

pub(super) fn get(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let set = set_of(op)?;
    let config = set.ask(|one| one.config().map(ReplicaSetConfig::to_document));
    let config =
        config.ok_or_else(|| Failure::new(Code::NotYetInitialized, "no replset config has been received"))?;
    reply.bson("config", &Bson::Document(config));
    Ok(())
}

/// Waits for an outcome that `ask` reports, within the operation's time limit.
pub(super) fn wait_until<T>(
    op: &OperationContext<'_>,
    set: &ReplicaSetState,
    ask: impl Fn() -> Option<T>,
) -> Result<T> {
    loop {
        let seen = set.changes();
        if let Some(outcome) = ask() {
            return Ok(outcome);
        }
        op.check_interrupt()?;
        set.wait_for_change(seen, Instant::now() + Duration::from_millis(100));
    }
}

/// Writes the fields of a reply document other than `ok`.
pub(super) fn write_all(reply: &mut Reply<'_>, document: &Document) {
    reply.extend(
        &document
            .iter()
            .filter(|(name, _)| name.as_str() != "ok")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    );
}

/// The body of a command as a document.
pub(super) fn body(request: &Request<'_>) -> Result<Document> {
    parse::owned(request.body())
}
