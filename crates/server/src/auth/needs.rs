//! The privilege that a command requires: usually the one in its row of the table, and more if the command touches more. A
//! pipeline touches further collections: `$lookup` reads some, `$out` and `$merge` write some.

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::parse;
use crate::request::{CommandAccess, CommandRegistry, Request};
use crate::users::{PrivilegeResource, Rights};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PrivilegeNeed<'a> {
    Nothing,
    /// A login, with any rights.
    Login,
    /// One of these rights on this resource.
    One(Rights, PrivilegeResource<'a>),
    /// One of the rights on each of these resources.
    Each(Vec<(Rights, PrivilegeResource<'a>)>),
}

/// The privilege that a request requires; `explain` requires that of the command in it.
pub(crate) fn need_of<'a>(commands: &CommandRegistry, request: &Request<'a>) -> PrivilegeNeed<'a> {
    let database = request.database;
    let whole = PrivilegeResource::Collection(database, "");
    let resource = PrivilegeResource::Collection(database, target_of(request));
    match request.command.name {
        "aggregate" => of_aggregate(database, request.target, request.body()),
        "explain" => explained(commands, request, resource),
        "create" | "collMod" => match of_view(request) {
            Some(more) => more,
            None if request.command.name == "create" => PrivilegeNeed::One(Rights::SCHEMA, resource),
            None => PrivilegeNeed::One(Rights::ADMINISTER, resource),
        },
        "createIndexes" | "drop" | "dropIndexes" | "deleteIndexes" | "convertToCapped" => {
            PrivilegeNeed::One(Rights::SCHEMA, resource)
        }
        "renameCollection" => rename(request),
        "listCollections" => PrivilegeNeed::One(Rights::LIST, whole),
        "listIndexes" => PrivilegeNeed::One(Rights::LIST, resource),
        // The reply shows the databases that the user may read.
        "listDatabases" => PrivilegeNeed::Login,
        "collStats" | "dbStats" | "dataSize" => PrivilegeNeed::One(Rights::STATS, resource),
        "getParameter" | "serverStatus" => {
            PrivilegeNeed::One(Rights::FIGURES | Rights::MONITOR, PrivilegeResource::Cluster)
        }
        "currentOp" if own_only(request) => PrivilegeNeed::Login,
        "usersInfo" => users_info(request),
        "replSetGetStatus" | "replSetGetConfig" => {
            PrivilegeNeed::One(Rights::SETS | Rights::MONITOR, PrivilegeResource::Cluster)
        }
        _ => of_access(request.command.rules.access, resource),
    }
}

/// A user may explain a command only if he may run it.
fn explained<'a>(
    commands: &CommandRegistry,
    request: &Request<'a>,
    resource: PrivilegeResource<'a>,
) -> PrivilegeNeed<'a> {
    let RawBsonRef::Document(inner) = request.target else { return of_access(CommandAccess::Read, resource) };
    match inner.iter().next().and_then(Result::ok) {
        Some((name, target)) if name.as_str() == "aggregate" => of_aggregate(request.database, target, inner),
        Some((name, _)) => of_access(
            commands.find(name.as_str()).map_or(CommandAccess::Read, |inner| inner.rules.access),
            resource,
        ),
        None => of_access(CommandAccess::Read, resource),
    }
}

/// The privilege of a row's [`CommandAccess`] on a resource.
pub(crate) fn of_access<'a>(access: CommandAccess, resource: PrivilegeResource<'a>) -> PrivilegeNeed<'a> {
    let whole = match resource {
        PrivilegeResource::Collection(database, _) => PrivilegeResource::Collection(database, ""),
        PrivilegeResource::Cluster => PrivilegeResource::Cluster,
    };
    match access {
        CommandAccess::Nobody => PrivilegeNeed::Nothing,
        CommandAccess::Anybody => PrivilegeNeed::Login,
        CommandAccess::Read => PrivilegeNeed::One(Rights::FIND, resource),
        CommandAccess::Write => PrivilegeNeed::One(Rights::CHANGE, resource),
        CommandAccess::DatabaseAdmin => PrivilegeNeed::One(Rights::ADMINISTER, resource),
        CommandAccess::UserAdmin => PrivilegeNeed::One(Rights::USERS, whole),
        CommandAccess::Monitor => PrivilegeNeed::One(Rights::MONITOR, PrivilegeResource::Cluster),
        CommandAccess::Manage => PrivilegeNeed::One(Rights::MANAGE, PrivilegeResource::Cluster),
    }
}

