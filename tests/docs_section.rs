//! Sections of `docs/` that tests generate from recordings, between two marks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use fathom_testkit::assert_eq;

/// The folder of the documentation.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns whether tests write their sections in place of comparing them.
pub(crate) fn is_update() -> bool {
    env::var_os("FATHOM_UPDATE_DOCS").is_some()
}

/// Fails if the text between two marks of a page is not `section`; with `FATHOM_UPDATE_DOCS=1` writes it. `module` is that of the test, for the message.
pub(crate) fn check(page: &str, (begin, end): (&str, &str), section: &str, module: &str) {
    let path = docs().join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).expect("the begin of the section");
    let (_, after) = rest.split_once(end).expect("the end of the section");
    let expected = format!("{before}{begin}\n{section}{end}{after}");
    if is_update() {
        fs::write(&path, expected).unwrap();
        return;
    }
    assert_eq!(text, expected, "{}", stale(module));
}

/// The message on a page that is not up to date.
pub(crate) fn stale(module: &str) -> String {
    format!("the docs are stale: FATHOM_UPDATE_DOCS=1 cargo test -p fathom --test tests {module}::")
}
