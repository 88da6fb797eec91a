//! The commands that change users: `createUser`, `updateUser`, `dropUser`, `dropAllUsersFromDatabase`, `grantRolesToUser`, `revokeRolesFromUser`, and
//! `_mergeAuthzCollections`, the last step of a mongorestore that has put its users into a temporary collection.
//!
//! Passwords are hashed here; the stored form cannot be turned back into them. Address restrictions are refused by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, doc};
use fathom_query::{Code, Failure};
use fathom_wire::scram::{Credentials, Mechanism};

use super::Reply;
use crate::Result;
use crate::operation_context::OperationContext;
use crate::parse;
use crate::request::Request;
use crate::storage::document_of;
use crate::users::{RoleName, User};

pub(super) fn create(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let name = name_of(request)?;
    if request.database == "local" {
        return Err(Failure::new(Code::BadValue, "Cannot create users in the local database"));
    }
    let roles = roles_of(request, "roles")?
        .ok_or_else(|| Failure::new(Code::BadValue, "\"createUser\" command requires a \"roles\" array"))?;
    let mechanisms = mechanisms_of(request.body())?;
    let password = parse::string(request.fields, "pwd")?.ok_or_else(|| {
        let what =
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db";
        Failure::new(Code::BadValue, what)
    })?;
    let wanted = mechanisms.unwrap_or_else(|| Mechanism::ALL.to_vec());
    let mut user = User::create(request.database, name);
    user.set_credentials(hash(op, request.body(), name, password, &wanted)?);
    user.set_roles(roles);
    refuse_restrictions(request.body())?;
    if let Some(data) = parse::document(request.fields, "customData")? {
        user.set_custom_data(parse::owned(data)?);
    }
    let instance = std::sync::Arc::clone(op.instance);
    let _change = instance.users.lock();
    if instance.users.is_enabled() && !op.client.is_authenticated() && !instance.users.is_empty() {
        return Err(Failure::new(Code::Unauthorized, "command createUser requires authentication"));
    }
    if instance.users.get(request.database, name).is_some() {
        let what = format!("User \"{name}@{}\" already exists", request.database);
        return Err(Failure::new(Code(51003), what));
    }
    let _ticket = op.write_ticket()?;
    instance.users.put(op, user)
}

pub(super) fn update(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let name = name_of(request)?;
    let roles = roles_of(request, "roles")?;
    let mechanisms = mechanisms_of(request.body())?;
    let password = parse::string(request.fields, "pwd")?;
    let data = parse::document(request.fields, "customData")?;
    refuse_restrictions(request.body())?;
    if roles.is_none() && mechanisms.is_none() && password.is_none() && data.is_none() {
        let what = "Must specify at least one field to update in updateUser";
        return Err(Failure::new(Code::BadValue, what));
    }
    change(op, request.database, name, |op, user| {
        if let Some(password) = password {
            let wanted = mechanisms.clone().unwrap_or_else(|| user.mechanisms());
            user.set_credentials(hash(op, request.body(), name, password, &wanted)?);
        } else if let Some(kept) = &mechanisms {
            if kept.iter().any(|one| user.credentials(*one).is_none()) {
                let what = "mechanisms field must be a subset of previously set mechanisms";
                return Err(Failure::new(Code::BadValue, what));
            }
            user.keep_mechanisms(kept);
        }
        if let Some(roles) = roles {
            user.set_roles(roles);
        }
        if let Some(data) = data {
            user.set_custom_data(parse::owned(data)?);
        }
        Ok(())
    })
}

pub(super) fn drop_one(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let name = name_of(request)?;
    let instance = std::sync::Arc::clone(op.instance);
    let _change = instance.users.lock();
    let _ticket = op.write_ticket()?;
    if instance.users.remove(op, request.database, name)? {
        return Ok(());
    }
    Err(not_found(request.database, name))
}

/// Removes all users of the command's database.
pub(super) fn drop_all(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let instance = std::sync::Arc::clone(op.instance);
    let _change = instance.users.lock();
    let _ticket = op.write_ticket()?;
    let mut gone = 0;
    for user in instance.users.all() {
        if user.database == request.database && instance.users.remove(op, &user.database, &user.name)? {
            gone += 1;
        }
    }
    reply.i32("n", gone);
    Ok(())
}

