//! Judges the recordings that servers made of themselves, segment by segment as they are read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fathom_errors::{Error, Result};
use fathom_explain::recording::{ClockOffset, RecordedFacts, RecordingJudge, RecordingJudgement, SEGMENT_MS};
use fathom_ftdc::{SampleFilter, ServerDumps, ServerFacts};
use fathom_monitor::{ClockStep, RecordedEvent, RecordedProcess, RecordingOwner, read_recorded_series};
use fathom_record::SlowOperationTable;
use serde::Serialize;

/// The error if no sample passes a filter. A part that could not be read may be the reason.
pub(crate) fn no_sample(problems: Vec<Error>) -> Error {
    let what = "the recording holds fewer than two samples in the chosen time";
    let error = Error::usage(what).advise("'fathom ftdc info' shows its span");
    match problems.into_iter().next() {
        Some(problem) => error.because(problem),
        None => error,
    }
}

/// A server's recording and its judgement.
#[derive(Debug)]
pub struct JudgedRecording {
    /// The directory of its files.
    pub directory: String,
    pub facts: ServerFacts,
    pub judgement: RecordingJudgement,
    /// Its clock, if an earlier server is a member of the same set.
    pub clock: Option<MemberClock>,
    /// The steps of its host's clock to an earlier time.
    pub clock_steps: Vec<ClockStep>,
    /// Its processes, in the order in which they were found.
    pub processes: Vec<RecordedProcess>,
    /// The slow operations of its log, if that was read.
    pub slow_operations: Option<SlowOperationTable>,
}

/// A member's clock, compared with that of another member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberClock {
    /// The host of the member that it is compared with.
    pub reference: String,
    /// By how much it is ahead of that member's clock.
    #[serde(flatten)]
    pub offset: ClockOffset,
}

/// Judges the samples of recordings that pass a filter; `device` is the database's, if it is known, and `dumps` have facts that a recording lacks.
/// Returns the servers in the order in which they were found, and the errors of parts that could not be read.
///
/// # Errors
/// If an input does not exist or holds no recording, or no sample passes the filter.
pub fn judge_recordings(
    inputs: &[PathBuf],
    filter: SampleFilter,
    device: Option<&str>,
    dumps: &ServerDumps,
) -> Result<(Vec<JudgedRecording>, Vec<Error>)> {
    let mut judges: BTreeMap<usize, RecordingJudge> = BTreeMap::new();
    let mut judged: Vec<(RecordingOwner, RecordingJudgement)> = Vec::new();
    let problems = read_recorded_series(inputs, filter, dumps, SEGMENT_MS, &mut |event| {
        match event {
            RecordedEvent::Segment(segment) => {
                let new = || RecordingJudge::new(segment.member).with_device(device);
                let judge = judges.entry(segment.member).or_insert_with(new);
                judge.add_segment(recorded_facts(segment.facts), segment.series, segment.window_ns);
            }
            RecordedEvent::End(owner) => {
                let judgement = judges.remove(&owner.member).and_then(RecordingJudge::finish);
                judged.extend(judgement.map(|judgement| (owner, judgement)));
            }
        }
        Ok(())
    })?;
    judged.sort_by_key(|(owner, _)| owner.member);
    let clocks = member_clocks(&judged);
    let server = |((owner, judgement), clock): ((RecordingOwner, RecordingJudgement), _)| JudgedRecording {
        directory: owner.directory,
        facts: owner.facts,
        judgement,
        clock,
        clock_steps: owner.clock_steps,
        processes: owner.processes,
        slow_operations: None,
    };
    let servers: Vec<JudgedRecording> = judged.into_iter().zip(clocks).map(server).collect();
    if servers.is_empty() {
        return Err(no_sample(problems));
    }
    Ok((servers, problems))
}

/// The clock of each server, compared with the first member of its set that gives an answer for it.
fn member_clocks(servers: &[(RecordingOwner, RecordingJudgement)]) -> Vec<Option<MemberClock>> {
    let compared = |reference: &RecordingOwner, member: &RecordingOwner| {
        let is_same_set = reference.facts.replica_set.is_some()
            && reference.facts.replica_set == member.facts.replica_set
            && reference.facts.set_members == member.facts.set_members;
        let offset =
            is_same_set.then(|| ClockOffset::between(&reference.heartbeats, &member.heartbeats)).flatten()?;
        let host = host_of(&reference.facts, &reference.directory);
        Some(MemberClock { reference: host.to_owned(), offset })
    };
    let clock = |(number, (member, _)): (usize, &(RecordingOwner, RecordingJudgement))| {
        servers.iter().take(number).find_map(|(reference, _)| compared(reference, member))
    };
    servers.iter().enumerate().map(clock).collect()
}

/// A server's host and port, or the directory of its recording if that does not say them.
pub fn host_of<'s>(facts: &'s ServerFacts, directory: &'s str) -> &'s str {
    facts.hosts.last().map_or(directory, String::as_str)
}

pub(crate) fn recorded_facts(facts: &ServerFacts) -> RecordedFacts {
    RecordedFacts {
        host: facts.hosts.first().cloned().unwrap_or_default(),
        version: facts.versions.last().cloned().unwrap_or_default(),
        engine: facts.storage_engine.clone().unwrap_or_default(),
        is_router: facts.process.as_deref() == Some("mongos"),
        is_disaggregated: facts.is_disaggregated,
    }
}
