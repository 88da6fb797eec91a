//! Tests `fathom ycsb run`: the workloads of the repository, the report in each of its forms, and the options of a run.

use std::time::{Duration, Instant};

use bson::doc;
use fathom_testkit::{Fathom, LabServer, Output, Scratch, TIMEOUT};

use crate::clients::{ROCKSDB, WIRED_TIGER, serve, stop};
use crate::ycsb::{complaint, key, report, table, url, workload, ycsb};

/// Each workload with the operations that it has; those of a read-modify-write are counted as its parts.
const WORKLOADS: [(&str, &[&str]); 11] = [
    ("workloada", &["READ", "UPDATE"]),
    ("workloadb", &["READ", "UPDATE"]),
    ("workloadc", &["READ"]),
    ("workloadd", &["READ", "INSERT"]),
    ("workloade", &["SCAN", "INSERT"]),
    ("workloadf", &["READ", "UPDATE"]),
    ("s1", &["INSERT"]),
    ("s2", &["READ", "UPDATE"]),
    ("s3", &["READ", "INSERT", "UPDATE"]),
    ("s4", &["READ", "INSERT", "UPDATE"]),
    ("s5", &["READ"]),
];

fn each_workload(engine: &str) {
    let scratch = Scratch::new().unwrap();
    let server = serve(engine, &scratch, &[]);
    for (name, operations) in WORKLOADS {
        let url = url(&server, name, "");
        let words = ["recordcount=200", "operationcount=600", "-threads 5", "--no-record"];
        let loaded = ycsb("load", name, &url, &words).run().expect_code(0);
        assert_eq!(report(&loaded).all_returned(), 200, "{name}");
        let output = ycsb("run", name, &url, &words).run().expect_code(0);
        assert_eq!(complaint(&output), None, "{name}: {}", output.stderr);
        let report = report(&output);
        let counts: Vec<u64> = operations.iter().map(|one| report.returned(one, "OK")).collect();
        assert_eq!(report.all_returned(), counts.iter().sum::<u64>(), "{name}: {report:?}");
        assert!(counts.iter().all(|count| *count > 0), "{name}: {counts:?}");
        let whole = match report.get("READ-MODIFY-WRITE", "Operations") {
            // Each of these is one operation and counts as a read and as an update.
            Some(both) => {
                assert_eq!((name, both.parse::<u64>().unwrap()), ("workloadf", counts[1]));
                counts[0]
            }
            None => counts.iter().sum(),
        };
        assert_eq!(whole, 600, "{name}");
        let run_time = report.number("OVERALL", "RunTime(ms)");
        let rate = report.number("OVERALL", "Throughput(ops/sec)");
        assert!((rate * run_time / 1000.0 - 600.0).abs() < 1e-6, "{name}: {rate} in {run_time}");
    }
    stop(server);
}

#[test]
fn each_workload_on_wired_tiger() {
    each_workload(WIRED_TIGER);
}

#[test]
fn each_workload_on_rocksdb() {
    each_workload(ROCKSDB);
}

/// A server with loaded records in the database `y`.
pub(crate) fn loaded(scratch: &Scratch, records: u64, flags: &[&str]) -> LabServer {
    let server = serve(WIRED_TIGER, scratch, flags);
    let count = format!("recordcount={records}");
    ycsb("load", "workloada", &url(&server, "y", ""), &[&count, "--no-record", "-threads 4"])
        .run()
        .expect_code(0);
    server
}

/// Returns whether a line is YCSB's status line: the words that wrappers look for.
fn is_status(line: &str, label: &str) -> bool {
    let Some(line) = line.strip_prefix(label) else { return false };
    let words: Vec<&str> = line.split(' ').collect();
    let time = |text: &str| text.split(':').map(str::len).eq([2, 2, 2, 3]);
    words.len() > 5
        && words[0].len() == 10
        && time(words[1])
        && words[3] == "sec:"
        && words[5] == "operations;"
}

