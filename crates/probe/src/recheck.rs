//! The last act of `--verify`: the whole file is read back in order and every stamp is checked.

use fathom_errors::{Error, Result};

use crate::buffer::AlignedBuffer;
use crate::file::BlockFile;
use crate::session::Session;

const STRIDE: u64 = 1 << 20;

impl Session<'_> {
    /// Reads the data file back; returns how many 4 KiB blocks were checked, 0 when not verifying.
    ///
    /// # Errors
    /// [`fathom_errors::Kind::Corruption`] at the first block that is not what was written.
    pub fn recheck(&mut self) -> Result<u64> {
        let Some(generations) = &self.generations else { return Ok(0) };
        let size = self.target.size().get();
        let mut buffer = AlignedBuffer::new(STRIDE as usize)?;
        let (mut at, mut checked) = (0, 0);
        while at < size && !self.signals.stopped() {
            let len = usize::try_from(STRIDE.min(size - at)).unwrap_or(0);
            let stride = buffer.as_mut_slice().get_mut(..len).unwrap_or_default();
            self.target
                .file()
                .read_at(stride, at)
                .map_err(|e| Error::io("read back", self.target.path(), e))?;
            checked += self.stamper.verify(stride, at, |offset| generations.expected(offset))?;
            at += len as u64;
        }
        Ok(checked)
    }
}