/// The collection that a command names, also for the command inside `explain`.
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

/// A view shows its source, so a user who creates one must be allowed to read that.
fn of_view<'a>(request: &Request<'a>) -> Option<PrivilegeNeed<'a>> {
    let on = parse::string(request.fields, "viewOn").ok().flatten()?;
    let right = if request.command.name == "create" { Rights::SCHEMA } else { Rights::ADMINISTER };
    let mut needs = vec![
        (right, PrivilegeResource::Collection(request.database, target_of(request))),
        (Rights::FIND, PrivilegeResource::Collection(request.database, on)),
    ];
    if let Some(RawBsonRef::Array(stages)) = request.field("pipeline") {
        of_stages(request.database, on, stages, &mut needs);
    }
    Some(PrivilegeNeed::Each(needs))
}

fn rename<'a>(request: &Request<'a>) -> PrivilegeNeed<'a> {
    let to = parse::string(request.fields, "to").ok().flatten().unwrap_or_default();
    let resources = [target_of(request), to].map(|name| {
        let (database, collection) = name.split_once('.').unwrap_or((name, ""));
        (Rights::SCHEMA, PrivilegeResource::Collection(database, collection))
    });
    PrivilegeNeed::Each(resources.to_vec())
}

fn own_only(request: &Request<'_>) -> bool {
    parse::boolean(request.fields, "$ownOps").unwrap_or(false)
}

/// Listing the users of all databases requires the right to see all of them; other cases are checked when the names are known.
fn users_info<'a>(request: &Request<'a>) -> PrivilegeNeed<'a> {
    match request.target {
        RawBsonRef::Document(which) if parse::field(which, "forAllDBs").is_some() => {
            PrivilegeNeed::One(Rights::USERS, PrivilegeResource::Collection("admin", ""))
        }
        RawBsonRef::String(_) | RawBsonRef::Document(_) | RawBsonRef::Array(_) => PrivilegeNeed::Login,
        _ => PrivilegeNeed::One(Rights::USERS, PrivilegeResource::Collection(request.database, "")),
    }
}

/// The parts of an aggregate, also of an explained one: its database, its first field, its body.
fn of_aggregate<'a>(database: &'a str, target: RawBsonRef<'a>, body: &'a RawDocument) -> PrivilegeNeed<'a> {
    let target = match target {
        RawBsonRef::String(name) => name,
        _ => "",
    };
    let Some(RawBsonRef::Array(stages)) = parse::field(body, "pipeline") else {
        return PrivilegeNeed::One(Rights::FIND, PrivilegeResource::Collection(database, target));
    };
    let mut needs = Vec::new();
    let first = stages.into_iter().next().and_then(Result::ok);
    let first_name = first.and_then(stage_of).map_or("", |(name, _)| name);
    let own = !matches!(
        first_name,
        "$currentOp" | "$listLocalSessions" | "$listSessions" | "$documents" | "$collStats" | "$indexStats"
    );
    if own {
        needs.push((Rights::FIND, PrivilegeResource::Collection(database, target)));
    }
    of_stages(database, target, stages, &mut needs);
    if needs.is_empty() { PrivilegeNeed::Login } else { PrivilegeNeed::Each(needs) }
}

/// Adds what the stages of a pipeline over `collection` need.
fn of_stages<'a>(
    database: &'a str,
    collection: &'a str,
    stages: &'a RawArray,
    needs: &mut Vec<(Rights, PrivilegeResource<'a>)>,
) {
    for stage in stages.into_iter().flatten() {
        if let Some((name, value)) = stage_of(stage) {
            of_stage(database, collection, name, value, needs);
        }
    }
}

