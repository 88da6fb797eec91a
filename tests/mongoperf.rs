//! Tests `fathom mongoperf` as old scripts call it: it takes their documents, prints the old lines, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fathom_testkit::{
    Fathom, Need, Output, RunningProgram, Scratch, assert, assert_eq, leftovers, skip, test,
};
use rustix::process::Signal;
use serde_json::Value;

const STUDY: &str = "{ nThreads:1024, fileSizeMB:1000, mmf:false, r:true, w:true, syncDelay:60 }\n";
/// Small enough to be laid out at once.
const SMALL: &str = "{nThreads:5,fileSizeMB:16,r:true,w:true}";

fn mongoperf(folder: &Scratch) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).arg("mongoperf").current_dir(folder.path())
}

/// Ends the test as skipped where the folder for tests has no direct I/O.
fn need_direct_io(output: &Output) {
    if output.stderr.contains("has no direct I/O") {
        skip!(Need::Kernel, "{}", output.stderr);
    }
}

/// A run that should succeed; the test ends as skipped where the folder for tests has no direct I/O.
fn succeed(call: Fathom, folder: &Scratch) -> Output {
    let output = call.run();
    need_direct_io(&output);
    assert_eq!(leftovers(&folder.path(), None).unwrap(), Vec::<String>::new());
    output.expect_code(0)
}