#[test]
fn both_launch_forms_and_status_lines() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let url = url(&server, "y", "");
    let words =
        ["recordcount=100", "--no-record", "-s", "-l run1 ", "status.interval=1", "maxexecutiontime=2"];
    // The label's blank is kept, as YCSB glues it on.
    let mut call =
        ycsb("run", "workloadb", &url, &words[..3]).args(["-l", words[3].trim_start_matches("-l ")]);
    call = call.args(["-p", words[4], "-p", words[5], "-p", "operationcount=0", "-target", "300"]);
    let output = call.run().expect_code(0);
    let lines: Vec<&str> = output.stderr.lines().filter(|line| is_status(line, "run1 ")).collect();
    // Those of two seconds are 0.8 s apart or more.
    let most = 2 + (report(&output).number("OVERALL", "RunTime(ms)") / 800.0) as usize;
    assert!((3..=most).contains(&lines.len()), "at the start, each second, at the end: {}", output.stderr);
    assert!(lines[0].contains(" 0 sec: 0 operations; "), "{}", lines[0]);
    let mut later = lines[1..].iter();
    let is_busy = |line: &&str| line.contains(" current ops/sec; ") && line.contains("[READ: Count=");
    assert!(later.any(is_busy), "{}", output.stderr);

    for class in ["site.ycsb.db.MongoDbClient", "com.yahoo.ycsb.db.MongoDbClient"] {
        let direct = |phase: &str| {
            Fathom::new(env!("CARGO_BIN_EXE_fathom"))
                .args(["ycsb", phase, "-db", class, "-P"])
                .arg(workload("workloadb"))
                .args(["-p", &url, "-p", "recordcount=50", "-p", "operationcount=77", "--no-record"])
                .args(["-p", &format!("table={}", class.replace('.', "_")), "-threads", "2"])
                .run()
                .expect_code(0)
        };
        assert_eq!(report(&direct("-load")).returned("INSERT", "OK"), 50);
        assert_eq!(report(&direct("-t")).all_returned(), 77);
    }
    stop(server);
}

#[test]
fn reports_in_all_their_forms() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let url = url(&server, "y", "");
    let words = ["recordcount=100", "operationcount=100", "--no-record"];
    let run = |more: &[&str]| ycsb("run", "workloada", &url, &[&words, more].concat()).run().expect_code(0);

    let file = scratch.path().join("report");
    let to_file = run(&[&format!("exportfile={}", file.display())]);
    assert!(!to_file.stdout.contains("[OVERALL]"), "{}", to_file.stdout);
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(crate::ycsb::Report::from_text(&text).all_returned(), 100);
    // Standard output is for the document, and the files are written as well: they were empty.
    std::fs::remove_file(&file).unwrap();
    let points = scratch.path().join("points");
    let files = [
        format!("exportfile={}", file.display()),
        format!("measurement.raw.output_file={}", points.display()),
        "measurementtype=raw".to_owned(),
        "--json".to_owned(),
    ];
    let document = run(&files.each_ref().map(String::as_str)).stdout;
    assert!(serde_json::from_str::<serde_json::Value>(&document).unwrap()["parts"].is_array(), "{document}");
    let written = crate::ycsb::Report::from_text(&std::fs::read_to_string(&file).unwrap());
    let operations = ["READ", "UPDATE"].map(|name| written.number(name, "Total Operations"));
    assert_eq!(operations.iter().sum::<f64>(), 100.0);
    assert!(std::fs::read_to_string(&points).unwrap().lines().count() > 100);

    let array = run(&["exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter"]);
    let start = array.stdout.find('[').unwrap();
    let list: serde_json::Value = serde_json::from_str(&array.stdout[start..]).unwrap();
    assert_eq!(
        (list[0]["metric"].as_str(), list[0]["measurement"].as_str()),
        (Some("OVERALL"), Some("RunTime(ms)"))
    );
    let objects = run(&["exporter=com.yahoo.ycsb.measurements.exporter.JSONMeasurementsExporter"]);
    let start = objects.stdout.find('{').unwrap();
    let stream =
        serde_json::Deserializer::from_str(&objects.stdout[start..]).into_iter::<serde_json::Value>();
    assert!(stream.map(Result::unwrap).any(|one| one["measurement"] == "Return=OK"));

    let both = report(&run(&["measurement.interval=both"]));
    assert_eq!(both.get("READ", "Operations"), both.get("Intended-READ", "Operations"));
    let percentiles = report(&run(&["hdrhistogram.percentiles=50,99.9"]));
    assert!(percentiles.get("READ", "99.9PercentileLatency(us)").is_some());
    assert!(percentiles.get("READ", "95thPercentileLatency(us)").is_none());
    let buckets = report(&run(&["measurementtype=histogram"]));
    assert!(buckets.number("READ", "95thPercentileLatency(us)") % 1000.0 == 0.0);
    let series = report(&run(&["measurementtype=timeseries", "timeseries.granularity=3600000"]));
    assert!(series.number("READ", "0") > 0.0, "{series:?}");
    stop(server);
}

