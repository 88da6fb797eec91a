//! Compares the command lines of all kinds of servers with the expected ones.

use super::*;
use crate::layout::layout;
use crate::topology::{ClusterShape, ReplicaSet, ServerOptions};

/// A program that lists these options in addition to the usual ones.
fn program(name: &str, version: (u16, u16), options: &[&str]) -> Program {
    let usual: &[&str] = match name {
        "mongod" => &[
            "--replSet",
            "--wiredTigerCacheSizeGB",
            "--storageEngine",
            "--slowms",
            "--oplogSize",
            "--bind_ip",
        ],
        _ => &["--localThreshold", "--bind_ip"],
    };
    Program {
        maker: Maker::MongoDb,
        path: name.into(),
        words: Vec::new(),
        version: Version::release(version.0, version.1),
        options: usual.iter().chain(options).map(|&option| option.to_owned()).collect(),
    }
}

fn sharded(pass_through: &str) -> Topology {
    let shape = ClusterShape::Sharded {
        shards: vec![ReplicaSet::plain("a", 1, 1)],
        config: ReplicaSet::plain(CONFIG_SET, 1, 0),
        routers: vec![ServerOptions::default()],
    };
    let pass_through = pass_through.split_ascii_whitespace().map(str::to_owned).collect();
    Topology { shape, pass_through, host: "h".to_owned(), ..Topology::default() }
}

fn lines(topology: &Topology, mongod: &Program, mongos: &Program) -> Result<Vec<CommandLine>> {
    let nodes = layout(topology, Path::new("/c")).unwrap();
    let plan = CommandLinePlan { topology, nodes: &nodes, key_file: None };
    let one = |node: &Node| {
        let program = if node.is_mongod() { mongod } else { mongos };
        plan.command_line(node, program, &[mongod, mongos])
    };
    nodes.iter().map(one).collect()
}

fn joined(lines: &[CommandLine]) -> Vec<String> {
    lines.iter().map(|line| line.arguments.join(" ")).collect()
}

#[test]
fn each_kind_of_server_gets_what_it_should() {
    let topology = sharded(
        "--storageEngine inMemory --slowms 5 --localThreshold 9 --oplogSize 50 --setParameter a=1 -vv",
    );
    let lines = lines(&topology, &program("mongod", (4, 0), &[]), &program("mongos", (4, 0), &[])).unwrap();
    assert_eq!(
        joined(&lines),
        [
            "--logpath /c/mongos.log --port 27017 --configdb configRepl/h:27020 --localThreshold 9 --setParameter a=1 -vv",
            "--replSet a --dbpath /c/a/rs1/db --logpath /c/a/rs1/mongod.log --port 27018 \
             --storageEngine inMemory --slowms 5 --oplogSize 50 --setParameter a=1 -vv --shardsvr",
            "--replSet a --dbpath /c/a/arb/db --logpath /c/a/arb/mongod.log --port 27019 \
             --storageEngine inMemory --slowms 5 --oplogSize 50 --setParameter a=1 -vv",
            "--replSet configRepl --dbpath /c/configRepl/rs1/db --logpath /c/configRepl/rs1/mongod.log --port 27020 \
             --slowms 5 --setParameter a=1 -vv --configsvr --wiredTigerCacheSizeGB 1",
        ]
    );
    assert!(lines.iter().all(|line| line.notes.is_empty()));
}

