//! The number of requests for a device at each sample: those in its queue, which can be seen, and those above it, which
//! cannot. A request waits for a place before the kernel counts it, so the second part is computed from the operations that wait.
//!
//! By Little's law the time that operations spent in page reads is the mean number that were in one. Subtracting the reads that the
//! device had gives the number that waited above it. They can only have waited while the queue was full, so they are distributed over the
//! samples at which it was full: evenly if it was full throughout (clients that wait for replies), else falling from twice the
//! mean to none (a burst that drains).

use crate::Evidence;
use crate::path::{DeviceSeconds, Seconds, client_gauge, waiting_for_pages};
use crate::seconds::{SecondGrid, total, zip};

use super::forecast::{Backlog, BacklogSecond};
use super::rung::MIN_FILL_OF_CAP;

/// If a queue is full at more than this share of a second's samples, it was full throughout: of twenty samples one may miss.
const MIN_FULL_SAMPLES_SHARE: f64 = 0.9;
/// The seconds on either side from which the number waiting while a queue is full is taken: a minute holds a whole cycle of a checkpoint.
const SECONDS_AROUND: usize = 30;

/// The mean number of requests above a device's queue in each second.
pub(super) struct DeviceBacklog {
    pub(super) waiting: Seconds,
    /// The method of that computation, as a sentence.
    pub(super) how: String,
}

/// The number that waited above a device that served `part` of all leaves' requests. `None` if nothing above it was watched.
pub(super) fn above(
    evidence: &Evidence,
    grid: SecondGrid,
    member: &str,
    device: &DeviceSeconds,
    part: &[Option<f64>],
) -> Option<DeviceBacklog> {
    if let Some(waiting) = waiting_for_pages(evidence, grid, member) {
        let here = zip(&waiting, part, |waiting, part| Some(waiting * part));
        // Background writes belong to no page read, so only the reads within the device are subtracted.
        let reads = zip(&device.reads, &device.requests, |reads, requests| {
            Some(if requests > 0.0 { reads / requests } else { 0.0 })
        });
        let within = zip(&device.within, &reads, |within, reads| Some(within * reads));
        let waiting = zip(&here, &within, |here, within| Some((here - within).max(0.0)));
        let how = "Those above the queue are operations in page reads and writes (their summed time in each second) less \
                   the reads within the device.";
        return Some(DeviceBacklog { waiting, how: how.to_owned() });
    }
    let gauge = |name: &str| grid.means_of(evidence, &format!("server.{member}.{name}"));
    let tickets = total(["tickets.read.out", "tickets.write.out"].iter().filter_map(|name| gauge(name)));
    let active = || total(["clients.readers", "clients.writers"].iter().filter_map(|name| gauge(name)));
    let (under_way, what) = match (tickets.or_else(active), client_gauge(evidence, grid, "in_flight")) {
        (Some(inside), _) => (inside, "operations within the server"),
        (None, Some(client)) => (client, "operations of the client under way"),
        (None, None) => return None,
    };
    let here = zip(&under_way, part, |under_way, part| Some(under_way * part));
    let waiting = zip(&here, &device.within, |here, within| Some((here - within).max(0.0)));
    let how = format!(
        "The server does not say who waits for pages, so all {what} are taken to wait for the device: an upper bound."
    );
    Some(DeviceBacklog { waiting, how })
}

/// The backlog at each sample: `samples` are those of the requests in flight, by second.
///
/// The number waiting while the queue is full is taken over the seconds around each second: with twenty samples a second, the share of one
/// second at which it was full is too uncertain as a divisor.
pub(super) fn backlog(samples: &[Vec<f64>], cap: f64, above: &[Option<f64>]) -> Vec<BacklogSecond> {
    let full: Vec<f64> = samples
        .iter()
        .map(|samples| {
            let full = samples.iter().filter(|n| **n >= MIN_FILL_OF_CAP * cap).count();
            full as f64 / samples.len().max(1) as f64
        })
        .collect();
    let when_full = |at: usize| {
        let around = at.saturating_sub(SECONDS_AROUND)..=at.saturating_add(SECONDS_AROUND);
        let shares = around.clone().filter_map(|at| full.get(at)).sum::<f64>();
        let waiting = around.filter_map(|at| above.get(at).copied().flatten()).sum::<f64>();
        if shares > 0.0 { waiting / shares } else { 0.0 }
    };
    samples
        .iter()
        .zip(&full)
        .enumerate()
        .filter(|(_, (samples, _))| !samples.is_empty())
        .map(|(at, (samples, share))| laid(samples, cap, *share, when_full(at)))
        .collect()
}

/// One second's samples, with the requests above added to those at which the queue was full.
fn laid(samples: &[f64], cap: f64, share: f64, when_full: f64) -> BacklogSecond {
    let full = share * samples.len() as f64;
    let mut place = 0.0;
    let one = |n: &f64| {
        if *n < MIN_FILL_OF_CAP * cap {
            return Backlog::level(*n);
        }
        place += 1.0;
        let drained = 2.0 * (place - 0.5) / full;
        if share > MIN_FULL_SAMPLES_SHARE {
            return Backlog::level(n + when_full);
        }
        Backlog { requests: n + when_full * drained, height: n + 2.0 * when_full }
    };
    samples.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_above_is_laid_on_the_samples_at_which_the_queue_was_full() {
        let numbers = |found: &[BacklogSecond]| -> Vec<Vec<f64>> {
            found.iter().map(|second| second.iter().map(|one| one.requests).collect()).collect()
        };
        let burst = [vec![0.0, 32.0, 32.0, 3.0], Vec::new()];
        assert_eq!(numbers(&backlog(&burst, 32.0, &[Some(20.0), None])), [vec![0.0, 52.0, 92.0, 3.0]]);
        assert_eq!(backlog(&burst, 32.0, &[Some(20.0), None])[0][1].height, 112.0);
        assert_eq!(numbers(&backlog(&[vec![32.0; 4]], 32.0, &[Some(20.0)])), [vec![52.0; 4]]);
        // Half of two seconds, unevenly.
        let uneven = [vec![32.0; 4], vec![1.0; 4]];
        assert_eq!(numbers(&backlog(&uneven, 32.0, &[Some(20.0); 2])), [vec![72.0; 4], vec![1.0; 4]]);
        assert_eq!(numbers(&backlog(&[vec![32.0]], 32.0, &[None])), [vec![32.0]]);
    }
}
