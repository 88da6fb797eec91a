//! `fathom runs diff` and `trend`: compare runs: the differences between two, and figures over all of the same kind with the
//! points at which their level changed.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use fathom_explain::{HistoryRun, ReadRun, compare, histories};
use fathom_record::history::{ChangeState, History};
use fathom_report::{comparison_lines, history_lines, printable};
use fathom_session::{open_run, run_folders};
use serde_json::json;

use super::list::{self, RunFilter, RunsFolder};
use crate::outcome::VerbOutcome;
use crate::output::{self, WIDTH};
use crate::run_page::look_at;

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// A, the run to compare with, and B, the run that is compared: paths, names, parts of names, or last, last~1
    /// ... Without A it is the run of the same verb before B [default: last]
    #[arg(value_name = "RUN", num_args = 0..=2)]
    named: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn diff(args: &DiffArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    let (a, b) = args.folders(place)?;
    let read = |folder: &Path| -> Result<ReadRun> { Ok(ReadRun::read(look_at(folder)?, open_run(folder)?)?) };
    let comparison = compare(&read(&a)?, &read(&b)?);
    if args.json {
        output::line(&serde_json::to_string_pretty(&comparison)?)?;
    } else {
        output::line(&comparison_lines(&comparison, WIDTH).join("\n"))?;
    }
    Ok(VerbOutcome::Clean)
}

impl DiffArgs {
    /// The folders of A and B. A single name is that of B.
    fn folders(&self, place: &RunsFolder) -> Result<(PathBuf, PathBuf)> {
        let last = PathBuf::from("last");
        match self.named.as_slice() {
            [a, b] => Ok((place.find(a)?, place.find(b)?)),
            names => {
                let b = place.find(names.first().unwrap_or(&last))?;
                Ok((run_folders::previous(&b)?, b))
            }
        }
    }
}

/// The number of histories without `--all`.
const SHOWN: usize = 10;
/// If at least this many figures change in the same way, the measuring has changed rather than the measured system.
const MIN_ALIKE: usize = 5;

#[derive(Debug, Args)]
pub(super) struct TrendArgs {
    /// Words of a figure's name (read p99, knee, throughput workloada) [default: the main figure of each run]
    #[arg(value_name = "METRIC")]
    metric: Vec<String>,
    /// Show every point of a history
    #[arg(long)]
    points: bool,
    /// Show all histories, also those of one run
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: RunFilter,
    /// Print one JSON document with every history and point
    #[arg(long)]
    json: bool,
}

pub(super) fn trend(args: &TrendArgs, place: &RunsFolder) -> Result<VerbOutcome> {
    let (folder, mut scan) = place.scan()?;
    args.filter.apply(&mut scan.runs);
    let words: Vec<String> =
        args.metric.iter().flat_map(|one| one.split_whitespace()).map(str::to_owned).collect();
    let mut points = Vec::new();
    for run in &scan.runs {
        match HistoryRun::read(run, &words) {
            Ok(read) => points.extend(read),
            Err(error) => output::note(&format!("fathom: {} is passed over: {error}", printable(&run.name))),
        }
    }
    let found = histories(&points);
    if args.json {
        output::line(&serde_json::to_string_pretty(&json!({ "histories": found }))?)?;
        return Ok(VerbOutcome::Clean);
    }
    if found.is_empty() {
        let (place, what) = (printable(&folder.display().to_string()), printable(&words.join(" ")));
        let what =
            if what.is_empty() { "a main figure".to_owned() } else { format!("a figure named '{what}'") };
        output::line(&format!(
            "None of the {} complete runs under {place} that match has {what}.",
            scan.runs.len()
        ))?;
        return Ok(VerbOutcome::Clean);
    }
    show(args, &found)?;
    list::notes(&scan);
    Ok(VerbOutcome::Clean)
}

fn show(args: &TrendArgs, found: &[History]) -> Result<()> {
    let is_shown = |history: &&History| args.all || history.points.len() > 1;
    let several: Vec<&History> = found.iter().filter(is_shown).collect();
    let most = if args.all { usize::MAX } else { SHOWN };
    for history in several.iter().take(most) {
        output::line(&history_lines(history, args.points, WIDTH).join("\n"))?;
        output::line("")?;
    }
    let (shown, once) = (several.len().min(most), found.len() - several.len());
    if several.is_empty() {
        output::line("No figure was measured twice by the same command on the same kind of machine.")?;
    }
    if several.len() > shown {
        output::line(&format!("{} more; --all shows them", several.len() - shown))?;
    }
    if once > 0 {
        output::line(&format!("{once} of one run each; --all shows them"))?;
    }
    if let Some(sentence) = alarm_on_ourselves(found) {
        output::line(&sentence)?;
    }
    Ok(())
}

/// Many figures that change in the same way at once point to a common cause: the version, the machine, the day.
fn alarm_on_ourselves(found: &[History]) -> Option<String> {
    let changes =
        || found.iter().flat_map(|one| &one.changes).filter(|change| change.state == ChangeState::Change);
    let better = changes().filter(|change| change.improved).count();
    let all = changes().count();
    (all >= MIN_ALIKE && (better == 0 || better == all)).then(|| {
        let way = if better == 0 { "worse" } else { "better" };
        format!("All {all} changes are for the {way}: look at what these runs share (version, machine, disk) before each of them.")
    })
}

#[cfg(test)]
mod tests {
    use fathom_record::figure::BetterDirection;
    use fathom_record::history::{HistoryChange, Reach};

    use super::*;

    fn history(improved: bool) -> History {
        let change = HistoryChange {
            index: 1,
            run: String::new(),
            started: String::new(),
            before: 1.0,
            after: 2.0,
            improved,
            p: 0.001,
            superiority: 1.0,
            state: ChangeState::Change,
        };
        History {
            subject: String::new(),
            metric: String::new(),
            unit: String::new(),
            better: BetterDirection::Higher,
            verb: String::new(),
            command: String::new(),
            environment: String::new(),
            points: Vec::new(),
            changes: vec![change],
            reach: Reach::Judgement,
            noise_floor: 0.02,
        }
    }

    #[test]
    fn many_changes_in_one_direction_are_an_alarm_on_the_measuring() {
        let mut found = vec![history(false); 5];
        assert!(alarm_on_ourselves(&found).unwrap().contains("for the worse"));
        assert_eq!(alarm_on_ourselves(&found[..4]), None);
        found.push(history(true));
        assert_eq!(alarm_on_ourselves(&found), None);
    }
}
