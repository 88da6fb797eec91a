//! Made-up machines for the tests of samplers: folders that stand for `/proc` and `/sys`.

use std::fs;
use std::time::Duration;

use fathom_host::View;
use tempfile::TempDir;

use crate::{Batch, Clock, Sampler};

/// Makes a machine of these files.
pub(crate) fn machine(files: &[(&str, &str)]) -> (TempDir, View) {
    let folder = TempDir::new().unwrap();
    for part in ["proc", "sys"] {
        fs::create_dir_all(folder.path().join(part)).unwrap();
    }
    for (path, text) in files {
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let view = View::snapshot(folder.path()).unwrap();
    (folder, view)
}

/// Takes two samples with a change between them, and returns the readings of the second by name.
pub(crate) fn run_twice(sampler: &mut dyn Sampler, change: impl FnOnce()) -> Vec<(String, f64)> {
    let clock = Clock::simulated(&[]);
    let mut batch = Batch::new(clock);
    sampler.sample(&mut batch).unwrap();
    assert!(batch.readings.is_empty(), "the first sample has no window");
    change();
    clock.pass(Duration::from_millis(1));
    let mut batch = Batch::new(clock);
    sampler.sample(&mut batch).unwrap();
    for reading in &batch.readings {
        let kind = fathom_record::catalog::kind_of(&reading.name).unwrap();
        assert_eq!(kind.unit, reading.unit, "{}", reading.name);
    }
    batch.readings.into_iter().map(|reading| (reading.name, reading.value)).collect()
}
