//! The commands `usersInfo` and `rolesInfo`, which list users and roles. The commands on user-defined roles are refused by name: this server has
//! only the built-in roles.

use bson::{Bson, Document, RawBsonRef, doc};
use fathom_query::{Code, Failure, Filter};

use super::Reply;
use super::users::read_role;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::users::{PrivilegeResource, RoleName, User, built_in, roles_array, set};

/// The users that a command asks for.
enum UserSelection<'a> {
    OfDatabase,
    OfAll,
    Named(Vec<(&'a str, &'a str)>),
}

/// `usersInfo`: lists the existing users.
pub(super) fn users(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let which = which_of(request)?;
    let with_credentials = parse::boolean(request.fields, "showCredentials")?;
    let with_privileges = parse::boolean(request.fields, "showPrivileges")?;
    let filter = parse::document(request.fields, "filter")?;
    if with_privileges && !matches!(which, UserSelection::Named(_)) {
        let what = "Privilege or restriction details require exact-match usersInfo queries.";
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    let filter = filter.map(|filter| Filter::parse(filter, op.variables())).transpose()?;
    if let UserSelection::Named(names) = &which {
        names.iter().try_for_each(|(name, database)| check(op, request, name, database))?;
    }
    let mut array = reply.begin_array("users");
    for user in op.instance.users.all() {
        let asked = match &which {
            UserSelection::OfDatabase => user.database == request.database,
            UserSelection::OfAll => true,
            UserSelection::Named(names) => names.contains(&(user.name.as_str(), user.database.as_str())),
        };
        if !asked {
            continue;
        }
        let shown = parse::raw_of(&show(&user, with_credentials, with_privileges))?;
        if let Some(filter) = &filter
            && filter.matches(&shown)?.is_none()
        {
            continue;
        }
        array.document(&shown);
    }
    Ok(())
}

fn which_of<'a>(request: &Request<'a>) -> Result<UserSelection<'a>> {
    let name_in = |value: RawBsonRef<'a>| match value {
        RawBsonRef::String(name) => Ok((name, request.database)),
        RawBsonRef::Document(user) => {
            Ok((parse::required_string(user, "user")?, parse::required_string(user, "db")?))
        }
        other => Err(parse::wrong_type("usersInfo", other, "string")),
    };
    match request.target {
        RawBsonRef::Document(all) if parse::field(all, "forAllDBs").is_some() => Ok(UserSelection::OfAll),
        value @ (RawBsonRef::String(_) | RawBsonRef::Document(_)) => {
            Ok(UserSelection::Named(vec![name_in(value)?]))
        }
        RawBsonRef::Array(items) => {
            let mut names = Vec::new();
            for item in items {
                names.push(name_in(item.map_err(|error| parse::malformed(&error))?)?);
            }
            Ok(UserSelection::Named(names))
        }
        value if parse::integer_of(value) == Some(1) => Ok(UserSelection::OfDatabase),
        other => Err(parse::wrong_type("usersInfo", other, "string")),
    }
}

/// A user may see himself; seeing others requires the right to see the users of their database.
fn check(op: &OperationContext<'_>, request: &Request<'_>, name: &str, database: &str) -> Result<()> {
    let own = op.client.users().iter().any(|(user, of)| user == name && of == database);
    if own || crate::auth::may(op, set![viewUser], PrivilegeResource::Collection(database, "")) {
        return Ok(());
    }
    let what = format!("Not authorized to get the user data for user {name}@{database}");
    Err(Failure::new(Code::Unauthorized, what).with("command", request.command.name))
}

fn show(user: &User, with_credentials: bool, with_privileges: bool) -> Document {
    let mut shown = user.document().clone();
    if !with_credentials {
        shown.remove("credentials");
    }
    let mechanisms: Vec<Bson> = user.mechanisms().iter().map(|one| one.name().into()).collect();
    shown.insert("mechanisms", mechanisms);
    if with_privileges {
        shown.insert("inheritedRoles", roles_array(&user.roles));
        let privileges: Vec<Bson> = user
            .roles
            .iter()
            .flat_map(|role| role.privileges())
            .map(|privilege| privilege.to_document().into())
            .collect();
        shown.insert("inheritedPrivileges", privileges);
    }
    shown
}

/// A user may see the roles that he was granted; seeing others requires the right to see the roles of their database.
fn check_role(op: &OperationContext<'_>, request: &Request<'_>, role: &RoleName) -> Result<()> {
    let has_role = |(name, database): &(String, String)| {
        op.instance.users.get(database, name).is_some_and(|user| user.roles.contains(role))
    };
    if op.client.users().iter().any(has_role)
        || crate::auth::may(op, set![viewRole], PrivilegeResource::Collection(&role.database, ""))
    {
        return Ok(());
    }
    let what = format!("Not authorized to view roles from the {} database", role.database);
    Err(Failure::new(Code::Unauthorized, what).with("command", request.command.name))
}

/// Lists roles: the named ones, or with `showBuiltinRoles` all of the command's database.
pub(super) fn roles(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let with_privileges = parse::boolean(request.fields, "showPrivileges")?;
    let roles = match request.target {
        RawBsonRef::Array(items) => items
            .into_iter()
            .map(|item| read_role(request.database, item.map_err(|error| parse::malformed(&error))?))
            .collect::<Result<Vec<RoleName>>>()?,
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
    if parse::integer_of(request.target).is_none() {
        roles.iter().try_for_each(|role| check_role(op, request, role))?;
    }
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

/// Refuses commands that create or change roles.
pub(super) fn refuse(
    _op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let what = format!("this server has the built-in roles only; {} is refused", request.command.name);
    Err(Failure::new(Code::CommandNotSupported, what))
}
