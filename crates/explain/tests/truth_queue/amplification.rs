//! Known factors between the bytes that a user writes and those of devices, with checkpoints that drift and a page cache that lags.

use fathom_explain::{Evidence, judge};
use fathom_record::amplification::Amplification;
use fathom_record::{Point, SeriesSet};
use fathom_stats::SeededRandom;

const SECOND: u64 = 1_000_000_000;
const SECONDS: u64 = 600;

/// Bytes for each user byte: of the journal, of the engine's leaves through eviction, and of a checkpoint's writes.
#[derive(Clone, Copy, Debug)]
struct Factors {
    journal: f64,
    evicted: f64,
    checkpoint: f64,
    /// Copies that a volume makes of each byte.
    volume: f64,
}

impl Factors {
    fn engine(&self) -> f64 {
        self.evicted + self.checkpoint
    }

    fn device(&self) -> f64 {
        (self.journal + self.engine()) * self.volume
    }
}

/// Ten minutes: a varying load, a checkpoint about each minute whose bytes come in a burst, and a page cache that writes half of the
/// evicted bytes at once and the rest when the checkpoint syncs.
fn run(factors: Factors, leaves: usize, seed: u64) -> Evidence {
    let mut random = SeededRandom::from_seed(seed);
    let mut series = SeriesSet::default();
    let (mut unwritten, mut lagging, mut next) = (0.0, 0.0, 40.0);
    for second in 0..SECONDS {
        let (begin_ns, end_ns) = (second * SECOND, (second + 1) * SECOND);
        let mut put = |name: &str, value: f64| series.add(name, "bytes", Point { begin_ns, end_ns, value });
        let user = 2e6 * (1.0 + 0.3 * random.normal().clamp(-2.0, 2.0));
        let evicted = factors.evicted * user;
        unwritten += factors.checkpoint * user;
        lagging += evicted / 2.0;
        let mut device = factors.journal * user + evicted / 2.0;
        let ends = second as f64 >= next;
        let mut engine = evicted;
        if ends {
            engine += unwritten;
            device += unwritten + lagging;
            put("server.0.engine.checkpoint_bytes", unwritten);
            (unwritten, lagging) = (0.0, 0.0);
            next += 60.0 + 3.0 * random.uniform();
        }
        put("client.user_bytes", user);
        put("server.0.journal.written_bytes", factors.journal * user);
        put("server.0.engine.written_bytes", engine);
        put("server.0.checkpoint.count", f64::from(u8::from(ends)));
        put("server.0.documents.updated", user / 1000.0);
        put("device.md0.written_bytes", device);
        for leaf in 0..leaves {
            put(&format!("device.sd{leaf}.written_bytes"), device * factors.volume / leaves as f64);
        }
    }
    let names: Vec<String> = (0..leaves).map(|leaf| format!("sd{leaf}")).collect();
    let environment = [("server.0.device", "md0".to_owned()), ("server.0.device.leaves", names.join(","))];
    let environment = environment.map(|(name, value)| (name.to_owned(), value)).into();
    Evidence { series, environment, window_ns: (0, SECONDS * SECOND), ..Evidence::default() }
}

fn judged(evidence: &Evidence) -> Amplification {
    let judgement = judge(evidence);
    assert_eq!(judgement.findings, []);
    judgement.amplifications.into_iter().next().unwrap()
}

#[test]
fn known_factors_are_found_within_one_percent() {
    for (what, leaves, factors) in [
        ("one disk", 1, Factors { journal: 1.28, evicted: 8.0, checkpoint: 2.0, volume: 1.0 }),
        ("a mirror of two", 2, Factors { journal: 1.28, evicted: 8.0, checkpoint: 2.0, volume: 2.0 }),
        (
            "RAID 5 of four, whole stripes",
            4,
            Factors { journal: 1.1, evicted: 0.5, checkpoint: 20.0, volume: 4.0 / 3.0 },
        ),
        ("only a journal's worth", 1, Factors { journal: 1.05, evicted: 0.0, checkpoint: 1.1, volume: 1.0 }),
    ] {
        let found = judged(&run(factors, leaves, 3));
        let level = |name: &str| found.level(name).unwrap().per_user_byte;
        let whole = found.whole().unwrap();
        println!(
            "| {what} | {:.2} | {:.2} | {:.2} | {whole:.2} | {:+.2} % |",
            factors.journal,
            factors.engine(),
            factors.device(),
            100.0 * (whole / factors.device() - 1.0)
        );
        for (name, truth) in
            [("journal", factors.journal), ("engine", factors.engine()), ("device", factors.device())]
        {
            assert!((level(name) / truth - 1.0).abs() < 0.01, "{what}, {name}: {} for {truth}", level(name));
        }
        if leaves > 1 {
            let step = found.level("device").unwrap().step;
            assert!((step / factors.volume - 1.0).abs() < 0.01, "{what}: {step}");
        }
        assert!(found.settled && found.between_checkpoints, "{what}: {found:#?}");
        assert!((found.slope.unwrap() / factors.device() - 1.0).abs() < 0.01, "{what}: {found:#?}");
    }
}

/// Windows that do not end with checkpoints differ by the dirty bytes, and say that they have not settled.
#[test]
fn a_window_that_cuts_a_checkpoint_off_is_not_called_settled() {
    let factors = Factors { journal: 1.1, evicted: 0.0, checkpoint: 10.0, volume: 1.0 };
    let evidence = run(factors, 1, 4);
    let found = judged(&Evidence { window_ns: (0, 35 * SECOND), ..evidence });
    assert!(!found.settled && !found.between_checkpoints && !found.notes.is_empty(), "{found:#?}");
}
