//! Users, logins and rights over the wire.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::served::{ENGINES, code, config, connect, create_user, failure, in_memory, login, run};
use bson::{Document, doc};
use fathom_client::{Code, Connection, Credential};
use fathom_server::Server;
use fathom_server::config::EngineName;
use fathom_wire::scram::Mechanism;

fn secured(directory: &Path, engine: EngineName) -> Server {
    let mut config = config(directory, engine);
    config.auth = true;
    Server::start_quiet(config).unwrap()
}

/// An in-memory server with a root user, who is logged in.
fn with_root() -> (Server, Connection) {
    let server = in_memory(|config| config.auth = true);
    create_user(&mut connect(&server), "root", vec!["root".into()]);
    let root = login(&server, "root", "secret").unwrap();
    (server, root)
}

#[test]
fn the_first_user_is_made_from_this_machine_and_stays() {
    for engine in ENGINES {
        let directory = tempfile::tempdir().unwrap();
        let server = secured(directory.path(), engine);
        let mut stranger = connect(&server);
        run(&mut stranger, "admin", &doc! { "ping": 1 });
        let refused = failure(&mut stranger, "test", &doc! { "find": "c" });
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::Unauthorized, "command find requires authentication")
        );
        let elsewhere = doc! { "createUser": "x", "pwd": "p", "roles": [] };
        assert_eq!(code(&mut stranger, "test", &elsewhere), Code::Unauthorized);
        create_user(&mut stranger, "root", vec!["root".into()]);
        assert_eq!(code(&mut stranger, "admin", &elsewhere), Code::Unauthorized);

        let mut root = login(&server, "root", "secret").unwrap();
        run(&mut root, "test", &doc! { "insert": "c", "documents": [{ "_id": 1 }] });
        let status = run(&mut root, "admin", &doc! { "connectionStatus": 1 });
        let users = status.get_document("authInfo").unwrap().get_array("authenticatedUsers").unwrap();
        assert_eq!(users, &[doc! { "user": "root", "db": "admin" }.into()]);
        drop((stranger, root));
        server.stop().unwrap();
        if engine != EngineName::Ephemeral {
            let server = secured(directory.path(), engine);
            assert!(login(&server, "root", "wrong").is_err());
            let mut root = login(&server, "root", "secret").unwrap();
            run(&mut root, "test", &doc! { "find": "c" });
            server.stop().unwrap();
        }
    }
}

#[test]
fn a_user_that_was_answered_survives_a_crash() {
    for engine in [EngineName::WiredTiger, EngineName::RocksDb] {
        let directory = tempfile::tempdir().unwrap();
        let server = secured(directory.path(), engine);
        create_user(&mut connect(&server), "root", vec!["root".into()]);
        let mut root = login(&server, "root", "secret").unwrap();
        create_user(&mut root, "other", vec![]);
        run(&mut root, "admin", &doc! { "dropUser": "other" });
        // The files on disk now are those that a kill -9 would leave.
        let copy = tempfile::tempdir().unwrap();
        let done = std::process::Command::new("cp")
            .arg("-a")
            .arg(directory.path().join("db"))
            .arg(copy.path())
            .status()
            .unwrap();
        assert!(done.success());
        drop(root);
        server.stop().unwrap();
        let server = secured(copy.path(), engine);
        let mut root = login(&server, "root", "secret").unwrap();
        let users = run(&mut root, "admin", &doc! { "usersInfo": 1 });
        assert_eq!(users.get_array("users").unwrap().len(), 1, "{engine:?}");
        drop(root);
        server.stop().unwrap();
    }
}