#[test]
fn each_latency_by_itself_and_logs_of_histograms() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let url = url(&server, "y", "");
    let points = scratch.path().join("points");
    let logs = scratch.path().join("log-");
    let words = [
        "recordcount=100".to_owned(),
        "operationcount=200".to_owned(),
        "--no-record".to_owned(),
        "measurementtype=raw".to_owned(),
        format!("measurement.raw.output_file={}", points.display()),
        "hdrhistogram.fileoutput=true".to_owned(),
        format!("hdrhistogram.output.path={}", logs.display()),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = ycsb("run", "workloada", &url, &words).run().expect_code(0);
    let all = report(&output);
    assert_eq!(all.number("READ", "Total Operations") + all.number("UPDATE", "Total Operations"), 200.0);
    let points = std::fs::read_to_string(&points).unwrap();
    let rows = points.lines().filter(|line| line.starts_with("READ,") || line.starts_with("UPDATE,"));
    assert_eq!(rows.count(), 200, "{points}");
    assert_eq!(all.number("CLEANUP", "Total Operations"), 1.0, "{}", output.stdout);
    let summary = "[READ], Below is a summary of latency in microseconds:, -1\n[READ], Average, ";
    assert!(output.stdout.contains(summary), "{}", output.stdout);
    let log_of = |name: &str| std::fs::read_to_string(format!("{}{name}.hdr", logs.display())).unwrap();
    for name in ["READ", "UPDATE", "CLEANUP"] {
        assert!(log_of(name).contains("HISTFAAAA"), "{}", log_of(name));
    }
    // Records that are missing, a file of points that is continued, and logs that replace those of the run before.
    let more = [words, vec!["recordcount=9000", "readproportion=1", "updateproportion=0"]].concat();
    let missing = report(&ycsb("run", "workloada", &url, &more).run().expect_code(1));
    assert!(missing.number("READ-FAILED", "Total Operations") > 100.0, "{missing:?}");
    assert!(log_of("READ-FAILED").contains("HISTFAAAA"));
    assert_eq!(log_of("CLEANUP").matches("#[StartTime:").count(), 1);
    let continued = std::fs::read_to_string(scratch.path().join("points")).unwrap();
    assert!(continued.starts_with(&points) && continued.contains("\nREAD-FAILED,"), "{continued}");
    stop(server);
}

#[test]
fn scans_have_a_latency_for_each_record_and_connections_an_end() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 300, &[]);
    let words =
        ["recordcount=300", "operationcount=200", "-threads 3", "--no-record", "measurement.interval=both"];
    let output = ycsb("run", "workloade", &url(&server, "y", ""), &words).run().expect_code(0);
    let report = report(&output);
    let records = "SCAN-LATENCY-PER-RECORD";
    assert_eq!(report.get(records, "Operations"), report.get("SCAN", "Operations"));
    assert!(report.number(records, "AverageLatency(us)") < report.number("SCAN", "AverageLatency(us)"));
    assert_eq!(report.get(records, "Return=OK"), None);
    assert_eq!(report.get(&format!("Intended-{records}"), "Operations"), None);
    for name in ["CLEANUP", "Intended-CLEANUP"] {
        assert_eq!((report.get(name, "Operations"), report.get(name, "Return=OK")), (Some("3"), None));
    }
    stop(server);
}

#[test]
fn files_and_flags_in_their_order_and_blanks() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let file = scratch.path().join("more");
    // Blanks after a number fail in YCSB. Continued lines and the other separators are Java's.
    std::fs::write(&file, "# more\nrecordcount=100   \noperationcount : 5 \nthread\\\n  count 2\t\n! no\n")
        .unwrap();
    let call = |file: &std::path::Path| {
        ycsb("run", "workloadc", &url(&server, "y", ""), &["--no-record"]).arg("-P").arg(file)
    };
    let output = call(&file).run().expect_code(0);
    assert_eq!(report(&output).returned("READ", "OK"), 5);
    assert!(output.stderr.contains("client: 2 connections"), "{}", output.stderr);
    let flag = ["-p", "operationcount=6"];
    assert_eq!(report(&call(&file).args(flag).run().expect_code(0)).returned("READ", "OK"), 6);
    stop(server);
}

