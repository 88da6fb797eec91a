//! `fathom report`: the page of a watched load, its numbers beside those of the run folder.

use std::time::Duration;

use fathom_record::Run;
use fathom_record::disk::Entry;
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
    let text = text.split("</pre>").next().unwrap();
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (rows.next().unwrap(), rows.collect())
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-4 * one.abs().max(other.abs())
}

#[test]
fn the_page_says_what_the_folder_holds() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let runs = scratch.path().join("runs");
    let place = url(&server, "shop", "");
    ycsb("load", "workloada", &place, &["recordcount=1000", "--no-record"]).run().expect_code(0);
    let words = ["recordcount=1000", "operationcount=0", "maxexecutiontime=6", "-target 300", "--watch"];
    ycsb("run", "workloada", &place, &words).arg("--runs").arg(&runs).run().expect_code(0);
    let folder = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    fathom(&["report"]).arg(&folder).run().expect_code(0);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    let run = Run::open(&folder).unwrap();

    let results = run.results().unwrap();
    let load =
        results.iter().find_map(|one| if let Entry::Load(it) = one { Some(it) } else { None }).unwrap();
    assert!(page.contains(&format!("{} operations a second", fathom_units::count(load.per_s))));

    let series = run.series().unwrap();
    let (heads, rows) = data(&page, "client-rate");
    let column = heads.iter().position(|head| head == "read").unwrap();
    let shown: f64 = rows.iter().filter_map(|row| row[column].parse::<f64>().ok()).sum();
    let kept: f64 = series.get("client.read.per_s").unwrap().points.iter().map(|point| point.value).sum();
    assert!(close(shown, kept), "{shown} and {kept}");

    let histogram = run.latency("read.service").unwrap();
    let (heads, rows) = data(&page, "percentiles-read");
    let column = heads.iter().position(|head| head == "service").unwrap();
    let tenths = rows.iter().find(|row| row[0] == "1").unwrap();
    let kept = histogram.quantile_ns(0.9).unwrap() as f64 / 1e3;
    assert!(close(tenths[column].parse().unwrap(), kept), "{tenths:?} and {kept}");

    assert!(page.contains("Server 0, all: the client waits"), "it was judged for the page");
    let again = fathom(&["report", "--output", "-"]).arg(&folder).run().expect_code(0);
    assert_eq!(again.stdout.trim_end(), page.trim_end());
    fathom(&["report", "/no/such/run"]).run().expect_code(3);
    let nowhere = fathom(&["report", "--output", "/no/such/place.html"]).arg(&folder).run().expect_code(3);
    assert!(nowhere.stderr.contains("--output"), "{}", nowhere.stderr);
    stop(server);
}