/// A run without an end, interrupted once it has printed enough; the test ends as skipped where the folder for tests has no direct I/O.
fn interrupt_after(call: Fathom, folder: &Scratch, is_enough: impl Fn(&RunningProgram) -> bool) -> Output {
    let mut running = call.spawn();
    while !is_enough(&running) {
        if running.has_ended() {
            let output = running.wait();
            need_direct_io(&output);
            panic!("it ended early: {output:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    running.signal(Signal::INT);
    let output = running.wait().expect_code(0);
    assert_eq!(leftovers(&folder.path(), None).unwrap(), Vec::<String>::new());
    output
}

/// Returns whether `line` matches `pattern`, in which each `#` is a whole number.
fn fits(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    for (index, piece) in pattern.split('#').enumerate() {
        if index > 0 {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits == 0 {
                return false;
            }
            rest = rest.get(digits..).unwrap();
        }
        let Some(after) = rest.strip_prefix(piece) else { return false };
        rest = after;
    }
    rest.is_empty()
}

/// The lines with their figures taken out.
fn shape(stdout: &str) -> Vec<&str> {
    let sync = format!("{}mmf sync took # ms", " ".repeat(53));
    let seconds = ["# ops/sec # MB/sec", "# ops/sec "];
    let known = |line| {
        if fits(line, &sync) {
            return "sync";
        }
        seconds.into_iter().find(|pattern| fits(line, pattern)).unwrap_or(line)
    };
    stdout.lines().map(known).collect()
}

#[test]
fn the_study_document_gives_the_old_lines() {
    let folder = Scratch::new().unwrap();
    let echo = "{ nThreads: 1024, fileSizeMB: 1000, mmf: false, r: true, w: true, syncDelay: 60 }";
    let expected = [
        "mongoperf",
        "use -h for help",
        "parsed options:",
        echo,
        "creating test file size:1000MB ...",
        "testing...",
        &format!("options:{echo}"),
        "wthr 1024",
        "new thread, total running : 1",
        "read:1 write:1",
        "# ops/sec # MB/sec",
        "new thread, total running : 2",
        "read:1 write:1",
        "# ops/sec # MB/sec",
    ];
    let call = mongoperf(&folder).args(["--step", "1"]).stdin(STUDY);
    let is_enough = |running: &RunningProgram| running.stdout().lines().count() >= expected.len();
    let output = interrupt_after(call, &folder, is_enough);
    assert_eq!(shape(&output.stdout)[..expected.len()], expected);
}

#[test]
fn megabytes_are_those_of_the_record_size() {
    let folder = Scratch::new().unwrap();
    let document = "{nThreads:2,fileSizeMB:32,r:true,w:true,recSizeKB:64}";
    let call = mongoperf(&folder).stdin(document);
    let rates = |stdout: &str| -> Vec<(u64, u64)> {
        let lines = stdout.lines().filter(|line| line.contains("ops/sec"));
        let numbers = |line: &str| line.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
        lines.map(numbers).map(|numbers| (numbers[0], numbers[1])).collect()
    };
    let is_enough =
        |running: &RunningProgram| rates(&running.stdout()).iter().filter(|(ops, _)| *ops > 0).count() >= 2;
    let output = interrupt_after(call, &folder, is_enough);
    for (ops, mb) in rates(&output.stdout) {
        assert_eq!(mb, ops * 64 / 1024, "{}", output.stdout);
    }
}

#[test]
fn a_mapped_run_tells_its_syncs() {
    let folder = Scratch::new().unwrap();
    let document = "{nThreads:2,fileSizeMB:16,mmf:1,r:1,w:1,recSizeKB:10,syncDelay:1}";
    let count = |stdout: &str, wanted: &str| shape(stdout).iter().filter(|line| **line == wanted).count();
    let is_enough = |running: &RunningProgram| {
        let stdout = running.stdout();
        count(&stdout, "# ops/sec ") >= 3 && count(&stdout, "sync") >= 2
    };
    let output = interrupt_after(mongoperf(&folder).stdin(document), &folder, is_enough);
    assert_eq!(count(&output.stdout, "# ops/sec # MB/sec"), 0, "{}", output.stdout);
}

#[test]
fn documents_in_every_old_form_are_taken() {
    let long = format!("// {}\n{SMALL}", "my disk ".repeat(250));
    assert!(long.len() > 2000);
    let forms = [
        "{nThreads:5,fileSizeMB:1,r:true,w:true,}\n\n\n".to_owned(),
        "/* a } in a comment */ { 'nThreads' : 5.0, \"r\" : 1, w : true } // done".to_owned(),
        "\u{feff}{\r\n\tnThreads: NumberInt(5),\r\n\tr: true,\r\n\tw: true\r\n};\r\n\u{1a}".to_owned(),
        long,
    ];
    // All run at the same time.
    let running = forms.map(|form| {
        let folder = Scratch::new().unwrap();
        let call = mongoperf(&folder).args(["--seconds", "1"]);
        let call = if form.starts_with("//") {
            fs::write(folder.path().join("settings.js"), form).unwrap();
            call.arg("settings.js").stdin("not read")
        } else {
            call.stdin(form)
        };
        (call.spawn(), folder)
    });
    for (running, folder) in running {
        let output = running.wait();
        need_direct_io(&output);
        assert_eq!(leftovers(&folder.path(), None).unwrap(), Vec::<String>::new());
        let output = output.expect_code(0);
        assert!(output.stdout.contains("wthr 5\n"), "{}", output.stdout);
    }
}

#[test]
fn an_unknown_field_is_a_warning_and_stdout_stays_clean() {
    let folder = Scratch::new().unwrap();
    let document = "{NTHREADS:9,create:false,r:true} and more";
    let call = mongoperf(&folder).args(["--step", "3600", "--percentiles"]).stdin(document);
    let is_enough = |running: &RunningProgram| {
        running.stderr().contains("1 thread: read ") && running.stdout().contains("MB/sec")
    };
    let output = interrupt_after(call, &folder, is_enough);
    for word in ["did you mean nThreads?", "'create'", "\"and more\""] {
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
    }
    let (last, first) = (shape(&output.stdout).pop().unwrap(), output.stdout.lines().next().unwrap());
    assert_eq!((first, last), ("mongoperf", "# ops/sec # MB/sec"));
    assert!(!output.stdout.contains("p99"));
}

#[test]
fn json_is_one_document_with_everything_apart() {
    let folder = Scratch::new().unwrap();
    let document = "{nThreads:2,fileSizeMB:16,r:true,w:true}";
    let call = || mongoperf(&folder).args(["--step", "1", "--json", "--percentiles"]).stdin(document);
    check_json(&succeed(call().args(["--seconds", "2"]), &folder).json(), "complete");

    let is_busy = |line: &str| line.starts_with("2 threads: read ") && line.contains("; durable ");
    let output = interrupt_after(call(), &folder, |running| running.stderr().lines().any(is_busy));
    let json = output.json();
    check_json(&json, "interrupted");
    let seconds = json["seconds"].as_array().unwrap();
    assert_eq!((seconds[0]["threads"].as_u64(), seconds[1]["threads"].as_u64()), (Some(1), Some(2)));
    assert_eq!(json["steps"].as_array().unwrap().len(), 2);
    let names = |second: &Value| -> Vec<String> {
        let kinds = second["operations"].as_array().unwrap();
        kinds.iter().map(|kind| kind["kind"].as_str().unwrap().to_owned()).collect()
    };
    let all = ["read", "write", "sync", "durable"];
    assert!(seconds.iter().any(|second| names(second) == all), "{json}");
}

/// Checks the figures of each second against each other.
fn check_json(json: &Value, state: &str) {
    assert_eq!((json["schema"].as_u64(), json["state"].as_str()), (Some(1), Some(state)));
    assert_eq!(json["options"]["record_bytes"], 4096);
    let seconds = json["seconds"].as_array().unwrap();
    assert!(!seconds.is_empty());
    for second in seconds {
        let kinds = second["operations"].as_array().unwrap();
        let count = |name: &str| {
            let kind = kinds.iter().find(|kind| kind["kind"] == name);
            kind.map_or(0, |kind| kind["count"].as_u64().unwrap())
        };
        assert_eq!((count("sync"), count("durable")), (count("write"), count("write")), "{second}");
        let (ops, mib) = (second["ops_per_s"].as_f64().unwrap(), second["mib_per_s"].as_f64().unwrap());
        assert!((mib - ops * 4096.0 / 1048576.0).abs() <= 1e-6 * ops);
        let ended = (count("read") + count("write")) as f64 / second["length_s"].as_f64().unwrap();
        assert!((ops - ended).abs() <= 1e-6 * ops);
    }
}

#[test]
fn bad_documents_are_one_sentence_and_exit_code_2() {
    let folder = Scratch::new().unwrap();
    let big = " ".repeat((1 << 20) + 1);
    let bad: [(&[u8], &str); 14] = [
        (b"", "there is no document of options"),
        (b"\n \n", "there is no document of options"),
        (b"nThreads=16", "begins with"),
        (b"{nThreads:16", "has no end"),
        (b"{nThreads:16 r:true}", "is not JSON"),
        (b"{nThreads:16,r:tru}", "is not JSON"),
        (b"{nThreads:0,r:true}", "nThreads is 0"),
        (b"{nThreads:-1,r:true}", "nThreads is -1"),
        (b"{nThreads:1e9,r:true}", "nThreads is 1"),
        (b"{nThreads:'16',r:true}", "nThreads is a text"),
        (b"{nThreads:16}", "neither r nor w"),
        (b"{r:true,recSizeKB:8000}", "does not fit into a file"),
        (b"{r:true} \xff", "not UTF-8 text"),
        (big.as_bytes(), "larger than 1 MiB"),
    ];
    for (document, word) in bad {
        let output = mongoperf(&folder).stdin(document).run().expect_code(2);
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
        assert_eq!((output.stderr.lines().count(), output.stdout.as_str()), (1, ""), "{}", output.stderr);
    }
    for arguments in [["--seconds", "0"], ["--seconds", "x"], ["--step", "0"]] {
        mongoperf(&folder).args(arguments).stdin(SMALL).run().expect_code(2);
    }
    assert_eq!(leftovers(&folder.path(), None).unwrap(), Vec::<String>::new());
}

#[test]
fn what_the_environment_lacks_is_one_sentence_and_exit_code_3() {
    let folder = Scratch::new().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("fathom-probe.dat"), "precious").unwrap();
    let cases: [(&[&str], &str, &str); 6] = [
        (&["--dir", "missing"], SMALL, "missing"),
        (&["missing.js"], SMALL, "missing.js"),
        (&["--dir", "theirs/fathom-probe.dat"], SMALL, "is a file"),
        (&["--dir", "theirs"], SMALL, "was not made by Fathom"),
        (&[], "{r:true,fileSizeMB:500000000}", "does not fit"),
        (&[], "{nThreads:16384,r:true,recSizeKB:64000,fileSizeMB:70}", "buffers of 62.5 MiB"),
    ];
    for (arguments, document, word) in cases {
        let output = mongoperf(&folder).args(arguments).stdin(document).run().expect_code(3);
        assert!(output.stderr.contains(word), "{word}: {}", output.stderr);
        assert_eq!((output.stderr.lines().count(), output.stdout.as_str()), (1, ""), "{}", output.stderr);
    }
    assert_eq!(fs::read_to_string(theirs.join("fathom-probe.dat")).unwrap(), "precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Sends a signal at a moment, and checks the end; an error where the folder for tests has no direct I/O or no room.
fn interrupt(document: &str, signal: Signal, moment: &str) -> Result<(), String> {
    let folder = Scratch::new().unwrap();
    let mut running = mongoperf(&folder).stdin(document).spawn();
    if !running.wait_for_stdout(moment) {
        let output = running.wait();
        let excused = ["has no direct I/O", "does not fit"];
        assert!(excused.iter().any(|why| output.stderr.contains(why)), "{output:?}");
        return Err(output.stderr);
    }
    let pid = running.pid();
    running.signal(signal);
    let output = running.wait().expect_code(0);
    assert!(!output.stderr.contains("fathom:"), "{}", output.stderr);
    assert_eq!(leftovers(&folder.path(), Some(pid)).unwrap(), Vec::<String>::new(), "{moment}");
    Ok(())
}

#[test]
fn ctrl_c_ends_it_at_any_moment_and_leaves_nothing() {
    let large = "{nThreads:64,fileSizeMB:4000,r:true,w:true}";
    let mapped = "{nThreads:64,fileSizeMB:64,mmf:true,w:true,syncDelay:3600,sleepMicros:3600000000}";
    let moments = [
        (SMALL, Signal::INT, "MB/sec"),
        (SMALL, Signal::TERM, "new thread"),
        (large, Signal::INT, "creating test file"),
        (mapped, Signal::TERM, "mmf sync took"),
    ];
    // All at the same time; a machine that does not reach one of the moments skips after the others were checked.
    let lacks = thread::scope(|scope| {
        let interrupted = |moment: &(&'static str, Signal, &'static str)| {
            let (document, signal, moment) = *moment;
            scope.spawn(move || interrupt(document, signal, moment).err())
        };
        let threads: Vec<_> = moments.iter().map(interrupted).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    if let Some(why) = lacks.first() {
        skip!(Need::Disk, "{} of {} moments: {why}", lacks.len(), moments.len());
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let folder = Scratch::new().unwrap();
    let mut running = mongoperf(&folder).stdin("{r:true,fileSizeMB:16}").spawn();
    if !running.wait_for_stdout("testing...") {
        let output = running.wait();
        need_direct_io(&output);
        panic!("it ended early: {output:?}");
    }
    running.close_stdout();
    let output = running.wait().expect_code(0);
    assert!(!output.stderr.contains("fathom:"), "{}", output.stderr);
    assert_eq!(leftovers(&folder.path(), None).unwrap(), Vec::<String>::new());
}

#[test]
fn a_terminal_without_a_document_gets_an_explanation() {
    if !Path::new("/usr/bin/script").exists() {
        skip!(Need::Program, "no script(1) to make a terminal");
    }
    let command = format!("{} mongoperf", env!("CARGO_BIN_EXE_fathom"));
    let output = Fathom::new("/usr/bin/script").args(["-qec", &command, "/dev/null"]).run();
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.stdout.contains("standard input is a terminal"), "{}", output.stdout);
}

#[test]
fn help_begins_its_examples_with_the_study() {
    let folder = Scratch::new().unwrap();
    let output = mongoperf(&folder).arg("-h").run().expect_code(0);
    let examples = output.stdout.split("EXAMPLES:").nth(1).unwrap();
    assert!(examples.trim_start().starts_with("fathom mongoperf <<EOF"), "{examples}");
    assert!(examples.contains(STUDY.trim()), "{examples}");
}

/// Seconds of a real machine; `mongoperf::simulation_tests` of fathom-probe has them exactly.
mod timed {
    use fathom_testkit::{assert, assert_eq, test};

    use super::*;

    #[test]
    fn a_mapped_run_tells_its_syncs() {
        let folder = Scratch::new().unwrap();
        let document = "{nThreads:2,fileSizeMB:16,mmf:1,r:1,w:1,recSizeKB:10,syncDelay:1}";
        let call = mongoperf(&folder).args(["--seconds", "3"]).stdin(document);
        let output = succeed(call, &folder);
        let shape = shape(&output.stdout);
        let count = |wanted| shape.iter().filter(|line| **line == wanted).count();
        assert_eq!(count("# ops/sec "), 3, "{}", output.stdout);
        assert!((2..=4).contains(&count("sync")), "{}", output.stdout);
        assert_eq!(count("# ops/sec # MB/sec"), 0);
    }
}

mod proof {
    use super::*;
    use fathom_testkit::{assert_eq, test};

    #[test]
    fn threads_double_every_eight_seconds_unless_said() {
        let folder = Scratch::new().unwrap();
        let call = mongoperf(&folder).args(["--seconds", "5", "--step=1"]).stdin(SMALL);
        let output = succeed(call, &folder);
        let news = output.stdout.lines().filter_map(|line| line.strip_prefix("new thread, total running : "));
        assert_eq!(news.collect::<Vec<_>>(), ["1", "2", "4", "5"]);
        assert_eq!(output.stdout.matches("MB/sec").count(), 5);

        let call = mongoperf(&folder).args(["--seconds", "9"]).stdin(SMALL);
        let output = succeed(call, &folder);
        let shape = shape(&output.stdout);
        let second = shape.iter().position(|line| *line == "new thread, total running : 2").unwrap();
        assert_eq!(shape[..second].iter().filter(|line| line.ends_with("MB/sec")).count(), 8);
        assert_eq!(shape[second..].iter().filter(|line| line.ends_with("MB/sec")).count(), 1);
    }
}
