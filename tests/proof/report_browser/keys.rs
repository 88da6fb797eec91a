//! That a reader without a mouse reaches everything, sees where they are, and reads off the same numbers.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use fathom_testkit::{Scratch, Tab, assert, assert_eq, test};
use serde_json::Value;

use super::{made_up, pages, shared, spoil, walked, wrong};

/// The elements that a keyboard must reach.
const STOPS: &str = "probe.all('a[href], summary, figure.chart:not([data-kind=still]), pre.csv, [tabindex=\"0\"]') \
    .filter((one) => one.checkVisibility())";

/// Numbers them once the page is drawn, and gives the name of each.
const NUMBER: &str = "map((one, at) => { one.dataset.stop = at; return one.tagName + ' ' + (one.id || one.closest('[id]')?.id || ''); })";

/// The element that has the focus, whether the focus is visible, and whether it lies in the window.
const FOCUS: &str = "(() => { const one = document.activeElement; if (!one || one === document.body) return null; \
    const style = getComputedStyle(one); const box = one.getBoundingClientRect(); \
    return { stop: one.dataset.stop ?? null, name: one.tagName + ' ' + one.id + ' ' + one.className, \
      marked: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0, \
      within: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth }; })()";

/// Presses Tab from the top until the focus returns there. Returns the elements that were not reached, and the faults of those that were.
fn tab_through(tab: &mut Tab<'_>) -> Vec<String> {
    let names = wrong(tab, &format!("probe.frame().then(() => {STOPS}.{NUMBER})"));
    tab.evaluate("document.activeElement.blur(); scrollTo(0, 0)").unwrap();
    let mut reached = BTreeSet::new();
    let mut faults = Vec::new();
    let mut misses = 0;
    for _ in 0..names.len() + 200 {
        tab.press("Tab").unwrap();
        // An element that scrolls into view is drawn first, as for a reader.
        let focus = tab.evaluate(&format!("probe.frame().then(() => {FOCUS})")).unwrap();
        if focus == Value::Null {
            // The browser's own window has the focus once, between the last and the first.
            misses += 1;
            if misses > 1 {
                break;
            }
            continue;
        }
        for (what, is_well) in [("is not marked", &focus["marked"]), ("is out of sight", &focus["within"])] {
            if is_well != true {
                faults.push(format!("{} {what}", focus["name"]));
            }
        }
        // Elements that the browser adds by itself (a box that scrolls) have no number.
        let Some(stop) = focus["stop"].as_str() else { continue };
        if !reached.insert(stop.parse::<usize>().unwrap()) {
            break;
        }
    }
    // The page makes a box a stop only while it scrolls, and learns when it is drawn that one does not.
    let required = wrong(tab, &format!("{STOPS}.map((one) => one.dataset.stop ?? '')"));
    let required = required.iter().filter_map(|stop| stop.parse::<usize>().ok());
    let missed = required.filter(|at| !reached.contains(at));
    faults.extend(missed.filter_map(|at| Some(format!("{} is not reached", names.get(at)?))));
    faults
}

#[test]
fn the_tab_key_reaches_all_and_shows_where_it_is() {
    let shared = shared();
    let mut browser = shared.browser();
    for page in &shared.pages {
        let mut tab = super::open(&mut browser, &page.file, 1280);
        assert_eq!(tab_through(&mut tab), Vec::<String>::new(), "{}, folded", page.kind);
        // Enter unfolds what has the focus.
        tab.evaluate("probe.all('summary')[0].focus()").unwrap();
        tab.press("Enter").unwrap();
        assert_eq!(tab.evaluate("probe.all('details')[0].open").unwrap(), true, "{}", page.kind);
        tab.evaluate("probe.all('details').forEach((one) => { one.open = true; })").unwrap();
        assert_eq!(tab_through(&mut tab), Vec::<String>::new(), "{}, unfolded", page.kind);
    }
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    tab.evaluate(
        "probe.all('figure.chart')[1].tabIndex = -1; probe.all('figure.chart')[1].dataset.kind = 'time'",
    )
    .unwrap();
    assert!(tab_through(&mut tab).iter().any(|line| line.contains("is not reached")));
    spoil(&mut tab, ":focus-visible { outline: none !important }");
    assert!(tab_through(&mut tab).iter().any(|line| line.contains("is not marked")));
}

/// The text of the legend of each chart over time while the keyboard is at a row, with the CSV.
fn legends(tab: &mut Tab<'_>, figure: usize, row: i64) -> Vec<String> {
    let question = format!(
        "new Promise((done) => setTimeout(done, 200)).then(() => {{ const figure = probe.all('figure.chart[data-kind=time]')[{figure}]; \
         const {{ heads, rows }} = probe.csv(figure); const row = rows.at({row}); \
         const shown = probe.all('.readout b', figure).map((cell) => cell.textContent); \
         return heads.flatMap((head, at) => {{ \
           const wanted = row[at] === '' ? '-' : at === 0 ? row[at] : Number(row[at]) + ' ' + figure.dataset.unit; \
           return shown[at] === wanted ? [] : [`${{figure.id}} {row}, ${{head}}: ${{shown[at]}} and not ${{wanted}}`]; }}); }})"
    );
    wrong(tab, &question)
}

