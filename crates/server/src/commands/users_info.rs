//! `usersInfo`: the users there are.

use bson::{Bson, Document, RawBsonRef};
use fathom_query::{Code, Failure, Filter};

use super::Reply;
use crate::Result;
use crate::auth::{Place, Rights, User, roles_array};
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Which users are asked for.
enum Which<'a> {
    OfDatabase,
    OfAll,
    Named(Vec<(&'a str, &'a str)>),
}

/// Tells.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let which = which_of(request)?;
    let with_credentials = parse::boolean(request.fields, "showCredentials")?;
    let with_privileges = parse::boolean(request.fields, "showPrivileges")?;
    let filter = parse::document(request.fields, "filter")?;
    if with_privileges && !matches!(which, Which::Named(_)) {
        let what = "Privilege or restriction details require exact-match usersInfo queries.";
        return Err(Failure::new(Code::IllegalOperation, what));
    }
    let filter = filter.map(|filter| Filter::parse(filter, op.variables())).transpose()?;
    if let Which::Named(names) = &which {
        names.iter().try_for_each(|(name, database)| check(op, request, name, database))?;
    }
    let mut array = reply.begin_array("users");
    for user in op.instance.users.all() {
        let asked = match &which {
            Which::OfDatabase => user.database == request.database,
            Which::OfAll => true,
            Which::Named(names) => names.contains(&(user.name.as_str(), user.database.as_str())),
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

fn which_of<'a>(request: &Request<'a>) -> Result<Which<'a>> {
    let name_in = |value: RawBsonRef<'a>| match value {
        RawBsonRef::String(name) => Ok((name, request.database)),
        RawBsonRef::Document(user) => {
            Ok((parse::required_string(user, "user")?, parse::required_string(user, "db")?))
        }
        other => Err(parse::wrong_type("usersInfo", other, "string")),
    };
    match request.target {
        RawBsonRef::Document(all) if parse::field(all, "forAllDBs").is_some() => Ok(Which::OfAll),
        value @ (RawBsonRef::String(_) | RawBsonRef::Document(_)) => Ok(Which::Named(vec![name_in(value)?])),
        RawBsonRef::Array(items) => {
            let mut names = Vec::new();
            for item in items {
                names.push(name_in(item.map_err(|error| parse::malformed(&error))?)?);
            }
            Ok(Which::Named(names))
        }
        value if parse::integer_of(value) == Some(1) => Ok(Which::OfDatabase),
        other => Err(parse::wrong_type("usersInfo", other, "string")),
    }
}

/// Everybody may see himself; others are for who may see the users of their database.
fn check(op: &Operation<'_>, request: &Request<'_>, name: &str, database: &str) -> Result<()> {
    let own = op.client.users().iter().any(|(user, of)| user == name && of == database);
    if own || crate::auth::may(op, Rights::USERS, Place::Collection(database, "")) {
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
