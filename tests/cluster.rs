//! Tests `fathom cluster` with our own server: a cluster of one, from its creation to its end.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bson::doc;
use fathom_process::ProcessId;
use fathom_testkit::{Fathom, Output, Ports, Scratch, TIMEOUT, processes_naming};
use rustix::process::Signal;
use serde_json::Value;

use crate::serve_run::{connect, count, run};

/// A cluster's folder, with the calls for it. Destroyed at the end, also when the test fails.
pub(crate) struct ClusterFixture {
    pub(crate) scratch: Scratch,
    pub(crate) port: u16,
    _ports: Ports,
}

impl ClusterFixture {
    pub(crate) fn new(ports: u16) -> ClusterFixture {
        let ports = Ports::reserve(ports).unwrap();
        ClusterFixture { scratch: Scratch::new().unwrap(), port: ports.first(), _ports: ports }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.scratch.path().join("c")
    }

    /// `fathom cluster ACTION ... --dir FOLDER`.
    pub(crate) fn call(&self, action: &str, arguments: &[&str]) -> Fathom {
        Fathom::new(env!("CARGO_BIN_EXE_fathom"))
            .args(["cluster", action, "--dir"])
            .arg(self.folder())
            .args(arguments)
            .state(self.scratch.path().join("state"))
    }

    pub(crate) fn run(&self, action: &str, arguments: &[&str]) -> Output {
        self.call(action, arguments).run()
    }

    /// `init`, with the ports of this place.
    pub(crate) fn init(&self, arguments: &[&str]) -> Fathom {
        self.call("init", &["--port", &self.port.to_string()]).args(arguments)
    }

    pub(crate) fn list(&self) -> Vec<Value> {
        let listed = self.run("list", &["--json"]).expect_code(0).json();
        listed["servers"].as_array().unwrap().clone()
    }

    /// The processes that have this place on their command lines.
    pub(crate) fn processes(&self) -> Vec<u32> {
        processes_naming(&self.folder())
    }
}

impl Drop for ClusterFixture {
    fn drop(&mut self) {
        if self.folder().exists() {
            let _ = self.run("destroy", &[]);
        }
        for process in self.processes().into_iter().filter_map(ProcessId::read) {
            let _ = process.signal(Signal::KILL);
        }
    }
}

/// A small server of this program.
const SMALL: [&str; 5] = ["--single", "--binarypath", "fathom", "--storageEngine", "ephemeralForTest"];

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn pid(server: &Value) -> u32 {
    u32::try_from(server["pid"].as_u64().expect("it runs")).unwrap()
}

/// Tests every way to stop and restart a server; its document remains.
fn stop_and_start(place: &ClusterFixture) {
    let stopped = place.run("stop", &[]).expect_code(0);
    assert!(stopped.stdout.contains("1 server stopped"), "{}", stopped.stdout);
    assert_eq!(place.list()[0]["status"], "down");
    assert!(place.processes().is_empty());
    assert!(place.run("stop", &[]).expect_code(0).stdout.contains("0 servers stopped"));
    place.run("start", &["single"]).expect_code(0);
    assert_eq!(count(&mut connect(place.port)), 1);
    let before = pid(&place.list()[0]);
    place.run("restart", &[]).expect_code(0);
    assert_ne!(pid(&place.list()[0]), before);
    place.run("kill", &["--signal", "SIGKILL"]).expect_code(0);
    assert_eq!(place.list()[0]["status"], "down");
    // Different options apply to one start only.
    place.run("start", &["--slowms", "9"]).expect_code(0);
    assert!(place.list()[0]["startup_command"].as_str().unwrap().contains("--slowms 7"));
    let options = run(&mut connect(place.port), &doc! { "getCmdLineOpts": 1 });
    assert!(format!("{options}").contains("\"9\""), "{options}");
    assert_eq!(count(&mut connect(place.port)), 1);
}