#[test]
fn what_is_gone_is_noted_and_what_never_was_is_refused() {
    let old = program("mongod", (4, 0), &["--nojournal"]);
    let new = program("mongod", (7, 0), &[]);
    let mongos = program("mongos", (7, 0), &[]);
    let topology = sharded("--nojournal");
    let before = lines(&topology, &old, &mongos).unwrap();
    assert!(before[1].arguments.contains(&"--nojournal".to_owned()) && before[1].notes.is_empty());
    let after = lines(&topology, &new, &mongos).unwrap();
    assert_eq!(after[1].notes, ["--nojournal is not passed to mongod 7.0.0: MongoDB 6.1 removed it"]);
    assert!(!after[1].arguments.contains(&"--nojournal".to_owned()));
    let error = lines(&sharded("--slowMS 5"), &new, &mongos).unwrap_err();
    assert_eq!((error.kind(), error.what()), (Kind::Usage, "mongos 7.0.0 has no option --slowMS"));
    let mut topology = sharded("--storageEngine mmapv1");
    assert!(lines(&topology, &old, &mongos).is_ok());
    let error = lines(&topology, &new, &mongos).unwrap_err();
    assert!(error.what().contains("MongoDB 4.2 removed"), "{error}");
    topology.pass_through.clear();
    topology.give_defaults(&ServerOptions { engine: Some("mmapv1".to_owned()), ..ServerOptions::default() });
    assert!(lines(&topology, &new, &mongos).is_err());
}

#[test]
fn a_member_says_its_own_engine_cache_and_parameters() {
    let mut topology = sharded("--wiredTigerCacheSizeGB 2 --storageEngine wiredTiger --slowms 7");
    let ClusterShape::Sharded { shards, .. } = &mut topology.shape else { panic!() };
    shards[0].members[0].options = ServerOptions {
        engine: Some("rocksdb".to_owned()),
        cache_size_gb: Some(0.5),
        parameters: [("syncdelay".to_owned(), 5.into())].into(),
        arguments: vec!["--slowms".to_owned(), "1".to_owned()],
        directory: Some("/mnt/x".into()),
        ..ServerOptions::default()
    };
    let mongod = program("mongod", (4, 0), &["--rocksdbCacheSizeGB"]);
    let lines = lines(&topology, &mongod, &program("mongos", (4, 0), &[])).unwrap();
    assert_eq!(
        lines[1].arguments.join(" "),
        "--replSet a --dbpath /mnt/x/a-rs1 --logpath /c/a/rs1/mongod.log --port 27018 --slowms 1 --shardsvr \
         --storageEngine rocksdb --rocksdbCacheSizeGB 0.5 --setParameter syncdelay=5"
    );
    assert!(
        lines[2]
            .arguments
            .join(" ")
            .contains("--wiredTigerCacheSizeGB 2 --storageEngine wiredTiger --slowms 7")
    );
}

#[test]
fn tls_options_follow_the_version() {
    let mut topology = sharded("--sslPEMKeyPassword x");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pem");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    topology.tls.set("sslMode", Some("requireSSL".to_owned())).unwrap();
    topology.tls.set("tlsCertificateKeyFile", Some(file.to_owned())).unwrap();
    topology.tls.set("sslAllowInvalidHostnames", None).unwrap();
    let mongos = |version| program("mongos", version, &[]);
    let old =
        lines(&topology, &program("mongod", (4, 0), &["--sslPEMKeyPassword"]), &mongos((4, 0))).unwrap();
    let expected = format!(
        "--sslPEMKeyPassword x --shardsvr --wiredTigerCacheSizeGB 1 --sslMode requireSSL --sslAllowInvalidHostnames --sslPEMKeyFile {file}"
    );
    assert!(old[1].arguments.join(" ").ends_with(&expected), "{:?}", old[1].arguments);
    let new = program("mongod", (8, 0), &["--tlsCertificateKeyFilePassword"]);
    let new = lines(&topology, &new, &mongos((8, 0))).unwrap();
    let expected = format!(
        "--tlsCertificateKeyFilePassword x --shardsvr --wiredTigerCacheSizeGB 1 --tlsMode requireTLS --tlsAllowInvalidHostnames --tlsCertificateKeyFile {file}"
    );
    assert!(new[1].arguments.join(" ").ends_with(&expected), "{:?}", new[1].arguments);
    assert!(topology.tls.set("tlsMode", Some("always".to_owned())).is_err());
    assert!(topology.tls.set("tlsCAFile", Some("/no/such/file".to_owned())).is_err());
    let client = topology.tls.client().unwrap();
    assert!(
        client.allow_invalid_certificates
            && client.allow_invalid_hostnames
            && client.certificate_key_file.is_none()
    );
}
