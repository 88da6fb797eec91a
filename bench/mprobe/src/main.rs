//! Reads every value of a `diagnostic.data` directory with mprobe-diagnostics and prints how many there are: the other reader of the bench.

use std::error::Error;
use std::path::PathBuf;

use mprobe_diagnostics::DiagnosticData;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: mprobe-reader DIRECTORY")?;
    let mut values = 0_usize;
    for chunk in DiagnosticData::new(&directory)? {
        values += chunk?.metrics.iter().map(|metric| metric.measurements.len()).sum::<usize>();
    }
    println!("{values} values");
    Ok(())
}