#[test]
fn both_mechanisms_work_and_failing_does_not_tell_why() {
    let (server, mut root) = with_root();
    run(
        &mut root,
        "admin",
        &doc! { "createUser": "sha1", "pwd": "secret", "roles": [], "mechanisms": ["SCRAM-SHA-1"] },
    );
    // The digest that an old client sends: md5("old:mongo:secret").
    let digest = "44b1c6a8b6faa70cb25933d87a2b2169";
    let digested = doc! {
        "createUser": "old", "pwd": digest, "roles": [], "mechanisms": ["SCRAM-SHA-1"], "digestPassword": false,
    };
    run(&mut root, "admin", &digested);
    let attempt = |user: &str, password: &str, mechanism: Option<Mechanism>| {
        let mut target = crate::served::target(&server);
        target.credential = Some(Credential {
            user: user.to_owned(),
            password: password.to_owned(),
            source: "admin".to_owned(),
            mechanism,
        });
        Connection::connect(&target).map(|_| ()).map_err(|error| error.failure().unwrap().clone())
    };
    for mechanism in [None, Some(Mechanism::Sha1), Some(Mechanism::Sha256)] {
        attempt("root", "secret", mechanism).unwrap();
    }
    attempt("sha1", "secret", None).unwrap();
    attempt("old", "secret", None).unwrap();
    let failures = [
        attempt("root", "wrong", None).unwrap_err(),
        attempt("nobody", "secret", None).unwrap_err(),
        attempt("sha1", "secret", Some(Mechanism::Sha256)).unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.code(), Code::AuthenticationFailed);
        assert_eq!(failure.message(), "Authentication failed.");
    }
    server.stop().unwrap();
}

#[test]
fn a_stranger_is_asked_for_a_proof_like_a_user() {
    let (server, _root) = with_root();
    let mut stranger = connect(&server);
    let mut start = |user: &str| {
        let payload = bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: format!("n,,n={user},r=abc").into_bytes(),
        };
        let command = doc! { "saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload };
        let reply = run(&mut stranger, "admin", &command);
        let text = String::from_utf8(reply.get_binary_generic("payload").unwrap().clone()).unwrap();
        let (_, rest) = text.split_once(",s=").unwrap();
        assert_eq!(reply.get_i32("conversationId").unwrap(), 1);
        rest.to_owned()
    };
    let (one, again, other) = (start("ghost"), start("ghost"), start("phantom"));
    assert_eq!(one, again, "a salt that changes tells that there is nobody");
    assert_ne!(one, other);
    assert_eq!(one.len(), start("root").len());
    let go_on = doc! { "saslContinue": 1, "conversationId": 7, "payload": "" };
    assert_eq!(code(&mut stranger, "admin", &go_on), Code::ProtocolError);
    assert_eq!(code(&mut stranger, "admin", &go_on), Code::ProtocolError, "the conversation is over");
    let unknown = doc! { "saslStart": 1, "mechanism": "PLAIN", "payload": "" };
    assert_eq!(code(&mut stranger, "admin", &unknown), Code::MechanismUnavailable);
    let x509 = doc! { "authenticate": 1, "mechanism": "MONGODB-X509" };
    let refused = failure(&mut stranger, "$external", &x509);
    assert!(refused.message().contains("MONGODB-X509"), "{refused}");
    assert_eq!(code(&mut stranger, "admin", &doc! { "getnonce": 1 }), Code::CommandNotFound);
    let hello = run(&mut stranger, "admin", &doc! { "hello": 1, "saslSupportedMechs": "admin.ghost" });
    assert_eq!(hello.get_array("saslSupportedMechs").unwrap().len(), 2);
    server.stop().unwrap();
}

/// Whether the user of `connection` may run a command; any outcome but Unauthorized counts as yes.
fn may(connection: &mut Connection, database: &str, command: &Document) -> bool {
    match connection.run(database, command) {
        Ok(_) => true,
        Err(error) => {
            let failure = error.failure().unwrap();
            let refused = failure.code() == Code::Unauthorized;
            assert!(!refused || failure.message().starts_with(&format!("not authorized on {database} to")));
            !refused
        }
    }
}

