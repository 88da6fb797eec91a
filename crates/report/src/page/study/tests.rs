//! The page of a study: its parts and their order, the record's numbers in its charts, and that no text becomes markup.

use fathom_record::pictures::Pictures;
use fathom_record::{Manifest, SeriesSet};

use super::*;
use crate::page::tests::source;
use crate::page::{PageSource, page};
use crate::study::tests::{file_systems, hostile};

fn made(study: StudyResult) -> String {
    let mut manifest = Manifest::new("compare", "0.1.0", ["fathom".to_owned(), "compare".to_owned()]);
    manifest.environment.insert("kernel".into(), "6.18".into());
    let (series, pictures) = (SeriesSet::default(), Pictures::default());
    let results = [Entry::Study(Box::new(study))];
    page(&PageSource { results: &results, ..source(&manifest, &series, &pictures) })
        .unwrap()
        // The form in which a browser reads it.
        .replace("&#x2f;", "/")
}

#[test]
fn the_page_reads_like_the_results_of_an_article() {
    let text = made(file_systems());
    let places: Vec<usize> = [
        "id=\"verdict\"",
        "id=\"cautions\"",
        "id=\"forest-primary-0\"",
        "id=\"pairs-0\"",
        "id=\"comparisons-0\"",
        "id=\"interaction-0\"",
        "id=\"curve-0\"",
        "id=\"speedup-0\"",
        "id=\"cells-primary-0-0\"",
        "id=\"members-0\"",
        "id=\"published-0\"",
        "id=\"ours-0\"",
        "id=\"noise-0\"",
        "id=\"trials\"",
        "id=\"method\"",
    ]
    .iter()
    .map(|what| text.find(what).unwrap_or_else(|| panic!("{what} is missing")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(text.contains("Of 5 comparisons: 1 better, 2 worse, 1 too small, 1 cannot tell."));
    assert!(
        text.contains("<p class=\"text\">cannot tell, needs 11 more blocks: "),
        "the card says what would tell"
    );
    assert!(
        text.contains("<a href=\"./trials/block-1/ext4-uncapped-1/\">trials/block-1/ext4-uncapped-1</a>")
    );
    assert!(text.contains("xfs, iops 300, 16 threads, block 5: the server did not answer"));
    let figures = text.matches("<figure class=\"chart\"").count();
    assert_eq!(text.matches("<pre class=\"csv\"").count(), figures);
    assert_eq!(text.matches("class=\"small\">n = ").count(), figures);
    let mut ids: Vec<&str> = text.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "no id stands twice");
}

#[test]
fn charts_hold_what_the_record_holds() {
    let study = file_systems();
    let forest = &forest::charts(&study)[0];
    let first = forest.csv.lines().nth(1).unwrap();
    assert!(first.starts_with("file system: xfs against ext4,throughput,1.06"), "{first}");
    assert!(first.ends_with(",0.021,7,better"), "{first}");
    assert_eq!(forest.svg.matches("class=\"dot").count(), 4);
    assert_eq!(forest.svg.matches("class=\"band\"").count(), 4);
    let pairs = forest::pair_charts(&study);
    let blocks: Vec<&str> = pairs[0].csv.lines().skip(1).filter_map(|row| row.split(',').nth(1)).collect();
    assert_eq!(blocks, ["1", "2", "3", "4", "6", "7", "8"], "the block of the broken trial has no pair");
    let interaction = &interaction::charts(&study)[0];
    assert_eq!(interaction.lines, ["iops uncapped", "iops 300"]);
    assert_eq!(interaction.svg.matches("class=\"whisker").count(), 4);
    let curves = scaling::curves(&study);
    assert_eq!(curves.len(), 2, "one for each level of what is not compared");
    assert_eq!(
        (curves[0].lines.as_slice(), curves[0].readings),
        (&["ext4".to_owned(), "xfs".to_owned()][..], 6)
    );
    assert!(curves[1].title.ends_with("over threads, iops 300"), "{}", curves[1].title);
    let ext4 = study.scalings[0].points[2].latency_ns.unwrap() / 1e6;
    assert!(
        curves[0].csv.lines().nth(3).unwrap().contains(&super::super::svg::figure(ext4)),
        "{}",
        curves[0].csv
    );
    let speedups = scaling::speedups(&study);
    assert!(speedups[0].csv.lines().nth(1).unwrap().starts_with("ext4,1,1,,"), "{}", speedups[0].csv);
}

#[test]
fn the_interval_of_a_level_is_that_of_its_blocks() {
    let mut study = file_systems();
    // All blocks are equal except for a factor that all cells share.
    for cell in &mut study.cells {
        let level = if cell.levels[0] == "xfs" { 2.0 } else { 1.0 };
        cell.values[0] = (0..8).map(|block| Some(level * 100.0 * f64::from(block + 1))).collect();
    }
    let chart = &interaction::charts(&study)[0];
    let row = |at: usize| -> Vec<f64> {
        chart.csv.lines().nth(at).unwrap().split(',').skip(2).map(|cell| cell.parse().unwrap()).collect()
    };
    let (one, two) = (row(1), row(2));
    assert!((two[0] / one[0] - 2.0).abs() < 1e-3, "{one:?} {two:?}");
    assert!(one[1] > 100.0 && one[1] < one[0] && one[2] > one[0] && one[2] < 800.0, "{one:?}");
    for cell in &mut study.cells {
        cell.values[0] = vec![Some(5.0); 3];
    }
    let few = &interaction::charts(&study)[0];
    assert!(!few.svg.contains("whisker") && few.how.contains("Fewer than six blocks"), "{}", few.how);
    study.cells.iter_mut().for_each(|cell| cell.values[0] = vec![None, Some(0.0), Some(-1.0)]);
    assert_eq!(interaction::charts(&study).len(), 1, "what has no logarithm is not drawn");
}

#[test]
fn nothing_of_a_study_becomes_markup() {
    let text = made(hostile());
    assert_eq!(text.matches("<script>").count(), 2, "our own two");
    assert_eq!(text.matches("<img").count(), 0);
    assert!(text.contains("{{ 7*7 }}") && !text.contains("49}}"), "a template within is text");
    for outside in text.split("href=\"").skip(1) {
        let link = outside.split('"').next().unwrap();
        assert!(link.starts_with("./") || link.starts_with('#'), "{link}");
    }
}

#[test]
fn odd_records_make_a_page() {
    let mut study = file_systems();
    for one in &mut study.comparisons {
        one.interval = None;
        one.ratio = 0.0;
        one.pairs = vec![(usize::MAX, 1.0), (3, 0.0)];
        one.given = vec![(String::new(), String::new())];
    }
    study.cells.iter_mut().for_each(|cell| {
        cell.levels.truncate(1);
        cell.values.truncate(1);
    });
    for one in &mut study.scalings {
        one.points.iter_mut().for_each(|point| (point.count, point.speedup) = (0.0, f64::MAX));
    }
    study.noise.iter_mut().for_each(|noise| noise.floor = -1.0);
    study.published.as_mut().unwrap().rows = vec![Vec::new()];
    (study.blocks_planned, study.metrics) = (usize::MAX, study.metrics[..1].to_vec());
    let text = made(study);
    assert!(!text.contains("NaN") && !text.contains("inf\""), "no such number is drawn");
    let mut empty = file_systems();
    (empty.cells, empty.comparisons, empty.scalings) = (Vec::new(), Vec::new(), Vec::new());
    (empty.interactions, empty.noise, empty.factors, empty.metrics) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    assert!(made(empty).contains("Nothing could be compared."));
}