/// Grants further roles to a user.
pub(super) fn grant(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let name = name_of(request)?;
    let more = roles_of(request, "roles")?.ok_or_else(|| parse::missing("grantRolesToUser.roles"))?;
    change(op, request.database, name, |_, user| {
        let all = user.roles.iter().cloned().chain(more).collect();
        user.set_roles(all);
        Ok(())
    })
}

/// Revokes roles from a user.
pub(super) fn revoke(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let name = name_of(request)?;
    let less = roles_of(request, "roles")?.ok_or_else(|| parse::missing("revokeRolesFromUser.roles"))?;
    change(op, request.database, name, |_, user| {
        let rest = user.roles.iter().filter(|role| !less.contains(role)).cloned().collect();
        user.set_roles(rest);
        Ok(())
    })
}

fn change(
    op: &mut OperationContext<'_>,
    database: &str,
    name: &str,
    work: impl FnOnce(&OperationContext<'_>, &mut User) -> Result<()>,
) -> Result<()> {
    let instance = std::sync::Arc::clone(op.instance);
    let _change = instance.users.lock();
    let found = instance.users.get(database, name).filter(|_| database != "local");
    let mut user = found.map(|user| (*user).clone()).ok_or_else(|| not_found(database, name))?;
    work(op, &mut user)?;
    let _ticket = op.write_ticket()?;
    instance.users.put(op, user)
}

fn not_found(database: &str, name: &str) -> Failure {
    Failure::new(Code::UserNotFound, format!("User '{name}@{database}' not found"))
}

/// The user's name, which is the first field's value.
fn name_of<'a>(request: &Request<'a>) -> Result<&'a str> {
    match request.target {
        RawBsonRef::String("") => {
            Err(Failure::new(Code::BadValue, "User document needs 'user' field to be non-empty"))
        }
        RawBsonRef::String(name) if name.contains('\0') => {
            Err(Failure::new(Code::BadValue, "Username cannot contain NULL characters"))
        }
        RawBsonRef::String(name) => Ok(name),
        other => Err(parse::wrong_type(request.command.name, other, "string")),
    }
}

/// Roles, each a name in the command's database or `{role, db}`.
fn roles_of(request: &Request<'_>, field: &str) -> Result<Option<Vec<RoleName>>> {
    let items = match request.field(field) {
        None => return Ok(None),
        Some(RawBsonRef::Array(items)) => items,
        Some(other) => return Err(parse::wrong_type(field, other, "array")),
    };
    let mut roles = Vec::new();
    for item in items {
        let item = item.map_err(|error| parse::malformed(&error))?;
        roles.push(read_role(request.database, item)?.check()?);
    }
    Ok(Some(roles))
}

/// One role, given by name or as `{role, db}`.
pub(super) fn read_role(database: &str, item: RawBsonRef<'_>) -> Result<RoleName> {
    match item {
        RawBsonRef::String(role) => Ok(RoleName { role: role.to_owned(), database: database.to_owned() }),
        RawBsonRef::Document(role) => Ok(RoleName {
            role: parse::required_string(role, "role")?.to_owned(),
            database: parse::required_string(role, "db")?.to_owned(),
        }),
        _ => Err(Failure::new(Code::BadValue, "Role names must be either strings or objects of {role, db}")),
    }
}

fn mechanisms_of(body: &RawDocument) -> Result<Option<Vec<Mechanism>>> {
    let items = match parse::field(body, "mechanisms") {
        None => return Ok(None),
        Some(RawBsonRef::Array(items)) => items,
        Some(other) => return Err(parse::wrong_type("mechanisms", other, "array")),
    };
    let mut mechanisms = Vec::new();
    for item in items {
        let RawBsonRef::String(name) = item.map_err(|error| parse::malformed(&error))? else {
            return Err(Failure::new(Code::BadValue, "mechanisms field must be an array of strings"));
        };
        let mechanism = Mechanism::from_name(name)
            .ok_or_else(|| Failure::new(Code::BadValue, format!("Unknown auth mechanism '{name}'")))?;
        mechanisms.push(mechanism);
    }
    if mechanisms.is_empty() {
        return Err(Failure::new(Code::BadValue, "mechanisms field must not be empty"));
    }
    Ok(Some(mechanisms))
}

