//! `fathom demo`: the three things that a person sees, wherever it is run, and nothing left behind but the page.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fathom_record::{Run, State};
use fathom_testkit::{Fathom, Scratch};
use serde_json::Value;

/// What the recording is there to show.
const FOUND: &str = "checkpoint-spikes";
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
fn without_a_terminal_it_is_lines_then_findings_then_the_page() {
    let scratch = Scratch::new().unwrap();
    let output = demo(&scratch).args(FAST).run().expect_code(0);
    let text = &output.stdout;
    let places: Vec<usize> =
        ["A recorded run", "Checkpoints make latency spike", "The page to hand on: ", "fathom watch --uri"]
            .iter()
            .map(|what| text.find(what).unwrap_or_else(|| panic!("no '{what}' in {text}")))
            .collect();
    assert!(places.is_sorted(), "{places:?}: {text}");
    assert!(!text.contains('\u{1b}'), "no colours and no cursor where there is no terminal: {text:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
    let page = scratch.path().join("state/demo.html");
    assert!(text.contains(&page.display().to_string()) && is_page(&page), "{text}");
    // Nothing else: no run folder, nothing temporary.
    assert_eq!(below(&temporary(&scratch)), Vec::<PathBuf>::new());
    assert_eq!(below(&scratch.path().join("state")), std::slice::from_ref(&page));
    // Again: its own page it may replace.
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
    let kept = temporary(&scratch).join("run");
    let output = demo(&scratch).args(["--json", "--keep"]).arg(&kept).run().expect_code(0);
    let document = output.json();
    let finding = |id: &str| document["findings"].as_array().unwrap().iter().find(|one| one["id"] == id);
    let spikes = finding(FOUND).unwrap_or_else(|| panic!("{document:#}"));
    assert_ne!(spikes["confidence"], "cannot_tell", "{spikes:#}");
    assert!(finding("processor-is-short").is_none(), "{document:#}");
    // The kept folder is a run folder like others, and the same verbs say the same of it.
    let run = Run::open(&kept).unwrap();
    assert_eq!(run.manifest.state, State::Complete);
    let again = Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(["explain", "--json"]).arg(&kept).run();
    assert_eq!(again.json(), document);
    assert!(is_page(&kept.join("report.html")));
    // A folder that is there is not ours to write into, and stays as it is.
    let before = below(&kept);
    let refused = demo(&scratch).args(["--json", "--keep"]).arg(&kept).run().expect_code(3);
    assert!(refused.stdout.is_empty() && refused.stderr.contains("--keep"), "{refused:?}");
    assert_eq!(below(&kept), before);
}

#[test]
fn the_recording_is_a_bundle_that_can_be_imported_like_any_other() {
    let scratch = Scratch::new().unwrap();
    let kept = temporary(&scratch).join("run");
    let document = demo(&scratch).args(["--json", "--keep"]).arg(&kept).run().expect_code(0).json();
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo.tar.zst");
    let fathom = |words: &[&str]| Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(words);
    fathom(&["runs", "verify"]).arg(&bundle).run().expect_code(0);
    let runs = scratch.path().join("runs");
    let imported = fathom(&["runs", "import"]).arg(&bundle).arg("--runs").arg(&runs).run().expect_code(0);
    assert_eq!(imported.stdout.trim(), runs.join("demo").display().to_string());
    let mut again = fathom(&["explain", "--json"]).arg(runs.join("demo")).run().expect_code(1).json();
    again["run_folder"] = document["run_folder"].clone();
    assert_eq!(again, document);
}

/// The page of a server in trouble said in green that nothing holds it back, while 81 % of a write's time was the journal.
#[test]
fn its_verdict_names_the_journal_with_its_cost_in_red() {
    let scratch = Scratch::new().unwrap();
    let document = demo(&scratch).args(["--json"]).run().expect_code(0).json();
    let verdict = &document["verdict"];
    let words = ["outcome", "cause", "domain"].map(|field| verdict[field].as_str());
    assert_eq!(words, [Some("held_back"), Some("journal-on-path"), Some("storage")], "{verdict:#}");
    assert!((0.7..0.95).contains(&verdict["cost"]["share"].as_f64().unwrap()), "{verdict:#}");
    demo(&scratch).arg("--no-watch").run().expect_code(0);
    let page = fs::read_to_string(scratch.path().join("state/demo.html")).unwrap();
    assert!(page.contains("<div class=\"card bad\"><p class=\"label\">Verdict</p>"), "no red card");
    assert!(page.contains(verdict["sentence"].as_str().unwrap()), "{verdict:#}");
}

/// What would tell one machine from another is not in what everybody gets.
#[test]
fn the_recording_names_no_machine() {
    let scratch = Scratch::new().unwrap();
    let kept = temporary(&scratch).join("run");
    demo(&scratch).args(["--no-watch", "--keep"]).arg(&kept).run().expect_code(0);
    let manifest = Run::open(&kept).unwrap().manifest;
    for name in manifest.environment.keys() {
        assert!(["server.", "device.", "note."].iter().any(|known| name.starts_with(known)), "{name}");
        assert!(!name.ends_with(".pid") && !name.ends_with(".dbpath"), "{name}");
    }
    let words = manifest.command_line.join(" ");
    assert!(words.starts_with("fathom ycsb run mongodb") && !words.contains(" /"), "{words}");
}

#[test]
fn no_place_is_needed_but_one_for_temporary_files() {
    let scratch = Scratch::new().unwrap();
    // A file where the home would be: it cannot be written by anybody, root included.
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
    assert!(
        refused.stderr.contains("mine.html is there already") && refused.stdout.is_empty(),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    // A link to a file is not followed.
    let link = temporary(&scratch).join("link.html");
    std::os::unix::fs::symlink(&mine, &link).unwrap();
    demo(&scratch).args(FAST).arg("--output").arg(&link).run().expect_code(3);
    // One of somebody else in the state folder: the page goes elsewhere.
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
    let until = Instant::now() + Duration::from_secs(100);
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = out.read(&mut buffer) {
        text.extend_from_slice(&buffer[..count]);
        if !is_pressed && String::from_utf8_lossy(&text).contains("goes") {
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
    assert!(text.contains("The page to hand on: "), "{text:?}");
}

#[test]
fn a_key_goes_on_and_ctrl_c_ends_it_with_the_terminal_given_back() {
    let scratch = Scratch::new().unwrap();
    let (text, code) = pressed(on_terminal(&scratch, "--speed 1"), b"q");
    assert_given_back(&text);
    assert_eq!(code, Some(0));
    assert!(text.contains("The page to hand on: "), "{text:?}");
    fs::remove_file(scratch.path().join("state/demo.html")).unwrap();

    let (text, code) = pressed(on_terminal(&scratch, "--speed 1"), &[3]);
    assert_given_back(&text);
    assert_eq!(code, Some(0));
    assert!(!text.contains("The page to hand on: ") && text.contains("Ended."), "{text:?}");
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
    assert!(!output.stdout.contains("The page"), "{}", output.stdout);
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
