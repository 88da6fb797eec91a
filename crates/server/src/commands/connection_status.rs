//! `connectionStatus`: who this connection is, and what it may do.

use bson::doc;

use super::Reply;
use crate::Result;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Tells.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
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
