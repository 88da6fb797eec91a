//! Tests of study files, and of refusals with their lines.

use super::*;

const FILE: &str = "\
name: engines
question: Which engine?
measures: load
factors:
  engine: [wiredTiger, rocksdb]
  threads: [1, 8]
settings:
  records: 1000
  operations: 5000
  workload: workloada
across: threads
metrics: {primary: [throughput], others: [update_p99]}
design: {blocks: 6, seed: 7}
sizes:
  quick:
    factors: {threads: [2]}
    settings: {records: 10, operations: 20}
    design: {blocks: 2, twin: false}
";

#[test]
fn a_file_is_read_and_a_size_is_put_over_it() {
    let study = Study::parse(FILE, None).unwrap();
    assert_eq!((study.name.as_str(), study.shape(), study.design.blocks), ("engines", vec![2, 2], 6));
    assert!(study.factors[0].compared && !study.factors[1].compared);
    assert_eq!(study.labels(&[1, 0]), ["rocksdb", "1"]);
    let setup = study.setup(&[1, 1]).unwrap();
    assert_eq!((setup.servers.engine(0), setup.load.threads, setup.load.records), ("rocksdb", 8, 1000));
    let quick = Study::parse(FILE, Some("quick")).unwrap();
    assert_eq!(
        (quick.shape(), quick.design.blocks, quick.design.seed, quick.design.twin),
        (vec![2, 1], 2, 7, false)
    );
    assert_eq!(quick.setup(&[0, 0]).unwrap().load.records, 10);
    assert!(Study::parse(FILE, Some("huge")).unwrap_err().to_string().contains("it has quick"));
}

/// Each change of the file with the required parts of the sentence, including its line.
#[test]
fn what_is_wrong_is_refused_with_its_line() {
    for (from, to, told) in [
        (
            "engine: [wiredTiger, rocksdb]",
            "engine: [wiredTiger, mmapv1]",
            "'mmapv1' is not a level of 'engine'",
        ),
        ("engine: [wiredTiger, rocksdb]", "engin: [wiredTiger, rocksdb]", "did you mean 'engine'?"),
        ("engine: [wiredTiger, rocksdb]", "engine: [rocksdb, rocksdb]", "'rocksdb' is given twice"),
        ("engine: [wiredTiger, rocksdb]", "engine: []", "has no level (line 5)"),
        ("  threads: [1, 8]", "  threads: [1, 8]\n  threads: [2]", "is given twice"),
        ("records: 1000", "records: none", "'none' is not a level of 'records'"),
        ("records: 1000", "threads: 3", "both a factor and a setting (line"),
        ("records: 1000", "depth: 3", "'depth' has no effect in a study that measures a load (line 8)"),
        ("records: 1000", "chunks: 3", "'chunks' needs 'shards' (line 8)"),
        ("records: 1000", "write_concern: 2", "a write cannot reach 2 members: a set has 1 here (line 8)"),
        ("records: 1000", "array: md-raid0", "needs a file system: add 'filesystem' (line 8)"),
        (
            "records: 1000",
            "filesystem: xfs\n  device: [{path: /dev/x, name: x}, {path: /dev/y, name: y}]",
            "several devices need an array: add 'array' (line 9)",
        ),
        (
            "records: 1000",
            "filesystem: xfs\n  array: md-raid0\n  device: {path: /dev/x, name: x}",
            "an array needs at least two devices (line 10)",
        ),
        (
            "records: 1000",
            "filesystem: xfs\n  array: md-raid0\n  device: [{path: /dev/x, name: x}, {path: /dev/x, name: x}]",
            "/dev/x is named more than once (line 10)",
        ),
        (
            "records: 1000",
            "filesystem: xfs\n  per_member: on\n  device: {path: /dev/x, name: x}",
            "cannot be the storage of each member (line 9)",
        ),
        (
            "records: 1000",
            "nr_requests: 32",
            "does not change the queue of a device that others use: add 'filesystem' or 'device' (line 8)",
        ),
        ("  operations: 5000", "  warmup: 1s", "needs 'operations' or 'time'"),
        ("threads: [1, 8]", "threads: [8, 1]", "must be numbers in rising order (line"),
        ("across: threads", "across: shards", "'shards' is not among the factors"),
        ("primary: [throughput]", "primary: [thruput]", "did you mean 'throughput'?"),
        ("primary: [throughput]", "primary: [iops]", "is not measured by this kind of study"),
        ("blocks: 6", "blocks: 0", "'blocks' must be 1 to 200, not 0 (line"),
        ("blocks: 6", "bloks: 6", "unknown field `bloks`"),
        ("name: engines", "name: ../engines", "must be of letters"),
        ("measures: load", "measures: luck", "unknown variant `luck`"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let said = Study::parse(&FILE.replace(from, to), None).unwrap_err().to_string();
        assert!(said.contains(told), "{to}: {said}");
        assert!(said.contains("line"), "{to}: {said}");
        assert!(!said.contains('\n'), "{to}: {said}");
    }
}

#[test]
fn too_many_cells_are_refused() {
    let levels: Vec<String> = (1..=600).map(|level| level.to_string()).collect();
    let text = FILE.replace("[1, 8]", &format!("[{}]", levels.join(", ")));
    assert!(Study::parse(&text, None).unwrap_err().to_string().contains("1 to 512 combinations"));
}

/// Each study that is included is valid in each of its sizes, and has a plan and an article.
#[test]
fn every_included_study_holds_in_each_size() {
    for shipped in crate::STUDIES {
        for size in [None, Some("quick"), Some("article")] {
            let study = Study::parse(shipped.text, size)
                .unwrap_or_else(|error| panic!("{} {size:?}: {error}", shipped.name));
            assert_eq!(study.name, shipped.name);
            let plan = crate::TrialPlan::new(&study).unwrap();
            assert!(plan.trials.len() > study.design.blocks, "{}", shipped.name);
            let published = study.published.as_ref().unwrap();
            assert!(
                published.rows.iter().all(|row| row.len() == published.columns.len()),
                "{}",
                shipped.name
            );
            assert!(!published.may_not_be_compared.is_empty());
        }
    }
}

/// Checks that the example in docs/compare.md can be read.
#[test]
fn the_page_shows_a_study_that_is_read() {
    let page = include_str!("../../../../docs/compare.md");
    let text = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    for size in [None, Some("quick")] {
        Study::parse(text, size).unwrap();
    }
}
