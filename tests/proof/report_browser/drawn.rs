//! That pages are silent, ask for nothing, and draw every chart as its data say, with scripts and without.

use std::path::Path;

use fathom_testkit::{assert, assert_eq, test};
use serde_json::{Value, json};

use super::pages::HOSTILE;
use super::{open, shared, walked, with_more, wrong};

/// The log entries, exceptions, requests and refusals of a page.
fn complaints(events: &[Value], file: &Path) -> Vec<String> {
    let own = format!("file://{}", file.display());
    let complaint = |event: &Value| {
        let words = &event["params"];
        match event["method"].as_str()? {
            "Network.requestWillBeSent" => {
                let url = words["request"]["url"].as_str()?.split('#').next()?.to_owned();
                let is_own = url == own || url.starts_with("data:") || url.starts_with("blob:");
                (!is_own).then(|| format!("asked for {url}"))
            }
            "Network.webSocketCreated" => Some(format!("opened {}", words["url"])),
            "Runtime.consoleAPICalled" => Some(format!("said {}", words["args"])),
            "Runtime.exceptionThrown" => Some(format!("threw {}", words["exceptionDetails"])),
            "Log.entryAdded" => Some(format!("logged {}", words["entry"])),
            "Audits.issueAdded" => Some(format!("has the issue {}", words["issue"])),
            "Page.javascriptDialogOpening" => Some(format!("opened a dialog {words}")),
            _ => None,
        }
    };
    events.iter().filter_map(complaint).collect()
}

#[test]
fn no_page_complains_or_asks_for_anything_but_itself() {
    let shared = shared();
    let mut browser = shared.browser();
    for page in &shared.pages {
        let mut tab = walked(&mut browser, &page.file, 1280);
        tab.evaluate("probe.all('details').forEach((one) => { one.open = true; }); probe.walk()").unwrap();
        assert_eq!(complaints(&tab.events(), &page.file), Vec::<String>::new(), "{}", page.kind);
    }
    let more = "<img src='http://example.invalid/x.png'><script>console.warn('a'); setTimeout(() => { throw new Error('b') });</script>";
    let spoiled = with_more(&shared, "disk", more);
    let mut tab = walked(&mut browser, &spoiled, 1280);
    let found = complaints(&tab.events(), &spoiled);
    for word in ["example.invalid", "said", "threw"] {
        assert!(found.iter().any(|line| line.contains(word)), "{word} is not seen: {found:#?}");
    }
}

#[test]
fn every_chart_is_drawn_where_its_data_say() {
    let shared = shared();
    let mut browser = shared.browser();
    for page in &shared.pages {
        let mut tab = walked(&mut browser, &page.file, 1280);
        let count = tab.evaluate("probe.all('figure.chart').length").unwrap().as_u64().unwrap();
        println!("{}: {count} charts", page.kind);
        let fewest = match page.kind {
            "failed" => 0,
            "history" => 1,
            "disk" | "recording" | "search" => 3,
            _ => 15,
        };
        assert!(count >= fewest, "{}: {count}", page.kind);
        assert_eq!(wrong(&mut tab, "probe.charts()"), Vec::<String>::new(), "{}", page.kind);
        assert_eq!(wrong(&mut tab, "probe.summaries()"), Vec::<String>::new(), "{}", page.kind);
    }
}

