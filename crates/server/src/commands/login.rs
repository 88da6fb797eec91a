//! The commands for a connection's identity: `saslStart`, `saslContinue`, `logout` and `authenticate` establish or end it; `connectionStatus` and
//! `whatsmyuri` report it.

use bson::doc;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::auth::Conversation;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;

pub(super) fn start(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::auth::start(op, request.database, request.body(), conversation, reply)
}

/// Continues the login (`saslContinue`).
pub(super) fn go_on(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    conversation: &mut Option<Conversation>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    crate::auth::step(op, request.database, request.body(), conversation, reply)
}

/// Logs the connection out of the command's database.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn log_out(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let mut users = op.client.users();
    users.retain(|(_, database)| database != request.database);
    op.client.set_users(users);
    Ok(())
}

/// Refuses the logins of one message: X.509, and the old MONGODB-CR.
pub(super) fn refuse(
    _op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let mechanism = parse::string(request.fields, "mechanism")?.unwrap_or("MONGODB-CR");
    let what = format!("Unsupported mechanism: {mechanism}; this server has SCRAM-SHA-1 and SCRAM-SHA-256");
    Err(Failure::new(Code::BadValue, what))
}

/// `connectionStatus`: the users of this connection, and their privileges.
pub(super) fn connection_status(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let users: Vec<_> = op
        .client
        .users()
        .iter()
        .filter_map(|(name, database)| op.instance.users.get(database, name))
        .collect();
    let mut info = reply.begin_document("authInfo");
    let mut array = info.begin_array("authenticatedUsers");
    for user in &users {
        array.bson(&doc! { "user": &user.name, "db": &user.database }.into());
    }
    array.end();
    let mut array = info.begin_array("authenticatedUserRoles");
    for role in users.iter().flat_map(|user| &user.roles) {
        array.bson(&doc! { "role": &role.role, "db": &role.database }.into());
    }
    array.end();
    if parse::boolean(request.fields, "showPrivileges")? {
        let mut array = info.begin_array("authenticatedUserPrivileges");
        for privilege in users.iter().flat_map(|user| &user.roles).flat_map(|role| role.privileges()) {
            array.bson(&privilege.to_document().into());
        }
    }
    Ok(())
}

/// `whatsmyuri`: the client's address, as the server sees it.
#[expect(clippy::unnecessary_wraps, reason = "the table's signature")]
pub(super) fn own_address(
    op: &mut OperationContext<'_>,
    _request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    reply.string("you", &op.client.remote);
    Ok(())
}
