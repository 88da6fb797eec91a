//! What a command needs its user to be allowed: mostly what its row in the table says, and more where it touches more. A pipeline touches
//! other collections beside its own: what `$lookup` reads, what `$out` and `$merge` write.

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::parse;
use crate::request::{Access, CommandRegistry, Request};
use crate::users::{Resource, Rights};

/// What must be allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// Nothing.
    Nothing,
    /// To be logged in.
    Login,
    /// One of these rights on this resource.
    One(Rights, Resource<'a>),
    /// One of the rights on each of these resources.
    Each(Vec<(Rights, Resource<'a>)>),
}

/// What a request needs; `explain` needs what the command in it does.
pub(crate) fn need_of<'a>(commands: &CommandRegistry, request: &Request<'a>) -> Need<'a> {
    let database = request.database;
    let whole = Resource::Collection(database, "");
    let resource = Resource::Collection(database, target_of(request));
    match request.command.name {
        "aggregate" => of_aggregate(database, request.target, request.body()),
        "explain" => explained(commands, request, resource),
        "create" | "collMod" => match of_view(request) {
            Some(more) => more,
            None if request.command.name == "create" => Need::One(Rights::SCHEMA, resource),
            None => Need::One(Rights::ADMINISTER, resource),
        },
        "createIndexes" | "drop" | "dropIndexes" | "deleteIndexes" | "convertToCapped" => {
            Need::One(Rights::SCHEMA, resource)
        }
        "renameCollection" => rename(request),
        "listCollections" => Need::One(Rights::LIST, whole),
        "listIndexes" => Need::One(Rights::LIST, resource),
        // Shown are those databases that the user may read.
        "listDatabases" => Need::Login,
        "collStats" | "dbStats" | "dataSize" => Need::One(Rights::STATS, resource),
        "getParameter" | "serverStatus" => Need::One(Rights::FIGURES | Rights::MONITOR, Resource::Cluster),
        "currentOp" if own_only(request) => Need::Login,
        "usersInfo" => users_info(request),
        "replSetGetStatus" | "replSetGetConfig" => {
            Need::One(Rights::SETS | Rights::MONITOR, Resource::Cluster)
        }
        _ => of_access(request.command.rules.access, resource),
    }
}

/// Who explains a command must be allowed to run it.
fn explained<'a>(commands: &CommandRegistry, request: &Request<'a>, resource: Resource<'a>) -> Need<'a> {
    let RawBsonRef::Document(inner) = request.target else { return of_access(Access::Read, resource) };
    match inner.iter().next().and_then(Result::ok) {
        Some((name, target)) if name.as_str() == "aggregate" => of_aggregate(request.database, target, inner),
        Some((name, _)) => {
            of_access(commands.find(name.as_str()).map_or(Access::Read, |inner| inner.rules.access), resource)
        }
        None => of_access(Access::Read, resource),
    }
}

/// What a row's [`Access`] stands for, on a resource.
pub(crate) fn of_access<'a>(access: Access, resource: Resource<'a>) -> Need<'a> {
    let whole = match resource {
        Resource::Collection(database, _) => Resource::Collection(database, ""),
        Resource::Cluster => Resource::Cluster,
    };
    match access {
        Access::Nobody => Need::Nothing,
        Access::Anybody => Need::Login,
        Access::Read => Need::One(Rights::FIND, resource),
        Access::Write => Need::One(Rights::CHANGE, resource),
        Access::DatabaseAdmin => Need::One(Rights::ADMINISTER, resource),
        Access::UserAdmin => Need::One(Rights::USERS, whole),
        Access::Monitor => Need::One(Rights::MONITOR, Resource::Cluster),
        Access::Manage => Need::One(Rights::MANAGE, Resource::Cluster),
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
        (right, Resource::Collection(request.database, target_of(request))),
        (Rights::FIND, Resource::Collection(request.database, on)),
    ];
    if let Some(RawBsonRef::Array(stages)) = request.field("pipeline") {
        of_stages(request.database, on, stages, &mut needs);
    }
    Some(Need::Each(needs))
}

