//! Figures of many runs as histories: the same metric of the same subject, by the same command, on the same kind of machine, with the points where
//! its level changed.
//!
//! Only runs that ran to their end are points. If the runs are too few to tell, a change is a suspicion or is not reported
//! (`fathom_stats::level_changes`). Among many histories some look changed by chance, so changes that do not survive a test for that
//! are suspicions too.

use std::collections::BTreeMap;

use fathom_errors::Result;
use fathom_record::Run;
use fathom_record::figure::{BetterDirection, Figure, figures, main_figure, tail_beside};
use fathom_record::folders::{Condition, RunFolder};
use fathom_record::history::{ChangeState, History, HistoryChange, HistoryPoint, Reach};
use fathom_stats::{
    HistoryReach, HistoryVerdict, LevelChange, MIN_VALUES_TO_SUSPECT, SeededRandom, benjamini_hochberg,
    level_changes, median,
};

use crate::Fingerprint;
use crate::comparison::command_words;
use crate::run_noise::run_noise;

const SURROGATES: usize = 1999;
/// The share of the histories called changed that may be wrong.
const MAX_FALSE_SHARE: f64 = 0.05;
const SEED: u64 = 0x41_39;
/// The number of earlier runs that are read for a run's page: months of one a day, and twice the number that a judgement needs.
const MAX_EARLIER_RUNS: usize = 99;

/// A run as a point of histories.
#[derive(Debug)]
pub struct HistoryRun<'f> {
    folder: &'f RunFolder,
    figures: Vec<(Figure, Option<(f64, f64)>)>,
}

impl<'f> HistoryRun<'f> {
    /// Reads the figures of a run whose subject or metric contain all `words`, or its main figure without words. `None` for
    /// one that did not run to its end or has no such figure.
    ///
    /// # Errors
    /// When its results cannot be read.
    pub fn read(folder: &'f RunFolder, words: &[String]) -> Result<Option<HistoryRun<'f>>> {
        let holds = |figure: &Figure| {
            let text = format!("{} {}", figure.subject, figure.metric).to_lowercase();
            words.iter().all(|word| text.contains(&word.to_lowercase()))
        };
        HistoryRun::from_folder(folder, |figures| match words.is_empty() {
            true => main_figure(&figures).cloned().into_iter().collect(),
            false => figures.into_iter().filter(holds).collect(),
        })
    }

    /// A run that ran to its end, with those of its figures that `chosen` accepts.
    fn from_folder(
        folder: &'f RunFolder,
        chosen: impl FnOnce(Vec<Figure>) -> Vec<Figure>,
    ) -> Result<Option<HistoryRun<'f>>> {
        if folder.condition != Condition::Complete {
            return Ok(None);
        }
        let run = Run::open(&folder.path)?;
        let results = run.results()?;
        let wanted = chosen(figures(&results));
        let interval =
            |figure: &Figure| run_noise(&run, &results, figure).map(|noise| (noise.low, noise.high));
        let figures: Vec<_> = wanted
            .into_iter()
            .map(|figure| {
                let interval = interval(&figure);
                (figure, interval)
            })
            .collect();
        Ok((!figures.is_empty()).then_some(HistoryRun { folder, figures }))
    }
}

/// The histories of the main figure of `run` and its percentile. Their points are the runs of its kind among `others` that began before it, at
/// most the newest hundred; `run` is the last point of each. Empty if those are too few, or if `run` did not run to its end. A run that cannot be
/// read is skipped, and so is one without the figure.
pub fn histories_up_to(run: &RunFolder, others: &[RunFolder]) -> Vec<History> {
    let kind = |one: &RunFolder| {
        let manifest = &one.manifest;
        let machine = Fingerprint::from_environment(&manifest.environment);
        (manifest.verb.clone(), command_words(&manifest.command_line), machine)
    };
    let own = kind(run);
    let is_earlier = |one: &&RunFolder| {
        one.condition == Condition::Complete
            && (one.started, &one.name) < (run.started, &run.name)
            && kind(one) == own
    };
    let mut alike: Vec<&RunFolder> = others.iter().filter(is_earlier).collect();
    alike.sort_by_key(|one| std::cmp::Reverse((one.started, one.name.clone())));
    alike.truncate(MAX_EARLIER_RUNS);
    alike.push(run);
    if alike.len() < MIN_VALUES_TO_SUSPECT {
        return Vec::new();
    }
    let headline = |figures: Vec<Figure>| {
        let main = main_figure(&figures);
        let tail = main.and_then(|main| tail_beside(main, &figures));
        main.into_iter().chain(tail).cloned().collect()
    };
    let read: Vec<HistoryRun<'_>> =
        alike.into_iter().filter_map(|one| HistoryRun::from_folder(one, headline).ok().flatten()).collect();
    let mut found = histories(&read);
    let is_told = |history: &History| {
        history.reach != Reach::TooFew && history.points.last().is_some_and(|last| last.run == run.name)
    };
    found.retain(is_told);
    found
}

