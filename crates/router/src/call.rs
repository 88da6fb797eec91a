//! Commands to shards: one, or several at once, with what may be tried again tried again.
//!
//! A member that says it is no primary has done nothing, so the command is sent again to whoever is. Where the connection broke,
//! nobody knows whether the command was carried out: only what may be done twice is sent again.

use std::sync::Arc;
use std::time::Instant;

use bson::{RawDocument, RawDocumentBuf};
use fathom_client::Error;
use fathom_wire::{Code, Failure};

use crate::Result;
use crate::backend::{Backend, Lease};
use crate::counters;
use crate::outgoing::Outgoing;
use crate::request::Sending;

/// How often a command is sent at most, as mongos does.
const ATTEMPTS: u32 = 3;
/// What members say that take no writes now (server.md, 2.7).
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

/// The label by which drivers know a write that may be sent again.
const RETRYABLE: &str = "RetryableWriteError";

/// Whether the reason of a failure may be gone at the next attempt; the backend is told to look again.
fn may_retry(backend: &Backend, error: &Error, sending: &Sending) -> bool {
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

/// What the client is told; a driver that numbered its write sends it again by the label.
fn failure_of(backend: &Backend, error: &Error, sending: &Sending) -> Failure {
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

/// Sends a command and hands its reply over where it lies.
pub(crate) fn call<R>(
    backend: &Backend,
    database: &str,
    command: &Outgoing<'_>,
    sending: &Sending,
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
            Err(error) if attempt < ATTEMPTS && may_retry(backend, &error, sending) => attempt += 1,
            Err(error) => return Err(failure_of(backend, &error, sending)),
        }
    }
}

/// As [`call`], with the reply as a document of its own.
pub(crate) fn ask(
    backend: &Backend,
    database: &str,
    command: &Outgoing<'_>,
    sending: &Sending,
) -> Result<RawDocumentBuf> {
    call(backend, database, command, sending, |reply| Ok(reply.to_owned()))
}

/// Sends a command to each of several shards before it waits for any of them. The replies stand in the same order.
pub(crate) fn ask_all(
    database: &str,
    commands: &[(Arc<Backend>, Outgoing<'_>)],
    sending: &Sending,
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
