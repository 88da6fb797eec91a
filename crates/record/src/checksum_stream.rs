//! The SHA-256 of the bytes that pass through a stream.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// A stream that counts the bytes that pass through it and computes their checksum.
#[derive(Debug)]
pub(crate) struct ChecksumStream<T> {
    inner: T,
    sum: Sha256,
    bytes: u64,
}

impl<T> ChecksumStream<T> {
    pub(crate) fn new(inner: T) -> ChecksumStream<T> {
        ChecksumStream { inner, sum: Sha256::new(), bytes: 0 }
    }

    /// The number of bytes, and their checksum in hexadecimal.
    pub(crate) fn done(self) -> (u64, String) {
        (self.bytes, hexadecimal(&self.sum.finalize()))
    }

    fn take(&mut self, passed: &[u8]) {
        self.sum.update(passed);
        self.bytes = self.bytes.saturating_add(passed.len() as u64);
    }
}

impl<R: Read> Read for ChecksumStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.take(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<W: Write> Write for ChecksumStream<W> {
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