#[test]
fn roles_give_what_they_say() {
    let (server, mut root) = with_root();
    run(&mut root, "a", &doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    let of = |role: &str, db: &str| vec![doc! { "role": role, "db": db }.into()];
    for (name, roles) in [
        ("reader", of("read", "a")),
        ("writer", of("readWrite", "a")),
        ("anywhere", of("readAnyDatabase", "admin")),
        ("users", of("userAdminAnyDatabase", "admin")),
        ("watcher", of("clusterMonitor", "admin")),
        ("nobody", vec![]),
        ("admins", of("readWrite", "admin")),
    ] {
        create_user(&mut root, name, roles);
    }
    let find = doc! { "find": "c" };
    let find_users = doc! { "find": "system.users" };
    let insert = doc! { "insert": "c", "documents": [{}] };
    let create = doc! { "createUser": "x", "pwd": "p", "roles": [] };
    let kill = doc! { "killAllSessions": [] };
    // find in a, find in b, system.users, insert into a, createUser in a, killAllSessions
    let expected = [
        ("reader", [true, false, false, false, false, false]),
        ("writer", [true, false, false, true, false, false]),
        ("anywhere", [true, true, false, false, false, false]),
        ("users", [false, false, true, false, true, false]),
        ("watcher", [false, false, false, false, false, false]),
        ("nobody", [false, false, false, false, false, false]),
        ("admins", [false, false, false, false, false, false]),
        ("root", [true, true, true, true, true, true]),
    ];
    for (name, wanted) in expected {
        let mut user = login(&server, name, "secret").unwrap();
        let got = [
            may(&mut user, "a", &find),
            may(&mut user, "b", &find),
            may(&mut user, "admin", &find_users),
            may(&mut user, "a", &insert),
            may(&mut user, "a", &create),
            may(&mut user, "admin", &kill),
        ];
        assert_eq!(got, wanted, "{name}");
    }
    let listed = doc! { "listDatabases": 1, "nameOnly": true };
    let seen = |name: &str| {
        let reply = run(&mut login(&server, name, "secret").unwrap(), "admin", &listed);
        let names = reply.get_array("databases").unwrap().clone();
        names
            .iter()
            .map(|one| one.as_document().unwrap().get_str("name").unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen("reader"), ["a"]);
    assert_eq!(seen("root"), ["a", "admin"]);
    assert_eq!(seen("nobody"), [""; 0]);
    server.stop().unwrap();
}

/// Every privilege of every built-in role is that of MongoDB 4.4, which `data/built-in-roles.json` has, and there is no other.
#[test]
fn the_privileges_of_each_built_in_role_are_mongodbs() {
    let (server, mut root) = with_root();
    let expected: serde_json::Value = serde_json::from_str(include_str!("data/built-in-roles.json")).unwrap();
    let shown = doc! { "rolesInfo": 1, "showBuiltinRoles": true, "showPrivileges": true };
    let reply = run(&mut root, "admin", &shown);
    let mut found = serde_json::Map::new();
    for role in reply.get_array("roles").unwrap().iter().map(|role| role.as_document().unwrap()) {
        let mut privileges = serde_json::Map::new();
        for privilege in role.get_array("privileges").unwrap().iter().map(|one| one.as_document().unwrap()) {
            let actions: Vec<&str> = privilege
                .get_array("actions")
                .unwrap()
                .iter()
                .map(|action| action.as_str().unwrap())
                .collect();
            let key = resource_name(privilege.get_document("resource").unwrap());
            let earlier = privileges.insert(key.clone(), actions.join(" ").into());
            assert!(earlier.is_none(), "{role}: {key} twice");
        }
        found.insert(role.get_str("role").unwrap().to_owned(), privileges.into());
    }
    let expected = expected["roles"].as_object().unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (role, wanted) in expected {
        assert_eq!(&found[role], wanted, "{role}");
    }
    server.stop().unwrap();
}

/// The name of a privilege's resource in `data/built-in-roles.json`.
fn resource_name(resource: &Document) -> String {
    for name in ["cluster", "anyResource"] {
        if resource.contains_key(name) {
            return name.to_owned();
        }
    }
    match (resource.get_str("db").unwrap(), resource.get_str("collection").unwrap()) {
        ("", "") => "*".to_owned(),
        (database, "") => database.to_owned(),
        ("", collection) => format!("*.{collection}"),
        (database, collection) => format!("{database}.{collection}"),
    }
}

/// Commands of roles whose rights overlap: who may monitor, who may manage the set, who may manage the host.
#[test]
fn roles_of_the_cluster_may_do_their_part_of_it() {
    let (server, mut root) = with_root();
    let roles = ["clusterMonitor", "clusterManager", "hostManager", "clusterAdmin", "backup", "restore"];
    for role in roles {
        create_user(&mut root, role, vec![role.into()]);
    }
    let config = doc! { "find": "system.replset" };
    let step_down = doc! { "replSetStepDown": 1 };
    let heartbeat = doc! { "replSetHeartbeat": "rs" };
    let status = doc! { "serverStatus": 1 };
    let rotate = doc! { "logRotate": 1 };
    let insert = doc! { "insert": "c", "documents": [{}] };
    let delete = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] };
    let chunks = doc! { "find": "chunks" };
    let expected = [
        ("clusterMonitor", [true, false, false, true, false, false, false, true]),
        ("clusterManager", [true, true, false, false, false, false, false, true]),
        ("hostManager", [false, false, false, false, true, false, false, false]),
        ("clusterAdmin", [true, true, false, true, true, false, false, true]),
        ("backup", [false, false, false, true, false, false, false, true]),
        ("restore", [false, false, false, false, false, true, false, false]),
        ("root", [true, true, false, true, true, true, true, true]),
    ];
    for (name, wanted) in expected {
        let mut user = login(&server, name, "secret").unwrap();
        let got = [
            may(&mut user, "local", &config),
            may(&mut user, "admin", &step_down),
            may(&mut user, "admin", &heartbeat),
            may(&mut user, "admin", &status),
            may(&mut user, "admin", &rotate),
            may(&mut user, "a", &insert),
            may(&mut user, "a", &delete),
            may(&mut user, "config", &chunks),
        ];
        assert_eq!(got, wanted, "{name}");
    }
    server.stop().unwrap();
}

