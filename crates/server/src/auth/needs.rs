//! What a command needs its user to be allowed: mostly what its row in the table says, and more where it touches more.

use bson::RawBsonRef;

use super::Access;
use super::pipelines;
use super::privilege::Place;
use super::rights::Rights;
use crate::parse;
use crate::request::Request;

/// What must be allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// Nothing.
    Nothing,
    /// To be logged in.
    Login,
    /// One of these rights at this place.
    One(Rights, Place<'a>),
    /// One of the rights in each of these places.
    Each(Vec<(Rights, Place<'a>)>),
}

/// What a request needs.
pub(crate) fn need_of<'a>(request: &Request<'a>) -> Need<'a> {
    let database = request.database;
    let whole = Place::Collection(database, "");
    let place = Place::Collection(database, target_of(request));
    match request.command.name {
        "aggregate" => pipelines::of_aggregate(database, request.target, request.body()),
        "explain" => explained(request, place),
        "create" | "collMod" => match of_view(request) {
            Some(more) => more,
            None if request.command.name == "create" => Need::One(Rights::SCHEMA, place),
            None => Need::One(Rights::ADMINISTER, place),
        },
        "createIndexes" | "drop" | "dropIndexes" | "deleteIndexes" | "convertToCapped" => {
            Need::One(Rights::SCHEMA, place)
        }
        "renameCollection" => rename(request),
        "listCollections" => Need::One(Rights::LIST, whole),
        "listIndexes" => Need::One(Rights::LIST, place),
        // Shown are those databases that the user may read.
        "listDatabases" => Need::Login,
        "collStats" | "dbStats" | "dataSize" => Need::One(Rights::STATS, place),
        "getParameter" | "serverStatus" => Need::One(Rights::FIGURES | Rights::MONITOR, Place::Cluster),
        "currentOp" if own_only(request) => Need::Login,
        "usersInfo" => users_info(request),
        "replSetGetStatus" | "replSetGetConfig" => Need::One(Rights::SETS | Rights::MONITOR, Place::Cluster),
        _ => of_access(request.command.access, place),
    }
}

/// Who explains a command must be allowed to run it.
fn explained<'a>(request: &Request<'a>, place: Place<'a>) -> Need<'a> {
    let RawBsonRef::Document(inner) = request.target else { return of_access(Access::Read, place) };
    match inner.iter().next().and_then(Result::ok) {
        Some((name, target)) if name.as_str() == "aggregate" => {
            pipelines::of_aggregate(request.database, target, inner)
        }
        Some((name, _)) => {
            of_access(crate::commands::find(name.as_str()).map_or(Access::Read, |inner| inner.access), place)
        }
        None => of_access(Access::Read, place),
    }
}

/// What a row's [`Access`] stands for, at a place.
pub(crate) fn of_access<'a>(access: Access, place: Place<'a>) -> Need<'a> {
    let whole = match place {
        Place::Collection(database, _) => Place::Collection(database, ""),
        Place::Cluster => Place::Cluster,
    };
    match access {
        Access::Nobody => Need::Nothing,
        Access::Anybody => Need::Login,
        Access::Read => Need::One(Rights::FIND, place),
        Access::Write => Need::One(Rights::CHANGE, place),
        Access::DatabaseAdmin => Need::One(Rights::ADMINISTER, place),
        Access::UserAdmin => Need::One(Rights::USERS, whole),
        Access::Monitor => Need::One(Rights::MONITOR, Place::Cluster),
        Access::Manage => Need::One(Rights::MANAGE, Place::Cluster),
    }
}

/// The collection that a command names, also inside what `explain` explains.
fn target_of<'a>(request: &Request<'a>) -> &'a str {
    let inner = match request.target {
        RawBsonRef::Document(inner) => inner.iter().next().and_then(Result::ok).map(|(_, value)| value),
        other => Some(other),
    };
    match inner {
        Some(RawBsonRef::String(name)) => name,
        _ => "",
    }
}

/// A view shows what it stands on, so who makes one must be allowed to see that.
fn of_view<'a>(request: &Request<'a>) -> Option<Need<'a>> {
    let on = parse::string(request.fields, "viewOn").ok().flatten()?;
    let right = if request.command.name == "create" { Rights::SCHEMA } else { Rights::ADMINISTER };
    let mut needs = vec![
        (right, Place::Collection(request.database, target_of(request))),
        (Rights::FIND, Place::Collection(request.database, on)),
    ];
    if let Some(RawBsonRef::Array(stages)) = request.field("pipeline") {
        pipelines::of_stages(request.database, on, stages, &mut needs);
    }
    Some(Need::Each(needs))
}

fn rename<'a>(request: &Request<'a>) -> Need<'a> {
    let to = parse::string(request.fields, "to").ok().flatten().unwrap_or_default();
    let places = [target_of(request), to].map(|name| {
        let (database, collection) = name.split_once('.').unwrap_or((name, ""));
        (Rights::SCHEMA, Place::Collection(database, collection))
    });
    Need::Each(places.to_vec())
}

fn own_only(request: &Request<'_>) -> bool {
    parse::boolean(request.fields, "$ownOps").unwrap_or(false)
}

/// The users of all databases are for who may see those of all; the rest is checked where the names are known.
fn users_info<'a>(request: &Request<'a>) -> Need<'a> {
    match request.target {
        RawBsonRef::Document(which) if parse::field(which, "forAllDBs").is_some() => {
            Need::One(Rights::USERS, Place::Collection("admin", ""))
        }
        RawBsonRef::String(_) | RawBsonRef::Document(_) | RawBsonRef::Array(_) => Need::Login,
        _ => Need::One(Rights::USERS, Place::Collection(request.database, "")),
    }
}