#[test]
fn a_chart_that_is_blank_or_holds_other_numbers_is_noticed() {
    let shared = shared();
    let mut browser = shared.browser();
    let mut tab = walked(&mut browser, shared.page("watched"), 1280);
    let spoiled = [
        (
            "blank",
            "probe.all('figure[data-kind=time] path.line')[0].setAttribute('d', 'M56 8L56 8')",
            "is empty",
        ),
        (
            "a lost value",
            "{ const line = probe.all('figure[data-kind=time] path.line')[1]; line.setAttribute('d', line.getAttribute('d').replace(/L[^L]*$/, '')); }",
            "corners of",
        ),
        (
            "a shifted line",
            "{ const line = probe.all('figure[data-kind=time] path.line')[2]; line.setAttribute('d', \
           line.getAttribute('d').replace(/L([\\d.]+) ([\\d.]+)/g, (_, x, y) => `L${x} ${y * 0.8}`)); }",
            "is drawn at",
        ),
        (
            "a wrong figure",
            "probe.all('figure[data-kind=time] details td')[1].textContent = '-77';",
            "and not",
        ),
    ];
    for (name, how, what) in spoiled {
        tab.evaluate(how).unwrap();
        let found = [wrong(&mut tab, "probe.charts()"), wrong(&mut tab, "probe.summaries()")].concat();
        assert!(found.iter().any(|line| line.contains(what)), "{name} is not noticed: {found:#?}");
    }
}

#[test]
fn a_point_or_an_interval_that_lies_elsewhere_is_noticed() {
    let shared = shared();
    let mut browser = shared.browser();
    let spoiled = [
        ("#interaction-0 circle.dot", "one.setAttribute('cy', one.cy.baseVal.value + 3)", "is drawn at"),
        ("#forest-primary-0 circle.dot", "one.setAttribute('cx', one.cx.baseVal.value + 3)", "is drawn at"),
        ("#speedup-0 circle.dot:last-of-type", "one.setAttribute('cx', 60)", "behind the one before"),
        ("#pairs-0 circle.dot", "one.remove()", "points of"),
        ("#forest-other-0 path.whisker", "one.remove()", "intervals of"),
        (
            "#interaction-1 path.whisker",
            "one.setAttribute('d', one.getAttribute('d').replace(/V.*/, 'V20'))",
            "the interval of",
        ),
    ];
    for (which, how, what) in spoiled {
        let mut tab = open(&mut browser, shared.page("study"), 1280);
        tab.evaluate(&format!("{{ const one = probe.all({}).at(0); {how}; }}", json!(which))).unwrap();
        let found = wrong(&mut tab, "probe.charts()");
        assert!(found.iter().any(|line| line.contains(what)), "{which}, {how}: {found:#?}");
    }
}

#[test]
fn without_scripts_nothing_is_missing() {
    let shared = shared();
    let mut browser = shared.browser();
    for page in &shared.pages {
        for width in [360, 1280] {
            let mut tab = browser.tab().unwrap();
            tab.call("Emulation.setScriptExecutionDisabled", json!({ "value": true })).unwrap();
            tab.resize(width, 900).unwrap();
            tab.goto(&page.file).unwrap();
            tab.evaluate(super::PROBE).unwrap();
            assert_eq!(
                tab.evaluate("document.documentElement.className + probe.all('.save a, .copy').length")
                    .unwrap(),
                "0"
            );
            for question in ["probe.hidden()", "probe.charts()", "probe.layout()"] {
                assert_eq!(
                    wrong(&mut tab, question),
                    Vec::<String>::new(),
                    "{question} of {} at {width}",
                    page.kind
                );
            }
            let promised =
                "probe.all('.live').filter((one) => one.checkVisibility()).map((one) => one.textContent)";
            assert_eq!(
                wrong(&mut tab, promised),
                Vec::<String>::new(),
                "what only a script does is not promised"
            );
        }
    }
    let mut tab = open(&mut browser, shared.page("watched"), 1280);
    super::spoil(&mut tab, "figcaption { visibility: hidden }");
    assert!(!wrong(&mut tab, "probe.hidden()").is_empty());
}

#[test]
fn hostile_text_stays_text() {
    let shared = shared();
    let mut browser = shared.browser();
    let mut tab = open(&mut browser, shared.page("failed"), 1280);
    let shown = tab.evaluate("document.body.textContent").unwrap();
    let plain = HOSTILE.trim_end_matches("\u{1b}[31m");
    assert_eq!(
        shown.as_str().unwrap().matches(plain).count(),
        5,
        "answer, command, error, name and value of a fact: {shown}"
    );
    assert_eq!(tab.evaluate("probe.all('img').length + probe.all('script').length").unwrap(), 2);
}
