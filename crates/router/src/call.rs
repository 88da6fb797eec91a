//! Sends commands to one shard, or to several at once, and repeats those that may be repeated.
//!
//! A member that answers that it is no primary has done nothing, so the command is sent again to the primary. If the connection
//! broke, it is unknown whether the command was executed: only commands that may be repeated are sent again.

use std::sync::Arc;
use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};
use fathom_client::Error;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::{Backend, Lease};
use crate::counters;
use crate::request::SendPolicy;
use crate::shard_command::ShardCommand;

/// The maximum number of times a command is sent, as in mongos.
const MAX_ATTEMPTS: u32 = 3;
/// The codes of members that take no writes at the moment (docs/methods.md#commands-and-errors).
const NOT_PRIMARY: &[Code] = &[
    Code::NotWritablePrimary,
    Code::NotPrimaryNoSecondaryOk,
    Code::NotPrimaryOrSecondary,
    Code::InterruptedAtShutdown,
    Code::InterruptedDueToReplStateChange,
    Code::PrimarySteppedDown,
    Code::ShutdownInProgress,
    Code(10058),
];

/// The label that tells drivers that they may send a write again.
const RETRYABLE: &str = "RetryableWriteError";

/// Whether a second attempt may succeed. The backend looks for its primary again.
fn may_retry(backend: &Backend, error: &Error, sending: &SendPolicy) -> bool {
    match error {
        Error::Network(_) => sending.idempotent,
        Error::Server(failure) => {
            let elsewhere = NOT_PRIMARY.contains(&failure.code());
            if elsewhere {
                backend.look_again();
            }
            elsewhere && backend.is_set()
        }
    }
}

/// The failure for the client; the label makes a driver that numbered its write retry it.
fn failure_of(backend: &Backend, error: &Error, sending: &SendPolicy) -> Failure {
    let failure = backend.unreachable(error);
    let passes = error.is_network() || NOT_PRIMARY.contains(&failure.code());
    if sending.numbered && passes && !failure.labels().contains(&RETRYABLE) {
        return failure.labelled(RETRYABLE);
    }
    failure
}

fn no_connection() -> Error {
    fathom_errors::Error::new(fathom_errors::Kind::Stopped, "the connection is closed").into()
}

/// Sends a command and hands its reply to the caller without a copy.
pub(crate) fn call<R>(
    backend: &Backend,
    database: &str,
    command: &ShardCommand<'_>,
    sending: &SendPolicy,
    take: impl FnOnce(&RawDocument) -> Result<R>,
) -> Result<R> {
    let mut attempt = 1;
    loop {
        let begun = Instant::now();
        let mut lease = backend.lease(&sending.preference)?;
        let answered = match lease.as_mut() {
            Some(connection) => connection.call(|message| command.write(database, message)),
            None => Err(no_connection()),
        };
        counters::add_wait(begun.elapsed(), backend.shards());
        match answered {
            Ok(reply) => return take(reply),
            Err(error) if attempt < MAX_ATTEMPTS && may_retry(backend, &error, sending) => attempt += 1,
            Err(error) => return Err(failure_of(backend, &error, sending)),
        }
    }
}

/// As [`call`], with the reply as an owned document.
pub(crate) fn ask(
    backend: &Backend,
    database: &str,
    command: &ShardCommand<'_>,
    sending: &SendPolicy,
) -> Result<RawDocumentBuf> {
    call(backend, database, command, sending, |reply| Ok(reply.to_owned()))
}

/// Sends a command to each of several shards before it waits for any of them. The replies are in the order of the commands.
pub(crate) fn ask_all(
    database: &str,
    commands: &[(Arc<Backend>, ShardCommand<'_>)],
    sending: &SendPolicy,
) -> Vec<Result<RawDocumentBuf>> {
    let begun = Instant::now();
    let under_way: Vec<Result<(Lease<'_>, Result<(), Error>)>> = commands
        .iter()
        .map(|(backend, command)| {
            let mut lease = backend.lease(&sending.preference)?;
            let sent = match lease.as_mut() {
                Some(connection) => connection.begin(|message| command.write(database, message)),
                None => Err(no_connection()),
            };
            Ok((lease, sent))
        })
        .collect();
    let mut replies = Vec::with_capacity(commands.len());
    let mut waited = begun.elapsed();
    for (under_way, (backend, command)) in under_way.into_iter().zip(commands) {
        replies.push(match under_way {
            Err(failure) => Err(failure),
            Ok((mut lease, sent)) => {
                let answered = sent.and_then(|()| match lease.as_mut() {
                    Some(connection) => connection.finish().map(RawDocument::to_owned),
                    None => Err(no_connection()),
                });
                waited = begun.elapsed();
                match answered {
                    Ok(reply) => Ok(reply),
                    Err(error) if may_retry(backend, &error, sending) => {
                        drop(lease);
                        ask(backend, database, command, sending)
                    }
                    Err(error) => Err(failure_of(backend, &error, sending)),
                }
            }
        });
    }
    counters::add_wait(waited, commands.iter().map(|(backend, _)| backend.shards()).sum());
    replies
}
