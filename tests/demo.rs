//! Tests `fathom demo`: its output in any environment follows from the recordings, and only the page is left behind.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fathom_record::{Run, State};
use fathom_testkit::{Fathom, Scratch};
use serde_json::Value;

/// The finding that the recording before the change must show.
const FOUND: &str = "queue-cap";
/// The recordings, by the names of their runs.
const NAMES: [&str; 3] = ["before", "after", "probe"];
/// The maximum size of all of them, since they are part of every binary.
const MAX_BYTES: u64 = 1 << 20;
/// Fast enough for a test, slow enough that there is something to interrupt.
const FAST: [&str; 2] = ["--speed", "200"];

/// A call whose temporary files go into a folder of its own.
fn demo(scratch: &Scratch) -> Fathom {
    let place = temporary(scratch);
    Fathom::new(env!("CARGO_BIN_EXE_fathom"))
        .arg("demo")
        .state(scratch.path().join("state"))
        .env("TMPDIR", &place)
        .current_dir(place)
}

fn temporary(scratch: &Scratch) -> PathBuf {
    let place = scratch.path().join("tmp");
    fs::create_dir_all(&place).unwrap();
    place
}

/// The files and folders below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            all.extend(below(&entry.path()));
        }
        all.push(entry.path());
    }
    all
}

fn is_page(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap();
    text.starts_with("<!doctype html>")
        && text.contains("default-src 'none'")
        && text.contains("<figure class=\"chart\"")
}

#[test]
fn without_a_terminal_it_is_lines_then_findings_then_the_change_then_the_page() {
    let scratch = Scratch::new().unwrap();
    let output = demo(&scratch).args(FAST).run().expect_code(0);
    let text = &output.stdout;
    let parts = [
        "A recorded run",
        "Held back by",
        "lets 32 requests through at once",
        "The change, while the server ran:  echo ",
        "The same load after it: ",
        "What remains: ",
        "In three sentences",
        "The page of both runs to hand on: ",
        "fathom watch --uri",
    ];
    let places: Vec<usize> =
        parts.iter().map(|what| text.find(what).unwrap_or_else(|| panic!("no '{what}' in {text}"))).collect();
    assert!(places.is_sorted(), "{places:?}: {text}");
    assert!(!text.contains('\u{1b}'), "no colours and no cursor where there is no terminal: {text:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 140), "{text}");
    let page = scratch.path().join("state/demo.html");
    assert!(text.contains(&page.display().to_string()) && is_page(&page), "{text}");
    // No run folder and no temporary file is left.
    assert_eq!(below(&temporary(&scratch)), Vec::<PathBuf>::new());
    assert_eq!(below(&scratch.path().join("state")), std::slice::from_ref(&page));
    // A second run may replace its own page.
    demo(&scratch).arg("--no-watch").run().expect_code(0);
    assert!(is_page(&page));
}

#[test]
fn lines_show_the_recording_as_it_goes_by() {
    let scratch = Scratch::new().unwrap();
    let output = demo(&scratch).args(["--plain", "--speed", "40"]).run().expect_code(0);
    let mut lines = output.stdout.lines().skip_while(|line| !line.contains("reads/s"));
    let columns = lines.next().unwrap().split_whitespace().count();
    let moments: Vec<Vec<&str>> =
        lines.take_while(|line| !line.is_empty()).map(|line| line.split_whitespace().collect()).collect();
    assert!(moments.len() >= 2, "{}", output.stdout);
    assert!(moments.iter().all(|moment| moment.len() == columns), "{}", output.stdout);
    assert!(moments.first().unwrap()[0] < moments.last().unwrap()[0], "time goes on: {}", output.stdout);
    assert!(moments.iter().any(|moment| moment[4] != "-" && moment[12] != "-"), "{}", output.stdout);
}

#[test]
fn the_document_is_that_of_explain_and_says_what_is_wrong() {
    let scratch = Scratch::new().unwrap();
    let kept = temporary(&scratch).join("runs");
    let output = demo(&scratch).args(["--json", "--keep"]).arg(&kept).run().expect_code(0);
    let mut document = output.json();
    let change = document.as_object_mut().unwrap().remove("change").unwrap();
    let finding = |id: &str| document["findings"].as_array().unwrap().iter().find(|one| one["id"] == id);
    let found = finding(FOUND).unwrap_or_else(|| panic!("{document:#}"));
    assert_ne!(found["confidence"], "cannot_tell", "{found:#}");
    assert!(finding("processor-is-short").is_none(), "{document:#}");
    assert_eq!(change["command"], found["command"], "{change:#}");
    // The kept folders are ordinary run folders, and the verbs give the same results on them.
    for name in NAMES {
        assert_eq!(Run::open(kept.join(name)).unwrap().manifest.state, State::Complete, "{name}");
    }
    assert_eq!(explained(&kept, "before"), document);
    assert_eq!(explained(&kept, "after")["verdict"], change["verdict_after"]);
    assert!(is_page(&kept.join("report.html")));
    // An existing folder is not written to.
    let before = below(&kept);
    let refused = demo(&scratch).args(["--json", "--keep"]).arg(&kept).run().expect_code(3);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("--keep"), "{refused:?}");
    assert_eq!(below(&kept), before);
}

