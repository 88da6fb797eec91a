//! Tests `fathom report`: the page of a watched load, whose numbers are compared with those of the run folder, and pages of studies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_record::disk::Entry;
use fathom_record::{Manifest, Run, RunWriter, State};
use fathom_testkit::{Fathom, Scratch};

use crate::clients::{WIRED_TIGER, serve, stop};
use crate::ycsb::{url, ycsb};

fn fathom(arguments: &[&str]) -> Fathom {
    Fathom::new(env!("CARGO_BIN_EXE_fathom")).args(arguments).limit(Duration::from_secs(120))
}

/// The data of a chart: its heads, and its rows as text.
fn data(page: &str, id: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let from =
        page.find(&format!("<figure class=\"chart\" id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}"));
    let text = page[from..].split("<pre class=\"csv\" tabindex=\"0\">").nth(1).unwrap();
    let text = text.split("</pre>").next().unwrap().replace("&#x2f;", "/");
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (rows.next().unwrap(), rows.collect())
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-4 * one.abs().max(other.abs())
}

/// The run folder of a study, as in its fixture.
pub(crate) fn study(place: &Path) -> PathBuf {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/studies/file-systems.json");
    let entry: Entry = serde_json::from_str(&std::fs::read_to_string(fixture).unwrap()).unwrap();
    let words = ["fathom", "compare", "xfs-against-ext4.yaml", "--quick"].map(str::to_owned);
    let mut run = RunWriter::create(place, Manifest::new("compare", "0.1.0", words)).unwrap();
    run.amend(|manifest| drop(manifest.environment.insert("kernel".to_owned(), "6.18".to_owned()))).unwrap();
    run.result(&entry).unwrap();
    run.finish(State::Complete, None).unwrap()
}

#[test]
fn studies_are_shown_listed_and_laid_beside_each_other() {
    let scratch = Scratch::new().unwrap();
    let place = scratch.path().join("runs");
    let (one, two) = (study(&place), study(&place));
    let told = fathom(&["report"]).arg(&one).run().expect_code(0).stdout;
    let address = format!("Page: file://{}", one.join("report.html").display());
    assert!(told.starts_with("1.06 times (xfs-against-ext4"), "{told}");
    assert_eq!(told.lines().last(), Some(address.as_str()));
    let page = std::fs::read_to_string(one.join("report.html")).unwrap();
    assert!(page.contains("Of 5 comparisons: 1 better, 2 worse, 1 too small, 1 cannot tell."));
    let (heads, rows) = data(&page, "forest-primary-0");
    assert_eq!((heads[2].as_str(), rows.len()), ("effect (times)", 4));
    let list = fathom(&["runs", "--runs"]).arg(&place).run().expect_code(0);
    assert!(
        list.stdout.contains("1.06 times (xfs-against-ext4: throughput, file system xfs"),
        "{}",
        list.stdout
    );
    fathom(&["report"]).arg(&one).arg(&two).run().expect_code(0);
    let name = one.file_name().unwrap().to_string_lossy();
    let pair = std::fs::read_to_string(two.join(format!("report-with-{name}.html"))).unwrap();
    assert!(pair.contains("level over baseline") && pair.contains("xfs-against-ext4: ext4, uncapped, 1"));
    let diff = fathom(&["runs", "diff"]).arg(&one).arg(&two).run().expect_code(0);
    assert!(diff.stdout.contains("level over baseline"), "{}", diff.stdout);
}

