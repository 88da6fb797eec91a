//! Checks and waits that a command's consistency requires at this member: its role in the set, read concern, and the times in replies.
//!
//! A standalone server accepts every write and reads the newest data; it only checks the arguments. In a set, writes need the primary, reads of a
//! secondary need the client's permission (`$readPreference`), and `majority` and `afterClusterTime` wait (docs/methods.md#write-concern).

use bson::RawBsonRef;
use bson::spec::BinarySubtype;
use fathom_query::{Code, Failure};
use fathom_replication::MemberState;

use crate::Result;
use crate::instance::Instance;
use crate::operation_context::OperationContext;
use crate::replica_set::{not_primary, stamp_of, timestamp_of};
use crate::replication;
use crate::request::{CommandAccess, OperationClass, Reply, Request};

/// The maximum by which an accepted cluster time may be ahead of ours (`maxAcceptableLogicalClockDriftSecs`: a year).
const MAX_DRIFT_SECONDS: i64 = 365 * 24 * 3600;

/// Advances the clock to a time that a client learned from another member.
pub(crate) fn follow_cluster_time(instance: &Instance, value: RawBsonRef<'_>) {
    let (Some(set), RawBsonRef::Document(told)) = (&instance.set, value) else { return };
    let Ok(time) = told.get_timestamp("clusterTime") else { return };
    let now = bson::DateTime::now().timestamp_millis() / 1000;
    if i64::from(time.time) <= now + MAX_DRIFT_SECONDS {
        set.oplog().clock().follow(stamp_of(time));
    }
}

/// Refuses commands that a member in its present state may not run.
pub(crate) fn check_role(op: &OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    let Some(set) = &op.instance.set else { return Ok(()) };
    if request.database == "local" {
        return Ok(());
    }
    let command = request.command;
    let changes = command.kind == OperationClass::Write
        || command.kind == OperationClass::Command
            && matches!(
                command.rules.access,
                CommandAccess::Write | CommandAccess::DatabaseAdmin | CommandAccess::UserAdmin
            )
            && !matches!(command.name, "validate" | "profile" | "compact" | "usersInfo" | "rolesInfo");
    if changes {
        return if set.is_writable() { Ok(()) } else { Err(not_primary()) };
    }
    let reads = command.kind == OperationClass::Read && !matches!(command.name, "getMore");
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

/// Whether the client allows a secondary to answer.
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

/// Waits for the conditions that a read requires before it begins.
pub(crate) fn before_read(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    op.majority = request.generic.read_concern.majority || request.generic.read_concern.linearizable;
    match request.generic.read_concern.after {
        Some(time) => replication::for_cluster_time(op, time),
        None => Ok(()),
    }
}

/// Waits for the conditions that a read requires after it has read.
pub(crate) fn after_read(op: &mut OperationContext<'_>, request: &Request<'_>) -> Result<()> {
    if op.instance.set.is_none() || !op.majority {
        return Ok(());
    }
    if request.generic.read_concern.linearizable {
        // A majority that has an entry of our own proves that no other primary was elected meanwhile.
        replication::note(op.instance, bson::rawdoc! { "msg": "linearizable read" })?;
    }
    replication::for_majority(op)
}

/// Waits, on a member of a set, for the write concern of a command that may have written, and reports a failure in the reply.
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

/// Writes the operation's and the cluster's time, and the fields that other members request in addition.
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
    // The signature of a member without keys: signatures are not checked here.
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

/// Adds the retryable-write label, on which drivers of 4.4 and later rely, to a failure.
pub(crate) fn labelled(failure: Failure, request: &Request<'_>) -> Failure {
    if is_retryable(&failure, request) { failure.labelled("RetryableWriteError") } else { failure }
}

/// Whether a driver may retry the write.
pub(crate) fn is_retryable(failure: &Failure, request: &Request<'_>) -> bool {
    request.generic.transaction.is_some() && RETRYABLE.contains(&failure.code())
}
