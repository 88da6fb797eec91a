//! Fuzzes histograms of field lengths: no panic, and drawn lengths are within the buckets.

use fathom_load::core_workload::Lengths;
use fathom_stats::SeededRandom;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(lengths) = Lengths::histogram_in(text, "file") else { return };
    let mut random = SeededRandom::from_seed(1);
    for _ in 0..16 {
        assert!(lengths.draw(&mut random) <= 16 << 20);
    }
}
