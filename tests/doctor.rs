//! Tests `fathom doctor` on six saved hosts, on this machine, and on bad input.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use fathom_host::doctor::RULES;
use fathom_record::{Priority, Severity};
use fathom_testkit::{Fathom, Output, Scratch};

fn doctor(arguments: &[&str]) -> Output {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("doctor").args(arguments).run()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn host(name: &str) -> String {
    repository().join("tests/fixtures/hosts").join(name).display().to_string()
}

/// A process that dies with its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The whole text of a saved host's judgement, which must find something.
fn judged(name: &str, more: &[&str]) -> String {
    let folder = host(name);
    let arguments: Vec<&str> = ["--snapshot", &folder].into_iter().chain(more.iter().copied()).collect();
    doctor(&arguments).expect_code(1).stdout
}

fn ids_at_least_warning(text: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    let findings = document["findings"].as_array().unwrap();
    let alarms =
        findings.iter().filter(|f| ["warning", "critical"].contains(&f["severity"].as_str().unwrap()));
    alarms.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn bare_nvme() {
    insta::assert_snapshot!("doctor_nvme_verbose", judged("nvme", &["--verbose"]));
}

#[test]
fn md_raid0() {
    insta::assert_snapshot!("doctor_md_raid0", judged("md-raid0", &[]));
}

#[test]
fn lvm_on_an_old_kernel() {
    insta::assert_snapshot!("doctor_lvm", judged("lvm", &[]));
}

#[test]
fn iscsi_turns_with_the_version() {
    insta::assert_snapshot!("doctor_iscsi_7_0", judged("iscsi", &["--mongodb", "7.0"]));
    insta::assert_snapshot!("doctor_iscsi_8_0", judged("iscsi", &["--mongodb", "8.0"]));
    let of = |version| ids_at_least_warning(&judged("iscsi", &["--json", "--mongodb", version]));
    let (older, newer) = (of("7.0"), of("8.0"));
    assert!(!older.iter().any(|id| id.starts_with("huge-page")), "{older:?}");
    assert!(newer.contains(&"huge-pages-on".to_owned()), "{newer:?}");
    assert!(older.contains(&"barriers".to_owned()) && older.contains(&"write-cache".to_owned()), "{older:?}");
}

#[test]
fn cloud_machine() {
    insta::assert_snapshot!("doctor_cloud_8_0", judged("cloud", &["--mongodb", "8.0"]));
    insta::assert_snapshot!("doctor_cloud_4_4", judged("cloud", &["--mongodb", "4.4"]));
}

#[test]
fn container() {
    insta::assert_snapshot!("doctor_container", judged("container", &[]));
}

/// A copy of a saved host with some files changed.
fn changed(name: &str, changes: &[(&str, &str)]) -> Scratch {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let scratch = Scratch::new().unwrap();
    copy(Path::new(&host(name)), &scratch.path());
    for (path, text) in changes {
        let path = scratch.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    scratch
}

#[track_caller]
fn alarms_after(name: &str, changes: &[(&str, &str)]) -> Vec<String> {
    let scratch = changed(name, changes);
    let folder = scratch.path().display().to_string();
    ids_at_least_warning(&doctor(&["--json", "--snapshot", &folder]).stdout)
}

#[test]
fn each_change_for_the_worse_is_seen() {
    let queue = "sys/block/nvme0n1/queue";
    let group = "sys/fs/cgroup/system.slice/mongod.service";
    let mounts = fs::read_to_string(Path::new(&host("nvme")).join("proc/self/mountinfo")).unwrap();
    let on_nfs = mounts.replace(" - xfs /dev/nvme0n1p1", " - nfs4 filer:/export");
    let cases: &[(&str, String, &str)] = &[
        (&format!("{queue}/scheduler"), "none [mq-deadline] kyber".into(), "scheduler"),
        (&format!("{queue}/iostats"), "0".into(), "queue-counters"),
        (&format!("{group}/io.max"), "259:0 rbps=max wbps=max riops=100 wiops=max".into(), "cgroup-disk"),
        (
            "sys/fs/cgroup/system.slice/io.max",
            "259:0 rbps=1048576 wbps=max riops=max wiops=max".into(),
            "cgroup-disk",
        ),
        ("proc/sys/vm/zone_reclaim_mode", "1".into(), "zone-reclaim"),
        ("proc/sys/vm/overcommit_memory", "2".into(), "overcommit-always"),
        ("proc/1873/numa_maps", "55d0c0000000 default file=/usr/bin/mongod".into(), "numa-interleave"),
        ("proc/1873/environ", "GLIBC_TUNABLES=glibc.pthread.rseq=1\0".into(), "rseq-allocator"),
        ("proc/77/comm", "numad".into(), "numad"),
        ("proc/self/mountinfo", mounts.replace("rw,noatime - xfs", "rw - xfs"), "access-times"),
        ("proc/self/mountinfo", mounts.replace(" - xfs ", " - ext4 "), "filesystem"),
        ("proc/self/mountinfo", on_nfs, "filesystem"),
        // The crash wants rseq=1, and this server has rseq=0.
        ("proc/sys/kernel/osrelease", "6.19.2".into(), "rseq-crash"),
        ("proc/sys/kernel/osrelease", "7.0.9-arch1".into(), "rseq-crash"),
    ];
    let before = alarms_after("nvme", &[]);
    assert_eq!(before, ["read-ahead"]);
    for (path, text, id) in cases {
        let after = alarms_after("nvme", &[(path, text)]);
        assert!(after.iter().any(|seen| seen == id), "{path}: {after:?}");
    }
    assert!(alarms_after("nvme", &[("sys/class/bdi/259:0/read_ahead_kb", "16")]).is_empty());
    assert!(
        !alarms_after("nvme", &[("proc/sys/kernel/osrelease", "7.0.14")]).contains(&"rseq-crash".to_owned())
    );
}

/// The read-ahead of its devices has no effect on btrfs.
#[test]
fn the_read_ahead_of_btrfs_is_its_own() {
    let mounts = fs::read_to_string(Path::new(&host("nvme")).join("proc/self/mountinfo")).unwrap();
    let mounts =
        mounts.replace("259:2 / /var/lib/mongodb", "0:41 / /var/lib/mongodb").replace(" - xfs ", " - btrfs ");
    let read_ahead = |of_file_system: &str, of_device: &str| {
        let scratch = changed(
            "nvme",
            &[
                ("proc/self/mountinfo", mounts.as_str()),
                ("sys/fs/btrfs/1e2f/devices/nvme0n1p1", ""),
                ("sys/fs/btrfs/1e2f/devices/sda", ""),
                ("sys/fs/btrfs/1e2f/bdi/read_ahead_kb", of_file_system),
                ("sys/block/sda/dev", "8:0"),
                ("sys/class/bdi/259:0/read_ahead_kb", of_device),
                ("sys/block/nvme0n1/queue/read_ahead_kb", of_device),
            ],
        );
        let document = doctor(&["--json", "--snapshot", &scratch.path().display().to_string()]).json();
        let findings = document["findings"].as_array().unwrap().clone();
        let finding = findings.into_iter().find(|finding| finding["id"] == "read-ahead").unwrap();
        (document["subject"]["devices"].to_string(), finding)
    };
    let (devices, finding) = read_ahead("4096", "16");
    assert_eq!(devices, r#"["nvme0n1p1","sda","nvme0n1"]"#);
    assert_eq!(finding["severity"], "warning");
    let claim = finding["claim"].as_str().unwrap();
    assert!(claim.contains("btrfs on /var/lib/mongodb is 4096 KiB"), "{claim}");
    let command = finding["command"].as_str().unwrap();
    assert!(command.starts_with("echo 16 > /sys/fs/btrfs/1e2f/bdi/read_ahead_kb"), "{command}");
    assert_eq!(read_ahead("16", "4096").1["severity"], "ok");
}

#[test]
fn a_verdict_on_the_kernel_shows_the_version_that_was_read() {
    let scratch = changed("nvme", &[("proc/sys/kernel/osrelease", "6.19.2")]);
    let document = doctor(&["--json", "--snapshot", &scratch.path().display().to_string()]).json();
    let findings = document["findings"].as_array().unwrap();
    let crash = findings.iter().find(|finding| finding["id"] == "rseq-crash").unwrap();
    assert!(crash["evidence"].to_string().contains("/proc/sys/kernel/osrelease = 6.19.2"), "{crash}");
}

#[test]
fn an_array_in_trouble_is_critical() {
    let md = "sys/block/md0/md";
    let whole = [
        (format!("{md}/level"), "raid10"),
        (format!("{md}/degraded"), "0"),
        (format!("{md}/sync_action"), "idle"),
    ];
    let with = |degraded: &'static str, action: &'static str| {
        let [level, ..] = &whole;
        let changes =
            [(level.0.as_str(), level.1), (whole[1].0.as_str(), degraded), (whole[2].0.as_str(), action)];
        alarms_after("md-raid0", &changes).contains(&"md-state".to_owned())
    };
    assert!(!with("0", "idle"));
    assert!(with("1", "idle"));
    assert!(with("0", "resync"));
    assert!(alarms_after("md-raid0", &[(&format!("{md}/level"), "raid5")]).contains(&"md-level".to_owned()));
}

/// A missing file is reported: no file of a host may be needed for an answer.
#[test]
fn a_host_with_files_missing_is_judged_without_panic() {
    fn files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                files(&entry.path(), found)
            } else {
                found.push(entry.path())
            }
        }
    }
    for name in ["nvme", "lvm", "iscsi"] {
        let scratch = changed(name, &[]);
        let folder = scratch.path().display().to_string();
        let mut found = Vec::new();
        files(&scratch.path(), &mut found);
        for (at, path) in found.iter().enumerate().filter(|(_, path)| !path.ends_with("snapshot.json")) {
            let text = fs::read(path).unwrap();
            // In turn: missing, malformed, empty.
            match at % 3 {
                0 => fs::remove_file(path).unwrap(),
                1 => fs::write(path, "\u{fffd} -1 : = [ \0\n").unwrap(),
                _ => fs::write(path, "").unwrap(),
            }
            let output = doctor(&["--json", "--snapshot", &folder]);
            assert!([0, 1, 3].contains(&output.code), "{}: {}", path.display(), output.stderr);
            assert!(output.code == 3 || output.json()["findings"].as_array().unwrap().len() > 20);
            fs::write(path, text).unwrap();
        }
    }
}

#[test]
fn this_machine_and_its_snapshot_get_the_same_findings() {
    let scratch = Scratch::new().unwrap();
    let data = scratch.path().join("data");
    let saved = scratch.path().join("saved");
    fs::create_dir(&data).unwrap();
    let (data, saved) = (data.display().to_string(), saved.display().to_string());
    doctor(&["--save", &saved, "--dir", &data]).expect_code(0);
    let live = doctor(&["--json", "--dir", &data]).json();
    let later = doctor(&["--json", "--snapshot", &saved]).json();
    assert_eq!(live["findings"], later["findings"]);
    assert_eq!(live["subject"]["dir"], later["subject"]["dir"]);
    assert_eq!(later["schema"], 1);
    // A second call with the same folder replaces it; it contains no name of this host.
    doctor(&["--save", &saved, "--dir", &data]).expect_code(0);
}

#[test]
fn a_server_is_found_and_its_secrets_are_not_kept() {
    let scratch = Scratch::new().unwrap();
    let data = scratch.path().join("db");
    fs::create_dir(&data).unwrap();
    // The kernel's name of a process is its program's, so a copy of sleep serves as a server that does nothing.
    let program = scratch.path().join("mongod");
    fs::copy("/bin/sleep", &program).unwrap();
    let command = Command::new(&program)
        .arg("60")
        .env_clear()
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        .env("MONGO_INITDB_ROOT_PASSWORD", "hunter2")
        .env("MONGO_VERSION", "8.0.5")
        .spawn();
    let server = Server(command.unwrap());
    let saved = scratch.path().join("saved").display().to_string();
    doctor(&["--save", &saved, "--dir", &data.display().to_string()]).expect_code(0);
    let judged = doctor(&["--json", "--snapshot", &saved]);
    let subject = &judged.json()["subject"];
    // A real mongod on this machine may be the one that was chosen.
    if subject["mongod_pid"] == server.0.id() {
        assert_eq!(subject["mongodb"], "8.0.5");
        let environment = fs::read_to_string(format!("{saved}/proc/{}/environ", server.0.id())).unwrap();
        assert_eq!(environment, "GLIBC_TUNABLES=glibc.pthread.rseq=0\0");
    }
}

fn priorities(name: &str) -> Vec<(String, String)> {
    let document: serde_json::Value = serde_json::from_str(&judged(name, &["--json"])).unwrap();
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or("-").to_owned();
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|finding| (text(finding, "id"), text(finding, "priority"))).collect()
}

