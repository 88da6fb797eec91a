//! Turns two readings of a device's counters into the figures of `iostat -x`.
//!
//! The formulas are sysstat's (sysstat/sysstat:iostat.c and rd_stats.c), written out in `docs/iostat.md`: Δ is the
//! difference of a counter, T the interval. A figure without a meaning is `None`: an average over no request is
//! unknown, not zero. [`Rates`] may be of one device or of several bottom devices together; it does not guess whether
//! devices are stacked, which [`crate::BlockTree`] knows.
//!
//! Counters of milliseconds are 32 bits wide on every kernel, the others on 32-bit kernels, so a fall is first tried as
//! a wrap: it is one if its step is less than half the range. Two or more counts that fall together mean that the
//! device was created again under the same name; the interval then has no figures.

use crate::diskstats::Counters;

/// The requests of one kind in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Requests completed over the interval.
    pub requests: u64,
    /// Sectors of 512 bytes moved.
    pub sectors: u64,
    /// Requests completed a second.
    pub per_s: f64,
    /// KiB per second (what sysstat calls kB).
    pub kib_per_s: f64,
    /// Requests merged per second.
    pub merges_per_s: f64,
    /// Share of requests that were merged away, in percent; `None` without a request.
    pub merged_pct: Option<f64>,
    /// Mean time from allocation to completion, in milliseconds; `None` without a completion.
    pub await_ms: Option<f64>,
    /// Mean request size in KiB; `None` without a completion.
    pub areq_kib: Option<f64>,
}

/// All figures of an interval between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Reads: r/s, rkB/s, rrqm/s, %rrqm, r_await, rareq-sz.
    pub read: Flow,
    /// Writes as the kernel counts them, flushes among them: w/s and so on.
    pub write: Flow,
    /// Discards; `None` before kernel 4.18.
    pub discard: Option<Flow>,
    /// Flushes (only count and time exist); `None` before kernel 5.5.
    pub flush: Option<Flow>,
    /// Reads, writes and discards together: what `iostat -s` shows.
    pub all: Flow,
    /// Writes without the empty flushes, per second: (Δ5−Δ16)/T, at least 0. Right where the device's write cache
    /// is "write back"; concurrent flushes merge into one, so under parallel fsync it still overstates. `None`
    /// before kernel 5.5.
    pub corrected_writes_per_s: Option<f64>,
    /// Mean number of requests in flight, Δ11/T.
    pub aqu_sz: f64,
    /// Share of the interval with a request in flight, in percent; for several devices, their mean.
    pub util_pct: f64,
    /// Requests in flight at the end.
    pub in_flight: u64,
    /// The device was created again in the interval, so every figure is empty.
    pub reset: bool,
}

impl Rates {
    /// The figures between two readings of one device, `interval_ns` apart.
    pub fn between(before: &Counters, after: &Counters, interval_ns: u64) -> Rates {
        Delta::between(before, after).rates(interval_ns)
    }
}

/// The differences of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDeltas {
    /// Requests completed over the interval.
    pub requests: u64,
    /// Requests that were merged into a queued neighbour.
    pub merges: u64,
    /// Sectors of 512 bytes moved.
    pub sectors: u64,
    /// Milliseconds they took, summed over requests.
    pub ms: u64,
}

impl RequestDeltas {
    fn plus(self, other: RequestDeltas) -> RequestDeltas {
        RequestDeltas {
            requests: self.requests.saturating_add(other.requests),
            merges: self.merges.saturating_add(other.merges),
            sectors: self.sectors.saturating_add(other.sectors),
            ms: self.ms.saturating_add(other.ms),
        }
    }

    fn flow(self, seconds: f64) -> Flow {
        Flow {
            requests: self.requests,
            sectors: self.sectors,
            per_s: per(self.requests as f64, seconds),
            kib_per_s: per(self.sectors as f64 / 2.0, seconds),
            merges_per_s: per(self.merges as f64, seconds),
            merged_pct: ratio(100.0 * self.merges as f64, self.merges as f64 + self.requests as f64),
            await_ms: ratio(self.ms as f64, self.requests as f64),
            areq_kib: ratio(self.sectors as f64 / 2.0, self.requests as f64),
        }
    }
}

/// The differences of all counters, which, unlike rates, may be added over devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    read: RequestDeltas,
    write: RequestDeltas,
    discard: Option<RequestDeltas>,
    flush: Option<RequestDeltas>,
    io_ms: u64,
    weighted_ms: u64,
    in_flight: u64,
    devices: u64,
    reset: bool,
}

