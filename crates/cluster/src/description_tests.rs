//! Tests of cluster descriptions: all supported settings, and the refused ones.

use super::*;
use crate::topology::Limits;

#[test]
fn everything_a_file_can_say() {
    let topology = parse(
        "port: 30000\nhostname: 127.0.0.1\nbinaries: fathom\nproxied: true\n\
         defaults: {cacheSizeGB: 0.5, parameters: {syncdelay: 10}, arguments: [--slowms, '20']}\n\
         auth: {user: me, roles: [root]}\n\
         replicaSet:\n  name: rs\n  arbiters: 2\n  members:\n\
         \x20 - {priority: 2, engine: rocksdb, limits: {cpus: 0.5, memory: 512M, writeIops: 100}}\n\
         \x20 - {hidden: true, priority: 0, votes: 0, tags: {dc: east}, parameters: {syncdelay: 20}, directory: /mnt/slow}\n",
    )
    .unwrap();
    let ClusterShape::ReplicaSet(set) = &topology.shape else { panic!("{topology:?}") };
    assert_eq!((topology.first_port, topology.host.as_str(), topology.proxied), (30000, "127.0.0.1", true));
    assert_eq!(set.members.iter().map(|one| one.arbiter).collect::<Vec<_>>(), [false, false, true, true]);
    let first = &set.members[0].options;
    assert_eq!((first.engine.as_deref(), first.cache_size_gb), (Some("rocksdb"), Some(0.5)));
    let limits =
        Limits { cpus: Some(0.5), memory: Some("512M".into()), write_iops: Some(100), ..Limits::default() };
    assert_eq!(first.limits, limits);
    assert_eq!(
        (&first.parameters["syncdelay"], first.arguments.as_slice()),
        (&10.into(), &["--slowms".to_owned(), "20".to_owned()][..])
    );
    let second = &set.members[1];
    assert_eq!(second.options.parameters["syncdelay"], 20);
    assert_eq!(
        (second.tags["dc"].as_str(), second.options.directory.as_deref()),
        ("east", Some(Path::new("/mnt/slow")))
    );
    assert_eq!(topology.auth.unwrap().database, "admin");
}

#[test]
fn counts_stand_for_plain_servers() {
    let topology = parse(
        "sharded:\n  shards: 2\n  members: 1\n  configServers: 3\n  routers: 2\n\
         \x20 collections: [{namespace: ycsb.usertable, key: {_id: hashed}, chunks: 8}]\n",
    )
    .unwrap();
    let ClusterShape::Sharded { shards, config, routers } = &topology.shape else { panic!("{topology:?}") };
    let names: Vec<&str> = shards.iter().map(|shard| shard.name.as_str()).collect();
    assert_eq!((names, config.members.len(), routers.len()), (vec!["shard01", "shard02"], 3, 2));
    assert_eq!(topology.collections[0].chunks, Some(8));
    // A written description can be read again.
    let json = serde_json::to_string(&topology).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), topology);
}

#[test]
fn routers_take_of_the_defaults_what_they_have() {
    let text = "defaults: {engine: rocksdb, parameters: {syncdelay: 1}, arguments: [--slowms, '1'], binaries: fathom, \
                limits: {cpus: 1, writeIops: 5}}\nsharded: {shards: 1}";
    let ClusterShape::Sharded { shards, config, routers } = parse(text).unwrap().shape else { panic!() };
    assert_eq!(
        (shards[0].members[0].options.engine.as_deref(), config.members[0].options.engine.as_deref()),
        (Some("rocksdb"), None)
    );
    assert_eq!(config.members[0].options.parameters["syncdelay"], 1);
    let limits = Limits { cpus: Some(1.0), ..Limits::default() };
    let expected = ServerOptions { binaries: Some("fathom".into()), limits, ..ServerOptions::default() };
    assert_eq!(routers, [expected]);
}

#[test]
fn a_key_of_several_fields_keeps_their_order() {
    let text = "sharded: {shards: 1, collections: [{namespace: a.b, key: {z: 1, a: hashed, m: -1}}]}";
    let topology = parse(text).unwrap();
    let json = serde_json::to_string(&topology).unwrap();
    let again: Topology = serde_json::from_str(&json).unwrap();
    for topology in [topology, again] {
        let names: Vec<&str> = topology.collections[0].key.keys().map(String::as_str).collect();
        assert_eq!(names, ["z", "a", "m"]);
    }
}

#[test]
fn what_makes_no_sense_is_one_sentence() {
    for (text, part) in [
        ("{}", "exactly one of"),
        ("single: {}\nreplicaSet: {}", "exactly one of"),
        ("single: {engines: rocksdb}", "engines"),
        ("replicaSet: {members: [{votes: 2}]}", "more than one vote"),
        ("replicaSet: {members: [{hidden: true}, {}]}", "needs 'priority: 0'"),
        ("replicaSet: {members: [{priority: 0}]}", "can become primary"),
        ("replicaSet: {members: 0}", "no member that holds data"),
        ("replicaSet: {members: many}", "a count or a list"),
        ("replicaSet: {members: 8, arbiters: 8}", "voting members"),
        ("replicaSet: {name: 'a b'}", "cannot be the name of a replica set"),
        ("replicaSet: {members: [{arbiter: true, hidden: true}, {}]}", "is an arbiter"),
        ("replicaSet: {members: [{limits: {memory: lots}}]}", "is not a size"),
        ("sharded: {shards: 0}", "at least one shard"),
        ("sharded: {shards: [{name: a}, {name: a}]}", "two sets have the name 'a'"),
        ("sharded: {shards: 1, collections: [{namespace: a.b}]}", "key"),
        ("sharded: {shards: 1, collections: [{namespace: a.b, key: {}}]}", "has no shard key"),
        ("sharded: {shards: 1, collections: [{namespace: a.b, key: {x: 2}}]}", "neither 1, -1 nor hashed"),
        ("sharded: {shards: 1, collections: [{namespace: ab, key: {x: 1}}]}", "not a namespace"),
        ("sharded: {shards: 1, collections: [{namespace: a.b, key: {x: 1}, chunks: 4}]}", "only a hashed"),
        ("port: 99999\nsingle: {}", "port"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{text}");
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert_eq!(error.to_string().lines().count(), 1, "{text}: {error}");
    }
}