/// Derives credentials from a clear-text password, or from one that the client digested, which SCRAM-SHA-256 cannot use.
fn hash(
    op: &OperationContext<'_>,
    body: &RawDocument,
    name: &str,
    password: &str,
    mechanisms: &[Mechanism],
) -> Result<Vec<(Mechanism, Credentials)>> {
    let digested = parse::field(body, "digestPassword").is_some() && !parse::boolean(body, "digestPassword")?;
    if password.is_empty() {
        return Err(Failure::new(Code::BadValue, "Password cannot be empty"));
    }
    if digested && mechanisms.contains(&Mechanism::Sha256) {
        let what = "Use of SCRAM-SHA-256 requires undigested passwords";
        return Err(Failure::new(Code::BadValue, what));
    }
    let derive = |mechanism: &Mechanism| {
        Ok((
            *mechanism,
            op.instance.users.derive(&op.instance.parameters, *mechanism, name, password, digested)?,
        ))
    };
    mechanisms.iter().map(derive).collect()
}

fn refuse_restrictions(body: &RawDocument) -> Result<()> {
    match parse::field(body, "authenticationRestrictions") {
        None => Ok(()),
        Some(RawBsonRef::Array(items)) if items.is_empty() => Ok(()),
        Some(_) => {
            let what = "this server does not restrict logins by address (authenticationRestrictions)";
            Err(Failure::new(Code::CommandNotSupported, what))
        }
    }
}

/// `_mergeAuthzCollections`: the last step of a mongorestore that has put its users into a temporary collection.
///
/// User-defined roles are refused, since this server has only MongoDB's built-in roles.
///
/// Adds the users; existing users are not changed, unless `drop` asks to replace all users with the new ones.
pub(super) fn merge(
    op: &mut OperationContext<'_>,
    request: &Request<'_>,
    _reply: &mut Reply<'_>,
) -> Result<()> {
    let from = parse::string(request.fields, "tempUsersCollection")?.unwrap_or_default();
    let roles = parse::string(request.fields, "tempRolesCollection")?.unwrap_or_default();
    let drop = parse::boolean(request.fields, "drop")?;
    let database = parse::required_string(request.fields, "db")?;
    if from.is_empty() && roles.is_empty() {
        let what = "Must provide at least one of \"tempUsersCollection\" and \"tempRolescollection\" for _mergeAuthzCollections";
        return Err(Failure::new(Code::BadValue, what));
    }
    if !read(op, roles)?.is_empty() {
        let what = "this server has no roles but MongoDB's own, and cannot take over others";
        return Err(Failure::new(Code::CommandNotSupported, what));
    }
    if from.is_empty() {
        return Ok(());
    }
    let wanted = |user: &User| database.is_empty() || user.database == database;
    let found = read(op, from)?.into_iter().map(User::read).collect::<Result<Vec<_>>>()?;
    let found: Vec<User> = found.into_iter().filter(|user| wanted(user)).collect();
    for user in &found {
        for role in &user.roles {
            role.clone().check()?;
        }
    }
    let instance = Arc::clone(op.instance);
    let _change = instance.users.lock();
    let _ticket = op.write_ticket()?;
    let mut others: BTreeSet<String> = BTreeSet::new();
    if drop {
        others.extend(instance.users.all().iter().filter(|user| wanted(user)).map(|user| user.id()));
    }
    for user in found {
        others.remove(&user.id());
        if !drop && instance.users.get(&user.database, &user.name).is_some() {
            let attributes = doc! { "user": user.id() };
            instance.log.warning(
                "ACCESS",
                20508,
                "conn",
                "a user is there already, and stays as it is",
                attributes,
            );
            continue;
        }
        instance.users.put(op, user)?;
    }
    for user in instance.users.all() {
        if others.contains(&user.id()) {
            instance.users.remove(op, &user.database, &user.name)?;
        }
    }
    Ok(())
}

/// All documents of a collection, or none if it does not exist.
fn read(op: &mut OperationContext<'_>, namespace: &str) -> Result<Vec<bson::Document>> {
    let mut documents = Vec::new();
    let Some(collection) = op.instance.catalog.get(namespace) else { return Ok(documents) };
    let _ticket = op.read_ticket()?;
    let session = op.session();
    session.begin()?;
    let result = (|| {
        let mut cursor = session.cursor(collection.records_table()?)?;
        let mut more = cursor.first()?;
        while more {
            documents.push(parse::owned(document_of(cursor.value())?)?);
            more = cursor.next()?;
        }
        Ok(())
    })();
    session.rollback();
    result.map(|()| documents)
}