#[test]
fn who_administers_the_users_of_a_database_grants_its_roles_alone() {
    let (server, mut root) = with_root();
    create_user(&mut root, "keeper", vec![doc! { "role": "userAdmin", "db": "a" }.into()]);
    let mut keeper = login(&server, "keeper", "secret").unwrap();
    let create = |name: &str, role: Document| doc! { "createUser": name, "pwd": "p", "roles": [role] };
    assert!(may(&mut keeper, "a", &create("x", doc! { "role": "readWrite", "db": "a" })));
    assert!(!may(&mut keeper, "a", &create("y", doc! { "role": "read", "db": "b" })));
    assert!(!may(&mut keeper, "a", &create("y", doc! { "role": "root", "db": "admin" })));
    let grant = doc! { "grantRolesToUser": "x", "roles": [{ "role": "root", "db": "admin" }] };
    assert!(!may(&mut keeper, "a", &grant));
    assert!(may(&mut keeper, "a", &doc! { "updateUser": "x", "pwd": "q" }));
    assert!(!may(&mut keeper, "a", &doc! { "updateUser": "x", "roles": [] }));
    server.stop().unwrap();
}

#[test]
fn users_change_and_connections_notice() {
    let (server, mut root) = with_root();
    let reader = vec![doc! { "role": "read", "db": "a" }.into()];
    create_user(&mut root, "u", reader);
    let mut user = login(&server, "u", "secret").unwrap();
    let insert = doc! { "insert": "c", "documents": [{}] };
    assert!(!may(&mut user, "a", &insert));
    let more = doc! { "grantRolesToUser": "u", "roles": [{ "role": "readWrite", "db": "a" }] };
    run(&mut root, "admin", &more);
    assert!(may(&mut user, "a", &insert));
    let less = doc! { "revokeRolesFromUser": "u", "roles": [{ "role": "readWrite", "db": "a" }] };
    run(&mut root, "admin", &less);
    assert!(!may(&mut user, "a", &insert));
    run(&mut root, "admin", &doc! { "updateUser": "u", "pwd": "new", "customData": { "k": 1 } });
    assert!(login(&server, "u", "secret").is_err());
    login(&server, "u", "new").unwrap();
    let info = run(&mut user, "admin", &doc! { "usersInfo": "u", "showPrivileges": true });
    let shown = info.get_array("users").unwrap()[0].as_document().unwrap();
    assert_eq!(shown.get_document("customData").unwrap(), &doc! { "k": 1 });
    assert!(shown.get("credentials").is_none() && shown.get_array("inheritedPrivileges").unwrap().len() > 1);
    assert_eq!(code(&mut user, "admin", &doc! { "usersInfo": "root" }), Code::Unauthorized);
    assert_eq!(code(&mut user, "admin", &doc! { "usersInfo": 1 }), Code::Unauthorized);
    run(&mut root, "admin", &doc! { "dropUser": "u" });
    assert_eq!(
        failure(&mut user, "a", &doc! { "find": "c" }).message(),
        "command find requires authentication"
    );
    assert_eq!(code(&mut root, "admin", &doc! { "dropUser": "u" }), Code::UserNotFound);
    let mut second = login(&server, "root", "secret").unwrap();
    run(&mut second, "admin", &doc! { "logout": 1 });
    assert_eq!(code(&mut second, "a", &doc! { "find": "c" }), Code::Unauthorized);
    run(&mut root, "b", &doc! { "createUser": "x", "pwd": "p", "roles": ["read"] });
    let gone = run(&mut root, "b", &doc! { "dropAllUsersFromDatabase": 1 });
    assert_eq!(gone, doc! { "n": 1, "ok": 1.0 });
    server.stop().unwrap();
}