/// A finding on lost data has a higher priority than one on the number of processes.
#[test]
fn what_risks_data_ranks_before_what_only_differs_from_the_advice() {
    let found = priorities("iscsi");
    let of = |id: &str| found.iter().find(|(one, _)| one == id).map(|(_, priority)| priority.as_str());
    assert_eq!(of("barriers"), Some("critical"));
    assert_eq!(of("write-cache"), Some("critical"));
    assert_eq!(of("read-ahead"), Some("worth_doing"));
    assert_eq!(of("map-count"), Some("hygiene"));
    assert_eq!(of("dirty-limits"), Some("-"), "a note asks for nothing");
    let text = judged("iscsi", &[]);
    assert!(
        text.starts_with("Settings of this host: 2 cost latency or risk data now, 4 are worth changing, 7"),
        "{text}"
    );
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no '{word}' in {text}"));
    assert!(at("Critical: ") < at("Worth doing: ") && at("Worth doing: ") < at("Hygiene: "), "{text}");
    assert!(!text.contains("sysctl -w vm.max_map_count"), "hygiene is a line each: {text}");
    assert!(judged("iscsi", &["--verbose"]).contains("undo: sysctl -w vm.max_map_count=65530"));
}

#[test]
fn a_script_has_every_command_with_its_undo_and_replaces_nothing_unasked() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.path().join("fix it.sh");
    let path = file.display().to_string();
    let told = judged("iscsi", &["--script", &path]);
    assert!(told.contains(&format!("{path}\nRead it, then: sudo sh ")), "{told}");
    let script = fs::read_to_string(&file).unwrap();
    let read = Command::new("sh").arg("-n").arg(&file).output().unwrap();
    assert!(read.status.success(), "{read:?}");
    for line in [
        "    mount -o remount,barrier /data || fail barriers",
        "    mount -o remount,barrier=0 /data || fail barriers",
        "    sysctl -w vm.swappiness=1 || fail swappiness",
        "    sysctl -w vm.swappiness=60 || fail swappiness",
        "    rm -f /etc/sysctl.d/99-mongodb-vm.swappiness.conf || fail swappiness",
        "    # echo 0 > /sys/block/sdb/queue/wbt_lat_usec",
    ] {
        assert!(script.lines().any(|one| one == line), "no '{line}' in {script}");
    }
    let folder = host("iscsi");
    let again = doctor(&["--snapshot", &folder, "--script", &path]).expect_code(3);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    fs::write(&file, "mine").unwrap();
    let document = doctor(&["--snapshot", &folder, "--json", "--script", &path, "--force"]);
    assert!(
        document.json()["findings"].is_array() && document.stderr.contains("Read it"),
        "{}",
        document.stderr
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), script);
    doctor(&["--snapshot", &folder, "--force"]).expect_code(2);
}

