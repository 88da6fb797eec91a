//! The optimised programs that were built with this one.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The program `name` in the same directory; refuses an unoptimised build, which measures nothing.
pub(crate) fn beside(name: &str) -> Result<PathBuf> {
    if cfg!(debug_assertions) {
        bail!(
            "an unoptimised build measures nothing; use 'make bench' or 'cargo run --release -p fathom-bench'"
        );
    }
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let program = own.with_file_name(name);
    if !program.is_file() {
        bail!("{} is not there; 'cargo build --release --package {name}' makes it", program.display());
    }
    Ok(program)
}
