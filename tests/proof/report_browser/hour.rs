//! An hour at one reading a second, with a device that was read ten times a second: the page stays small, opens and works.
//!
//! How long it took is printed and recorded in docs/journal/2026-11-22-report.md, and not asserted: machines differ.

use std::fs;
use std::time::Instant;

use fathom_testkit::{Scratch, assert, assert_eq, test};

use super::{made_up, open, pages, shared, wrong};

/// The limit that the issue sets: 3 MiB.
const MAX_BYTES: u64 = 3 << 20;

#[test]
fn an_hour_makes_a_small_page_that_opens_and_scrolls() {
    let shared = shared();
    let scratch = Scratch::new().unwrap();
    let began = Instant::now();
    let run = made_up::run(&scratch.path(), 3600, 10);
    println!("the run was written in {:?}", began.elapsed());
    let began = Instant::now();
    let file = pages::page(&run, &scratch.path().join("hour.html"));
    let bytes = fs::metadata(&file).unwrap().len();
    println!("the page was made in {:?}: {bytes} bytes", began.elapsed());
    assert!(bytes < MAX_BYTES, "{bytes}");

    let mut browser = shared.browser();
    let mut tab = open(&mut browser, &file, 1280);
    let painted =
        "performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)[0] ?? null";
    assert!(tab.wait_until(&format!("({painted}) !== null")).unwrap(), "nothing was painted");
    println!("first paint after {} ms", tab.evaluate(painted).unwrap());
    let began = Instant::now();
    tab.evaluate("probe.walk()").unwrap();
    println!("scrolled through in {:?}", began.elapsed());
    println!("longest frame while scrolling: {} ms", tab.evaluate(SCROLL).unwrap());
    assert_eq!(wrong(&mut tab, "probe.charts()"), Vec::<String>::new());
    assert_eq!(wrong(&mut tab, "probe.summaries()"), Vec::<String>::new());

    // An arrow key moves one row, also if there are more rows than pixels.
    tab.evaluate("probe.all('figure.chart[data-kind=time]')[0].focus()").unwrap();
    for row in ["1", "2", "3"] {
        tab.press("ArrowRight").unwrap();
        let at = "probe.frame().then(() => probe.all('[data-kind=time] .readout b')[0].textContent)";
        let at = tab.evaluate(at).unwrap();
        assert_eq!(at, row);
    }
}

/// Scrolls through the page, a window's height in each frame, and says how long the longest frame took.
const SCROLL: &str = "new Promise((done) => { scrollTo(0, 0); let longest = 0, last = performance.now(); \
    const step = (now) => { longest = Math.max(longest, now - last); last = now; scrollBy(0, innerHeight / 4); \
    if (scrollY + innerHeight >= document.documentElement.scrollHeight - 2) done(Math.round(longest)); else requestAnimationFrame(step); }; \
    requestAnimationFrame(step); })";