#[test]
fn a_version_newer_than_the_rules_is_judged_with_a_note() {
    let note = "the rules know MongoDB up to 8.3, and 99.0 is newer: advice that changed since is missing";
    let document = |version| {
        let text = judged("iscsi", &["--json", "--mongodb", version]);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["assumptions"].to_string()
    };
    assert!(document("99").contains(note), "{}", document("99"));
    assert!(!document("8.3").contains("is newer"), "{}", document("8.3"));
}

#[test]
fn bad_input_is_one_sentence_and_a_code() {
    let scratch = Scratch::new().unwrap();
    let folder = scratch.path().display().to_string();
    fs::write(scratch.path().join("letter"), "dear").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--dir", "/no/such/folder"], 3, "cannot look at /no/such/folder"),
        (&["--mongodb", "eight"], 2, "not a version"),
        (&["--snapshot", "/no/such/folder"], 3, "not a host snapshot"),
        (&["--snapshot", &folder], 3, "not a host snapshot"),
        (&["--save", &folder, "--dir", "/"], 3, "other things in it"),
        (&["--save", "/proc/nothing", "--dir", "/"], 3, "/proc/nothing"),
        (&["--save", &folder, "--snapshot", &folder], 2, "cannot be used with"),
        (&["--snapshot", &host("nvme"), "--dir", "relative"], 2, "not an absolute path"),
        (&["nonsense"], 2, "unexpected argument"),
    ];
    for (arguments, code, sentence) in cases {
        let output = doctor(arguments).expect_code(*code);
        assert!(output.stderr.contains(sentence), "{arguments:?}: {}", output.stderr);
        assert!(output.stdout.is_empty());
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
}

