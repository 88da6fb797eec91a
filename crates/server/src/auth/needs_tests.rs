//! Tests the privileges that commands require.

use bson::{RawDocumentBuf, rawdoc};

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
            (set![find], PrivilegeResource::Collection("a", "b")),
            (set![find], PrivilegeResource::Collection("a", "c")),
            (set![find], PrivilegeResource::Collection("z", "d")),
            (set![insert update], PrivilegeResource::Collection("y", "e")),
        ]
    );
}

/// What routers and members of a set send one another, no built-in role may.
#[test]
fn every_command_has_its_action_or_is_for_members_alone() {
    let body = rawdoc! { "x": 1 };
    let target = RawBsonRef::String("c");
    let internal = PrivilegeNeed::One(set![internal], PrivilegeResource::Cluster);
    let of_members: Vec<&str> = crate::commands::registry()
        .all()
        .iter()
        .filter(|command| {
            let (name, access) = (command.name, command.rules.access);
            let asked =
                RequestedCommand { name, access, database: "a", target, body: &body, updates: Vec::new() };
            name != "explain" && asked.need() == internal
        })
        .map(|command| command.name)
        .collect();
    let expected = [
        "_addShard",
        "_flushDatabaseCacheUpdates",
        "_flushRoutingTableCacheUpdates",
        "_recvChunkAbort",
        "_recvChunkCommit",
        "_recvChunkStart",
        "_shardsvrShardCollection",
        "coordinateCommitTransaction",
        "moveChunk",
        "replSetGetRBID",
        "replSetHeartbeat",
        "replSetRequestVotes",
        "replSetUpdatePosition",
    ];
    assert_eq!(of_members, expected);
}

#[test]
fn writes_need_the_action_of_each_thing_that_they_do() {
    let need = |name: &'static str, body: &RawDocumentBuf, updates: Vec<&RawDocumentBuf>| {
        let asked = RequestedCommand {
            name,
            access: CommandAccess::Write,
            database: "a",
            target: RawBsonRef::String("c"),
            body: leak(body),
            updates: updates.into_iter().map(leak).collect(),
        };
        match asked.need() {
            PrivilegeNeed::One(actions, _) => actions,
            other => panic!("{other:?}"),
        }
    };
    let plain = rawdoc! { "x": 1 };
    let bypass = rawdoc! { "bypassDocumentValidation": true };
    assert_eq!(need("insert", &plain, vec![]), set![insert]);
    assert_eq!(need("insert", &bypass, vec![]), set![insert bypassDocumentValidation]);
    assert_eq!(need("delete", &plain, vec![]), set![remove]);
    let (one, two) = (rawdoc! { "q": {}, "u": {} }, rawdoc! { "q": {}, "u": {}, "upsert": true });
    assert_eq!(need("update", &plain, vec![&one]), set![update]);
    assert_eq!(need("update", &plain, vec![&one, &two]), set![update insert]);
    assert_eq!(need("findAndModify", &rawdoc! { "remove": true }, vec![]), set![find remove]);
    assert_eq!(need("findAndModify", &rawdoc! { "upsert": true }, vec![]), set![find update insert]);
}

fn leak(document: &RawDocumentBuf) -> &'static RawDocument {
    Box::leak(Box::new(document.clone()))
}

#[test]
fn roles_are_granted_by_who_may_grant_those_of_their_database() {
    let body = rawdoc! { "createUser": "x", "roles": ["read", { "role": "root", "db": "admin" }] };
    let asked = RequestedCommand {
        name: "createUser",
        access: CommandAccess::UserAdmin,
        database: "a",
        target: RawBsonRef::String("x"),
        body: &body,
        updates: Vec::new(),
    };
    let whole = |database| PrivilegeResource::Collection(database, "");
    let expected = [(set![createUser], "a"), (set![grantRole], "a"), (set![grantRole], "admin")];
    assert_eq!(asked.need(), PrivilegeNeed::Each(expected.map(|(one, of)| (one, whole(of))).to_vec()));
}