/// The output of `fathom explain` on a kept run, with the kept probe.
fn explained(kept: &Path, name: &str) -> Value {
    let call = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["explain", "--json"]).arg(kept.join(name));
    call.arg("--probe").arg(kept.join("probe")).run().json()
}

/// Checks that the gain of the change matches the claim of the finding within the tolerance of `cargo measure record-demo`, and that the
/// sentences have these figures.
#[test]
fn the_change_brings_what_the_finding_claims() {
    let scratch = Scratch::new().unwrap();
    let change = demo(&scratch).arg("--json").run().expect_code(0).json()["change"].clone();
    let number =
        |at: &str| change.pointer(at).and_then(Value::as_f64).unwrap_or_else(|| panic!("{at}: {change:#}"));
    let gained = 1.0 - number("/after/mean_ns") / number("/before/mean_ns");
    assert!((gained - number("/gained_share")).abs() < 1e-9, "{change:#}");
    assert!((gained - number("/claimed_share")).abs() <= 0.1, "{change:#}");
    assert!(gained >= 0.4, "the trouble is large: {change:#}");
    assert!(number("/after/per_s") > 1.5 * number("/before/per_s"), "{change:#}");
    assert_eq!(number("/before/queue"), 32.0);
    let sentences: Vec<&str> =
        change["sentences"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(sentences.len(), 3);
    let percent = format!("{:.0} %", 100.0 * number("/claimed_share"));
    assert!(sentences[0].contains(&percent) && sentences[0].contains("32 requests"), "{sentences:#?}");
    assert!(
        sentences.iter().all(|one| one.ends_with('.') && one.matches(". ").count() == 0),
        "{sentences:#?}"
    );
    // No word that only an engineer knows.
    for word in ["p99", "latency", "nr_requests", "percentile", "IOPS"] {
        assert!(sentences.iter().all(|one| !one.contains(word)), "{word}: {sentences:#?}");
    }
}

#[test]
fn the_recordings_are_bundles_that_can_be_imported_like_any_other() {
    let scratch = Scratch::new().unwrap();
    let mut document = demo(&scratch).arg("--json").run().expect_code(0).json();
    document.as_object_mut().unwrap().remove("change");
    let fathom = |words: &[&str]| Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words);
    let runs = scratch.path().join("runs");
    let mut bytes = 0;
    for name in NAMES {
        let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/demo-{name}.tar.zst"));
        bytes += fs::metadata(&bundle).unwrap().len();
        fathom(&["runs", "verify"]).arg(&bundle).run().expect_code(0);
        let import = fathom(&["runs", "import"]).arg(&bundle).arg("--runs").arg(&runs);
        assert_eq!(import.run().expect_code(0).stdout.trim(), runs.join(name).display().to_string());
    }
    assert!(bytes <= MAX_BYTES, "{bytes}");
    let mut again = explained(&runs, "before");
    again["run_folder"] = document["run_folder"].clone();
    assert_eq!(again, document);
}

/// Regression: the page of a server in trouble said in green that nothing holds it back.
#[test]
fn its_verdict_names_the_queue_with_its_cost_in_red() {
    let scratch = Scratch::new().unwrap();
    let document = demo(&scratch).args(["--json"]).run().expect_code(0).json();
    let verdict = &document["verdict"];
    let words = ["outcome", "cause", "domain"].map(|field| verdict[field].as_str());
    assert_eq!(words, [Some("held_back"), Some(FOUND), Some("storage")], "{verdict:#}");
    assert!((0.4..0.95).contains(&verdict["cost"]["share"].as_f64().unwrap()), "{verdict:#}");
    let page = fs::read_to_string(scratch.path().join("state/demo.html")).unwrap();
    assert!(page.contains("<div class=\"card bad\"><p class=\"label\">A alone</p>"), "no red verdict");
    assert!(page.contains("<p class=\"label\">B alone</p>") && page.contains("two runs side by side"));
    assert!(page.contains("Held back by"), "{verdict:#}");
}

