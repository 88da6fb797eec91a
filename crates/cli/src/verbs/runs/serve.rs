//! `fathom runs --serve`: serves a local page over the run folders, to list, filter, open and compare runs.
//!
//! It only reads. It listens on the loopback interface and refuses other addresses unless asked. It answers only clients that use an
//! address or `localhost`, so that no foreign page can reach it under a name of its own (DNS rebinding). A run is looked up among the
//! existing names, and no part of a request ever becomes a path. No page may send a request to any network.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Result;
use fathom_errors::Error;
use fathom_process::Signals;
use fathom_record::folders::{Condition, RunFolder, Scan};
use fathom_report::{ListedRun, RunsPage, problem_page, runs_page};

use super::list::{self, RunsFolder};
use crate::outcome::VerbOutcome;
use crate::output;
use crate::run_page::{PageStyle, page_of, page_of_two};
use crate::web::{self, Response, WebRequest, decoded};

/// The headers of every answer: it may not be stored, framed, sniffed for its type or disclosed to other sites.
const HEADS: &[&str] = &[
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
    "Cache-Control: no-store",
];

/// Serves until a signal.
pub(super) fn run(address: &str, to_network: bool, place: &RunsFolder) -> Result<VerbOutcome> {
    let address = web::parse_address(address)?;
    if !address.ip().is_loopback() && !to_network {
        let what = format!("other machines can reach {address}, so their users could read every run");
        return Err(Error::usage(what).advise("add --to-network to serve other hosts too").into());
    }
    // An unreadable folder is refused here rather than at the first request.
    place.scan()?;
    let signals = Signals::install()?;
    let (place, by_name) = (place.clone(), HostCheck { to_network });
    let bound = web::serve(address, "runs", move |request| answer(request, &place, by_name))?;
    output::line(&format!("http://{}/", shown(bound)))?;
    output::note("Ctrl-C ends it.");
    while !signals.wait(Duration::from_secs(3600)) {}
    Ok(VerbOutcome::Clean)
}

/// An address that a browser accepts.
fn shown(bound: SocketAddr) -> SocketAddr {
    match bound.ip().is_unspecified() {
        true => SocketAddr::from(([127, 0, 0, 1], bound.port())),
        false => bound,
    }
}

/// The names that a client may use for this server.
#[derive(Clone, Copy, Debug)]
struct HostCheck {
    to_network: bool,
}

impl HostCheck {
    fn allows(self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => name,
            _ => host,
        };
        if name.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        name.parse::<IpAddr>().is_ok_and(|ip| self.to_network || ip.is_loopback())
    }
}

fn answer(request: &WebRequest, place: &RunsFolder, names: HostCheck) -> Response {
    if !request.host.as_deref().is_some_and(|host| names.allows(host)) {
        let what = "this page is at an address, such as 127.0.0.1, and under no other name";
        return Response { heads: HEADS, ..Response::text("421 Misdirected Request", what) };
    }
    let page = place.scan().map_err(anyhow::Error::from).and_then(|(folder, scan)| {
        let path = request.path.as_str();
        match path.strip_prefix("/run/") {
            Some(name) => one(&scan, &decoded(name).unwrap_or_default()),
            None if path == "/compare" => two(&scan, &request.value("a"), &request.value("b")),
            None if path == "/" => many(&folder.display().to_string(), scan, request).map(Some),
            None => Ok(None),
        }
    });
    let (status, body) = match page {
        Ok(Some(body)) => ("200 OK", Ok(body)),
        Ok(None) => ("404 Not Found", problem_page("There is no such run or page here.")),
        Err(error) => ("500 Internal Server Error", problem_page(&sentence(&error))),
    };
    match body {
        Ok(body) => Response { status, kind: "text/html; charset=utf-8", body, heads: HEADS },
        Err(error) => Response { heads: HEADS, ..Response::text(status, &error.to_string()) },
    }
}

fn sentence(error: &anyhow::Error) -> String {
    let ours = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    ours.map_or_else(|| format!("{error:#}"), Error::to_string)
}

fn find<'s>(scan: &'s Scan, name: &str) -> Option<&'s RunFolder> {
    scan.runs.iter().find(|run| run.name == name)
}

/// The page of one run.
fn one(scan: &Scan, name: &str) -> Result<Option<String>> {
    find(scan, name).map(|run| Ok(page_of(&run.path, &PageStyle::default())?.text)).transpose()
}

/// The page of two compared runs.
fn two(scan: &Scan, a: &str, b: &str) -> Result<Option<String>> {
    let (Some(a), Some(b)) = (find(scan, a), find(scan, b)) else { return Ok(None) };
    page_of_two(&a.path, &b.path, &PageStyle::default()).map(Some)
}

/// The list of the runs that the filter selects.
fn many(place: &str, scan: Scan, request: &WebRequest) -> Result<String> {
    let (verb, state, words) = (request.value("verb"), request.value("state"), request.value("words"));
    let total = scan.runs.len();
    let mut verbs: Vec<String> = scan.runs.iter().map(|run| run.manifest.verb.clone()).collect();
    verbs.sort();
    verbs.dedup();
    let wanted = Condition::parse(&state);
    let is_meant = |run: &&RunFolder| {
        (verb.is_empty() || run.manifest.verb == verb)
            && (state.is_empty() || Some(run.condition) == wanted)
            && list::holds(run, &words)
    };
    let runs = scan.runs.iter().filter(is_meant).map(|run| ListedRun::from_run(run, &list::headline(run)));
    let runs: Vec<ListedRun> = runs.collect();
    let notes = scan.strangers.iter().map(|one| format!("{} {}", one.name, one.why)).collect();
    Ok(runs_page(&RunsPage { place: place.to_owned(), runs, total, verbs, verb, state, words, notes })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_names_of_ours() {
        let local = HostCheck { to_network: false };
        for host in ["127.0.0.1:7219", "localhost", "LOCALHOST:1", "[::1]:7219", "127.9.9.9"] {
            assert!(local.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example:7219",
            "127.0.0.1.evil.example",
            "10.0.0.7:1",
            "localhost.evil",
            "[::1",
            "0.0.0.0",
            "a:b",
        ] {
            assert!(!local.allows(host), "{host}");
        }
        let network = HostCheck { to_network: true };
        assert!(
            network.allows("10.0.0.7:7219") && network.allows("localhost") && !network.allows("db1:7219")
        );
    }
}