#[test]
fn a_second_run_that_inserts_goes_on_behind_the_first() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 1000, &[]);
    let url = url(&server, "y", "");
    let words = ["operationcount=800", "-threads 8", "--no-record"];
    let run = |more: &[&str]| ycsb("run", "workloadd", &url, &[&words, more].concat()).run();
    let first = report(&run(&[]).expect_code(0)).returned("INSERT", "OK");
    let second = run(&[]).expect_code(0);
    let inserted = first + report(&second).returned("INSERT", "OK");
    assert!(first > 10 && !second.stderr.contains("E11000"), "{}", second.stderr);
    let mut connection = server.connect().unwrap();
    let keys = table(&mut connection, "y", "usertable");
    assert!((0..1000 + inserted).all(|number| keys.contains_key(&key(number))));
    assert_eq!(keys.len() as u64, 1000 + inserted);

    let collide = run(&["insertresume=false"]).expect_code(1);
    let failed = report(&collide).returned("INSERT", "ERROR");
    let told =
        format!("fathom: {failed} x DuplicateKey(11000): E11000 duplicate key error collection: y.usertable");
    assert!(failed > 10 && collide.stderr.contains(&told), "{}", collide.stderr);
    assert!(collide.stderr.contains("leave insertresume=false out"), "{}", collide.stderr);
    run(&["insertresume=false", "--ycsb-exit-codes"]).expect_code(0);
    stop(server);
}

/// Two clients with inserts, each with its half of the records: in YCSB all but the first of each number fail.
#[test]
fn clients_with_their_own_parts_insert_different_records() {
    let scratch = Scratch::new().unwrap();
    let server = serve(WIRED_TIGER, &scratch, &[]);
    let mut connection = server.connect().unwrap();
    let parts = [["insertstart=0", "insertcount=1500"], ["insertstart=1500", "insertcount=500"]];
    for database in ["uniform", "zipfian", "latest"] {
        let url = url(&server, database, "");
        let distribution = format!("requestdistribution={database}");
        let words = ["recordcount=2000", "--no-record", "-threads 2", distribution.as_str()];
        for part in parts {
            ycsb("load", "workloada", &url, &[&words[..], &part].concat()).run().expect_code(0);
        }
        let mix = ["operationcount=2000", "readproportion=0.5", "updateproportion=0", "insertproportion=0.5"];
        let mut inserted = 2000;
        // In the second round each continues behind its own.
        for _ in 0..2 {
            let run =
                |part: [&str; 2]| ycsb("run", "workloada", &url, &[&words[..], &mix, &part].concat()).spawn();
            for client in parts.map(run) {
                let output = client.wait().expect_code(0);
                assert_eq!(report(&output).all_returned(), 2000, "{}", output.stdout);
                inserted += report(&output).returned("INSERT", "OK");
            }
        }
        let counted = connection.run(database, &doc! { "count": "usertable" }).unwrap();
        assert_eq!(counted.get_i32("n").unwrap(), i32::try_from(inserted).unwrap());
    }
    drop(connection);
    stop(server);
}

#[test]
fn a_client_that_meets_the_records_of_another_is_told_to_take_its_own_part() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 1000, &[]);
    // A record that another client inserts meanwhile.
    let insert = doc! { "insert": "usertable", "documents": [{ "_id": key(1400) }] };
    server.connect().unwrap().run("y", &insert).unwrap();
    let words =
        ["operationcount=500", "readproportion=0", "updateproportion=0", "insertproportion=1", "--no-record"];
    let output = ycsb("run", "workloada", &url(&server, "y", ""), &words).run().expect_code(1);
    assert_eq!(
        (report(&output).returned("INSERT", "OK"), report(&output).returned("INSERT", "ERROR")),
        (499, 1)
    );
    let told = "another client inserts with the same insertstart=0 and insertcount=1000, or has; give each client its own part";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    stop(server);
}

/// Workload E as YCSB's users run it for some seconds: hardly any number of YCSB's range would exist.
#[test]
fn a_run_that_ends_by_time_draws_among_the_records_that_exist() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 1000, &[]);
    let words = ["operationcount=150000000", "maxexecutiontime=1", "-threads 8", "--no-record", "--json"];
    let output = ycsb("run", "workloade", &url(&server, "y", ""), &words).run().expect_code(0);
    let told = "fathom: operationcount=150000000 forecasts 15,000,000 new records, where 1,000 exist";
    assert!(output.stderr.contains(told) && !output.stderr.contains("draws a key"), "{}", output.stderr);
    stop(server);
}

