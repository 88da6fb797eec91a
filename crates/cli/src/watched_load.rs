//! Watching beside a load that is part of something larger, and judging what was seen of each server when its load is over.
//!
//! A load is worth having without: where watching cannot start, that is a note and no error.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fathom_explain::{Judgement, judge};
use fathom_load::driving::Interval;
use fathom_record::{Finding, RunWriter};
use fathom_report::{findings_text, verdict_lines};
use serde_json::{Value, json};

use crate::live::{Live, WIDTH};
use crate::watching::{self, Session, WatchPlan};
use crate::{explaining, load_seconds, output};

/// What was seen of a server under load, judged.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The server, as the load's report calls it.
    pub(crate) server: String,
    pub(crate) judgement: Judgement,
    /// What could not be read.
    pub(crate) notes: Vec<String>,
}

/// The samplers beside the loads of one server.
pub(crate) struct Beside {
    session: Option<Session>,
}

impl Beside {
    /// Starts them; the first server gets `first_member` as its number in the run.
    pub(crate) fn start(
        url: &str,
        dir: Option<PathBuf>,
        namespace: String,
        first_member: usize,
        live: &Live,
    ) -> Beside {
        let zero = live.run.as_ref().map_or_else(Instant::now, RunWriter::started);
        let plan = WatchPlan::of_load(url, dir, Some(namespace), first_member);
        let session = plan.and_then(|plan| Session::beside(&plan, zero, None));
        let session = session
            .inspect_err(|error| output::note(&format!("fathom: the load is not watched: {error}")))
            .ok();
        Beside { session }
    }

    /// Nanoseconds of the run's clock.
    pub(crate) fn now_ns(&self, live: &Live) -> u64 {
        match (&live.run, &self.session) {
            (Some(run), _) => run.now_ns(),
            (None, Some(session)) => session.now_ns(),
            (None, None) => 0,
        }
    }

    /// Takes what a second of the load measured, and what the samplers brought.
    pub(crate) fn second(&mut self, live: &mut Live, interval: &Interval<'_>, tag: &str, zero_ns: u64) {
        live.keep(|run| load_seconds::keep_second(run, interval, tag, zero_ns));
        if let (Some(session), Some(window)) = (&mut self.session, load_seconds::window(interval, zero_ns)) {
            session.recent.readings(&load_seconds::readings(interval, tag, window));
        }
        self.keep(live);
    }

    fn keep(&mut self, live: &mut Live) {
        let Some(session) = &mut self.session else { return };
        while let Some(batch) = session.next(Duration::ZERO) {
            live.keep(|run| watching::write(run, &batch));
        }
    }

    /// Ends, and judges what was seen.
    pub(crate) fn end(mut self, server: &str, live: &mut Live) -> Option<Judged> {
        self.session.as_mut()?.stop();
        self.keep(live);
        let recent = self.session?.recent;
        let judgement = judge(&recent.evidence);
        live.keep(|run| explaining::entries(&judgement).iter().try_for_each(|entry| run.result(entry)));
        Some(Judged { server: server.to_owned(), judgement, notes: recent.notes })
    }
}

/// All findings of all servers, those that cost most first.
pub(crate) fn ranked(judged: &[Judged]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        judged.iter().flat_map(|one| one.judgement.findings.iter().cloned()).collect();
    // Each server's are ranked already.
    let share = |finding: &Finding| finding.cost.as_ref().map_or(-1.0, |cost| cost.share);
    findings.sort_by(|a, b| share(b).total_cmp(&share(a)).then_with(|| b.severity.cmp(&a.severity)));
    findings
}

/// Where the time went under load, and what was found; empty where nothing was watched.
pub(crate) fn text(judged: &[Judged]) -> String {
    let mut blocks = Vec::new();
    for one in judged {
        let verdict = one.judgement.verdict.iter().map(|verdict| verdict_lines(verdict, WIDTH).join("\n"));
        let parts: Vec<String> = verdict.chain(explaining::figures(&one.judgement)).collect();
        if !parts.is_empty() {
            blocks.push(format!("{} under load\n{}", one.server, parts.join("\n")));
        }
    }
    let findings = findings_text(&ranked(judged), WIDTH, false);
    if !findings.is_empty() {
        blocks.push(format!("Found under load\n{findings}"));
    }
    blocks.join("\n\n")
}

/// The same as a document.
pub(crate) fn document(judged: &[Judged]) -> Value {
    let one = |one: &Judged| {
        let mut fields = explaining::judged_fields(&one.judgement, &one.notes);
        fields.insert("server".to_owned(), json!(one.server));
        Value::Object(fields)
    };
    Value::Array(judged.iter().map(one).collect())
}