#[test]
fn the_page_says_what_the_folder_holds() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let runs = scratch.path().join("runs");
    let place = url(&server, "shop", "");
    ycsb("load", "workloada", &place, &["recordcount=1000", "--no-record"]).run().expect_code(0);
    let words = ["recordcount=1000", "operationcount=0", "maxexecutiontime=6", "-target 300", "--watch"];
    let load = ycsb("run", "workloada", &place, &words).arg("--runs").arg(&runs).run().expect_code(0);
    let folder = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    a_page_is_made_and_said_where(&folder, &load.stderr);
    names_are_left_out(&folder, &format!("127.0.0.1:{}", server.port()));
    fathom(&["report"]).arg(&folder).run().expect_code(0);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    let run = Run::open(&folder).unwrap();

    let results = run.results().unwrap();
    let load =
        results.iter().find_map(|one| if let Entry::Load(it) = one { Some(it) } else { None }).unwrap();
    assert!(page.contains(&format!("{} operations a second", fathom_units::count(load.per_s))));

    let series = run.series().unwrap();
    let (heads, rows) = data(&page, "client-rate");
    let column = heads.iter().position(|head| head == "read (1/s)").unwrap();
    let shown: f64 = rows.iter().filter_map(|row| row[column].parse::<f64>().ok()).sum();
    let kept: f64 = series.get("client.read.per_s").unwrap().points.iter().map(|point| point.value).sum();
    assert!(close(shown, kept), "{shown} and {kept}");

    let histogram = run.latency("read.service").unwrap();
    let (heads, rows) = data(&page, "percentiles-read");
    let column = heads.iter().position(|head| head == "service (µs)").unwrap();
    let tenths = rows.iter().find(|row| row[0] == "1").unwrap();
    let kept = histogram.quantile_ns(0.9).unwrap() as f64 / 1e3;
    assert!(close(tenths[column].parse().unwrap(), kept), "{tenths:?} and {kept}");

    // Each operation is in one cell of the heat map, in the second in which it ended.
    let (heads, rows) = data(&page, "heat-read");
    assert_eq!(heads, ["from second", "to second", "from µs", "to µs", "operations"]);
    let cells: u64 = rows.iter().map(|row| row[4].parse::<u64>().unwrap()).sum();
    assert_eq!(cells, run.latency("read.response").unwrap().len());

    assert!(page.contains("Server 0, all: the client waits"), "it was judged for the page");
    let again = fathom(&["report", "--output", "-"]).arg(&folder).run().expect_code(0);
    assert_eq!(again.stdout.trim_end(), page.trim_end());
    fathom(&["report", "/no/such/run"]).run().expect_code(3);
    let nowhere = fathom(&["report", "--output", "/no/such/place.html"]).arg(&folder).run().expect_code(3);
    assert!(nowhere.stderr.contains("--output"), "{}", nowhere.stderr);
    stop(server);
}