#[test]
fn a_run_over_more_records_than_were_loaded_says_so() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 1000, &[]);
    let words = ["operationcount=400", "recordcount=2000", "requestdistribution=uniform", "--no-record"];
    let output = ycsb("run", "workloadc", &url(&server, "y", ""), &words).run().expect_code(1);
    let missing = report(&output).returned("READ", "NOT_FOUND");
    let told =
        format!("fathom: {missing} of 400 operations found no record: y.usertable holds fewer records");
    assert!(missing > 100 && output.stderr.contains(&told), "{}", output.stderr);
    stop(server);
}

#[test]
fn scans_deletes_and_what_nothing_answers() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 1000, &[]);
    let words = ["operationcount=200", "-threads 3", "--no-record"];
    let run = |name: &str, options: &str, more: &[&str]| {
        report(&ycsb("run", name, &url(&server, "y", options), &[&words, more].concat()).run().expect_code(0))
    };
    let scans = ["minscanlength=150", "maxscanlength=900", "insertproportion=0", "scanproportion=1"];
    assert_eq!(run("workloade", "", &scans).returned("SCAN", "OK"), 200);
    let mut connection = server.connect().unwrap();
    let status = connection.run("admin", &doc! { "serverStatus": 1 }).unwrap();
    let counters = status.get_document("opcounters").unwrap();
    let more = counters.get("getmore").unwrap().unwrap();
    assert!(more.as_i64().or(more.as_i32().map(i64::from)).unwrap() >= 100, "{more:?}");

    for depth in ["pipelinedepth=1", "pipelinedepth=8"] {
        let silent = run("workloadf", "?w=0", &[depth, "operationdeadline=300"]);
        assert_eq!((silent.returned("READ", "OK"), silent.all_returned() > 250), (200, true));
        let rate = run("workloada", "?w=0", &[depth, "-target 2000", "operationdeadline=300"]);
        assert_eq!(rate.all_returned(), 200);
        let deep = run("workloada", "", &[depth]);
        assert_eq!(deep.all_returned(), 200);
    }
    let silent =
        ["mongodb.writeConcern=unacknowledged", "recordcount=5000", "table=silent", "pipelinedepth=4"];
    let call = ycsb(
        "load",
        "workloada",
        &url(&server, "y", ""),
        &[&silent[..], &["--no-record", "-threads 2"]].concat(),
    );
    call.run().expect_code(0);
    // The last operations may still be in progress in the server.
    let begun = Instant::now();
    while table(&mut connection, "y", "silent").len() < 5000 && begun.elapsed() < TIMEOUT {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(table(&mut connection, "y", "silent").len(), 5000);

    let deletes =
        ["readproportion=0", "deleteproportion=1", "requestdistribution=sequential", "operationcount=400"];
    let call = ycsb(
        "run",
        "workloadc",
        &url(&server, "y", ""),
        &[&deletes[..], &["recordcount=300", "--no-record"]].concat(),
    );
    let deleted = call.run().expect_code(1);
    let counts = report(&deleted);
    assert_eq!((counts.returned("DELETE", "OK"), counts.returned("DELETE", "NOT_FOUND")), (300, 100));
    drop(connection);
    stop(server);
}

/// How exactly a rate is kept is tested in simulated time, in fathom-load.
#[test]
fn rates_warm_up_and_time_are_lower_bounds_of_a_run() {
    let scratch = Scratch::new().unwrap();
    let server = loaded(&scratch, 100, &[]);
    let run = |more: &[&str]| {
        let words = [&["recordcount=100", "-threads 8", "--no-record"], more].concat();
        let begun = Instant::now();
        let output = ycsb("run", "workloadb", &url(&server, "y", ""), &words).run().expect_code(0);
        (report(&output), begun.elapsed())
    };
    let (rated, elapsed) = run(&["-target 400", "operationcount=200"]);
    assert_eq!(rated.all_returned(), 200);
    assert!(rated.get("Intended-READ", "Operations").is_some(), "both clocks where there is a schedule");
    assert!(elapsed >= Duration::from_millis(199 * 1000 / 400), "{elapsed:?}");
    let (timed, _) = run(&["-target 400", "maxexecutiontime=2", "operationcount=0"]);
    assert!((1..=808).contains(&timed.all_returned()) && timed.number("OVERALL", "RunTime(ms)") >= 2000.0);
    let (warm, elapsed) = run(&["warmup=1", "operationcount=500"]);
    assert_eq!(warm.all_returned(), 500, "operations of the warm-up are none of those that count");
    assert!(elapsed >= Duration::from_secs(1), "{elapsed:?}");
    stop(server);
}

