//! The seconds of a window in which everything was read, as rows of sums, for one server.
//!
//! A second counts only if the client's and the server's readings both cover it. A counter that was reset, or a
//! sampler that paused, removes seconds and never adds zeros.

use fathom_record::Point;

use super::columns::{COLUMNS, Column, OF_OPERATIONS, OF_SERVER, add, at};
use crate::Evidence;
use crate::client::{ClientLoads, ReadWriteType, points};
use crate::member;
use crate::server_devices::tops;
use crate::windows::{Window, apart, read_in, spread};

/// A series that covers less of the seconds than this is taken as absent rather than as a reason to drop them.
const MIN_COVERED_SHARE: f64 = 0.8;

/// Rows of one server.
#[derive(Clone, Debug)]
pub(crate) struct ServerFrame {
    pub(crate) member: String,
    /// The seconds, and their rows.
    pub(crate) windows: Vec<Window>,
    pub(crate) rows: Vec<Vec<f64>>,
    /// The 99th percentile of the slowest kind of operation in each second, in nanoseconds; NaN in a second without one.
    pub(crate) p99_ns: Vec<f64>,
    /// The mean of pings read in each second, in microseconds; NaN in a second without one.
    pub(crate) pings_us: Vec<f64>,
    /// Which columns were read.
    pub(crate) read: [bool; COLUMNS],
    /// Whether the client was watched.
    pub(crate) has_client: bool,
    /// The prefixes of the series of the client's operations.
    pub(crate) operations: Vec<String>,
    /// Whether operations are those of the namespace watched rather than of the whole server.
    pub(crate) of_namespace: bool,
    /// The devices that the data's file system is on, if they are known and were watched.
    pub(crate) devices: Vec<String>,
    /// Whether a control group limits reads of such a device: what waits for the limit waits above it.
    pub(crate) is_capped: bool,
    /// Whether its set has no other voting member: then this member's own journal is the majority.
    pub(crate) is_alone: bool,
    /// Whether clients reach it through a router.
    pub(crate) behind_router: bool,
    /// Seconds that were left out, because a counter was reset or was not read.
    pub(crate) left_out: usize,
}

impl ServerFrame {
    /// The rows of a server in the evidence's window; `None` if its operations were not read.
    pub(crate) fn from_evidence(
        evidence: &Evidence,
        member: &str,
        client: Option<&ClientLoads>,
    ) -> Option<ServerFrame> {
        let name = |tail: &str| format!("server.{member}.{tail}");
        let windows = match client {
            Some(client) => client.windows(evidence),
            None => server_windows(evidence, &name("reads.latency_us")),
        };
        if windows.is_empty() {
            return None;
        }
        let mut draft = Draft::new(windows);
        draft.client(evidence, client);
        for (column, tail) in OF_SERVER {
            draft.sum(*column, points(evidence, &name(tail)));
        }
        let of_namespace = draft.operations(evidence, member)?;
        let devices = tops(evidence, member);
        for device in &devices {
            draft.sum(Column::DeviceReads, points(evidence, &format!("device.{device}.reads")));
            let times = points(evidence, &format!("device.{device}.read_ms"));
            let times: Vec<Point> =
                times.iter().map(|one| Point { value: one.value * 1000.0, ..*one }).collect();
            draft.sum(Column::DeviceReadTime, &times);
        }
        for (column, tail) in
            [(Column::WaitingReads, "queue.readers"), (Column::WaitingWrites, "queue.writers")]
        {
            let waiting = read_in(points(evidence, &name(tail)), &draft.windows);
            draft.put(column, &waiting);
        }
        let pings = read_in(points(evidence, &name("ping_us")), &draft.windows);
        draft.put(Column::Ping, &pings);
        draft.put(Column::Pings, &pings.iter().map(|ping| ping.map(|_| 1.0)).collect::<Vec<_>>());
        let pings_us = pings.into_iter().map(|ping| ping.unwrap_or(f64::NAN)).collect();
        let p99_ns = client.map_or_else(Vec::new, |client| slowest_p99(evidence, client, &draft.windows));
        let mut frame = draft.finish(member, pings_us, p99_ns, devices);
        frame.of_namespace = of_namespace;
        frame.is_capped = frame.devices.iter().any(|device| {
            let cap = |kind: &str| evidence.series.get(&format!("device.{device}.cap.{kind}"));
            cap("read_iops").or_else(|| cap("read_bytes_per_s")).is_some()
        });
        frame.is_alone = member::is_alone(evidence, member);
        frame.behind_router = !member::routers(evidence).is_empty();
        frame.has_client = client.is_some();
        let operations = client.into_iter().flat_map(|client| &client.operations);
        frame.operations =
            operations.filter(|one| one.kind != ReadWriteType::Other).map(|one| one.prefix.clone()).collect();
        Some(frame)
    }