/// A page replaced whatever had its name, also a device: root's `--output /dev/null` would have removed it.
#[test]
fn a_page_replaces_pages_only() {
    let scratch = Scratch::new().unwrap();
    let folder = study(&scratch.path().join("runs"));
    let report = |file: &Path| fathom(&["report", "--output"]).arg(file).arg(&folder).run();
    let file = scratch.path().join("page.html");
    std::fs::write(&file, "notes").unwrap();
    let refused = report(&file).expect_code(3);
    assert!(refused.stderr.contains("is not a page of Fathom"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes");
    let socket = scratch.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let refused = report(&socket).expect_code(3);
    assert!(refused.stderr.contains("is not a file") && !socket.is_file(), "{}", refused.stderr);
    std::fs::write(&file, "").unwrap();
    let link = scratch.path().join("link.html");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for file in [&file, &file, &link] {
        report(file).expect_code(0);
    }
    assert!(link.is_symlink() && std::fs::read_to_string(&file).unwrap().contains("</html>"));
}

/// Checks that a page is made without a second command, unless that is not wanted.
fn a_page_is_made_and_said_where(folder: &Path, told: &str) {
    let file = folder.join("report.html");
    let line = format!("Page: file://{}", file.display());
    assert!(told.lines().any(|one| one == line), "{told}");
    for (words, is_made) in [(&["--no-report"][..], false), (&["--json"], false), (&[], true)] {
        std::fs::remove_file(&file).unwrap_or_default();
        let explained = fathom(&["explain"]).args(words).arg(folder).run();
        assert!(matches!(explained.code, 0 | 1 | 4), "{explained:?}");
        assert_eq!(file.exists(), is_made, "{words:?}");
        assert_eq!(
            explained.stdout.lines().last() == Some(&line),
            is_made,
            "{words:?}: {}",
            explained.stdout
        );
    }
    // Without a desktop no page is opened, and opening requires a page that is made.
    let open = fathom(&["explain", "--open"]).env("DISPLAY", "").env("WAYLAND_DISPLAY", "").arg(folder).run();
    assert!(open.stderr.contains("not opened: there is no desktop here"), "{}", open.stderr);
    for words in [&["--open", "--json"][..], &["--redact", "--json"], &["--open", "--no-report"]] {
        fathom(&["explain"]).args(words).arg(folder).run().expect_code(2);
    }
    let load =
        fathom(&["ycsb", "run", "mongodb", "--open", "-p", "workload=CoreWorkload"]).run().expect_code(2);
    assert!(load.stderr.contains("a load without --watch makes none"), "{}", load.stderr);
}

fn names_are_left_out(folder: &Path, server: &str) {
    let page = |words: &[&str]| {
        fathom(&["report", "--output", "-"]).args(words).arg(folder).run().expect_code(0).stdout
    };
    let (whole, redacted) = (page(&[]), page(&["--redact"]));
    for name in [server, "shop"] {
        assert!(whole.contains(name) && !redacted.contains(name), "{name}");
    }
    assert!(
        redacted.contains("mongodb:&#x2f;&#x2f;[host 1]"),
        "the command line says that there was a server"
    );
    assert_eq!(data(&whole, "client-rate"), data(&redacted, "client-rate"), "figures stay");
}

/// The rows of the table of figures: subject, figure, A, B, B / A.
fn figures(page: &str) -> Vec<Vec<String>> {
    let table = page.split("id=\"figures\"").nth(1).unwrap().split("</table>").next().unwrap();
    let cells = |row: &str| {
        let parts = row.split("</t").map(|cell| cell.rsplit('>').next().unwrap().replace("&#x2f;", "/"));
        parts.collect::<Vec<String>>()
    };
    table.split("<tr class=").skip(1).map(cells).collect()
}

#[test]
fn two_runs_stand_side_by_side() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let runs = scratch.path().join("runs");
    let place = url(&server, "shop", "");
    ycsb("load", "workloada", &place, &["recordcount=1000", "--no-record"]).run().expect_code(0);
    for _ in 0..2 {
        let words = ["recordcount=1000", "operationcount=0", "maxexecutiontime=3", "-target 200", "--watch"];
        ycsb("run", "workloada", &place, &words).arg("--runs").arg(&runs).run().expect_code(0);
    }
    stop(server);
    let mut folders: Vec<_> = std::fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let [a, b] = folders.as_slice() else { panic!("{folders:?}") };
    let told = fathom(&["report"]).arg(a).arg(b).run().expect_code(0);
    let name = format!("report-with-{}.html", a.file_name().unwrap().to_str().unwrap());
    assert_eq!(told.stdout.trim_end(), format!("Page: file://{}", b.join(&name).display()));
    let page = std::fs::read_to_string(b.join(&name)).unwrap();

    let per_s = |folder: &std::path::PathBuf| {
        let results = Run::open(folder).unwrap().results().unwrap();
        let load =
            results.iter().find_map(|one| if let Entry::Load(it) = one { Some(it.per_s) } else { None });
        load.unwrap()
    };
    let rows = figures(&page);
    let (of_a, of_b) = (per_s(a), per_s(b));
    let shown = |value: f64| format!("{}/s", fathom_units::decimal(value));
    let found = rows.iter().any(|row| row[2] == shown(of_a) && row[3] == shown(of_b));
    assert!(found, "{of_a} and {of_b} in {rows:#?}");

    let (heads, rows) = data(&page, "client-rate");
    for (folder, head) in [(a, "A: read (1/s)"), (b, "B: read (1/s)")] {
        let column =
            heads.iter().position(|one| one == head).unwrap_or_else(|| panic!("{head} in {heads:?}"));
        let shown: f64 = rows.iter().filter_map(|row| row[column].parse::<f64>().ok()).sum();
        let series = Run::open(folder).unwrap().series().unwrap();
        let kept: f64 = series.get("client.read.per_s").unwrap().points.iter().map(|point| point.value).sum();
        assert!(close(shown, kept), "{head}: {shown} and {kept}");
    }
    assert!(page.contains("prove no cause"), "what two runs can say");
    for id in ["heat-read-a", "heat-read-b"] {
        data(&page, id);
    }
    fathom(&["report"]).arg(a).arg(scratch.path()).run().expect_code(3);
}