#[test]
fn a_single_server_lives_from_init_to_destroy() {
    let place = ClusterFixture::new(1);
    let arguments = [
        "--single",
        "--binarypath",
        "fathom",
        "--wiredTigerCacheSizeGB",
        "0.25",
        "--slowms",
        "7",
        "--setParameter",
        "syncdelay=33",
    ];
    let made = place.init(&arguments).run().expect_code(0);
    let program = format!("fathom {} (WiredTiger)", env!("CARGO_PKG_VERSION"));
    assert!(made.stdout.contains(&format!("servers: {program}\n")), "{}", made.stdout);
    let table = place.run("list", &[]).expect_code(0).stdout;
    assert!(table.starts_with("PROCESS") && table.contains(&program), "{table}");
    let uri = format!("mongodb://localhost:{}/", place.port);
    assert!(made.stdout.contains(&format!("connect with {uri}")), "{}", made.stdout);
    assert_eq!(place.run("list", &["--uri"]).expect_code(0).stdout, format!("{uri}\n"));
    // The same places as with mlaunch.
    assert!(place.folder().join("db").is_dir() && place.folder().join("mongod.log").is_file());

    let mut connection = connect(place.port);
    run(&mut connection, &doc! { "insert": "c", "documents": [{ "_id": 1 }] });
    let options = run(&mut connection, &doc! { "getCmdLineOpts": 1 });
    let parsed = options.get_document("parsed").unwrap();
    assert_eq!(parsed.get_document("operationProfiling").unwrap().get_i32("slowOpThresholdMs").unwrap(), 7);
    assert_eq!(
        run(&mut connection, &doc! { "getParameter": 1, "syncdelay": 1 }).get_f64("syncdelay").unwrap(),
        33.0
    );
    drop(connection);
    let first = place.list();
    assert_eq!(
        (first[0]["status"].as_str(), first[0]["process"].as_str()),
        (Some("running"), Some("single"))
    );
    let session =
        rustix::process::getsid(rustix::process::Pid::from_raw(pid(&first[0]).cast_signed())).unwrap();
    assert_eq!(session.as_raw_nonzero().get().cast_unsigned(), pid(&first[0]), "it has a session of its own");

    // The same call again lists the running servers; a different one is refused.
    let again = place.init(&arguments).run().expect_code(3);
    assert!(
        again.stderr.contains("1 of the 1 servers of the cluster in") && again.stderr.contains("run"),
        "{}",
        again.stderr
    );
    let other = place.init(&["--single", "--binarypath", "fathom"]).run().expect_code(3);
    assert!(other.stderr.contains("a different cluster exists at"), "{}", other.stderr);

    stop_and_start(&place);

    fs::write(place.folder().join("notes"), "mine").unwrap();
    let destroyed = place.run("destroy", &[]).expect_code(0);
    assert!(destroyed.stderr.contains("it holds notes"), "{}", destroyed.stderr);
    assert!(place.processes().is_empty());
    let left: Vec<_> =
        fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes"]);
}

#[test]
fn tags_select_in_every_form_of_the_list() {
    let place = ClusterFixture::new(1);
    let port = place.port.to_string();
    place.init(&SMALL).run().expect_code(0);
    let servers = |tags: &[&str]| {
        let listed = place.run("list", &[tags, &["--json"]].concat()).expect_code(0).json();
        listed["servers"].as_array().unwrap().len()
    };
    assert_eq!([servers(&[]), servers(&[&port]), servers(&["single", "running"])], [1, 1, 1]);
    assert_eq!([servers(&["down"]), servers(&["secondary"])], [0, 0]);
    let uri = format!("mongodb://localhost:{port}/\n");
    assert_eq!(place.run("list", &["--uri", &port]).expect_code(0).stdout, uri);
    let none = place.run("list", &["--uri", "down"]).expect_code(3);
    assert!(none.stderr.contains("no server has all of these tags"), "{}", none.stderr);
    for form in [&[][..], &["--json"], &["--uri"], &["--tags"]] {
        let refused = place.run("list", &[form, &["singel"]].concat()).expect_code(2);
        assert!(refused.stderr.contains("'singel' is not a tag of this cluster"), "{}", refused.stderr);
    }
    for action in ["start", "stop", "kill", "restart", "pause", "resume", "partition"] {
        place.run(action, &["singel"]).expect_code(2);
    }
    place.run("delay", &["singel", "--round-trip", "1ms"]).expect_code(2);
    assert_eq!(place.list()[0]["status"], "running");
}