#[test]
fn compression_users_and_tls() {
    let scratch = Scratch::new().unwrap();
    let pem = |file: &str| workload("../crates/client/tests/client/pem").join(file).display().to_string();
    let certificate = pem("server.pem");
    let server = serve(
        WIRED_TIGER,
        &scratch,
        &["--auth", "--tlsMode", "allowTLS", "--tlsCertificateKeyFile", &certificate],
    );
    let mut connection = server.connect().unwrap();
    let user = |name: &str, mechanism: &str| {
        doc! { "createUser": name, "pwd": "s3cret-pw", "roles": ["root"], "mechanisms": [mechanism] }
    };
    connection.run("admin", &user("first", "SCRAM-SHA-256")).unwrap();
    let port = server.port();
    let address = |user: &str, options: &str| {
        format!("mongodb.url=mongodb://{user}:s3cret-pw@localhost:{port}/y?authSource=admin{options}")
    };
    let words = ["recordcount=200", "operationcount=200", "-threads 2"];
    let run = |phase: &str, url: &str| -> Output {
        ycsb(phase, "workloada", url, &words).state(scratch.path().join("state")).run().expect_code(0)
    };
    let mut outputs = vec![run("load", &address("first", ""))];
    for options in ["&compressors=snappy", "&compressors=zlib", "&compressors=zstd"] {
        outputs.push(run("run", &address("first", options)));
    }
    let tls = format!("&tls=true&tlsCAFile={}", pem("ca.pem").replace('/', "%2F"));
    outputs.push(run("run", &address("first", &tls)));
    outputs.push(run("run", &address("first", &format!("{tls}&compressors=zstd"))));
    outputs.push(run("run", &address("first", "&authMechanism=SCRAM-SHA-256")));
    let mut second = fathom_client::Connection::connect(
        &address("first", "").trim_start_matches("mongodb.url=").parse().unwrap(),
    )
    .unwrap();
    second.run("admin", &user("second", "SCRAM-SHA-1")).unwrap();
    outputs.push(run("run", &address("second", "&authMechanism=SCRAM-SHA-1")));
    for output in outputs {
        assert_eq!(report(&output).all_returned(), 200);
        assert!(!output.stdout.contains("s3cret") && !output.stderr.contains("s3cret"), "{output:?}");
    }
    assert_no_password(&scratch.path().join("state"));
    drop((connection, second));
    stop(server);
}

fn assert_no_password(folder: &std::path::Path) {
    let mut files = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(6).any(|window| window == b"s3cret"), "{}", path.display());
        }
    }
    assert!(files > 20, "{files}");
}

mod timed {
    use super::*;

    #[test]
    fn rates_warm_up_and_time() {
        let scratch = Scratch::new().unwrap();
        let server = loaded(&scratch, 100, &[]);
        let run = |more: &[&str]| {
            let words = [&["recordcount=100", "-threads 8", "--no-record"], more].concat();
            ycsb("run", "workloadb", &url(&server, "y", ""), &words).run().expect_code(0)
        };
        for (more, spread) in [(vec![], 0.03), (vec!["arrivals=poisson", "seed=3"], 0.15)] {
            let timed =
                [&["-target 400", "maxexecutiontime=2", "operationcount=0"], more.as_slice()].concat();
            let output = run(&timed);
            let report = report(&output);
            // The time to connect is part of the report's time.
            let count = report.all_returned() as f64;
            println!("{more:?}: {count} of 800 in {}", report.number("OVERALL", "RunTime(ms)"));
            assert!((count / 800.0 - 1.0).abs() < spread, "{}", output.stdout);
            assert!(
                report.get("Intended-READ", "Operations").is_some(),
                "both clocks where there is a schedule"
            );
            let run_time = report.number("OVERALL", "RunTime(ms)");
            assert!((2000.0..3000.0).contains(&run_time), "{run_time}");
        }
        let begun = Instant::now();
        let warm = report(&run(&["warmup=1", "operationcount=500"]));
        assert_eq!(warm.all_returned(), 500, "operations of the warm-up are none of those that count");
        assert!(begun.elapsed() >= Duration::from_secs(1) && warm.number("OVERALL", "RunTime(ms)") < 2000.0);
        stop(server);
    }
}
