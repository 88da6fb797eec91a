//! `fathom report`'s page in a browser: what only a browser can tell of it, on pages that the program made of real runs.
//!
//! Without Chromium every test here is skipped. Two browsers and one set of pages serve all tests that run at
//! the same time; each page is opened in a tab that knows nothing of the others. No test asserts a time.

mod accessibility;
mod drawn;
mod driver;
mod hour;
mod keys;
mod looks;
mod made_up;
mod pages;
mod paper;
mod pictures;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use fathom_testkit::{Browser, Scratch, Tab};
use serde_json::{Value, json};

use self::pages::Page;

/// Questions to a page; see there.
const PROBE: &str = include_str!("report_browser/probe.js");

/// The fixtures that the tests which run at the same time share.
struct Fixtures {
    /// One for each test that runs; more tests wait.
    browsers: [Mutex<Browser>; 2],
    pages: Vec<Page>,
    /// The list that `fathom runs --serve` shows.
    list: PathBuf,
    scratch: Scratch,
}

impl Fixtures {
    fn browser(&self) -> MutexGuard<'_, Browser> {
        // A test that failed leaves the browser as good as it was: its tab is closed.
        let free = self.browsers.iter().find_map(|browser| match browser.try_lock() {
            Ok(browser) => Some(browser),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.unwrap_or_else(|| self.browsers[0].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every page by its kind, and the list of runs.
    fn files(&self) -> Vec<(&str, &Path)> {
        let pages = self.pages.iter().map(|page| (page.kind, page.file.as_path()));
        pages.chain([("runs", self.list.as_path())]).collect()
    }

    /// The page of a kind of run.
    fn page(&self, kind: &str) -> &Path {
        &self.pages.iter().find(|page| page.kind == kind).unwrap().file
    }
}

/// The browsers and the pages; without a browser the test is skipped. They are removed when the last test that holds them ends, which a
/// static would not notice.
fn shared() -> Arc<Fixtures> {
    static SHARED: Mutex<Weak<Fixtures>> = Mutex::new(Weak::new());
    let mut kept = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shared) = kept.upgrade() {
        return shared;
    }
    let browsers = [(); 2].map(|()| Mutex::new(Browser::start()));
    let scratch = Scratch::new().unwrap();
    let pages = pages::make(&scratch);
    let list = pages::list(&scratch);
    let shared = Arc::new(Fixtures { browsers, pages, list, scratch });
    *kept = Arc::downgrade(&shared);
    shared
}

/// A tab with a page in it, and the questions.
fn open<'b>(browser: &'b mut Browser, file: &Path, width: u32) -> Tab<'b> {
    let mut tab = browser.tab().unwrap();
    tab.resize(width, 900).unwrap();
    tab.goto(file).unwrap();
    tab.evaluate(PROBE).unwrap();
    tab
}

/// The same, scrolled through.
fn walked<'b>(browser: &'b mut Browser, file: &Path, width: u32) -> Tab<'b> {
    let mut tab = open(browser, file, width);
    tab.evaluate("probe.walk()").unwrap();
    tab
}

/// The answer to a question that lists what is wrong.
fn wrong(tab: &mut Tab<'_>, question: &str) -> Vec<String> {
    match tab.evaluate(question).unwrap() {
        Value::Array(lines) => {
            lines.iter().map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
        }
        other => panic!("{question} gave {other}"),
    }
}

/// Adds a rule of style to the page, to see that a test notices what it does.
fn spoil(tab: &mut Tab<'_>, style: &str) {
    let sheet = format!(
        "{{ const sheet = new CSSStyleSheet(); sheet.replaceSync({}); document.adoptedStyleSheets = [sheet]; }}",
        json!(style)
    );
    tab.evaluate(&sheet).unwrap();
}

/// A copy of a page with something more before its end.
fn with_more(shared: &Fixtures, kind: &str, more: &str) -> PathBuf {
    let text = std::fs::read_to_string(shared.page(kind)).unwrap();
    let file = shared.scratch.path().join(format!("{kind}-spoiled.html"));
    std::fs::write(&file, text.replace("</body>", &format!("{more}</body>"))).unwrap();
    file
}