fn of_stage<'a>(
    database: &'a str,
    collection: &'a str,
    name: &str,
    value: RawBsonRef<'a>,
    needs: &mut Vec<(Rights, PrivilegeResource<'a>)>,
) {
    let inner = match value {
        RawBsonRef::Document(inner) => inner,
        _ => parse::empty(),
    };
    match name {
        "$lookup" | "$graphLookup" => {
            let from = parse::field(inner, "from").and_then(|from| namespace_of(database, from));
            needs.extend(from.map(|resource| (Rights::FIND, resource)));
            nested(database, collection, inner, needs);
        }
        "$unionWith" => {
            let with = match value {
                RawBsonRef::Document(inner) => parse::field(inner, "coll"),
                other => Some(other),
            };
            needs.extend(with.and_then(|with| namespace_of(database, with)).map(|at| (Rights::FIND, at)));
            nested(database, collection, inner, needs);
        }
        "$facet" => {
            for (_, branch) in inner.iter().flatten() {
                if let RawBsonRef::Array(stages) = branch {
                    of_stages(database, collection, stages, needs);
                }
            }
        }
        "$out" => {
            needs.extend(namespace_of(database, value).map(|resource| (Rights::CHANGE, resource)));
        }
        "$merge" => {
            let into = match value {
                RawBsonRef::Document(inner) => parse::field(inner, "into"),
                other => Some(other),
            };
            needs.extend(into.and_then(|into| namespace_of(database, into)).map(|at| (Rights::CHANGE, at)));
        }
        "$collStats" | "$indexStats" | "$planCacheStats" => {
            needs.push((Rights::STATS, PrivilegeResource::Collection(database, collection)));
        }
        "$currentOp" | "$listLocalSessions" | "$listSessions"
            if parse::boolean(inner, "allUsers").unwrap_or(true) =>
        {
            needs.push((Rights::MONITOR, PrivilegeResource::Cluster));
        }
        _ => {}
    }
}

fn nested<'a>(
    database: &'a str,
    collection: &'a str,
    stage: &'a RawDocument,
    needs: &mut Vec<(Rights, PrivilegeResource<'a>)>,
) {
    if let Some(RawBsonRef::Array(stages)) = parse::field(stage, "pipeline") {
        of_stages(database, collection, stages, needs);
    }
}

/// A stage's name and argument.
fn stage_of(stage: RawBsonRef<'_>) -> Option<(&str, RawBsonRef<'_>)> {
    let RawBsonRef::Document(stage) = stage else { return None };
    let (name, value) = stage.iter().next()?.ok()?;
    Some((name.as_str(), value))
}

/// `"collection"` or `{db, coll}`.
fn namespace_of<'a>(database: &'a str, value: RawBsonRef<'a>) -> Option<PrivilegeResource<'a>> {
    match value {
        RawBsonRef::String(name) => Some(PrivilegeResource::Collection(database, name)),
        RawBsonRef::Document(inner) => {
            let name = parse::string(inner, "coll").ok().flatten()?;
            let database = parse::string(inner, "db").ok().flatten().unwrap_or(database);
            Some(PrivilegeResource::Collection(database, name))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn everything_that_a_pipeline_touches_is_found() {
        let pipeline = rawdoc! { "p": [
            { "$lookup": { "from": "b", "as": "x", "pipeline": [{ "$unionWith": "c" }] } },
            { "$facet": { "one": [{ "$lookup": { "from": { "db": "z", "coll": "d" }, "as": "x" } }] } },
            { "$merge": { "into": { "db": "y", "coll": "e" } } },
        ] };
        let RawBsonRef::Array(stages) = pipeline.get("p").unwrap().unwrap() else { panic!() };
        let mut needs = Vec::new();
        of_stages("a", "c0", stages, &mut needs);
        assert_eq!(
            needs,
            [
                (Rights::FIND, PrivilegeResource::Collection("a", "b")),
                (Rights::FIND, PrivilegeResource::Collection("a", "c")),
                (Rights::FIND, PrivilegeResource::Collection("z", "d")),
                (Rights::CHANGE, PrivilegeResource::Collection("y", "e")),
            ]
        );
    }
}
