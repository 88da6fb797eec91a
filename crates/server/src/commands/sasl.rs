//! `saslStart`, `saslContinue`, `logout` and `authenticate`: proving who one is, and ceasing to be it.

use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::auth::Conversation;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Begins a login.
pub(super) fn start(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::auth::start(op, request.database, request.body(), conversation, reply)
}

/// Goes on with it.
pub(super) fn go_on(
    op: &mut Operation<'_>,
    request: &Request<'_>,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::auth::step(op, request.database, request.body(), conversation, reply)
}

/// Forgets that the connection is a user of the command's database.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn log_out(op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let mut users = op.client.users();
    users.retain(|(_, database)| database != request.database);
    op.client.set_users(users);
    Ok(())
}

/// Refuses the logins of one message: X.509, and the old MONGODB-CR.
pub(super) fn refuse(_op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let mechanism = parse::string(request.fields, "mechanism")?.unwrap_or("MONGODB-CR");
    let what = format!("Unsupported mechanism: {mechanism}; this server has SCRAM-SHA-1 and SCRAM-SHA-256");
    Err(Failure::new(Code::BadValue, what))
}