fn rename<'a>(request: &Request<'a>) -> Need<'a> {
    let to = parse::string(request.fields, "to").ok().flatten().unwrap_or_default();
    let resources = [target_of(request), to].map(|name| {
        let (database, collection) = name.split_once('.').unwrap_or((name, ""));
        (Rights::SCHEMA, Resource::Collection(database, collection))
    });
    Need::Each(resources.to_vec())
}

fn own_only(request: &Request<'_>) -> bool {
    parse::boolean(request.fields, "$ownOps").unwrap_or(false)
}

/// The users of all databases are for who may see those of all; the rest is checked where the names are known.
fn users_info<'a>(request: &Request<'a>) -> Need<'a> {
    match request.target {
        RawBsonRef::Document(which) if parse::field(which, "forAllDBs").is_some() => {
            Need::One(Rights::USERS, Resource::Collection("admin", ""))
        }
        RawBsonRef::String(_) | RawBsonRef::Document(_) | RawBsonRef::Array(_) => Need::Login,
        _ => Need::One(Rights::USERS, Resource::Collection(request.database, "")),
    }
}

/// What an aggregate needs, also one that is explained: its database, its first field, its body.
fn of_aggregate<'a>(database: &'a str, target: RawBsonRef<'a>, body: &'a RawDocument) -> Need<'a> {
    let target = match target {
        RawBsonRef::String(name) => name,
        _ => "",
    };
    let Some(RawBsonRef::Array(stages)) = parse::field(body, "pipeline") else {
        return Need::One(Rights::FIND, Resource::Collection(database, target));
    };
    let mut needs = Vec::new();
    let first = stages.into_iter().next().and_then(Result::ok);
    let first_name = first.and_then(stage_of).map_or("", |(name, _)| name);
    let own = !matches!(
        first_name,
        "$currentOp" | "$listLocalSessions" | "$listSessions" | "$documents" | "$collStats" | "$indexStats"
    );
    if own {
        needs.push((Rights::FIND, Resource::Collection(database, target)));
    }
    of_stages(database, target, stages, &mut needs);
    if needs.is_empty() { Need::Login } else { Need::Each(needs) }
}

/// Adds what the stages of a pipeline over `collection` need.
fn of_stages<'a>(
    database: &'a str,
    collection: &'a str,
    stages: &'a RawArray,
    needs: &mut Vec<(Rights, Resource<'a>)>,
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
    needs: &mut Vec<(Rights, Resource<'a>)>,
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
            needs.push((Rights::STATS, Resource::Collection(database, collection)));
        }
        "$currentOp" | "$listLocalSessions" | "$listSessions"
            if parse::boolean(inner, "allUsers").unwrap_or(true) =>
        {
            needs.push((Rights::MONITOR, Resource::Cluster));
        }
        _ => {}
    }
}

fn nested<'a>(
    database: &'a str,
    collection: &'a str,
    stage: &'a RawDocument,
    needs: &mut Vec<(Rights, Resource<'a>)>,
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
fn namespace_of<'a>(database: &'a str, value: RawBsonRef<'a>) -> Option<Resource<'a>> {
    match value {
        RawBsonRef::String(name) => Some(Resource::Collection(database, name)),
        RawBsonRef::Document(inner) => {
            let name = parse::string(inner, "coll").ok().flatten()?;
            let database = parse::string(inner, "db").ok().flatten().unwrap_or(database);
            Some(Resource::Collection(database, name))
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
                (Rights::FIND, Resource::Collection("a", "b")),
                (Rights::FIND, Resource::Collection("a", "c")),
                (Rights::FIND, Resource::Collection("z", "d")),
                (Rights::CHANGE, Resource::Collection("y", "e")),
            ]
        );
    }
}