impl Delta {
    /// The differences between two readings of one device.
    pub fn between(before: &Counters, after: &Counters) -> Delta {
        if made_anew(before, after) {
            return Delta {
                discard: after.discards.map(|_| RequestDeltas::default()),
                flush: after.flushes.map(|_| RequestDeltas::default()),
                in_flight: after.in_flight,
                devices: 1,
                reset: true,
                ..Delta::default()
            };
        }
        let discard = after.discards.map(|after| {
            let before = before.discards.unwrap_or_default();
            RequestDeltas {
                requests: difference(before.discards, after.discards),
                merges: difference(before.merges, after.merges),
                sectors: difference(before.sectors, after.sectors),
                ms: difference(before.ms, after.ms),
            }
        });
        let flush = after.flushes.map(|after| {
            let before = before.flushes.unwrap_or_default();
            let requests = difference(before.flushes, after.flushes);
            RequestDeltas { requests, ms: difference(before.ms, after.ms), ..RequestDeltas::default() }
        });
        Delta {
            read: RequestDeltas {
                requests: difference(before.reads, after.reads),
                merges: difference(before.read_merges, after.read_merges),
                sectors: difference(before.read_sectors, after.read_sectors),
                ms: difference(before.read_ms, after.read_ms),
            },
            write: RequestDeltas {
                requests: difference(before.writes, after.writes),
                merges: difference(before.write_merges, after.write_merges),
                sectors: difference(before.write_sectors, after.write_sectors),
                ms: difference(before.write_ms, after.write_ms),
            },
            discard,
            flush,
            io_ms: difference(before.io_ms, after.io_ms),
            weighted_ms: difference(before.weighted_ms, after.weighted_ms),
            in_flight: after.in_flight,
            devices: 1,
            reset: false,
        }
    }

    /// The sum of both. Only devices that are not stacked on each other may be added.
    #[must_use]
    pub fn plus(self, other: Delta) -> Delta {
        Delta {
            read: self.read.plus(other.read),
            write: self.write.plus(other.write),
            discard: either(self.discard, other.discard),
            flush: either(self.flush, other.flush),
            io_ms: self.io_ms.saturating_add(other.io_ms),
            weighted_ms: self.weighted_ms.saturating_add(other.weighted_ms),
            in_flight: self.in_flight.saturating_add(other.in_flight),
            devices: self.devices.saturating_add(other.devices),
            reset: self.reset || other.reset,
        }
    }

    pub fn reads(&self) -> RequestDeltas {
        self.read
    }

    /// Writes as the kernel counts them, flushes among them.
    pub fn writes(&self) -> RequestDeltas {
        self.write
    }

    /// Flushes (requests and time only); `None` before kernel 5.5.
    pub fn flushes(&self) -> Option<RequestDeltas> {
        self.flush
    }

    /// Returns whether the device was created again in between, so that all figures are empty.
    pub fn was_reset(&self) -> bool {
        self.reset
    }

    /// Returns whether a request of any kind completed.
    pub fn any_io(&self) -> bool {
        let requests = |step: Option<RequestDeltas>| step.map_or(0, |step| step.requests);
        self.read.requests != 0
            || self.write.requests != 0
            || requests(self.discard) != 0
            || requests(self.flush) != 0
    }

    /// The rates over an interval; one of length zero has none (all 0).
    pub fn rates(&self, interval_ns: u64) -> Rates {
        let seconds = interval_ns as f64 / 1e9;
        let all = self.read.plus(self.write).plus(self.discard.unwrap_or_default());
        let corrected =
            |flush: RequestDeltas| per(self.write.requests.saturating_sub(flush.requests) as f64, seconds);
        Rates {
            read: self.read.flow(seconds),
            write: self.write.flow(seconds),
            discard: self.discard.map(|step| step.flow(seconds)),
            flush: self.flush.map(|step| step.flow(seconds)),
            all: all.flow(seconds),
            corrected_writes_per_s: self.flush.map(corrected),
            aqu_sz: per(self.weighted_ms as f64 / 1e3, seconds),
            util_pct: per(self.io_ms as f64 / 10.0, seconds) / (self.devices.max(1) as f64),
            in_flight: self.in_flight,
            reset: self.reset,
        }
    }
}

/// The sum of counter groups that a device may lack (a loop device and a disk never differ, a mixed set may).
fn either(one: Option<RequestDeltas>, other: Option<RequestDeltas>) -> Option<RequestDeltas> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.plus(other)),
        (one, other) => one.or(other),
    }
}

/// `after - before` of a running counter: through a wrap at 2^32 if that makes a step below 2^31, else 0 for a fall.
fn difference(before: u64, after: u64) -> u64 {
    after.checked_sub(before).or_else(|| wrapped(before, after)).unwrap_or(0)
}

fn wrapped(before: u64, after: u64) -> Option<u64> {
    let step = u32::try_from(after).ok()?.wrapping_sub(u32::try_from(before).ok()?);
    (step < 1 << 31).then_some(u64::from(step))
}

/// Returns whether at least two of the counts that only grow have fallen.
fn made_anew(before: &Counters, after: &Counters) -> bool {
    let counts = |c: &Counters| {
        [c.reads, c.read_merges, c.read_sectors, c.writes, c.write_merges, c.write_sectors]
            .into_iter()
            .chain(c.discards.map(|d| d.sectors))
            .chain(c.flushes.map(|f| f.flushes))
            .collect::<Vec<u64>>()
    };
    counts(before).iter().zip(counts(after)).filter(|(before, after)| *after < **before).count() >= 2
}

