//! The facts that hold for a whole window: the servers of the client's operations, the counters that support each check, and the series that could
//! not be read.

use fathom_stats::quantile;

use super::columns::{Column, at, per};
use super::frame::ServerFrame;
use super::parts::WindowDecisions;

/// A server that served less than this share of the client's operations did not serve them: what it counts is monitoring.
const MIN_SERVED_SHARE: f64 = 0.05;
/// The most by which the client's and the server's numbers of operations may differ: they are read at different moments.
const MAX_COUNT_GAP: f64 = 0.05;
/// Above this ratio of operations the server's mean is mostly of others' operations.
const MAX_OTHERS_RATIO: f64 = 2.0;
/// A ping wakes a sleeping sampler, while a busy client is awake: a round trip below this is no lower bound for its operations.
const MIN_FLOOR_PING_US: f64 = 500.0;
/// Above this share of failed operations the client's two figures are not of the same operations.
const MAX_FAILED_SHARE: f64 = 0.01;
/// Other clients' operations are reported above this share.
const MIN_OTHERS_SHARE: f64 = 0.05;

/// The shape of a frame, and a sentence for each fact that narrows its budgets. `None` if another server served the client's
/// operations.
pub(crate) fn shape_of(frame: &ServerFrame, total: &[f64]) -> Option<(WindowDecisions, Vec<String>)> {
    let mut missing = Vec::new();
    let mut shape = WindowDecisions {
        client: frame.has_client,
        journal: frame.has(Column::Journal) || frame.is_alone && at(total, Column::Replication) > 0.0,
        alone: frame.is_alone,
        waits_outside: waits_outside(frame.of_namespace, total),
        conflicts_per_write: conflicts_per_write(total),
        processor: frame.has(Column::Cpu),
        ..WindowDecisions::default()
    };
    let reads = [Column::ClientReads, Column::Reads, Column::ClientReadService, Column::ReadTime];
    let writes = [Column::ClientWrites, Column::Writes, Column::ClientWriteService, Column::WriteTime];
    let kinds = [(reads, "reads"), (writes, "writes")];
    if frame.behind_router {
        shape.client = false;
        missing.push("Clients reach this server through a router: the router's layers show the whole path, these begin at the server.".into());
    } else if frame.has_client {
        for (kind, (columns, name)) in kinds.into_iter().enumerate() {
            let [wanted, served, client_us, server_us] = columns.map(|column| at(total, column));
            // The server's work for one operation of the client is serial, and takes no longer than the operation.
            let are_of_client = server_us <= (1.0 + MAX_COUNT_GAP) * client_us;
            let part = per(served, wanted);
            if wanted <= 0.0 {
                // Others' operations of a kind that the client does not send are ignored.
                set(&mut shape.elsewhere, kind);
            } else if part < MIN_SERVED_SHARE {
                set(&mut shape.elsewhere, kind);
            } else if part < 1.0 - MAX_COUNT_GAP {
                shape.client = false;
                missing.push(format!(
                    "This server served {:.0} % of the client's {name}, so the client's mean is not its own: the layers begin at \
                     the server.",
                    100.0 * part
                ));
            } else if part > 1.0 + MAX_COUNT_GAP && frame.of_namespace && are_of_client {
                set(&mut shape.several, kind);
            } else if part > 1.0 + MAX_COUNT_GAP {
                shape.is_mostly_others |= part > MAX_OTHERS_RATIO;
                let more = if part > MAX_OTHERS_RATIO {
                    format!("{part:.0} times as many")
                } else {
                    format!("{:.0} % more", 100.0 * (part - 1.0))
                };
                missing.push(format!(
                    "The server counted {more} {name} {} the client sent: operations of others are mixed into its mean.",
                    if part > MAX_OTHERS_RATIO { "as" } else { "than" }
                ));
            }
        }
        if shape.elsewhere == [true, true] {
            return None;
        }
    }
    if shape.client {
        of_client(frame, total, &mut shape, &mut missing);
    } else {
        shape.elsewhere = [false, false];
        if !frame.has_client && !frame.behind_router {
            missing.push("The client was not watched, so the layers begin at the server.".to_owned());
        }
    }
    of_server(frame, total, &mut shape, &mut missing);
    Some((shape, missing))
}

/// Whether the namespace's latency of writes (`latencyStats`) lacks a wait that the server's (`opLatencies`) includes.
///
/// mongod adds a write to its collection's latency before it waits for the journal and the write concern, and to the server's after that, and
/// so does the lab server (in older recordings it waited first). The two means are of the same writes where nearly all writes of the server are the namespace's.
pub(crate) fn waits_outside(of_namespace: bool, total: &[f64]) -> bool {
    /// The least share of the server's writes that must be the namespace's.
    const MIN_SAME_SHARE: f64 = 0.8;
    /// The least difference as a share of the server's mean; a smaller one may come from the other writes.
    const MIN_DIFFERENCE_SHARE: f64 = 0.05;
    let (own, all) = (at(total, Column::Writes), at(total, Column::AllWrites));
    let server_us = per(at(total, Column::AllWriteTime), all);
    let difference_us = server_us - per(at(total, Column::WriteTime), own);
    of_namespace
        && own >= MIN_SAME_SHARE * all
        && difference_us > 0.0
        && difference_us >= MIN_DIFFERENCE_SHARE * server_us
}

