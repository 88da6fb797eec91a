//! `rolesInfo`, and the commands on roles of one's own, which are refused by name: this server has the built-in roles.

use bson::{Bson, RawBsonRef, doc};
use fathom_query::{Code, Failure};

use super::Reply;
use super::users::read_role;
use crate::Result;
use crate::auth::{Role, built_in};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Tells of roles: those that are named, or with `showBuiltinRoles` all of the command's database.
pub(super) fn info(_op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let with_privileges = parse::boolean(request.fields, "showPrivileges")?;
    let roles = match request.target {
        RawBsonRef::Array(items) => items
            .into_iter()
            .map(|item| read_role(request.database, item.map_err(|error| parse::malformed(&error))?))
            .collect::<Result<Vec<Role>>>()?,
        value @ (RawBsonRef::String(_) | RawBsonRef::Document(_)) => {
            vec![read_role(request.database, value)?]
        }
        value if parse::integer_of(value) == Some(1) => {
            if parse::boolean(request.fields, "showBuiltinRoles")? {
                built_in(request.database)
            } else {
                Vec::new()
            }
        }
        other => return Err(parse::wrong_type("rolesInfo", other, "string")),
    };
    let mut array = reply.begin_array("roles");
    for role in roles.iter().filter(|role| role.is_built_in()) {
        let mut shown = doc! {
            "role": &role.role,
            "db": &role.database,
            "isBuiltin": true,
            "roles": [],
            "inheritedRoles": [],
        };
        if with_privileges {
            let privileges: Vec<Bson> =
                role.privileges().iter().map(|one| one.to_document().into()).collect();
            shown.insert("privileges", privileges.clone());
            shown.insert("inheritedPrivileges", privileges);
        }
        array.bson(&shown.into());
    }
    Ok(())
}

/// Refuses what makes or changes roles.
pub(super) fn refuse(_op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let what = format!("this server has the built-in roles only; {} is refused", request.command.name);
    Err(Failure::new(Code::CommandNotSupported, what))
}