/// Checks that the published files contain nothing that identifies a machine.
#[test]
fn the_recording_names_no_machine() {
    let scratch = Scratch::new().unwrap();
    let kept = temporary(&scratch).join("runs");
    demo(&scratch).args(["--no-watch", "--keep"]).arg(&kept).run().expect_code(0);
    for (run, verb) in NAMES.iter().zip(["ycsb run mongodb", "ycsb run mongodb", "disk"]) {
        let manifest = Run::open(kept.join(run)).unwrap().manifest;
        for (name, value) in &manifest.environment {
            assert!(["server.", "device.", "note."].iter().any(|known| name.starts_with(known)), "{name}");
            assert!(!name.ends_with(".pid") && !name.ends_with(".dbpath"), "{name}");
            assert!(!value.contains("/tmp"), "{name}: {value}");
        }
        let words = manifest.command_line.join(" ");
        assert!(words.starts_with(&format!("fathom {verb}")) && !words.contains(" /"), "{words}");
    }
}

/// Runs as on a machine without any trace of this program: an empty home, no state folder, no privileges.
#[test]
fn it_runs_from_a_fresh_prefix_without_root() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
    let (program, home) = (place.join("fathom"), place.join("home"));
    fs::copy(env!("CARGO_BIN_EXE_fathom"), &program).unwrap();
    fs::create_dir(&home).unwrap();
    let mut call = Command::new(&program);
    call.args(["demo", "--plain", "--speed", "200"])
        .env_clear()
        .env("HOME", &home)
        .env("TMPDIR", &home)
        .current_dir(&home);
    if rustix::process::geteuid().is_root() {
        // The user that owns nothing.
        std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
        call.uid(65534).gid(65534);
    }
    let output = call.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let pages: Vec<PathBuf> = below(&home).into_iter().filter(|path| path.is_file()).collect();
    assert_eq!(pages.len(), 1, "{pages:?}");
    assert!(is_page(&pages[0]) && text.contains(&pages[0].display().to_string()), "{text}");
}

#[test]
fn no_place_is_needed_but_one_for_temporary_files() {
    let scratch = Scratch::new().unwrap();
    // A file in place of the home folder: no user can write to it, including root.
    let home = scratch.path().join("home");
    fs::write(&home, "").unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o444)).unwrap();
    let call = || demo(&scratch).arg("--no-watch").env("HOME", &home).env("FATHOM_STATE", home.join("state"));
    let output = call().env("NO_COLOR", "1").run().expect_code(0);
    let left = below(&temporary(&scratch));
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(is_page(&left[0]) && output.stdout.contains(&left[0].display().to_string()), "{}", output.stdout);
    let nowhere = call().env("TMPDIR", &home).run().expect_code(3);
    assert!(nowhere.stderr.contains("--output") && nowhere.stdout.is_empty(), "{nowhere:?}");
}

