//! The page compared with pictures of it that were looked at: at each width, coarsely.
//!
//! Of each block the reference (`pictures.json`) holds its place and size as shares of the window, and of each picture within a chart
//! a raster of 12 by 5 cells with the mean and the spread of the brightness, so that other fonts, versions of Chromium and
//! smoothing pass. The test fails for a block that is missing, hidden, moved to another column, much wider or higher; a chart that is blank, cut,
//! or has another line. New blocks behind those of the reference pass; `FATHOM_UPDATE_PICTURES=1` writes a new reference, to be
//! looked at before it is kept (the pictures are printed where `FATHOM_KEEP_PICTURES` names a folder).

use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::{Scratch, Tab, assert, assert_eq, test};
use serde_json::{Value, json};

use super::looks::WIDTHS;
use super::{made_up, pages, shared, spoil, walked};

/// How far places and widths may differ, as a share of the window's width.
const MAX_MOVED: f64 = 0.025;
/// How far heights may, as a share of the height, and in pixels on top.
const MAX_TALLER: (f64, f64) = (0.3, 12.0);
/// How far a raster may, of 255: a line that is missing makes 8 and more, other smoothing less than 2.
const MAX_OTHER: f64 = 5.0;

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/proof/report_browser/pictures.json")
}

/// The blocks of a tab's page, from the top.
fn blocks(tab: &mut Tab<'_>) -> Vec<Value> {
    let url = tab.screenshot_url().unwrap();
    tab.evaluate(&format!("probe.blocks({})", json!(url))).unwrap().as_array().unwrap().clone()
}

/// How far apart two rasters are (the root of the mean square), in brightness or in its spread; 0 where a block has no picture.
fn apart(one: &Value, other: &Value, what: &str) -> f64 {
    let numbers = |block: &Value| -> Vec<f64> {
        block[what].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (one, other) = (numbers(one), numbers(other));
    if one.len() != other.len() {
        return 255.0;
    }
    let squares = one.iter().zip(&other).map(|(one, other)| (one - other).powi(2)).sum::<f64>();
    (squares / one.len().max(1) as f64).sqrt()
}

/// What differs between a page and its reference. Blocks that the reference does not know are passed over.
fn differences(wanted: &[Value], found: &[Value]) -> Vec<String> {
    let mut differs = Vec::new();
    let mut at = 0;
    for block in wanted {
        let name = &block["name"];
        let Some(place) = found.iter().skip(at).position(|one| one["name"] == *name) else {
            differs.push(format!("{name} is not there, or not in its place among the others"));
            continue;
        };
        let other = &found[at + place];
        at += place + 1;
        let number = |block: &Value, what: &str| block[what].as_f64().unwrap();
        for what in ["left", "width"] {
            if (number(block, what) - number(other, what)).abs() > MAX_MOVED {
                differs.push(format!("{name}: {what} is {} and not {}", other[what], block[what]));
            }
        }
        let (share, pixels) = MAX_TALLER;
        if (number(block, "height") - number(other, "height")).abs()
            > share * number(block, "height") + pixels
        {
            differs.push(format!("{name}: height is {} and not {}", other["height"], block["height"]));
        }
        for what in ["mean", "spread"] {
            let apart = apart(block, other, what);
            if apart > MAX_OTHER {
                differs.push(format!("{name}: its picture differs by {apart:.1} ({what})"));
            }
        }
    }
    differs
}

/// The picture itself, if `FATHOM_KEEP_PICTURES` names a folder.
pub(crate) fn keep(tab: &mut Tab<'_>, name: &str) {
    if let Some(folder) = std::env::var_os("FATHOM_KEEP_PICTURES") {
        fs::write(Path::new(&folder).join(format!("{name}.png")), tab.screenshot().unwrap()).unwrap();
    }
}

#[test]
fn the_page_looks_as_it_did_when_a_person_looked_at_it() {
    let shared = shared();
    let scratch = Scratch::new().unwrap();
    let file = pages::page(&made_up::run(&scratch.path(), 120, 10), &scratch.path().join("page.html"));
    let mut browser = shared.browser();
    let mut found = serde_json::Map::new();
    for width in WIDTHS {
        let mut tab = walked(&mut browser, &file, width);
        tab.evaluate("scrollTo(0, 0); probe.frame().then(() => 1)").unwrap();
        keep(&mut tab, &format!("light-{width}"));
        found.insert(width.to_string(), Value::Array(blocks(&mut tab)));
        tab.media("screen", "dark").unwrap();
        tab.evaluate("probe.frame().then(() => 1)").unwrap();
        keep(&mut tab, &format!("dark-{width}"));
        found.insert(format!("{width} dark"), Value::Array(blocks(&mut tab)));
    }
    if std::env::var_os("FATHOM_UPDATE_PICTURES").is_some() {
        let lines = found.iter().map(|(width, blocks)| {
            let blocks: Vec<String> = blocks.as_array().unwrap().iter().map(Value::to_string).collect();
            format!("\"{width}\": [\n{}\n]", blocks.join(",\n"))
        });
        fs::write(reference(), format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))).unwrap();
    }
    let kept: Value = serde_json::from_slice(&fs::read(reference()).unwrap()).unwrap();
    for (width, blocks) in &found {
        let wanted = kept[width].as_array().unwrap();
        assert!(wanted.len() > 20, "{width}");
        let differs = differences(wanted, blocks.as_array().unwrap());
        assert_eq!(differs, Vec::<String>::new(), "at {width}; look at the page (docs/report.md says how)");
    }
}

#[test]
fn a_page_that_looks_otherwise_is_noticed() {
    let shared = shared();
    let scratch = Scratch::new().unwrap();
    let file = pages::page(&made_up::run(&scratch.path(), 120, 10), &scratch.path().join("page.html"));
    let mut browser = shared.browser();
    let mut tab = walked(&mut browser, &file, 1280);
    tab.evaluate("scrollTo(0, 0); probe.frame().then(() => 1)").unwrap();
    let wanted = blocks(&mut tab);
    assert_eq!(differences(&wanted, &blocks(&mut tab)), Vec::<String>::new(), "the same page");
    for (style, what) in [
        ("#cache-0 { display: none }", "is not there"),
        ("#cache-0 { visibility: hidden }", "is not there"),
        ("#client-rate svg { opacity: 0 }", "its picture differs"),
        ("#percentiles-read svg path.line { stroke: none }", "its picture differs"),
        (".grid { grid-template-columns: 1fr !important }", "width is"),
        ("h2 { height: 200px }", "height is"),
        ("#device-bytes-vda { order: -1 }", "left is"),
    ] {
        spoil(&mut tab, style);
        tab.evaluate("new Promise((done) => setTimeout(() => probe.frame().then(() => done(1)), 100))")
            .unwrap();
        let differs = differences(&wanted, &blocks(&mut tab));
        assert!(differs.iter().any(|line| line.contains(what)), "{style} is not noticed: {differs:#?}");
    }
}