    /// Whether a column was read.
    pub(crate) fn has(&self, column: Column) -> bool {
        self.read.get(column as usize).copied().unwrap_or(false)
    }

    /// The sum of all rows.
    pub(crate) fn total(&self) -> Vec<f64> {
        sum_of(&self.rows)
    }

    /// From the first second's start to the last one's end.
    pub(crate) fn window_ns(&self) -> Window {
        (self.windows.first().map_or(0, |one| one.0), self.windows.last().map_or(0, |one| one.1))
    }
}

/// The sum of these rows.
pub(crate) fn sum_of<'r>(rows: impl IntoIterator<Item = &'r Vec<f64>>) -> Vec<f64> {
    let mut total = vec![0.0; COLUMNS];
    for row in rows {
        total.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    total
}

/// The server's own windows, without the first and the last, if no client gives the seconds.
fn server_windows(evidence: &Evidence, name: &str) -> Vec<Window> {
    let all = points(evidence, name);
    let inner = all.get(1..all.len().saturating_sub(1)).unwrap_or(&[]);
    apart(inner.iter().map(|point| (point.begin_ns, point.end_ns)).collect())
}

fn slowest_p99(evidence: &Evidence, client: &ClientLoads, windows: &[Window]) -> Vec<f64> {
    let mut slowest = vec![f64::NAN; windows.len()];
    for operation in client.operations.iter().filter(|one| one.kind != ReadWriteType::Other) {
        let read = read_in(points(evidence, &format!("{}.response.p99_ns", operation.prefix)), windows);
        // The larger of the two; a number wins over NaN.
        slowest.iter_mut().zip(read).for_each(|(most, one)| *most = most.max(one.unwrap_or(f64::NAN)));
    }
    slowest
}

/// Rows that are being filled.
struct Draft {
    windows: Vec<Window>,
    rows: Vec<Vec<f64>>,
    /// Whether all needed readings cover the second.
    whole: Vec<bool>,
    read: [bool; COLUMNS],
}

impl Draft {
    fn new(windows: Vec<Window>) -> Draft {
        let rows = windows.iter().map(|(begin_ns, end_ns)| {
            let mut row = vec![0.0; COLUMNS];
            add(&mut row, Column::Time, (end_ns - begin_ns) as f64 / 1e9);
            row
        });
        let (rows, whole) = (rows.collect(), vec![true; windows.len()]);
        Draft { windows, rows, whole, read: [false; COLUMNS] }
    }

    /// Adds the readings of a column; a second without a reading gets 0.
    fn put(&mut self, column: Column, values: &[Option<f64>]) {
        for (row, value) in self.rows.iter_mut().zip(values) {
            add(row, column, value.unwrap_or(0.0));
        }
        if values.iter().any(Option::is_some) {
            self.read.iter_mut().skip(column as usize).take(1).for_each(|read| *read = true);
        }
    }

    /// Adds a counter. If it covers most of the seconds, the others are left out; if not, it counts as absent.
    fn sum(&mut self, column: Column, points: &[Point]) -> bool {
        let values = spread(points, &self.windows);
        let covered = values.iter().filter(|value| value.is_some()).count();
        let mostly = covered > 0 && covered as f64 >= MIN_COVERED_SHARE * self.windows.len() as f64;
        if mostly {
            self.put(column, &values);
            self.whole.iter_mut().zip(&values).for_each(|(whole, value)| *whole &= value.is_some());
        }
        mostly
    }

    fn client(&mut self, evidence: &Evidence, client: Option<&ClientLoads>) {
        let Some(client) = client else { return };
        for operation in &client.operations {
            let (count, service, response) = match operation.kind {
                ReadWriteType::Reads => {
                    (Column::ClientReads, Column::ClientReadService, Some(Column::ClientReadResponse))
                }
                ReadWriteType::Writes => {
                    (Column::ClientWrites, Column::ClientWriteService, Some(Column::ClientWriteResponse))
                }
                ReadWriteType::Other => (Column::ClientOthers, Column::ClientOtherService, None),
            };
            self.put(count, &spread(&operation.counts(evidence), &self.windows));
            self.put(service, &spread(&operation.times_us(evidence, "service"), &self.windows));
            if let Some(response) = response {
                self.put(response, &spread(&operation.times_us(evidence, "response"), &self.windows));
            }
            self.put(Column::ClientFailures, &spread(&operation.failures(evidence), &self.windows));
        }
        for mut area in client.areas(evidence, "in_flight") {
            area.iter_mut().for_each(|point| point.value *= 1e6);
            self.put(Column::InFlight, &spread(&area, &self.windows));
        }
    }

    /// Adds the operations within the server: those of the namespace watched if the client's are among them, else those of the server.
    fn operations(&mut self, evidence: &Evidence, member: &str) -> Option<bool> {
        let total = |rows: &[Vec<f64>], columns: [Column; 2]| -> f64 {
            rows.iter().map(|row| columns.iter().map(|column| at(row, *column)).sum::<f64>()).sum()
        };
        let of_server =
            Some(total(&self.rows, [Column::AllReads, Column::AllWrites])).filter(|all| *all > 0.0);
        let of_client =
            Some(total(&self.rows, [Column::ClientReads, Column::ClientWrites])).filter(|all| *all > 0.0);
        let wanted = of_server.into_iter().chain(of_client).fold(f64::INFINITY, f64::min);
        // The reads of a member that follows include the copies of others in its set.
        let follows = member::follows(evidence, member);
        if follows && !member::is_read(evidence, member) {
            return None;
        }
        let scopes = if follows { &["collection."][..] } else { &["collection.", ""] };
        for scope in scopes {
            let mut draft = Draft {
                windows: self.windows.clone(),
                rows: self.rows.clone(),
                whole: self.whole.clone(),
                read: self.read,
            };
            let mut read = true;
            for (column, tail) in OF_OPERATIONS {
                read &= draft.sum(*column, points(evidence, &format!("server.{member}.{scope}{tail}")));
            }
            let served = total(&draft.rows, [Column::Reads, Column::Writes]);
            // A namespace other than the one under load says nothing about it.
            if read
                && (scope.is_empty() || (served > 0.0 && (wanted.is_infinite() || served >= wanted / 2.0)))
            {
                *self = draft;
                return Some(!scope.is_empty());
            }
        }
        None
    }

    /// The seconds that are whole.
    fn finish(
        self,
        member: &str,
        pings_us: Vec<f64>,
        p99_ns: Vec<f64>,
        mut devices: Vec<String>,
    ) -> ServerFrame {
        let Draft { windows, rows, whole, read } = self;
        let left_out = whole.iter().filter(|whole| !**whole).count();
        devices.retain(|_| read.get(Column::DeviceReads as usize).copied().unwrap_or(false));
        ServerFrame {
            member: member.to_owned(),
            windows: kept(windows, &whole),
            rows: kept(rows, &whole),
            p99_ns: kept(p99_ns, &whole),
            pings_us: kept(pings_us, &whole),
            read,
            has_client: false,
            operations: Vec::new(),
            of_namespace: false,
            is_capped: false,
            is_alone: false,
            behind_router: false,
            devices,
            left_out,
        }
    }
}

fn kept<T>(values: Vec<T>, whole: &[bool]) -> Vec<T> {
    values.into_iter().zip(whole).filter(|(_, whole)| **whole).map(|(value, _)| value).collect()
}
