//! What a command may see and do where it is run: the role of a member of a set, read concern, and the times that replies carry.
//!
//! A server alone takes every write and reads the newest; there only the words are checked. In a set writes need the primary, reads
//! of a secondary need the client's leave (`$readPreference`), `majority` and `afterClusterTime` wait (server.md, 2.3, 4.2).

use bson::RawBsonRef;
use bson::spec::BinarySubtype;
use fathom_query::{Code, Failure};
use fathom_replication::MemberState;

use crate::Result;
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::replica_set::{not_primary, stamp_of, timestamp_of};
use crate::replication;
use crate::request::{Access, Kind, Reply, Request};

/// How far ahead of ours a cluster time may be that is believed (`maxAcceptableLogicalClockDriftSecs`: a year).
const DRIFT_SECONDS: i64 = 365 * 24 * 3600;

/// Goes on to a time that a client heard from another member.
pub(crate) fn follow_cluster_time(instance: &Instance, value: RawBsonRef<'_>) {
    let (Some(set), RawBsonRef::Document(told)) = (&instance.set, value) else { return };
    let Ok(time) = told.get_timestamp("clusterTime") else { return };
    let now = bson::DateTime::now().timestamp_millis() / 1000;
    if i64::from(time.time) <= now + DRIFT_SECONDS {
        set.oplog().clock().follow(stamp_of(time));
    }
}

/// Refuses what a member in its present state may not do.
pub(crate) fn check_role(op: &OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    let Some(set) = &op.instance.set else { return Ok(()) };
    if request.database == "local" {
        return Ok(());
    }
    let command = request.command;
    let changes = command.kind == Kind::Write
        || command.kind == Kind::Command
            && matches!(command.rules.access, Access::Write | Access::DatabaseAdmin | Access::UserAdmin)
            && !matches!(command.name, "validate" | "profile" | "compact" | "usersInfo" | "rolesInfo");
    if changes {
        return if set.is_writable() { Ok(()) } else { Err(not_primary()) };
    }
    let reads = command.kind == Kind::Read && !matches!(command.name, "getMore");
    if !reads {
        return Ok(());
    }
    match set.state() {
        MemberState::Primary => Ok(()),
        MemberState::Secondary if may_read_secondary(request) => Ok(()),
        MemberState::Secondary => {
            Err(Failure::new(Code::NotPrimaryNoSecondaryOk, "not master and slaveOk=false"))
        }
        _ => Err(Failure::new(Code::NotPrimaryOrSecondary, "node is not in primary or recovering state")),
    }
}

/// Whether the client said that a secondary will do.
fn may_read_secondary(request: &Request<'_>) -> bool {
    if request.is_legacy() {
        return true;
    }
    match request.field("$readPreference") {
        Some(RawBsonRef::Document(preference)) => {
            preference.get_str("mode").is_ok_and(|mode| mode != "primary")
        }
        _ => false,
    }
}

/// Waits for what a read wants before it begins.
pub(crate) fn before_read(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    op.majority = request.generic.read_concern.majority || request.generic.read_concern.linearizable;
    match request.generic.read_concern.after {
        Some(time) => replication::for_cluster_time(op, time),
        None => Ok(()),
    }
}

/// Waits for what a read wants once it has read.
pub(crate) fn after_read(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    if op.instance.set.is_none() || !op.majority {
        return Ok(());
    }
    if request.generic.read_concern.linearizable {
        // An entry of our own that a majority has proves that no other primary came meanwhile.
        replication::note(op.instance, bson::rawdoc! { "msg": "linearizable read" })?;
    }
    replication::for_majority(op)
}

/// A member of a set waits for the write concern of a command that may have written, and says in its reply what was not fulfilled.
pub(crate) fn after_write(op: &OperationContext<'_>, request: &Request<'_>, reply: &mut Reply<'_>) {
    let Some(set) = &op.instance.set else { return };
    let default = || {
        set.ask(|one| one.config().map(|config| config.settings.default_write_concern.clone()))
            .unwrap_or_default()
    };
    let given = request.generic.write_concern.of_set.clone();
    let provenance = if given.is_some() { "clientSupplied" } else { "getLastErrorDefaults" };
    let concern = given.unwrap_or_else(default);
    let Some(failure) = replication::for_write(op, &concern) else { return };
    let mut extra = failure.extra().clone();
    let mut info = extra.get_document("errInfo").cloned().unwrap_or_default();
    let mut wanted = concern.to_document();
    wanted.insert("provenance", provenance);
    info.insert("writeConcern", wanted);
    extra.insert("errInfo", info);
    let mut error = reply.begin_document("writeConcernError");
    error.i32("code", failure.code().0);
    error.string("codeName", &failure.code().name());
    error.string("errmsg", failure.message());
    error.extend(&extra);
    error.end();
    if is_retryable(&failure, request) {
        reply.begin_array("errorLabels").string("RetryableWriteError");
    }
}

/// The operation's and the cluster's time, and what other members ask for beside a reply.
pub(crate) fn write_times(op: &OperationContext<'_>, request: Option<&Request<'_>>, reply: &mut Reply<'_>) {
    let Some(set) = &op.instance.set else { return };
    let wants = |name| request.is_some_and(|request| request.field(name).is_some());
    if wants("$replData") || wants("$oplogQueryData") {
        let visible = set.oplog().optime_of(set.oplog().visible());
        let id = set.rollback_id();
        let (metadata, query) = set.ask(|one| (one.metadata(visible), one.oplog_query_metadata(id)));
        if wants("$replData") {
            reply.bson("$replData", &metadata.to_document().into());
        }
        if wants("$oplogQueryData") {
            reply.bson("$oplogQueryData", &query.to_document().into());
        }
    }
    if set.oplog().collection().is_none() {
        return;
    }
    let settled = set.oplog().clock().settled();
    let operation = op.last.map_or(settled, |last| last.timestamp);
    reply.timestamp("operationTime", timestamp_of(operation));
    let mut cluster = reply.begin_document("$clusterTime");
    cluster.timestamp("clusterTime", timestamp_of(set.oplog().clock().last().max(operation)));
    let mut signature = cluster.begin_document("signature");
    // As of a member without keys: nobody here checks signatures.
    signature.binary("hash", BinarySubtype::Generic, &[0; 20]);
    signature.i64("keyId", 0);
}

/// Failures after which a driver sends a retryable write again (mongodb/specifications: retryable-writes).
const RETRYABLE: [Code; 11] = [
    Code::InterruptedAtShutdown,
    Code::InterruptedDueToReplStateChange,
    Code::NotWritablePrimary,
    Code::NotPrimaryNoSecondaryOk,
    Code::NotPrimaryOrSecondary,
    Code::PrimarySteppedDown,
    Code::ShutdownInProgress,
    Code::HostNotFound,
    Code::HostUnreachable,
    Code::NetworkTimeout,
    Code::SocketException,
];

/// The failure with the label that drivers of 4.4 and later go by.
pub(crate) fn labelled(failure: Failure, request: &Request<'_>) -> Failure {
    if is_retryable(&failure, request) { failure.labelled("RetryableWriteError") } else { failure }
}

/// Whether a driver may send the write again.
pub(crate) fn is_retryable(failure: &Failure, request: &Request<'_>) -> bool {
    request.generic.transaction.is_some() && RETRYABLE.contains(&failure.code())
}
