//! The journals of the file systems on the watched devices.
//!
//! ext4 tells the time of a commit only as a moving average of the last few, so the time of a window is an estimate: its
//! commits times that average. It is right for commits that are alike, and late by a few of them after a change.

use std::collections::HashMap;

use fathom_errors::Result;
use fathom_host::View;
use fathom_host::file_system_journal::{JournalCounters, read};

use super::{Edge, Target};
use crate::{Batch, Sampler};

/// Reads them.
pub(crate) struct Journals {
    view: View,
    names: Vec<String>,
    edge: Edge,
    last: HashMap<String, JournalCounters>,
}

impl Journals {
    pub(crate) fn new(view: &View, targets: &[Target]) -> Journals {
        let names = targets.iter().map(|target| target.name.clone()).collect();
        Journals { view: view.clone(), names, edge: Edge::default(), last: HashMap::new() }
    }
}

impl Sampler for Journals {
    fn name(&self) -> String {
        "journal".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        let now: HashMap<String, JournalCounters> =
            read(&self.view).into_iter().filter(|(name, _)| self.names.contains(name)).collect();
        let Some(window_ns) = self.edge.window_to(batch.clock.now_ns()) else {
            self.last = now;
            return Ok(());
        };
        for (name, counters) in &now {
            // A fall is a file system that was mounted anew.
            let before = self.last.get(name).map(|before| before.commits);
            let Some(commits) = before.and_then(|before| counters.commits.checked_sub(before)) else {
                continue;
            };
            batch.put(format!("host.journal.{name}.commits"), "1", window_ns, commits as f64);
            if let Some(recent_us) = counters.recent_commit_us {
                let spent_us = commits.saturating_mul(recent_us);
                batch.put(format!("host.journal.{name}.commit_us"), "us", window_ns, spent_us as f64);
            }
        }
        self.last = now;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::{machine, run_twice};

    #[test]
    fn the_time_of_commits_is_their_number_times_the_recent_mean() {
        let (folder, view) = machine(&[
            ("sys/block/sda/dev", "8:0"),
            (
                "proc/fs/jbd2/sda-8/info",
                "10 transactions (9 requested)\n 500us average transaction commit time\n",
            ),
            ("proc/fs/jbd2/sdb-8/info", "10 transactions (9 requested)\n"),
        ]);
        let targets = super::super::Devices::Named(vec!["sda".into()]).find(&view).unwrap();
        let values = run_twice(&mut Journals::new(&view, &targets), || {
            let text = "13 transactions (9 requested)\n 600us average transaction commit time\n";
            std::fs::write(folder.path().join("proc/fs/jbd2/sda-8/info"), text).unwrap();
        });
        let expected = [("host.journal.sda.commits", 3.0), ("host.journal.sda.commit_us", 1800.0)];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