/// The user's folders keep their mode and stay the same folders; what `init` made in them is removed.
#[test]
fn folders_that_were_there_before_stay_as_they_were() {
    let place = ClusterFixture::new(1);
    let data = place.folder().join("db");
    let about = |path: &Path| {
        let about = fs::metadata(path).unwrap();
        (about.ino(), about.uid(), about.mode())
    };
    fs::create_dir(place.folder()).unwrap();
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o2751)).unwrap();
    let before = about(&place.folder());
    place.init(&SMALL).run().expect_code(0);
    let destroyed = place.run("destroy", &[]).expect_code(0);
    assert_eq!(destroyed.stderr, "");
    assert_eq!(about(&place.folder()), before);
    assert_eq!(names(&place.folder()), [""; 0]);

    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
    let before = [about(&place.folder()), about(&data)];
    place.init(&SMALL).run().expect_code(0);
    assert!(!names(&data).is_empty());
    place.run("destroy", &[]).expect_code(0);
    assert_eq!([about(&place.folder()), about(&data)], before);
    assert_eq!((names(&place.folder()), names(&data)), (vec!["db".to_owned()], Vec::new()));

    // An attempt that fails leaves them as well.
    let nonsense = [&SMALL[..], &["--setParameter", "nonsense=1"]].concat();
    place.init(&nonsense).run().expect_code(3);
    assert_eq!([about(&place.folder()), about(&data)], before);
    // A file in the way of a server's would be removed with it.
    fs::write(place.folder().join("mongod.log"), "mine").unwrap();
    let refused = place.init(&SMALL).run().expect_code(3);
    assert!(refused.stderr.contains("mongod.log exists, and belongs to no cluster"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(place.folder().join("mongod.log")).unwrap(), "mine");
}

#[test]
fn a_stray_file_of_mlaunch_does_not_keep_a_cluster_of_ours_from_its_end() {
    let place = ClusterFixture::new(1);
    place.init(&SMALL).run().expect_code(0);
    let stray = place.folder().join(".mlaunch_startup");
    fs::write(&stray, "{\"protocol_version\": 2}").unwrap();
    assert_eq!(place.list()[0]["status"], "running");
    let destroyed = place.run("destroy", &[]).expect_code(0);
    assert!(destroyed.stderr.contains("it holds .mlaunch_startup"), "{}", destroyed.stderr);
    assert!(place.processes().is_empty());
    assert_eq!(names(&place.folder()), [".mlaunch_startup"]);
}

/// Files that the user or another program left in the folder are not the cluster's.
#[test]
fn a_key_file_that_was_there_before_is_used_and_stays() {
    let place = ClusterFixture::new(1);
    let key = place.folder().join("keyfile");
    fs::create_dir(place.folder()).unwrap();
    fs::write(&key, "bWVtYmVycw==").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    place.init(&[&SMALL[..], &["--auth"]].concat()).run().expect_code(0);
    place.run("destroy", &[]).expect_code(0);
    assert_eq!(fs::read_to_string(&key).unwrap(), "bWVtYmVycw==");
    assert_eq!(names(&place.folder()), ["keyfile"]);
}

#[test]
fn what_is_said_of_parts_that_are_not_made_is_refused() {
    let place = ClusterFixture::new(1);
    for (arguments, sentence) in [
        (&["--single", "--name", "x"][..], "--name applies to a replica set"),
        (&["--single", "--mongos", "2"], "--config and --mongos apply to a sharded cluster"),
        (&["--single", "--username", "me"], "--username belongs to a cluster whose clients log in"),
        (&["--single", "--password", "p"], "--password belongs to a cluster whose clients log in"),
        (&["--single", "--no-initial-user"], "--no-initial-user belongs to a cluster whose clients log in"),
        (&["--single", "--auth", "--no-initial-user", "--username", "me"], "cannot be used with"),
        (&["--single", "--dry-run", "--json"], "cannot be used with"),
        (
            &["--sharded", "1", "--single", "--shard-collection", "a.b={x: 1}", "--initial-chunks", "4"],
            "--initial-chunks belongs to a hashed key",
        ),
    ] {
        let refused = place.init(arguments).run().expect_code(2);
        assert!(refused.stderr.contains(sentence), "{arguments:?}: {}", refused.stderr);
        assert!(!place.folder().exists());
    }
}

#[test]
fn a_paused_server_is_listed_and_goes_on() {
    let place = ClusterFixture::new(1);
    place
        .init(&["--single", "--binarypath", "fathom", "--storageEngine", "ephemeralForTest"])
        .run()
        .expect_code(0);
    assert!(place.run("pause", &["all"]).expect_code(0).stdout.contains("1 server paused"));
    let listed = place.run("list", &["--tags"]).expect_code(0).stdout;
    assert!(listed.contains("paused") && listed.contains("single"), "{listed}");
    assert!(place.run("pause", &[]).expect_code(0).stdout.contains("0 servers paused"));
    assert!(place.run("resume", &["paused"]).expect_code(0).stdout.contains("1 server resumed"));
    run(&mut connect(place.port), &doc! { "ping": 1 });
    // A paused server is stopped too.
    place.run("pause", &[]).expect_code(0);
    place.run("stop", &[]).expect_code(0);
    assert!(place.processes().is_empty());
}