/// The commands that manage users and roles, with a user of each built-in role, against the "Required Access" of each command in MongoDB's
/// manual: an action on the database of the user or role.
#[test]
fn users_and_roles_are_managed_by_the_built_in_roles_that_may() {
    /// These have the actions on all databases, those of `admin` on that one.
    const EVERYWHERE: [&str; 4] = ["__system", "restore", "root", "userAdminAnyDatabase"];
    const OF_ADMIN: [&str; 2] = ["dbOwner", "userAdmin"];
    let (server, mut root) = with_root();
    let listed = run(&mut root, "admin", &doc! { "rolesInfo": 1, "showBuiltinRoles": true });
    let roles = listed.get_array("roles").unwrap().iter().map(|role| role.as_document().unwrap());
    let roles: Vec<String> = roles.map(|role| role.get_str("role").unwrap().to_owned()).collect();
    assert_eq!(roles.len(), 19);
    for role in roles.iter().filter(|role| *role != "root") {
        create_user(&mut root, role, vec![role.as_str().into()]);
    }
    for role in &roles {
        let mut user = login(&server, role, "secret").unwrap();
        let mut refused = |database: &str, command: Document| match user.run(database, &command) {
            Ok(_) => false,
            Err(error) => error.failure().unwrap().code() == Code::Unauthorized,
        };
        let everywhere = EVERYWHERE.contains(&role.as_str());
        for database in ["a", "admin"] {
            let may = everywhere || database == "admin" && OF_ADMIN.contains(&role.as_str());
            // No user and no role of this name exists, so that a command which is allowed changes nothing.
            for command in [
                doc! { "rolesInfo": 1 },
                doc! { "rolesInfo": "absent" },
                doc! { "rolesInfo": [{ "role": "absent", "db": database }] },
                doc! { "usersInfo": 1 },
                doc! { "usersInfo": "absent" },
                doc! { "createUser": "absent", "roles": [] },
                doc! { "createUser": "absent", "roles": [], "authenticationRestrictions": [{}] },
                doc! { "updateUser": "absent", "pwd": "p" },
                doc! { "updateUser": "absent", "customData": {} },
                doc! { "updateUser": "absent", "authenticationRestrictions": [] },
                doc! { "dropUser": "absent" },
                doc! { "grantRolesToUser": "absent", "roles": ["read"] },
                doc! { "revokeRolesFromUser": "absent", "roles": ["read"] },
                doc! { "createRole": "absent", "privileges": [], "roles": [] },
                doc! { "updateRole": "absent", "privileges": [] },
                doc! { "dropRole": "absent" },
                doc! { "dropAllRolesFromDatabase": 1 },
                doc! { "grantRolesToRole": "absent", "roles": ["read"] },
                doc! { "revokeRolesFromRole": "absent", "roles": ["read"] },
                doc! { "grantPrivilegesToRole": "absent", "privileges": [] },
                doc! { "revokePrivilegesFromRole": "absent", "privileges": [] },
            ] {
                assert_eq!(refused(database, command.clone()), !may, "{role} on {database}: {command}");
            }
            // New roles replace those of any database.
            let replaced = doc! { "updateUser": "absent", "roles": [] };
            assert_eq!(refused(database, replaced), !everywhere, "{role} on {database}");
        }
        assert_eq!(refused("a", doc! { "dropAllUsersFromDatabase": 1 }), !everywhere, "{role}");
        // Users see themselves and the roles that they were granted.
        assert!(!refused("admin", doc! { "usersInfo": role.as_str() }), "{role}");
        assert!(!refused("admin", doc! { "rolesInfo": role.as_str(), "showPrivileges": true }), "{role}");
        let of_all = ["__system", "root", "userAdminAnyDatabase"].contains(&role.as_str());
        assert_eq!(refused("admin", doc! { "usersInfo": { "forAllDBs": true } }), !of_all, "{role}");
        let merge = doc! { "_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "drop": false, "db": "" };
        let restores = ["__system", "restore", "root"].contains(&role.as_str());
        assert_eq!(refused("admin", merge), !restores, "{role}");
    }
    server.stop().unwrap();
}

#[test]
fn users_that_make_no_sense_are_refused() {
    let (server, mut root) = with_root();
    let mut refused = |command: Document| code(&mut root, "admin", &command);
    assert_eq!(refused(doc! { "createUser": "root", "pwd": "p", "roles": [] }), Code(51003));
    assert_eq!(refused(doc! { "createUser": "", "pwd": "p", "roles": [] }), Code::BadValue);
    assert_eq!(refused(doc! { "createUser": "x", "roles": [] }), Code::BadValue);
    assert_eq!(refused(doc! { "createUser": "x", "pwd": "p" }), Code::BadValue);
    assert_eq!(refused(doc! { "createUser": "x", "pwd": "p", "roles": ["mine"] }), Code::RoleNotFound);
    let unknown = doc! { "createUser": "x", "pwd": "p", "roles": [], "mechanisms": ["PLAIN"] };
    assert_eq!(refused(unknown), Code::BadValue);
    let digested = doc! { "createUser": "x", "pwd": "p", "roles": [], "digestPassword": false };
    assert_eq!(refused(digested), Code::BadValue);
    let shell = doc! { "createUser": "x", "pwd": "p", "roles": [], "passwordDigestor": "client" };
    assert_eq!(refused(shell), Code(40415));
    assert_eq!(refused(doc! { "updateUser": "root" }), Code::BadValue);
    assert_eq!(refused(doc! { "createRole": "r", "privileges": [], "roles": [] }), Code::CommandNotSupported);
    let roles = run(&mut root, "admin", &doc! { "rolesInfo": 1, "showBuiltinRoles": true });
    assert_eq!(roles.get_array("roles").unwrap().len(), 19);
    let one = doc! { "rolesInfo": { "role": "read", "db": "a" }, "showPrivileges": true };
    assert_eq!(run(&mut root, "admin", &one).get_array("roles").unwrap().len(), 1);
    server.stop().unwrap();
}

#[test]
fn cursors_are_their_users_own() {
    let (server, mut root) = with_root();
    create_user(&mut root, "other", vec!["readAnyDatabase".into()]);
    let documents: Vec<Document> = (0..10).map(|n| doc! { "_id": n }).collect();
    run(&mut root, "a", &doc! { "insert": "c", "documents": documents });
    let found = run(&mut root, "a", &doc! { "find": "c", "batchSize": 2 });
    let id = found.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": id, "collection": "c", "batchSize": 2 };
    let mut other = login(&server, "other", "secret").unwrap();
    assert_eq!(code(&mut other, "a", &more), Code::Unauthorized);
    let killed = run(&mut other, "a", &doc! { "killCursors": "c", "cursors": [id] });
    assert_eq!(killed.get_array("cursorsKilled").unwrap().len(), 0);
    run(&mut root, "a", &more);
    server.stop().unwrap();
}

#[test]
fn the_key_file_is_a_login_too_and_must_be_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    std::fs::write(&path, "abcd efgh\nIJKL\n").unwrap();
    let start = |mode: u32| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut config = config(directory.path(), EngineName::Ephemeral);
        config.key_file = Some(path.clone());
        Server::start_quiet(config)
    };
    assert!(start(0o644).unwrap_err().to_string().contains("are too open"));
    let server = start(0o600).unwrap();
    assert_eq!(code(&mut connect(&server), "a", &doc! { "find": "c" }), Code::Unauthorized);
    let mut target = crate::served::target(&server);
    target.credential = Some(Credential {
        user: "__system".to_owned(),
        password: "abcdefghIJKL".to_owned(),
        source: "local".to_owned(),
        mechanism: None,
    });
    let mut member = Connection::connect(&target).unwrap();
    run(&mut member, "a", &doc! { "insert": "c", "documents": [{}] });
    run(&mut member, "admin", &doc! { "find": "system.users" });
    server.stop().unwrap();
    std::fs::write(&path, "short").unwrap();
    assert!(start(0o600).unwrap_err().to_string().contains("has length 5"));
    std::fs::write(&path, "not base64!").unwrap();
    assert!(start(0o600).unwrap_err().to_string().contains("invalid char"));
}

