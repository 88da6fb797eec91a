//! A histogram of field lengths as anybody may feed it: never a panic, and what is drawn from it lies within its buckets.
#![no_main]

use fathom_load::core_workload::Lengths;
use fathom_stats::Seeded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(lengths) = Lengths::histogram_in(text, "file") else { return };
    let mut random = Seeded::from_seed(1);
    for _ in 0..16 {
        assert!(lengths.draw(&mut random) > 0);
    }
});
