//! Pages over many runs: the list with its filter, and the page for errors. They contain no script, send no request to any
//! network, and escape all text of a run folder.

use fathom_errors::{Error, Kind, Result};
use fathom_record::folders::{Condition, RunFolder};
use fathom_units::Bytes;
use minijinja::{AutoEscape, Environment, Value, context};
use serde::Serialize;

use crate::run_list::{Headline, took};

const TEMPLATE: &str = include_str!("runs.html");
const STYLE: &str = include_str!("runs.css");

/// A run in the list.
#[derive(Clone, Debug, Serialize)]
pub struct ListedRun {
    name: String,
    link: String,
    started: String,
    verb: String,
    state: &'static str,
    took: String,
    size: String,
    headline: String,
    is_alarm: bool,
}

impl ListedRun {
    /// The list entry of a run and its headline.
    pub fn from_run(run: &RunFolder, headline: &Headline) -> ListedRun {
        ListedRun {
            name: run.name.clone(),
            link: url_part(&run.name),
            started: run.started.to_string(),
            verb: run.manifest.verb.clone(),
            state: run.condition.word(),
            took: took(run.seconds),
            size: Bytes(run.contents.bytes()).to_string(),
            headline: headline.words(),
            is_alarm: headline.severity.is_some(),
        }
    }
}

/// The content of the page of the list.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunsPage {
    /// The location of the runs.
    pub place: String,
    /// The runs that are shown.
    pub runs: Vec<ListedRun>,
    /// The number of all runs.
    pub total: usize,
    /// Every verb that any run has.
    pub verbs: Vec<String>,
    /// The verb of the filter, or nothing.
    pub verb: String,
    /// The state of the filter, or nothing.
    pub state: String,
    /// The words of the filter.
    pub words: String,
    /// Files in the folder that are not runs, a sentence each.
    pub notes: Vec<String>,
}

/// The page of the list.
///
/// # Errors
/// When the template does not accept its values, which a test would have found.
pub fn runs_page(page: &RunsPage) -> Result<String> {
    let states: Vec<&str> = Condition::ALL.iter().map(|(_, word)| *word).collect();
    render(context! { title => "Runs", list => page, states => states })
}

/// The page for an address that does not exist.
///
/// # Errors
/// As [`runs_page`].
pub fn problem_page(sentence: &str) -> Result<String> {
    render(context! { title => "Not shown", problem => sentence })
}

fn render(values: Value) -> Result<String> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let failed = |error: minijinja::Error| {
        Error::new(Kind::Malformed, "the page could not be made from its template").because(error)
    };
    environment.add_template("runs", TEMPLATE).map_err(failed)?;
    let template = environment.get_template("runs").map_err(failed)?;
    template
        .render(context! { style => STYLE, version => env!("CARGO_PKG_VERSION"), ..values })
        .map_err(failed)
}

/// A name as a part of an address (RFC 3986, unreserved characters).
pub(crate) fn url_part(name: &str) -> String {
    let part = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> ListedRun {
        let text = "<script>alert(1)</script>\"'&";
        ListedRun {
            name: text.to_owned(),
            link: url_part(text),
            started: String::new(),
            verb: text.to_owned(),
            state: "complete",
            took: String::new(),
            size: String::new(),
            headline: text.to_owned(),
            is_alarm: true,
        }
    }

    #[test]
    fn nothing_that_a_run_says_becomes_markup() {
        let text = "<img src=x onerror=alert(1)>";
        let page = RunsPage {
            place: text.to_owned(),
            runs: vec![hostile()],
            total: 1,
            verbs: vec![text.to_owned()],
            verb: text.to_owned(),
            words: "\"><b>".to_owned(),
            notes: vec![text.to_owned()],
            ..RunsPage::default()
        };
        let html = runs_page(&page).unwrap();
        for markup in ["<script", "<img", "<b>", "onerror=alert(1)>"] {
            assert!(!html.contains(markup), "{markup} in {html}");
        }
        assert!(html.contains("/run/%3Cscript%3E") && html.contains("selected>&lt;img"), "{html}");
        assert!(!problem_page(text).unwrap().contains("<img"));
        assert!(!html.contains("http:") && !html.contains("src=\""), "nothing is asked of anybody");
    }
}
