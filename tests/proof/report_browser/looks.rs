//! Checks that a page fits a telephone, a laptop and a wide screen, and that every text has enough contrast with its background.

use fathom_testkit::{assert, assert_eq, test};

use super::pictures::keep;
use super::{shared, spoil, walked, wrong};

/// A telephone, a tablet, a laptop, a screen of 4K.
pub(crate) const WIDTHS: [u32; 4] = [360, 768, 1280, 3840];

#[test]
fn nothing_overlaps_or_leaves_the_window_at_any_width() {
    let shared = shared();
    let mut browser = shared.browser();
    for (kind, file) in shared.files() {
        for width in WIDTHS {
            let mut tab = walked(&mut browser, file, width);
            for (medium, scheme) in [("screen", "light"), ("screen", "dark"), ("print", "light")] {
                tab.media(medium, scheme).unwrap();
                keep(&mut tab, &format!("{kind}-{width}-{medium}-{scheme}"));
            }
            tab.media("screen", "light").unwrap();
            assert_eq!(wrong(&mut tab, "probe.layout()"), Vec::<String>::new(), "{kind} at {width}");
            tab.evaluate(
                "probe.all('details').forEach((one) => { one.open = true; }); probe.frame().then(() => 1)",
            )
            .unwrap();
            assert_eq!(
                wrong(&mut tab, "probe.layout()"),
                Vec::<String>::new(),
                "{kind} at {width}, unfolded"
            );
        }
    }
    let mut tab = walked(&mut browser, shared.page("watched"), 360);
    for (style, what) in [
        ("figure.bars .scroll { overflow: visible } figure.bars table { width: 900px }", "wide in a window"),
        (".card .text { margin-top: -16px }", "overlap"),
    ] {
        spoil(&mut tab, style);
        let found = wrong(&mut tab, "probe.layout()");
        assert!(found.iter().any(|line| line.contains(what)), "{style} is not noticed: {found:#?}");
    }
}

/// The largest shift that web.dev calls good is 0.1.
#[test]
fn nothing_moves_while_a_page_opens() {
    const MAX_SHIFT: f64 = 0.05;
    let shared = shared();
    let mut browser = shared.browser();
    for (kind, file) in shared.files() {
        for width in WIDTHS {
            let mut tab = walked(&mut browser, file, width);
            let shift = tab.evaluate("probe.shift()").unwrap().as_f64().unwrap();
            assert!(shift < MAX_SHIFT, "{kind} at {width}: {shift}");
        }
    }
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    tab.evaluate("scrollTo(0, 0); probe.frame().then(() => { document.querySelector('main').style.marginTop = '600px'; return probe.frame(); })").unwrap();
    let shift = tab.evaluate("probe.shift()").unwrap().as_f64().unwrap();
    assert!(shift > MAX_SHIFT, "a shift is noticed: {shift}");
}

#[test]
fn every_text_has_contrast_in_light_and_dark() {
    let shared = shared();
    let mut browser = shared.browser();
    for page in &shared.pages {
        let mut tab = walked(&mut browser, &page.file, 1280);
        tab.evaluate("probe.all('details').forEach((one) => { one.open = true; });").unwrap();
        for scheme in ["light", "dark"] {
            tab.media("screen", scheme).unwrap();
            let is_dark = tab
                .evaluate("getComputedStyle(document.body).backgroundColor !== 'rgb(255, 255, 255)'")
                .unwrap();
            assert_eq!(is_dark, scheme == "dark");
            assert_eq!(wrong(&mut tab, "probe.dim()"), Vec::<String>::new(), "{}, {scheme}", page.kind);
        }
    }
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    spoil(&mut tab, ".small { color: #8a8a8a }");
    assert!(
        wrong(&mut tab, "probe.dim()").iter().any(|line| line.contains("small")),
        "grey on white is noticed"
    );
}

#[test]
fn who_changes_to_dark_while_reading_gets_lines_that_can_be_seen() {
    let shared = shared();
    let mut browser = shared.browser();
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    for scheme in ["dark", "light"] {
        tab.media("screen", scheme).unwrap();
        tab.evaluate("probe.walk()").unwrap();
        assert_eq!(wrong(&mut tab, "probe.charts()"), Vec::<String>::new(), "{scheme}");
    }
}
