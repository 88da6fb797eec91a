//! That no page breaks a rule of WCAG 2.1 at level AA that axe-core can test, light and dark, with every fold open.
//!
//! axe-core (MPL-2.0) comes from npm by `setup/clients.sh`, in the version that `tests/clients/axe` pins. It is run within the page and is in no
//! product. What it cannot test, such as the order of the focus and the contrast within drawings, the other files here do.

use std::fs;

use fathom_testkit::{Tab, assert, assert_eq, test};

use super::{open, shared, walked, with_more, wrong};
use crate::clients::client;

/// Each rule that is broken, with the elements that break it.
const BROKEN: &str = "axe.run(document, { runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] }, resultTypes: ['violations'] }) \
    .then((found) => found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(' ')}: ${node.failureSummary}`)))";

/// The source of axe-core; the test ends as skipped if it is not installed.
fn axe() -> String {
    fs::read_to_string(client("axe").join("node_modules/axe-core/axe.min.js")).unwrap()
}

/// The violations on a page in a colour scheme.
fn broken(tab: &mut Tab<'_>, axe: &str, scheme: &str) -> Vec<String> {
    tab.evaluate(&format!("{axe}; true")).unwrap();
    tab.media("screen", scheme).unwrap();
    tab.evaluate("probe.frame().then(() => 1)").unwrap();
    wrong(tab, BROKEN)
}

#[test]
fn no_page_breaks_a_rule_of_wcag_aa() {
    let axe = axe();
    let shared = shared();
    let mut browser = shared.browser();
    let mut found = Vec::new();
    for (kind, file) in shared.files() {
        // On a telephone tables and charts scroll. What is folded is open, so that nothing is passed over.
        for (width, scheme) in [(1280, "light"), (1280, "dark"), (360, "light")] {
            let mut tab = walked(&mut browser, file, width);
            tab.evaluate("probe.all('details').forEach((one) => { one.open = true; })").unwrap();
            let broken = broken(&mut tab, &axe, scheme);
            found.extend(broken.into_iter().map(|one| format!("{kind} at {width}, {scheme}: {one}")));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_page_that_breaks_a_rule_is_noticed() {
    let axe = axe();
    let shared = shared();
    let mut browser = shared.browser();
    let more = "<p style='color: #999; background: #fff'>pale</p><a href='#verdict'></a><input>";
    let spoiled = with_more(&shared, "watched", more);
    let found = broken(&mut open(&mut browser, &spoiled, 1280), &axe, "light");
    for rule in ["color-contrast", "link-name", "label"] {
        assert!(
            found.iter().any(|one| one.starts_with(&format!("{rule}:"))),
            "{rule} is not seen: {found:#?}"
        );
    }
}