/// The histories of `runs`, those with the most points first.
pub fn histories(runs: &[HistoryRun<'_>]) -> Vec<History> {
    let mut grouped: BTreeMap<[String; 5], History> = BTreeMap::new();
    let mut sorted: Vec<&HistoryRun<'_>> = runs.iter().collect();
    sorted.sort_by(|one, two| {
        (one.folder.started, &one.folder.name).cmp(&(two.folder.started, &two.folder.name))
    });
    for run in sorted {
        let manifest = &run.folder.manifest;
        let environment = Fingerprint::from_environment(&manifest.environment).words();
        let command = command_words(&manifest.command_line);
        for (figure, interval) in &run.figures {
            let key =
                [&manifest.verb, &command, &environment, &figure.subject, &figure.metric].map(String::clone);
            let empty = || empty(figure, &manifest.verb, &command, &environment);
            grouped.entry(key).or_insert_with(empty).points.push(HistoryPoint {
                run: run.folder.name.clone(),
                started: manifest.started.clone(),
                value: figure.value,
                interval: *interval,
            });
        }
    }
    let mut histories: Vec<History> = grouped.into_values().collect();
    judge(&mut histories);
    histories.sort_by_key(|history| std::cmp::Reverse(history.points.len()));
    histories
}

fn empty(figure: &Figure, verb: &str, command: &str, environment: &str) -> History {
    History {
        subject: figure.subject.clone(),
        metric: figure.metric.clone(),
        unit: figure.unit.clone(),
        better: figure.better,
        verb: verb.to_owned(),
        command: command.to_owned(),
        environment: environment.to_owned(),
        points: Vec::new(),
        changes: Vec::new(),
        reach: Reach::TooFew,
        noise_floor: 0.0,
    }
}

fn judge(histories: &mut [History]) {
    let parent = SeededRandom::from_seed(SEED);
    let verdicts: Vec<Option<HistoryVerdict>> = (0u64..)
        .zip(histories.iter())
        .map(|(number, history)| {
            let values: Vec<f64> = history.points.iter().map(|point| point.value).collect();
            level_changes(&values, noise_floor(history), SURROGATES, &mut parent.split(number))
        })
        .collect();
    let tested =
        |verdict: &Option<HistoryVerdict>| verdict.as_ref().map_or(1.0, |verdict| verdict.smallest_p);
    let adjusted = benjamini_hochberg(&verdicts.iter().map(tested).collect::<Vec<_>>());
    for ((history, verdict), p) in histories.iter_mut().zip(verdicts).zip(adjusted) {
        let Some(verdict) = verdict else { continue };
        history.noise_floor = verdict.noise_floor;
        history.reach = match verdict.reach {
            HistoryReach::TooFew => Reach::TooFew,
            HistoryReach::Suspicion => Reach::Suspicion,
            HistoryReach::Judgement => Reach::Judgement,
        };
        let is_sure = history.reach == Reach::Judgement && p <= MAX_FALSE_SHARE;
        let state = if is_sure { ChangeState::Change } else { ChangeState::Suspect };
        history.changes = verdict.changes.iter().filter_map(|change| told(history, change, state)).collect();
    }
}

fn told(history: &History, change: &LevelChange, state: ChangeState) -> Option<HistoryChange> {
    let first = history.points.get(change.index)?;
    let LevelChange { index, before, after, p, superiority } = *change;
    Some(HistoryChange {
        index,
        run: first.run.clone(),
        started: first.started.clone(),
        before,
        after,
        improved: (after > before) == (history.better == BetterDirection::Higher),
        p,
        superiority,
        state,
    })
}

/// The variation of values within a run, as a share: the median half-width of the points' own intervals.
fn noise_floor(history: &History) -> f64 {
    let half = |point: &HistoryPoint| {
        let (low, high) = point.interval?;
        (point.value > 0.0).then(|| (high - low) / 2.0 / point.value)
    };
    median(&history.points.iter().filter_map(half).collect::<Vec<_>>()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fathom_record::disk::{Entry, Knee};
    use fathom_record::folders::scan;
    use fathom_record::{Manifest, RunWriter, State};

    use super::*;

    /// A run of `fathom disk` on day `day` that found this knee.
    fn run(parent: &Path, day: i64, most_per_s: f64, memory: &str, state: State) {
        let mut manifest =
            Manifest::new("disk", "0", ["fathom", "disk", "--dir", "/data"].map(str::to_owned));
        let start: i64 = 1_700_000_000 + day * 86_400;
        let (y, d) = (2026 + day / 336, day % 336);
        manifest.started = format!("{y}-{:02}-{:02}T09:30:00Z", 1 + d / 28, 1 + d % 28);
        manifest.environment.insert("memory.bytes".to_owned(), memory.to_owned());
        manifest.seed = start.unsigned_abs();
        let mut writer = RunWriter::create(parent, manifest).unwrap();
        let knee = Knee {
            phase: "random reads".to_owned(),
            latency_at_one_ns: 1e5,
            throughput_max_per_s: most_per_s,
            concurrency: 4.0,
            depth_for_90_pct: None,
            model: "amdahl".to_owned(),
            rivals: Vec::new(),
            words: String::new(),
            withheld: None,
        };
        writer.result(&Entry::Knee(knee)).unwrap();
        writer.finish(state, None).unwrap();
    }

    /// Of sixty runs on one machine, newest first, and two that are no points of theirs.
    fn a_page_shows_what_was_before(runs: &[RunFolder]) {
        let alike: Vec<&RunFolder> = runs
            .iter()
            .filter(|run| {
                run.condition == Condition::Complete
                    && run.manifest.environment["memory.bytes"] == "16637370368"
            })
            .collect();
        assert_eq!(alike.len(), 60);
        let [newest]: [History; 1] = histories_up_to(alike[0], runs).try_into().unwrap();
        assert_eq!((newest.points.len(), newest.changes.len(), newest.reach), (60, 1, Reach::Judgement));
        let [older]: [History; 1] = histories_up_to(alike[40], runs).try_into().unwrap();
        assert_eq!((older.points.len(), older.reach), (20, Reach::Suspicion), "nothing of what came later");
        assert_eq!(older.points.last().unwrap().run, alike[40].name);
        assert!(histories_up_to(alike[51], runs).is_empty(), "nine say nothing");
        for other in runs.iter().filter(|run| !alike.iter().any(|one| one.name == run.name)) {
            assert!(histories_up_to(other, runs).is_empty(), "{:?}", other.manifest);
        }
    }

    fn histories_in(parent: &Path, words: &[&str]) -> Vec<History> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let scan = scan(parent).unwrap();
        let runs: Vec<HistoryRun<'_>> =
            scan.runs.iter().filter_map(|run| HistoryRun::read(run, &words).unwrap()).collect();
        histories(&runs)
    }

    #[test]
    fn a_level_that_fell_after_a_date_is_told_with_enough_runs_and_suspected_with_fewer() {
        let parent = tempfile::tempdir().unwrap();
        let mut stream = SeededRandom::from_seed(3);
        for day in 0..60 {
            let level = if day < 35 { 100_000.0 } else { 80_000.0 };
            run(parent.path(), day, level * (1.0 + 0.02 * stream.normal()), "16637370368", State::Complete);
        }
        run(parent.path(), 61, 1.0, "16637370368", State::Interrupted);
        run(parent.path(), 62, 1.0, "33274740736", State::Complete);
        let found = histories_in(parent.path(), &[]);
        assert_eq!(found.iter().map(|one| one.points.len()).collect::<Vec<_>>(), [60, 1], "two machines");
        let [change] = found[0].changes.as_slice() else { panic!("{:?}", found[0].changes) };
        assert_eq!((change.index, change.state, change.improved), (35, ChangeState::Change, false));
        assert_eq!(change.started, "2026-02-08T09:30:00Z");
        assert_eq!((found[0].reach, found[1].reach), (Reach::Judgement, Reach::TooFew));
        assert!(histories_in(parent.path(), &["no such"]).is_empty());
        a_page_shows_what_was_before(&scan(parent.path()).unwrap().runs);
        assert_eq!(histories_in(parent.path(), &["LATENCY", "knee"])[0].metric, "latency of one request");

        let few = tempfile::tempdir().unwrap();
        for day in 0..24 {
            let level = if day < 12 { 100_000.0 } else { 60_000.0 };
            run(few.path(), day, level * (1.0 + 0.01 * stream.normal()), "16637370368", State::Complete);
        }
        let found = histories_in(few.path(), &[]);
        assert_eq!(found[0].reach, Reach::Suspicion);
        assert!(found[0].changes.iter().all(|change| change.state == ChangeState::Suspect));
        assert_eq!(found[0].changes.len(), 1, "{:?}", found[0]);
    }
}