fn per(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

fn ratio(amount: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| amount / of)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diskstats::{Discards, Flushes};

    const TWO_SECONDS: u64 = 2_000_000_000;

    fn busy() -> Counters {
        Counters {
            reads: 200,
            read_merges: 50,
            read_sectors: 12_800,
            read_ms: 100,
            writes: 400,
            write_merges: 0,
            write_sectors: 1_600,
            write_ms: 800,
            in_flight: 3,
            io_ms: 700,
            weighted_ms: 904,
            discards: Some(Discards { discards: 1, merges: 1, sectors: 2048, ms: 4 }),
            flushes: Some(Flushes { flushes: 200, ms: 50 }),
        }
    }

    #[test]
    fn the_formulas_of_iostat() {
        let rates = Rates::between(&Counters::default(), &busy(), TWO_SECONDS);
        assert_eq!((rates.read.per_s, rates.read.kib_per_s, rates.read.merges_per_s), (100.0, 3200.0, 25.0));
        assert_eq!(rates.read.merged_pct, Some(20.0));
        assert_eq!((rates.read.await_ms, rates.read.areq_kib), (Some(0.5), Some(32.0)));
        assert_eq!(
            (rates.write.per_s, rates.write.await_ms, rates.write.areq_kib),
            (200.0, Some(2.0), Some(2.0))
        );
        assert_eq!(rates.discard.unwrap().areq_kib, Some(1024.0));
        assert_eq!((rates.flush.unwrap().per_s, rates.flush.unwrap().await_ms), (100.0, Some(0.25)));
        assert_eq!(rates.corrected_writes_per_s, Some(100.0));
        assert_eq!((rates.aqu_sz, rates.util_pct, rates.in_flight), (0.452, 35.0, 3));
        assert_eq!(rates.all.requests, 601);
        assert_eq!(rates.all.await_ms, Some(904.0 / 601.0));
        assert!((rates.all.areq_kib.unwrap() - (12_800.0 + 1_600.0 + 2_048.0) / 2.0 / 601.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_completed_has_no_average() {
        let rates = Rates::between(&busy(), &busy(), TWO_SECONDS);
        assert_eq!((rates.read.per_s, rates.read.await_ms, rates.read.merged_pct), (0.0, None, None));
        assert_eq!(Rates::between(&Counters::default(), &busy(), 0).read.per_s, 0.0);
        let old = Counters { discards: None, flushes: None, ..busy() };
        let rates = Rates::between(&Counters::default(), &old, TWO_SECONDS);
        assert_eq!((rates.discard, rates.flush, rates.corrected_writes_per_s), (None, None, None));
    }

    #[test]
    fn milliseconds_wrap_at_32_bits() {
        let before = Counters { read_ms: 4_294_967_290, weighted_ms: 4_294_967_000, ..busy() };
        let after = Counters { reads: busy().reads + 10, read_ms: 14, weighted_ms: 704, ..busy() };
        let rates = Rates::between(&before, &after, TWO_SECONDS);
        assert_eq!(rates.read.await_ms, Some(2.0));
        assert_eq!(rates.aqu_sz, 0.5);
        assert!(!rates.reset);
    }

    #[test]
    fn a_small_fall_is_no_step_of_four_billion() {
        let after = Counters { weighted_ms: busy().weighted_ms - 1, ..busy() };
        assert_eq!(Rates::between(&busy(), &after, TWO_SECONDS).aqu_sz, 0.0);
    }

    #[test]
    fn a_device_made_anew_claims_nothing() {
        let after = Counters { reads: 5, read_sectors: 40, ..Counters::default() };
        let rates = Rates::between(&busy(), &after, TWO_SECONDS);
        assert!(rates.reset);
        assert_eq!(rates.all.requests, 0);
    }

    #[test]
    fn a_sum_of_leaves_has_the_mean_utilisation() {
        let one = Delta::between(&Counters::default(), &busy());
        let rates = one.plus(one).rates(TWO_SECONDS);
        assert_eq!((rates.read.per_s, rates.read.await_ms, rates.util_pct), (200.0, Some(0.5), 35.0));
        assert_eq!((rates.aqu_sz, rates.in_flight), (0.904, 6));
    }

    proptest! {
        #[test]
        fn every_figure_is_a_number(before in prop::array::uniform17(any::<u64>()), after in prop::array::uniform17(any::<u64>()), interval in any::<u64>()) {
            let text = |fields: [u64; 17]| fields.map(|field| field.to_string()).join(" ");
            let before = Counters::parse(&text(before)).unwrap();
            let after = Counters::parse(&text(after)).unwrap();
            let rates = Rates::between(&before, &after, interval);
            for flow in [rates.read, rates.write, rates.all, rates.discard.unwrap(), rates.flush.unwrap()] {
                prop_assert!(flow.per_s.is_finite() && flow.per_s >= 0.0);
                prop_assert!(flow.await_ms.is_none_or(|ms| ms.is_finite() && ms >= 0.0));
            }
            prop_assert!(rates.util_pct.is_finite() && rates.aqu_sz.is_finite());
        }
    }
}
