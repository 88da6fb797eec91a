//! The columns of a block of samples by their use. Consecutive blocks of a server mostly have the same metrics, whose uses are kept.

use fathom_ftdc::{ROLES, SampleBlock, ServerFacts};

use super::engine_times;
use super::heartbeat_reader::HeartbeatField;
use super::host_columns::{HostColumn, mount_of};
use crate::server::{NameTree, ValuePath};

/// The dbPath of a server that was started without one.
const DEFAULT_DB_PATH: &str = "/data/db";

/// A metric's path without the role that it is recorded under.
fn without_role(path: &str) -> &str {
    let rest = |role: &&str| path.strip_prefix(*role).and_then(|rest| rest.strip_prefix('.'));
    ROLES.iter().find_map(rest).unwrap_or(path)
}

/// The use of a column.
#[derive(Clone, Debug)]
pub(super) enum ColumnUse {
    /// It adds to these value paths of the table of names, times these factors.
    Status(Vec<(usize, f64)>),
    Host(HostColumn),
    /// A bucket of times of the engine's reads or writes: the series behind `server.{member}.`.
    EngineTimes(String),
    Heartbeat(HeartbeatField),
    Pid,
    UptimeMs,
    /// When the sample ended.
    End,
    Unused,
}

impl ColumnUse {
    pub(super) fn from_path(path: &str, names: &NameTree) -> ColumnUse {
        // Each role has an end of its own.
        if path == "end" {
            return ColumnUse::End;
        }
        let path = without_role(path);
        match path.strip_prefix("serverStatus.") {
            Some("pid") => ColumnUse::Pid,
            Some("uptimeMillis") => ColumnUse::UptimeMs,
            Some(status) => match names.counts_at(status) {
                counts if counts.is_empty() => {
                    engine_times::series_of(status).map_or(ColumnUse::Unused, ColumnUse::EngineTimes)
                }
                counts => ColumnUse::Status(counts),
            },
            None => match path.strip_prefix("systemMetrics.") {
                Some(metric) => HostColumn::parse(metric).map_or(ColumnUse::Unused, ColumnUse::Host),
                None => HeartbeatField::parse(path).map_or(ColumnUse::Unused, ColumnUse::Heartbeat),
            },
        }
    }
}

/// The columns whose sum is a row of the table of names.
#[derive(Debug)]
pub(super) struct StatusColumns {
    /// The number of the row.
    pub(super) row: usize,
    path: &'static ValuePath,
    /// Numbers of columns with their factors.
    columns: Vec<(usize, f64)>,
}

impl StatusColumns {
    /// The value of a sample.
    pub(super) fn value(&self, columns: &[Vec<i64>], sample: usize) -> f64 {
        let values = self.columns.iter().filter_map(|(column, factor)| {
            columns.get(*column)?.get(sample).map(|value| *value as f64 * factor)
        });
        self.path.value(values.fold(0.0, |sum, value| sum + value))
    }
}

/// The column of a series that has no row in the table of names.
#[derive(Debug)]
pub(super) struct TrackColumn {
    pub(super) column: usize,
    /// The number of the series.
    pub(super) track: usize,
    pub(super) factor: f64,
    /// Whether it is a counter of the server's process, and not of its host.
    pub(super) is_of_process: bool,
}

/// The columns of a block by their use, all by their numbers.
#[derive(Debug, Default)]
pub(super) struct BlockColumns {
    /// The paths of the metrics, in the order of their columns.
    paths: Vec<String>,
    pub(super) pid: Option<usize>,
    pub(super) uptime_ms: Option<usize>,
    pub(super) end: Option<usize>,
    /// With the number of the time.
    pub(super) cpu_times: Vec<(usize, usize)>,
    pub(super) heartbeats: Vec<(usize, HeartbeatField)>,
    pub(super) status: Vec<StatusColumns>,
    pub(super) tracks: Vec<TrackColumn>,
}

