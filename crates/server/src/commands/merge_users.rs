//! `_mergeAuthzCollections`: the last step of a mongorestore with users, which it has put into a collection of their own.
//!
//! Roles that somebody defined are refused, as this server has MongoDB's own roles only.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::doc;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::auth::User;
use crate::execution::document_of;
use crate::operation::Operation;
use crate::parse;
use crate::request::Request;

/// Takes over the users; those that are there already stay as they are, unless `drop` says that only the new ones count.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
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

/// All documents of a collection; none of one that is not there.
fn read(op: &mut Operation<'_>, namespace: &str) -> Result<Vec<bson::Document>> {
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