#[test]
fn users_log_in_and_the_password_is_written_nowhere() {
    let place = ClusterFixture::new(1);
    let made = place
        .init(&[
            "--single",
            "--binarypath",
            "fathom",
            "--storageEngine",
            "ephemeralForTest",
            "--auth",
            "--password",
            "hunter2",
        ])
        .run()
        .expect_code(0);
    assert!(made.stdout.contains("mongodb://user:<password>@localhost"), "{}", made.stdout);
    let state = fs::read_to_string(place.folder().join(".fathom_cluster")).unwrap();
    assert!(!state.contains("hunter2") && state.contains("user"));
    let uri = format!("mongodb://user:hunter2@127.0.0.1:{}/?authSource=admin", place.port);
    let mut connection = fathom_client::Connection::connect(&uri.parse().unwrap()).unwrap();
    connection.run("admin", &doc! { "listDatabases": 1 }).unwrap();
    let nobody = connect(place.port).run("admin", &doc! { "listDatabases": 1 });
    assert!(nobody.is_err());

    let into = place.scratch.path().join("evidence");
    place.run("collect", &[into.to_str().unwrap()]).expect_code(0);
    let folder = into.join(format!("{}-mongod", place.port));
    let status: Value =
        serde_json::from_str(&fs::read_to_string(folder.join("serverStatus.json")).unwrap()).unwrap();
    assert_eq!(status["ok"], 1.0);
    assert!(fs::read_to_string(folder.join("mongod.log")).unwrap().contains("Waiting for connections"));
    place.run("collect", &[into.to_str().unwrap()]).expect_code(3);
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_nothing() {
    let place = ClusterFixture::new(1);
    let output = place
        .init(&["--single", "--binarypath", "fathom", "--setParameter", "nonsense=1"])
        .run()
        .expect_code(3);
    assert!(
        output.stderr.contains("ended at once") && output.stderr.contains("nonsense"),
        "{}",
        output.stderr
    );
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(!place.folder().exists() && place.processes().is_empty());
    // An existing folder is not changed.
    fs::create_dir(place.folder()).unwrap();
    fs::write(place.folder().join("notes"), "mine").unwrap();
    place.init(&["--single", "--binarypath", "fathom", "--setParameter", "nonsense=1"]).run().expect_code(3);
    let left: Vec<_> =
        fs::read_dir(place.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes"]);
}

#[test]
fn a_kill_in_the_middle_leaves_a_server_that_cleanup_knows() {
    let place = ClusterFixture::new(1);
    let state = place.scratch.path().join("state");
    // It does not answer, so `init` waits for it.
    let program = place.scratch.path().join("mongod");
    let script = "#!/bin/sh\ncase \"$1\" in\n--version) echo 'db version v4.4.0' ;;\n--help) echo '  --port arg' ;;\n*) exec sh -c 'read line < \"$0\"' \"$FATHOM_TEST_FIFO\" \"$@\" ;;\nesac\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let fifo = place.scratch.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let start = |fifo: &Path| {
        let folder = place.scratch.path();
        let running = place
            .init(&["--single", "--binarypath", folder.to_str().unwrap()])
            .env("FATHOM_TEST_FIFO", fifo)
            .spawn();
        let begun = std::time::Instant::now();
        let servers =
            || place.processes().into_iter().filter(|pid| *pid != running.pid()).collect::<Vec<_>>();
        // Its number is recorded after it was released.
        let state = || fs::read_to_string(place.folder().join(".fathom_cluster")).unwrap_or_default();
        let waits = |pid: &u32| {
            fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("read line"))
        };
        while !servers().iter().any(waits) || !state().contains("\"pid\"") {
            assert!(begun.elapsed() < TIMEOUT, "{}", running.stderr());
            std::thread::sleep(Duration::from_millis(5));
        }
        running
    };
    // A signal removes everything.
    let running = start(&fifo);
    running.signal(Signal::INT);
    let output = running.wait().expect_code(3);
    assert!(output.stderr.contains("interrupted by a signal"), "{}", output.stderr);
    assert!(place.processes().is_empty() && !place.folder().exists());
    // After a kill the ledger has the records.
    let running = start(&fifo);
    running.signal(Signal::KILL);
    running.wait();
    assert_eq!(place.processes().len(), 1);
    let undone = Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("cleanup").state(&state).run().expect_code(0);
    assert!(undone.stdout.contains("undone: process"), "{}", undone.stdout);
    assert!(place.processes().is_empty() && !place.folder().exists(), "{}", undone.stdout);
}
