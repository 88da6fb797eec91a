//! Plain lines for logs and pipes: fixed columns, a line for each server and moment, the columns' names every 20 lines.
//!
//! Columns never move and none is left out: a value that was not read is a dash, so that `awk '{print $5}'` means the same in each line.

use super::draw::paint::{clock, count, megabytes, percent, time, time_or_dash};
use super::view::{DeviceFigures, MemberView, OperationView, Screen};

/// The names of the columns are repeated after this many moments.
pub(super) const LINES_PER_HEADER: u64 = 20;

/// Table: the columns, and how wide they are.
const COLUMNS: [(&str, usize); 21] = [
    ("time", 8),
    ("server", 6),
    ("reads/s", 7),
    ("read", 7),
    ("writes/s", 8),
    ("write", 7),
    ("tickets", 9),
    ("wait", 4),
    ("dirty", 5),
    ("ckpt", 5),
    ("device", 9),
    ("r_await", 7),
    ("w_await", 7),
    ("f_await", 7),
    ("io/s", 6),
    ("MB/s", 6),
    ("ioPSI", 5),
    ("state", 10),
    ("lag", 7),
    ("behind", 6),
    ("chunks", 6),
];

/// Columns from this one on are for sets and clusters, and are left out for a single server.
const OF_SEVERAL: usize = 18;

/// Whether more than one server is watched.
pub(super) fn is_several(screen: &Screen) -> bool {
    screen.members.len() > 1
}

/// The names of the columns, of one server or of several.
pub(super) fn header(several: bool) -> String {
    line(COLUMNS.map(|(name, _)| name.to_owned()), several)
}

/// A line for each server, with the first device under its data if that is known, else with the devices in the order of the servers'
/// numbers; other devices get lines of their own.
pub(super) fn lines(screen: &Screen, several: bool) -> Vec<String> {
    if screen.members.iter().all(|member| member.device.is_none()) {
        let count = screen.members.len().max(screen.devices.len());
        return (0..count)
            .map(|at| one(screen, screen.members.get(at), screen.devices.get(at), several))
            .collect();
    }
    let own = |member: &MemberView| {
        screen.devices.iter().find(|device| Some(&device.name) == member.devices.first())
    };
    let is_others = |device: &&DeviceFigures| {
        screen.members.iter().all(|member| member.devices.first() != Some(&device.name))
    };
    let members = screen.members.iter().map(|member| one(screen, Some(member), own(member), several));
    members
        .chain(screen.devices.iter().filter(is_others).map(|device| one(screen, None, Some(device), several)))
        .collect()
}

/// The operations that busy servers run now, a line each. The lines begin with `#`, so that programs that read columns pass over them.
pub(super) fn operations(screen: &Screen) -> Vec<String> {
    let line = |one: &OperationView| {
        let bytes = one.disk_bytes_per_s.map(|bytes| format!(", {} MB/s of disk", megabytes(bytes)));
        let client = one.client_words().map(|client| format!(", {client}")).unwrap_or_default();
        format!(
            "# {} server {}: {} of the time, {:.1} at once, up to {}{}: {}{client}",
            clock(screen.elapsed_s),
            one.member,
            percent(one.time_share),
            one.running,
            time(one.longest_ms),
            bytes.unwrap_or_default(),
            one.words(),
        )
    };
    screen.operations.iter().map(line).collect()
}

/// The operations that a reader would notice as others than before.
pub(super) fn main_operations(screen: &Screen) -> Vec<String> {
    /// Smaller shares change from moment to moment.
    const MIN_LAYER_SHARE: f64 = 0.2;
    let main = screen.operations.iter().filter(|one| one.time_share >= MIN_LAYER_SHARE);
    main.map(|one| format!("{} {} {}", one.member, one.kind, one.namespace)).collect()
}

fn one(
    screen: &Screen,
    member: Option<&MemberView>,
    device: Option<&DeviceFigures>,
    several: bool,
) -> String {
    let number = member.map(|member| member.number.as_str());
    let mut cells = COLUMNS.map(|_| "-".to_owned());
    let mut set = |name: &str, value: Option<String>| {
        let at = COLUMNS.iter().position(|(column, _)| *column == name);
        if let (Some(cell), Some(value)) = (at.and_then(|at| cells.get_mut(at)), value) {
            *cell = value;
        }
    };
    set("time", Some(clock(screen.elapsed_s)));
    set("server", number.map(str::to_owned));
    if let Some(member) = member {
        set("state", member.alarm().map(str::to_owned).or_else(|| member.role.clone()));
        set("lag", member.lag_ms.map(time));
        set("behind", member.behind.map(count));
        set("chunks", member.chunks.map(count));
    }
    if let Some(number) = number {
        for (kind, rate, mean) in [("reads", "reads/s", "read"), ("writes", "writes/s", "write")] {
            let row =
                screen.latency.iter().find(|row| row.name == kind || row.name == format!("{number} {kind}"));
            set(rate, row.map(|row| count(row.per_s)));
            set(mean, row.map(|row| time_or_dash(row.service.mean_ms)));
        }
        let tickets: Vec<_> = screen
            .ladder
            .iter()
            .filter(|rung| rung.name.ends_with(" tickets") || rung.name.starts_with(&format!("{number} ")))
            .collect();
        let out = tickets.iter().map(|rung| count(rung.now)).collect::<Vec<_>>().join("+");
        set("tickets", (!tickets.is_empty()).then_some(out));
        // An empty sum of floats is a negative zero.
        let waiting = tickets.iter().filter_map(|rung| rung.waiting).fold(0.0, |sum, one| sum + one);
        set("wait", (!tickets.is_empty()).then(|| count(waiting)));
        let checkpoint = screen.checkpoints.iter().find(|one| one.member == number);
        set("dirty", checkpoint.and_then(|one| one.dirty_share).map(percent));
        set(
            "ckpt",
            checkpoint.map(|one| match (one.is_running, one.next_s) {
                (true, _) => "runs".to_owned(),
                (false, Some(next_s)) => format!("{next_s:.0}s"),
                (false, None) => "-".to_owned(),
            }),
        );
    }
    if let Some(device) = device {
        set("device", Some(device.name.clone()));
        set("r_await", Some(time_or_dash(device.read_ms)));
        set("w_await", Some(time_or_dash(device.write_ms)));
        set("f_await", Some(time_or_dash(device.flush_ms)));
        set("io/s", Some(count(device.per_s)));
        set("MB/s", Some(megabytes(device.read_bytes_per_s + device.written_bytes_per_s)));
    }
    set("ioPSI", screen.io_pressure_share.map(percent));
    line(cells, several)
}

fn line(cells: [String; COLUMNS.len()], several: bool) -> String {
    let count = if several { COLUMNS.len() } else { OF_SEVERAL };
    let cells = cells.iter().zip(COLUMNS).take(count).map(|(cell, (_, width))| format!("{cell:>width$}"));
    cells.collect::<Vec<_>>().join(" ")
}