/// The mean number of retries of a write; 0 below one in ten writes, because retries then cost less than a tenth of a write.
fn conflicts_per_write(total: &[f64]) -> f64 {
    const MIN_CONFLICTS_PER_WRITE: f64 = 0.1;
    let conflicts = per(at(total, Column::WriteConflicts), at(total, Column::AllWrites));
    if conflicts < MIN_CONFLICTS_PER_WRITE { 0.0 } else { conflicts }
}

fn set(flags: &mut [bool; 2], kind: usize) {
    flags.get_mut(kind).into_iter().for_each(|flag| *flag = true);
}

fn of_client(frame: &ServerFrame, total: &[f64], shape: &mut WindowDecisions, missing: &mut Vec<String>) {
    let counted = at(total, Column::ClientReads) + at(total, Column::ClientWrites);
    let failed = per(at(total, Column::ClientFailures), counted);
    shape.in_flight = frame.has(Column::InFlight) && failed <= MAX_FAILED_SHARE;
    if failed > MAX_FAILED_SHARE {
        missing.push(format!(
            "{:.1} % of the operations failed, which the server's mean holds and the client's does not.",
            100.0 * failed
        ));
    } else if !shape.in_flight {
        missing.push(
            "The client's operations under way were not recorded, so its mean was not checked against them."
                .to_owned(),
        );
    }
    let others = at(total, Column::ClientOthers);
    if others > MIN_OTHERS_SHARE * (counted + others) {
        missing.push(format!(
            "{others:.0} operations of the client are of a kind that no server counter can be named for; they are left out."
        ));
    }
    let pings: Vec<f64> = frame.pings_us.iter().copied().filter(|ping| ping.is_finite()).collect();
    // On a busy machine most pings wait for a processor, while operations that are under way do not. No operation is faster than the
    // shortest ping, and the lower quartile is the time of the round trip itself.
    let shortest_us = pings.iter().copied().reduce(f64::min);
    shape.floor_us = shortest_us.filter(|floor_us| *floor_us >= MIN_FLOOR_PING_US).unwrap_or(0.0);
    match quantile(&pings, 0.25) {
        Some(ping_us) => shape.ping_us = ping_us,
        None => missing.push(
            "No ping was read, so the round trip within the network is not separated from the layers client and parse."
                .to_owned(),
        ),
    }
}

fn of_server(frame: &ServerFrame, total: &[f64], shape: &mut WindowDecisions, missing: &mut Vec<String>) {
    let lack = |column: Column, what: &str| {
        (!frame.has(column))
            .then(|| format!("This server does not report {what}; they are included in \"engine\"."))
    };
    missing.extend(lack(Column::Ticket, "waits for tickets").filter(|_| !frame.has(Column::Lock)));
    missing.extend(lack(Column::Lock, "waits for locks"));
    missing.extend(lack(Column::PageRead, "page reads of operations"));
    missing.extend(lack(Column::Evict, "evictions by operations").filter(|_| !frame.has(Column::CacheWait)));
    if frame.has(Column::PageRead) && frame.devices.is_empty() {
        missing.push("The device under the data was not watched, so page reads are not split into device and file system.".to_owned());
    }
    let writes = at(total, Column::AllWrites) + at(total, Column::Writes);
    if !shape.journal && !shape.waits_outside && writes > 0.0 {
        missing.push(if frame.has(Column::Syncs) && frame.has(Column::SyncTime) {
            "This server does not count waits for the journal: that layer is estimated from the journal's syncs.".to_owned()
        } else {
            "Neither waits for the journal nor its syncs were read; they are included in \"engine\".".to_owned()
        });
    }
    if shape.waits_outside {
        missing.push(
            "The collection's latency (latencyStats) ends before the wait for the journal and the write concern. The server's own \
             (opLatencies) holds it and counts; the difference is that wait."
                .to_owned(),
        );
    }
    if frame.is_alone && at(total, Column::Replication) > 0.0 {
        missing.push(
            "The set is this member alone: what writes wait for a majority is its own journal.".to_owned(),
        );
    }
    // If the ticket is taken as a lock, both counters include the same waits.
    let (ticket, lock) = (at(total, Column::Ticket), at(total, Column::Lock));
    shape.lock_is_ticket = ticket > 0.0 && (lock - ticket).abs() <= 0.05 * ticket;
    if shape.lock_is_ticket {
        missing.push("Waits for locks are as long as those for tickets and taken for the same.".to_owned());
    }
    if !shape.processor {
        missing.push(
            "The processor time of the server's process was not read, so the engine layer was not checked against it."
                .to_owned(),
        );
    }
    let mine = at(total, Column::Reads) + at(total, Column::Writes);
    let all = at(total, Column::AllReads) + at(total, Column::AllWrites);
    if frame.of_namespace && all > mine * (1.0 + MIN_OTHERS_SHARE) {
        missing.push(format!(
            "{:.0} % of the server's reads and writes are of other namespaces; its waits are of them too.",
            100.0 * (all - mine) / all
        ));
    }
    let commands = at(total, Column::Commands);
    let everything = commands + all.max(mine);
    if commands > MIN_OTHERS_SHARE * everything && per(commands, at(total, Column::Time)) > 10.0 {
        missing.push(format!(
            "{:.0} % of the server's operations are commands; waits and processor time are of them too.",
            100.0 * commands / everything
        ));
    }
    if frame.left_out > 0 {
        let (seconds, were) = if frame.left_out == 1 { ("second", "was") } else { ("seconds", "were") };
        missing
            .push(format!("{} {seconds} {were} left out: a counter was reset or not read.", frame.left_out));
    }
}
