//! Tests the refusals of `fathom cluster`: one sentence each with the right exit code, and nothing left behind.

use std::fs;
use std::net::TcpListener;

use crate::cluster::ClusterFixture;

#[test]
fn bad_input_is_one_sentence() {
    let place = ClusterFixture::new(1);
    for (arguments, code, part) in [
        (&["init"][..], 2, "nothing says what to make"),
        (&["init", "--single", "--arbiter"], 2, "--arbiter belongs to a set"),
        (&["init", "--single", "--sharded", "2", "--nodes", "2"], 2, "--nodes belongs to a set"),
        (&["init", "--replicaset", "--name", "a b"], 2, "cannot be the name of a set"),
        (&["init", "--replicaset", "--name", "admin"], 2, "cannot be the name of a set"),
        (&["init", "--replicaset", "--mongos", "2"], 2, "belong to a sharded cluster"),
        (&["init", "--replicaset", "--nodes", "51"], 2, "more than 50 members"),
        (&["init", "--replicaset", "--nodes", "0"], 2, "no member that holds data"),
        (&["init", "--replicaset", "--member", "4={priority: 0}"], 2, "there is no member 4"),
        (&["init", "--replicaset", "--member", "1={priorty: 0}"], 2, "priorty"),
        (&["init", "--replicaset", "--hostname", "db1.example.net"], 2, "add --bind_ip_all"),
        (&["init", "--replicaset", "--sharded", "1", "--shard-collection", "a.b"], 2, "has no shard key"),
        (&["init", "--single", "--shard-collection", "a.b={x: 1}"], 2, "in a sharded cluster only"),
        (&["init", "--single", "--port", "0"], 2, "do not exist"),
        (
            &["init", "--single", "--binarypath", "/no/such/folder"],
            3,
            "there is no program mongod in /no/such",
        ),
        (&["init", "--single", "--binarypath", "/bin/true"], 3, "there is no program mongod in /bin"),
        (
            &["init", "--single", "--dbpath", "/x", "--binarypath", "fathom"],
            2,
            "--dbpath is chosen for each server",
        ),
        (&["init", "--single", "--slowmz", "1", "--binarypath", "fathom"], 2, "has no option --slowmz"),
        (&["init", "--single", "--tlsMode", "always"], 2, "--tlsMode is disabled"),
        (&["init", "--single", "--tlsCAFile", "/no/such/file"], 2, "does not exist"),
        (&["init", "--file", "/no/such/file.yaml"], 3, "read the description"),
        (&["list"], 3, "there is no cluster in"),
        (&["stop"], 3, "there is no cluster in"),
        (&["destroy"], 3, "there is no cluster in"),
        (&["kill", "--signal", "SIGNONE"], 2, "is no signal"),
    ] {
        let (action, rest) = arguments.split_first().unwrap();
        let output = place.run(action, rest).expect_code(code);
        assert!(output.stderr.contains(part), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{arguments:?}: {}", output.stderr);
        assert!(!place.folder().exists(), "{arguments:?}");
    }
}

#[test]
fn a_port_in_use_is_named_with_its_owner() {
    let place = ClusterFixture::new(1);
    let _taken = TcpListener::bind(("127.0.0.1", place.port)).unwrap();
    let output = place.init(&["--single", "--binarypath", "fathom"]).run().expect_code(3);
    let expected = format!("port {} is in use", place.port);
    let owner = format!("process {}", std::process::id());
    assert!(
        output.stderr.contains(&expected) || output.stderr.contains(&format!("port {} (by", place.port)),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains(&owner), "{}", output.stderr);
    assert!(!place.folder().exists());
}

#[test]
fn data_of_a_cluster_whose_state_is_lost_is_not_touched() {
    let place = ClusterFixture::new(1);
    fs::create_dir_all(place.folder().join("db")).unwrap();
    fs::write(place.folder().join("db/WiredTiger"), "x").unwrap();
    let output = place.init(&["--single", "--binarypath", "fathom"]).run().expect_code(3);
    assert!(output.stderr.contains("belongs to no cluster"), "{}", output.stderr);
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
    let refused = place.init(&["--single", "--binarypath", "fathom"]).run().expect_code(3);
    assert!(refused.stderr.contains("that mlaunch made"), "{}", refused.stderr);
    let refused = place.run("destroy", &[]).expect_code(3);
    assert!(refused.stderr.contains("not ours to remove"), "{}", refused.stderr);
    // With our server in place of its mongod.
    place.run("start", &["--binarypath", "fathom", "--storageEngine", "ephemeralForTest"]).expect_code(0);
    assert_eq!(place.list()[0]["status"], "running");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    place.run("stop", &[]).expect_code(0);
    assert!(place.processes().is_empty());
}
