//! What a pipeline touches beside its own collection: what `$lookup` reads, what `$out` and `$merge` write, what
//! `$currentOp` shows.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::needs::Need;
use super::privilege::Place;
use super::rights::Rights;
use crate::parse;

/// What an aggregate needs, also one that is explained: its database, its first field, its body.
pub(super) fn of_aggregate<'a>(database: &'a str, target: RawBsonRef<'a>, body: &'a RawDocument) -> Need<'a> {
    let target = match target {
        RawBsonRef::String(name) => name,
        _ => "",
    };
    let Some(RawBsonRef::Array(stages)) = parse::field(body, "pipeline") else {
        return Need::One(Rights::FIND, Place::Collection(database, target));
    };
    let mut needs = Vec::new();
    let first = stages.into_iter().next().and_then(Result::ok);
    let first_name = first.and_then(stage_of).map_or("", |(name, _)| name);
    let own = !matches!(
        first_name,
        "$currentOp" | "$listLocalSessions" | "$listSessions" | "$documents" | "$collStats" | "$indexStats"
    );
    if own {
        needs.push((Rights::FIND, Place::Collection(database, target)));
    }
    of_stages(database, target, stages, &mut needs);
    if needs.is_empty() { Need::Login } else { Need::Each(needs) }
}

/// Adds what the stages of a pipeline over `collection` need.
pub(super) fn of_stages<'a>(
    database: &'a str,
    collection: &'a str,
    stages: &'a RawArray,
    needs: &mut Vec<(Rights, Place<'a>)>,
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
    needs: &mut Vec<(Rights, Place<'a>)>,
) {
    let inner = match value {
        RawBsonRef::Document(inner) => inner,
        _ => parse::empty(),
    };
    match name {
        "$lookup" | "$graphLookup" => {
            let from = parse::field(inner, "from").and_then(|from| namespace_of(database, from));
            needs.extend(from.map(|place| (Rights::FIND, place)));
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
            needs.extend(namespace_of(database, value).map(|place| (Rights::CHANGE, place)));
        }
        "$merge" => {
            let into = match value {
                RawBsonRef::Document(inner) => parse::field(inner, "into"),
                other => Some(other),
            };
            needs.extend(into.and_then(|into| namespace_of(database, into)).map(|at| (Rights::CHANGE, at)));
        }
        "$collStats" | "$indexStats" | "$planCacheStats" => {
            needs.push((Rights::STATS, Place::Collection(database, collection)));
        }
        "$currentOp" | "$listLocalSessions" | "$listSessions"
            if parse::boolean(inner, "allUsers").unwrap_or(true) =>
        {
            needs.push((Rights::MONITOR, Place::Cluster));
        }
        _ => {}
    }
}

fn nested<'a>(
    database: &'a str,
    collection: &'a str,
    stage: &'a RawDocument,
    needs: &mut Vec<(Rights, Place<'a>)>,
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
fn namespace_of<'a>(database: &'a str, value: RawBsonRef<'a>) -> Option<Place<'a>> {
    match value {
        RawBsonRef::String(name) => Some(Place::Collection(database, name)),
        RawBsonRef::Document(inner) => {
            let name = parse::string(inner, "coll").ok().flatten()?;
            let database = parse::string(inner, "db").ok().flatten().unwrap_or(database);
            Some(Place::Collection(database, name))
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
                (Rights::FIND, Place::Collection("a", "b")),
                (Rights::FIND, Place::Collection("a", "c")),
                (Rights::FIND, Place::Collection("z", "d")),
                (Rights::CHANGE, Place::Collection("y", "e")),
            ]
        );
    }
}