#[test]
fn pipelines_and_views_need_what_they_touch() {
    let (server, mut root) = with_root();
    run(&mut root, "b", &doc! { "insert": "other", "documents": [{}] });
    run(&mut root, "a", &doc! { "insert": "c", "documents": [{}] });
    create_user(&mut root, "reader", vec![doc! { "role": "read", "db": "a" }.into()]);
    create_user(&mut root, "admins", vec!["readWrite".into()]);
    let mut reader = login(&server, "reader", "secret").unwrap();
    let with = |stage: Document| doc! { "aggregate": "c", "pipeline": [stage], "cursor": {} };
    let lookup = |from: &str| {
        with(doc! { "$lookup": { "from": from, "localField": "x", "foreignField": "x", "as": "y" } })
    };
    assert!(may(&mut reader, "a", &with(doc! { "$match": {} })));
    assert!(may(&mut reader, "a", &lookup("d")));
    assert!(!may(&mut reader, "a", &lookup("system.users")));
    assert!(!may(&mut reader, "a", &with(doc! { "$out": "d" })));
    assert!(!may(&mut reader, "a", &with(doc! { "$merge": { "into": "d" } })));
    assert!(!may(&mut reader, "a", &with(doc! { "$unionWith": { "coll": "system.users" } })));
    let delete = doc! { "delete": "c", "deletes": [{ "q": {}, "limit": 0 }] };
    assert!(!may(&mut reader, "a", &doc! { "explain": lookup("system.users") }));
    assert!(!may(&mut reader, "a", &doc! { "explain": delete }));
    assert!(may(&mut reader, "a", &doc! { "explain": lookup("d") }));
    let current = doc! { "aggregate": 1, "pipeline": [{ "$currentOp": { "allUsers": true } }], "cursor": {} };
    assert!(!may(&mut reader, "admin", &current));
    assert!(may(&mut root, "admin", &current));
    let mut admins = login(&server, "admins", "secret").unwrap();
    let spy = doc! { "create": "v", "viewOn": "system.users", "pipeline": [] };
    assert!(!may(&mut admins, "admin", &spy));
    assert!(!may(&mut admins, "admin", &doc! { "explain": { "find": "system.users" } }));
    assert!(may(&mut admins, "admin", &doc! { "create": "v", "viewOn": "plain", "pipeline": [] }));
    server.stop().unwrap();
}