#[test]
fn no_file_of_others_is_written_over() {
    let scratch = Scratch::new().unwrap();
    let mine = temporary(&scratch).join("mine.html");
    fs::write(&mine, "mine").unwrap();
    let refused = demo(&scratch).args(FAST).arg("--output").arg(&mine).run().expect_code(3);
    assert!(refused.stderr.contains("mine.html already exists") && refused.stdout.is_empty(), "{refused:?}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    // A link to a file is not followed.
    let link = temporary(&scratch).join("link.html");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    demo(&scratch).args(FAST).arg("--output").arg(&link).run().expect_code(3);
    // Another user's file in the state folder: the page is written elsewhere.
    let state = scratch.path().join("state");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("demo.html"), "mine").unwrap();
    demo(&scratch).arg("--no-watch").run().expect_code(0);
    assert_eq!(fs::read_to_string(state.join("demo.html")).unwrap(), "mine");
    for (words, code) in
        [(["--speed", "0"], 2), (["--output", "/no/such/place.html"], 3), (["--keep", "/no/such/place"], 3)]
    {
        let refused = demo(&scratch).args(words).run().expect_code(code);
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
}

/// The verb on a terminal of `script`.
fn on_terminal(scratch: &Scratch, words: &str) -> Child {
    let program = env!("CARGO_BIN_EXE_fathom");
    Command::new("script")
        .args(["-qec", &format!("stty rows 24 cols 80; exec {program} demo {words}"), "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("TMPDIR", temporary(scratch))
        .env("FATHOM_STATE", scratch.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Presses a key once the screen shows the recording, and waits for the end; all that the terminal got.
fn pressed(mut child: Child, key: &[u8]) -> (String, Option<i32>) {
    let mut text = Vec::new();
    let mut out = child.stdout.take().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut is_pressed = key.is_empty();
    let until = Instant::now() + Duration::from_secs(500);
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = out.read(&mut buffer) {
        text.extend_from_slice(&buffer[..count]);
        if !is_pressed && String::from_utf8_lossy(&text).contains("skips") {
            is_pressed = input.write_all(key).is_ok();
        }
        assert!(Instant::now() < until, "{}", String::from_utf8_lossy(&text));
    }
    (String::from_utf8_lossy(&text).into_owned(), child.wait().unwrap().code())
}

fn assert_given_back(text: &str) {
    let (entered, left) = (text.find("\u{1b}[?1049h"), text.rfind("\u{1b}[?1049l"));
    assert!(entered.is_some() && left > entered, "{text:?}");
}

#[test]
fn on_a_terminal_it_is_the_screen_of_watch_until_its_end() {
    let scratch = Scratch::new().unwrap();
    let (text, code) = pressed(on_terminal(&scratch, "--speed 60"), b"");
    assert_given_back(&text);
    assert_eq!(code, Some(0), "{text:?}");
    let screen = text.split("\u{1b}[?1049l").next().unwrap();
    for section in ["queue", "device", "checkpoint"] {
        assert!(screen.contains(section), "no {section} on the screen: {screen:?}");
    }
    assert!(text.contains("The page of both runs to hand on: "), "{text:?}");
}

#[test]
fn a_key_goes_on_and_ctrl_c_ends_it_with_the_terminal_given_back() {
    let scratch = Scratch::new().unwrap();
    let (text, code) = pressed(on_terminal(&scratch, "--speed 1"), b"q");
    assert_given_back(&text);
    assert_eq!(code, Some(0));
    assert!(text.contains("The page of both runs to hand on: "), "{text:?}");
    fs::remove_file(scratch.path().join("state/demo.html")).unwrap();

    let (text, code) = pressed(on_terminal(&scratch, "--speed 1"), &[3]);
    assert_given_back(&text);
    assert_eq!(code, Some(0));
    assert!(!text.contains("The page of both runs to hand on: ") && text.contains("Ended."), "{text:?}");
    assert_eq!(below(&temporary(&scratch)), Vec::<PathBuf>::new());
    assert!(!scratch.path().join("state/demo.html").exists());
}

#[test]
fn a_signal_ends_the_lines_too_and_a_reader_that_goes_away_is_no_crash() {
    let scratch = Scratch::new().unwrap();
    let mut running = demo(&scratch).args(["--plain", "--speed", "4"]).spawn();
    assert!(running.wait_for_stdout("reads/s"), "{}", running.stderr());
    running.signal(rustix::process::Signal::INT);
    let output = running.wait().expect_code(0);
    assert!(!output.stdout.contains("The page of both"), "{}", output.stdout);
    let mut running = demo(&scratch).args(["--plain", "--speed", "40"]).spawn();
    running.close_stdout();
    let output = running.wait().expect_code(0);
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    assert_eq!(below(&temporary(&scratch)), Vec::<PathBuf>::new());
}

/// One of the ways to read it: the findings by their names.
#[test]
fn the_findings_have_all_that_a_person_needs() {
    let scratch = Scratch::new().unwrap();
    let document = demo(&scratch).arg("--json").run().expect_code(0).json();
    assert_eq!(document["run_folder"], Value::Null, "the folder is gone");
    for finding in document["findings"].as_array().unwrap().iter().filter(|one| one["severity"] == "warning")
    {
        assert!(!finding["evidence"].as_array().unwrap().is_empty(), "{finding:#}");
        assert!(finding["advice"].is_string() && finding["next_look"].is_string(), "{finding:#}");
    }
}
