//! The small parts that packing and unpacking share: sums while bytes pass, and what a name may be.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// Counts and sums what passes through.
pub(super) struct Summed<T> {
    inner: T,
    sum: Sha256,
    bytes: u64,
}

impl<T> Summed<T> {
    pub(super) fn new(inner: T) -> Summed<T> {
        Summed { inner, sum: Sha256::new(), bytes: 0 }
    }

    /// How many bytes, and their sum in hexadecimal.
    pub(super) fn done(self) -> (u64, String) {
        (self.bytes, hexadecimal(&self.sum.finalize()))
    }

    fn take(&mut self, passed: &[u8]) {
        self.sum.update(passed);
        self.bytes = self.bytes.saturating_add(passed.len() as u64);
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.take(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.take(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a run folder may be called so: letters, digits, `-`, `_` and dots, and first no dot, which hides, and no `-`, which a shell's
/// `*` makes an option.
pub(super) fn is_run_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= 200 && !name.starts_with(['.', '-']) && name.chars().all(plain)
}
