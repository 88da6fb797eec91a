//! The test kit's driver of Chromium on pages whose faults are known: each fault is seen, and nothing of the browser stays behind.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use fathom_testkit::{Browser, Paper, Scratch, assert, assert_eq, processes_naming, test};

fn page(scratch: &Scratch, body: &str) -> PathBuf {
    let file = scratch.path().join("page.html");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'\">";
    fs::write(&file, format!("<!doctype html><html><head>{policy}</head><body>{body}</body></html>"))
        .unwrap();
    file
}

#[test]
fn what_a_page_says_throws_and_fetches_is_seen() {
    let scratch = Scratch::new().unwrap();
    let mut browser = Browser::start();
    let mut tab = browser.tab().unwrap();
    let body = "<p id=a>text</p><script>console.error('cross'); setTimeout(() => { throw new Error('thrown') });\
                fetch('http://example.invalid/x').catch(() => 0);</script>";
    tab.goto(&page(&scratch, body)).unwrap();
    assert_eq!(tab.evaluate("document.querySelector('#a').textContent").unwrap(), "text");
    assert!(tab.evaluate("nothing.at.all").is_err());
    assert!(tab.wait_until("new Promise(done => setTimeout(() => done(true), 50))").unwrap());
    let events = tab.events();
    let count = |method: &str| events.iter().filter(|event| event["method"] == method).count();
    assert_eq!(count("Runtime.consoleAPICalled"), 1, "{events:#?}");
    assert_eq!(count("Runtime.exceptionThrown"), 1, "{events:#?}");
    assert!(events.iter().any(|event| event.to_string().contains("example.invalid")), "{events:#?}");
    assert!(count("Audits.issueAdded") >= 1, "a policy's refusal: {events:#?}");
}

#[test]
fn it_presses_looks_and_prints() {
    let scratch = Scratch::new().unwrap();
    let mut browser = Browser::start();
    let mut tab = browser.tab().unwrap();
    tab.resize(400, 300).unwrap();
    tab.goto(&page(
        &scratch,
        "<button id=one>1</button><button id=two onclick='this.id=\"pressed\"'>2</button>",
    ))
    .unwrap();
    for key in ["Tab", "Tab", "Enter"] {
        tab.press(key).unwrap();
    }
    assert_eq!(tab.evaluate("document.activeElement.id").unwrap(), "pressed");
    assert_eq!(tab.evaluate("innerWidth").unwrap(), 400);
    assert!(tab.screenshot().unwrap().starts_with(b"\x89PNG"));
    assert!(tab.screenshot_url().unwrap().starts_with("data:image/png;base64,iVBOR"));
    assert!(tab.pdf(Paper::A4).unwrap().starts_with(b"%PDF"));
}

#[test]
fn nothing_stays_behind_also_after_a_panic() {
    let browser = Browser::start();
    let profile = browser.profile();
    assert!(processes_naming(&profile).len() > 1, "children carry the profile's name too");
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _browser = browser;
        panic!("as a failing test does");
    }));
    assert!(ended.is_err());
    // Its helpers are killed with it, and the kernel takes a moment to end them.
    let is_gone = |_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        processes_naming(&profile).is_empty()
    };
    assert!((0..100).any(is_gone), "{:?}", processes_naming(&profile));
    assert!(!profile.exists(), "{}", profile.display());
}
