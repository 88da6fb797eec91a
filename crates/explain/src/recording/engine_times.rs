//! How long the engine's reads and writes of files took, as distributions in and outside an incident. WiredTiger counts them in buckets since 3.6.3.

use fathom_record::incident::{Incident, TimeDistribution, TimeShare};

use super::bins::Bins;

/// The lower bounds of the buckets, in milliseconds. Up to 7.0 those below 10 ms are not counted.
const BOUNDS_MS: [u32; 7] = [0, 10, 50, 100, 250, 500, 1000];
/// The fewest reads or writes for a distribution.
const MIN_OPERATIONS: f64 = 20.0;
/// A share of long ones is evidence from here on, if it is this many times the usual one.
const MIN_LONG_SHARE: f64 = 0.01;
const MIN_LONG_RATIO: f64 = 2.0;

/// The distributions in an incident and in the calm bins around it, reads first.
pub(super) fn distributions(
    bins: &Bins,
    member: usize,
    over: &[usize],
    calm: &[usize],
) -> Vec<TimeDistribution> {
    let of_kind = |(kind, words): (&str, &str)| {
        let counts = counts(bins, member, kind, over)?;
        let count: f64 = counts.iter().sum();
        if count < MIN_OPERATIONS {
            return None;
        }
        let usual = self::counts(bins, member, kind, calm);
        let usual =
            usual.map(|usual| (usual.iter().sum::<f64>(), usual)).filter(|(all, _)| *all >= MIN_OPERATIONS);
        let shares = BOUNDS_MS.iter().zip(counts).enumerate().map(|(number, (from_ms, bucket))| TimeShare {
            from_ms: *from_ms,
            share: bucket / count,
            usual_share: usual.as_ref().and_then(|(all, usual)| Some(usual.get(number)? / all)),
        });
        Some(TimeDistribution { of: words.to_owned(), count, shares: shares.collect() })
    };
    [("read", "reads of the engine"), ("write", "writes of the engine")]
        .into_iter()
        .filter_map(of_kind)
        .collect()
}

/// The numbers in the buckets, in the order of [`BOUNDS_MS`]; `None` if they were not recorded.
fn counts(bins: &Bins, member: usize, kind: &str, over: &[usize]) -> Option<Vec<f64>> {
    let server = |name: String| bins.sum(&format!("server.{member}.engine.{name}"), over);
    let bucket = |from_ms: &u32| server(format!("{kind}_times.{from_ms}"));
    let (first, rest) = BOUNDS_MS.split_first()?;
    let long: Vec<f64> = rest.iter().map(bucket).collect::<Option<_>>()?;
    // Without the first bucket the others are taken from all blocks.
    let short = bucket(first).or_else(|| Some(server(format!("{kind}s"))? - long.iter().sum::<f64>()))?;
    Some(std::iter::once(short.max(0.0)).chain(long).collect())
}

/// `Of 4,210 reads of the engine 38 % took 50 ms or longer (0.1 % in calm).`
fn sentence(one: &TimeDistribution) -> Option<String> {
    let long = |from_ms: u32| one.shares.iter().filter(move |share| share.from_ms >= from_ms);
    let bounds = BOUNDS_MS.iter().rev().filter(|from_ms| **from_ms > 0);
    let (from_ms, share) = bounds
        .map(|from_ms| (*from_ms, long(*from_ms).map(|share| share.share).sum::<f64>()))
        .find(|(from_ms, share)| *share >= if *from_ms == 10 { MIN_LONG_SHARE } else { 0.1 })?;
    let usual: Option<f64> = long(from_ms).map(|share| share.usual_share).sum();
    if usual.is_some_and(|usual| share < MIN_LONG_RATIO * usual) {
        return None;
    }
    let percent = |share: f64| match 100.0 * share {
        percent if percent <= 0.0 => "none".to_owned(),
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    };
    let in_calm = usual.map_or(String::new(), |usual| format!(" ({} in calm)", percent(usual)));
    let count = fathom_units::count(one.count.round());
    Some(format!("Of {count} {} {} took {from_ms} ms or longer{in_calm}.", one.of, percent(share)))
}

/// An incident with these distributions, which are evidence if storage is its cause.
pub(super) fn with_distributions(mut incident: Incident, distributions: Vec<TimeDistribution>) -> Incident {
    if incident.is_storage() {
        incident.evidence.extend(distributions.iter().filter_map(sentence));
    }
    incident.engine_times = distributions;
    incident
}

#[cfg(test)]
mod tests {
    use fathom_record::{Point, SeriesSet};

    use super::super::bins::BIN_NS;
    use super::*;

    /// Two bins, of which the second has slow reads.
    fn bins(first_bucket: bool) -> Bins {
        let mut series = SeriesSet::default();
        let mut put = |name: &str, values: [f64; 2]| {
            for (bin, value) in values.into_iter().enumerate() {
                let begin_ns = (1000 + bin as u64) * BIN_NS;
                let point = Point { begin_ns, end_ns: begin_ns + BIN_NS, value };
                series.extend(&format!("server.0.engine.{name}"), "1", [point]);
            }
        };
        put("reads", [1000.0, 200.0]);
        if first_bucket {
            put("read_times.0", [999.0, 100.0]);
        }
        for (bound, values) in
            BOUNDS_MS[1..].iter().zip([[1.0, 20.0], [0.0, 60.0], [0.0, 20.0], [0.0; 2], [0.0; 2], [0.0; 2]])
        {
            put(&format!("read_times.{bound}"), values);
        }
        let mut bins = Bins::default();
        bins.add(&series, &|_| true);
        bins
    }

    #[test]
    fn the_shares_of_long_reads_are_those_of_all_reads() {
        for first_bucket in [true, false] {
            let found = distributions(&bins(first_bucket), 0, &[1], &[0]);
            let [reads] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!((reads.count, reads.shares.len()), (200.0, 7));
            let shares: Vec<f64> = reads.shares.iter().map(|one| one.share).collect();
            assert_eq!(shares[..4], [0.5, 0.1, 0.3, 0.1]);
            assert_eq!(reads.shares[1].usual_share, Some(0.001));
            assert_eq!(
                sentence(reads).unwrap(),
                "Of 200 reads of the engine 10 % took 100 ms or longer (none in calm)."
            );
        }
    }

    #[test]
    fn usual_times_and_few_reads_are_no_evidence() {
        let bins = bins(true);
        let all = distributions(&bins, 0, &[1], &[1]);
        assert_eq!(sentence(&all[0]), None, "as in calm");
        assert!(distributions(&Bins::default(), 0, &[0], &[0]).is_empty());
        let without_calm = distributions(&bins, 0, &[1], &[]);
        assert_eq!(without_calm[0].shares[1].usual_share, None);
        assert_eq!(
            sentence(&without_calm[0]).unwrap(),
            "Of 200 reads of the engine 10 % took 100 ms or longer."
        );
    }
}