impl BlockColumns {
    /// The columns of a block of the server with this number and these facts. `track` gives the number of a series by its name.
    pub(super) fn new(
        block: &SampleBlock<'_>,
        names: &NameTree,
        (member, facts): (usize, &ServerFacts),
        track: &mut dyn FnMut(String) -> Option<usize>,
    ) -> BlockColumns {
        let uses: Vec<ColumnUse> =
            block.metrics.iter().map(|metric| ColumnUse::from_path(&metric.path, names)).collect();
        let data_mount = data_mount(&uses, facts).map(str::to_owned);
        let paths = block.metrics.iter().map(|metric| metric.path.clone()).collect();
        let mut columns = BlockColumns { paths, ..BlockColumns::default() };
        let mut sums: Vec<Option<Vec<(usize, f64)>>> = vec![None; names.paths()];
        for (column, one) in uses.into_iter().enumerate() {
            let is_of_process = matches!(one, ColumnUse::EngineTimes(_));
            let (name, factor) = match one {
                ColumnUse::Host(HostColumn::Series(name, factor)) => (name, factor),
                ColumnUse::Host(HostColumn::Mount(mount, figure)) if data_mount.as_ref() == Some(&mount) => {
                    (figure.series(member), 1.0)
                }
                ColumnUse::EngineTimes(series) => (format!("server.{member}.{series}"), 1.0),
                ColumnUse::Status(counts) => {
                    for (path, factor) in counts {
                        let Some(sum) = sums.get_mut(path) else { continue };
                        // A factor of zero says only that the counter exists.
                        sum.get_or_insert_default().extend((factor != 0.0).then_some((column, factor)));
                    }
                    continue;
                }
                other => {
                    columns.set(column, &other);
                    continue;
                }
            };
            // A document may have a field twice.
            let is_new = |track: &usize| columns.tracks.iter().all(|known| known.track != *track);
            if let Some(track) = track(name).filter(is_new) {
                columns.tracks.push(TrackColumn { column, track, factor, is_of_process });
            }
        }
        let chosen = names.value_paths(|number| sums.get(number).is_some_and(Option::is_some));
        let of_row = |(row, path): (usize, Option<(usize, &'static ValuePath)>)| {
            let (number, path) = path?;
            Some(StatusColumns { row, path, columns: sums.get(number)?.clone()? })
        };
        columns.status = chosen.enumerate().filter_map(of_row).collect();
        columns
    }

    /// Sets the column of a use that is not a series.
    fn set(&mut self, column: usize, one: &ColumnUse) {
        match *one {
            ColumnUse::Pid => self.pid = Some(column),
            ColumnUse::UptimeMs => self.uptime_ms = Some(column),
            ColumnUse::End => self.end = Some(column),
            ColumnUse::Heartbeat(field) => self.heartbeats.push((column, field)),
            ColumnUse::Host(HostColumn::CpuTime(number)) => self.cpu_times.push((column, number)),
            ColumnUse::Host(_) | ColumnUse::Status(_) | ColumnUse::EngineTimes(_) | ColumnUse::Unused => {}
        }
    }

    /// Returns whether they are those of a block, if the facts on its server are the same.
    pub(super) fn are_of(&self, block: &SampleBlock<'_>) -> bool {
        self.paths.len() == block.metrics.len()
            && self.paths.iter().zip(block.metrics).all(|(path, metric)| *path == metric.path)
    }
}

/// The mount of the file system that holds the server's data.
fn data_mount<'u>(uses: &'u [ColumnUse], facts: &ServerFacts) -> Option<&'u str> {
    let mounts = uses.iter().filter_map(|one| match one {
        ColumnUse::Host(HostColumn::Mount(mount, _)) => Some(mount.as_str()),
        _ => None,
    });
    let db_path = facts.db_path.as_deref().unwrap_or(DEFAULT_DB_PATH);
    mount_of(db_path, mounts).filter(|_| facts.process.as_deref() != Some("mongos"))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use fathom_ftdc::{Metric, MetricKind};

    use super::*;
    use crate::server::NAMES;

    fn metrics(paths: &[&str]) -> Vec<Metric> {
        let metric = |path: &&str| Metric { path: (*path).to_owned(), kind: MetricKind::Int64, first: 0 };
        paths.iter().map(metric).collect()
    }

    /// Passes a block of one sample to `check`: metrics by their paths, with their values.
    fn with_block(paths: &[&str], values: &[i64], check: &dyn Fn(&SampleBlock<'_>)) {
        let (metrics, reference) = (metrics(paths), rawdoc! {});
        let columns: Vec<Vec<i64>> = values.iter().map(|value| vec![*value]).collect();
        check(&SampleBlock {
            directory: "db1",
            file: "metrics.interim",
            facts: &ServerFacts::default(),
            reference: &reference,
            starts_ms: &[0],
            metrics: &metrics.iter().collect::<Vec<_>>(),
            columns: &columns,
        });
    }

    #[test]
    fn columns_are_added_up_to_series_and_a_repeated_field_counts_once() {
        let paths = [
            "serverStatus.locks.Global.acquireCount.r",
            "serverStatus.locks.Database.acquireCount.w",
            "serverStatus.locks.Database.timeAcquiringMicros.r",
            "serverStatus.locks.Database.timeAcquiringMicros.w",
            "serverStatus.mem.resident",
            "systemMetrics.mounts./data/db.available",
            "systemMetrics.mounts./data/db.available",
            "systemMetrics.mounts./.available",
            "shard.serverStatus.pid",
            "end",
        ];
        with_block(&paths, &[9, 9, 5, 7, 3, 40, 40, 50, 77, 88], &|block| {
            let mut tracks = Vec::new();
            let mut track = |name: String| {
                let at = tracks.iter().position(|known| *known == name);
                Some(at.unwrap_or_else(|| {
                    tracks.push(name);
                    tracks.len() - 1
                }))
            };
            let facts = ServerFacts::default();
            let columns = BlockColumns::new(block, &NameTree::new(), (2, &facts), &mut track);
            let status: Vec<(&str, f64)> = columns
                .status
                .iter()
                .map(|one| (NAMES[one.row].series, one.value(block.columns, 0)))
                .collect();
            let expected = [
                ("wait.lock_us", 12.0),
                ("lock.global.wait_us", 0.0),
                ("lock.database.wait_us", 12.0),
                ("process.resident_bytes", 3.0 * 1_048_576.0),
            ];
            assert_eq!(status, expected);
            let [volume] = columns.tracks.as_slice() else { panic!("{:?}", columns.tracks) };
            assert_eq!(
                (volume.column, volume.is_of_process, tracks),
                (5, false, vec!["server.2.volume.available_bytes".to_owned()])
            );
            assert_eq!((columns.pid, columns.end, columns.uptime_ms), (Some(8), Some(9), None));
            assert!(columns.are_of(block));
            let other = [&paths[..9], &["start"]].concat();
            with_block(&other, &[0; 10], &|block| assert!(!columns.are_of(block)));
            with_block(&paths[..9], &[0; 9], &|block| assert!(!columns.are_of(block)));
        });
    }
}