#[test]
fn arrow_keys_read_the_rows_of_the_data() {
    let shared = shared();
    let mut browser = shared.browser();
    for kind in ["watched", "checkup", "pair"] {
        let mut tab = walked(&mut browser, shared.page(kind), 1280);
        let count =
            tab.evaluate("probe.all('figure.chart[data-kind=time]').length").unwrap().as_u64().unwrap();
        for figure in 0..usize::try_from(count).unwrap() {
            tab.evaluate(&format!("probe.all('figure.chart[data-kind=time]')[{figure}].focus()")).unwrap();
            // The keys go on from where the cursor of all charts is.
            for (key, row) in [
                ("Home", 0),
                ("ArrowRight", 1),
                ("ArrowRight", 2),
                ("End", -1),
                ("ArrowLeft", -2),
                ("Home", 0),
            ] {
                tab.press(key).unwrap();
                assert_eq!(legends(&mut tab, figure, row), Vec::<String>::new(), "{kind}: {key}");
            }
        }
        let all: Vec<String> =
            (0..usize::try_from(count).unwrap()).flat_map(|figure| legends(&mut tab, figure, 0)).collect();
        assert_eq!(all, Vec::<String>::new(), "{kind}: the cursor is on all charts at once");
        tab.press("ArrowRight").unwrap();
        assert!(!legends(&mut tab, 0, 0).is_empty(), "another row than the key's is noticed");
    }
}

/// A mouse, a keyboard, and paper, which shows the whole.
#[test]
fn a_part_of_the_time_is_seen_in_all_its_values() {
    let shared = shared();
    let mut browser = shared.browser();
    // More seconds than a drawing shows apart.
    let scratch = Scratch::new().unwrap();
    let long = pages::page(&made_up::run(&scratch.path(), 900, 1), &scratch.path().join("long.html"));
    for file in [shared.page("watched"), long.as_path()] {
        let mut tab = walked(&mut browser, file, 1280);
        let boxes = "probe.all('svg.along').map((one) => one.getAttribute('viewBox'))";
        let whole = wrong(&mut tab, boxes);
        tab.evaluate("{ const one = probe.all('figure.chart[data-kind=time]')[0]; one.scrollIntoView(); one.focus(); }").unwrap();
        for _ in 0..2 {
            tab.press("+").unwrap();
            assert_eq!(wrong(&mut tab, "probe.zoomed()"), Vec::<String>::new());
        }
        let narrow = wrong(&mut tab, boxes);
        assert!(whole.iter().zip(&narrow).all(|(one, other)| one != other), "all charts follow: {narrow:?}");
        tab.evaluate("dispatchEvent(new Event('beforeprint'))").unwrap();
        assert_eq!(wrong(&mut tab, boxes), whole);
        tab.press("+").unwrap();
        tab.press("0").unwrap();
        assert_eq!(wrong(&mut tab, boxes), whole);
        assert_eq!(wrong(&mut tab, "probe.charts()"), Vec::<String>::new(), "the whole is as it was");
        let drag = "{ const svg = probe.all('figure.chart[data-kind=time] .plot > svg')[0]; const box = svg.getBoundingClientRect(); \
            const at = (type, share) => svg.dispatchEvent(new PointerEvent(type, { clientX: box.left + box.width * share, button: 0, bubbles: true })); \
            at('pointerdown', 0.5); at('pointermove', 0.6); at('pointerup', 0.7); }";
        tab.evaluate(drag).unwrap();
        assert_eq!(wrong(&mut tab, "probe.zoomed()"), Vec::<String>::new());
        assert!(
            whole.iter().zip(wrong(&mut tab, boxes)).all(|(one, other)| *one != other),
            "a drag zooms all"
        );
    }
}

#[test]
fn the_data_are_saved_as_they_stand_by_the_keyboard_alone() {
    let shared = shared();
    let mut browser = shared.browser();
    let place = Scratch::new().unwrap();
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    tab.save_to(&place.path()).unwrap();
    tab.evaluate(
        "probe.all('figure[data-kind=time] details')[0].open = true; probe.all('figure[data-kind=time] summary')[0].focus()",
    )
    .unwrap();
    tab.press("Tab").unwrap();
    tab.press("Enter").unwrap();
    let id = tab.evaluate("probe.all('figure[data-kind=time]')[0].id").unwrap();
    let file = place.path().join(format!("{}.csv", id.as_str().unwrap()));
    let deadline = Instant::now() + Duration::from_secs(60);
    let wanted = tab.evaluate("probe.all('figure[data-kind=time] pre.csv')[0].textContent").unwrap();
    while fs::read_to_string(&file).unwrap_or_default().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), wanted.as_str().unwrap());
}