/// The table of rules as a page shows it.
fn page_of_rules() -> String {
    let mut page = String::new();
    for rule in RULES {
        let applies = &rule.applies;
        writeln!(page, "### {}\n\n{}: {}.\n", rule.id, capitalised(rule.setting), rule.wants).unwrap();
        let machines = if applies.architectures.is_empty() {
            "all".to_owned()
        } else {
            applies.architectures.join(", ")
        };
        writeln!(page, "- MongoDB {}; kernel {}; machines {machines}", applies.mongodb, applies.kernel)
            .unwrap();
        let severity = format!("{:?}", rule.severity).to_lowercase();
        let priority = match rule.priority {
            Priority::Critical => "critical",
            Priority::WorthDoing => "worth doing",
            Priority::Hygiene => "hygiene",
        };
        // A note asks for nothing.
        let earned = if rule.severity == Severity::Note { String::new() } else { format!(", {priority}") };
        writeln!(page, "- if it differs: {severity}{earned}. {}", rule.reason).unwrap();
        let reads: Vec<String> = rule.reads.iter().map(|path| format!("`/{path}`")).collect();
        writeln!(page, "- read from {}", reads.join(", ")).unwrap();
        writeln!(page, "- source: {}\n", rule.page).unwrap();
    }
    page
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[test]
fn the_page_shows_the_table() {
    const MARK: &str = "<!-- from here on made from the table of rules -->\n\n";
    let path = repository().join("docs/doctor.md");
    let mut page = fs::read_to_string(&path).unwrap();
    let wanted = page_of_rules();
    if std::env::var_os("FATHOM_UPDATE_DOCS").is_some() {
        let (head, _) = page.split_once(MARK).unwrap();
        page = format!("{head}{MARK}{wanted}");
        fs::write(&path, &page).unwrap();
    }
    let (_, tail) = page.split_once(MARK).unwrap();
    assert!(tail == wanted, "docs/doctor.md does not show the table of rules: make refresh writes it");
}
