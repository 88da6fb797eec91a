//! Tests the refusals of `fathom cluster`: one sentence each with the right exit code, and nothing left behind.

use std::fs;
use std::net::TcpListener;

use fathom_testkit::{Output, RefusalList};

use crate::cluster::ClusterFixture;

#[test]
fn bad_input_is_one_sentence() {
    let place = ClusterFixture::new(1);
    let mut refusals = RefusalList::new().hiding(place.folder().display(), "DIR");
    for (arguments, code, id) in [
        (&["init"][..], 2, "bad-topology"),
        (&["init", "--single", "--arbiter"], 2, "bad-topology"),
        (&["init", "--single", "--sharded", "2", "--nodes", "2"], 2, "bad-topology"),
        (&["init", "--replicaset", "--name", "a b"], 2, "bad-topology"),
        (&["init", "--replicaset", "--name", "admin"], 2, "bad-topology"),
        (&["init", "--replicaset", "--mongos", "2"], 2, "bad-topology"),
        (&["init", "--replicaset", "--nodes", "51"], 2, "bad-topology"),
        (&["init", "--replicaset", "--nodes", "0"], 2, "bad-topology"),
        (&["init", "--replicaset", "--member", "4={priority: 0}"], 2, "bad-topology"),
        (&["init", "--replicaset", "--member", "1={priorty: 0}"], 2, "usage"),
        (&["init", "--replicaset", "--hostname", "db1.example.net"], 2, "usage"),
        (&["init", "--replicaset", "--sharded", "1", "--shard-collection", "a.b"], 2, "bad-topology"),
        (&["init", "--single", "--shard-collection", "a.b={x: 1}"], 2, "bad-topology"),
        (&["init", "--single", "--port", "0"], 2, "usage"),
        (&["init", "--single", "--binarypath", "/no/such/folder"], 3, "no-program"),
        (&["init", "--single", "--binarypath", "/bin/true"], 3, "no-program"),
        (&["init", "--single", "--dbpath", "/x", "--binarypath", "fathom"], 2, "usage"),
        (&["init", "--single", "--slowmz", "1", "--binarypath", "fathom"], 2, "unknown-server-option"),
        (&["init", "--single", "--tlsMode", "always"], 2, "usage"),
        (&["init", "--single", "--tlsCAFile", "/no/such/file"], 2, "usage"),
        (&["init", "--file", "/no/such/file.yaml"], 3, "not-found"),
        (&["list"], 3, "no-cluster"),
        (&["stop"], 3, "no-cluster"),
        (&["destroy"], 3, "no-cluster"),
        (&["kill", "--signal", "SIGNONE"], 2, "unknown-signal"),
    ] {
        let (action, rest) = arguments.split_first().unwrap();
        // `init` hands `-v` to the servers.
        let output = place.run(action, &[rest, &["--verbose"]].concat());
        let output = refusals.expect(arguments, output, code, id);
        assert_eq!(output.stderr.lines().count(), 1, "{arguments:?}: {}", output.stderr);
        assert!(!place.folder().exists(), "{arguments:?}");
    }
    insta::assert_snapshot!("cluster_refusals", refusals.text());
}

/// `init` of one server of this program, with ids.
fn init(place: &ClusterFixture) -> Output {
    place.init(&["--single", "--binarypath", "fathom", "--verbose"]).run()
}

#[test]
fn a_port_in_use_is_named_with_its_owner() {
    let place = ClusterFixture::new(1);
    let _taken = TcpListener::bind(("127.0.0.1", place.port)).unwrap();
    let output = init(&place).expect_refusal(3, "port-taken");
    let owner = format!("process {}", std::process::id());
    let port = format!("port {}", place.port);
    assert!(output.stderr.contains(&owner) && output.stderr.contains(&port), "{}", output.stderr);
    assert!(!place.folder().exists());
}

#[test]
fn data_of_a_cluster_whose_state_is_lost_is_not_touched() {
    let place = ClusterFixture::new(1);
    fs::create_dir_all(place.folder().join("db")).unwrap();
    fs::write(place.folder().join("db/WiredTiger"), "x").unwrap();
    init(&place).expect_refusal(3, "directory-not-ours");
    assert_eq!(fs::read_to_string(place.folder().join("db/WiredTiger")).unwrap(), "x");
    for text in ["{", "{\"format\": 99}"] {
        fs::write(place.folder().join(".fathom_cluster"), text).unwrap();
        let output = place.run("list", &[]);
        assert!(output.code == 2 || output.code == 3, "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
    fs::remove_file(place.folder().join(".fathom_cluster")).unwrap();
}

#[test]
fn an_environment_of_mlaunch_is_read_and_not_written() {
    let place = ClusterFixture::new(1);
    fs::create_dir_all(place.folder().join("db")).unwrap();
    let command = format!(
        "\\\"mongod\\\"  --dbpath \\\"{0}/db\\\" --logpath \\\"{0}/mongod.log\\\" --port {1} --fork",
        place.folder().display(),
        place.port
    );
    let text = format!(
        "{{\"protocol_version\": 2, \"mtools_version\": \"1.7.2\", \"unknown_args\": [],\n\
         \"parsed_args\": {{\"single\": true, \"replicaset\": false, \"port\": {0}, \"auth\": true, \"username\": \"u\", \"password\": \"hunter2\"}},\n\
         \"startup_info\": {{\"{0}\": \"{command}\"}}}}",
        place.port
    );
    let file = place.folder().join(".mlaunch_startup");
    fs::write(&file, &text).unwrap();
    let key = place.folder().join("keyfile");
    fs::write(&key, "bWVtYmVycw==").unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let listed = place.run("list", &["--startup", "--tags"]).expect_code(0).stdout;
    assert!(listed.contains("down") && listed.contains("--dbpath") && !listed.contains("--fork"), "{listed}");
    assert!(!listed.contains("hunter2"));
    assert!(place.run("stop", &[]).expect_code(0).stdout.contains("0 servers stopped"));
    init(&place).expect_refusal(3, "made-by-mlaunch");
    place.run("destroy", &["-v"]).expect_refusal(3, "made-by-mlaunch");
    // With our server in place of its mongod.
    place.run("start", &["--binarypath", "fathom", "--storageEngine", "ephemeralForTest"]).expect_code(0);
    assert_eq!(place.list()[0]["status"], "running");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    place.run("stop", &[]).expect_code(0);
    assert!(place.processes().is_empty());
}
