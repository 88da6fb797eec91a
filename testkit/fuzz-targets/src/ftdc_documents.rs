//! Fuzzes files of FTDC: documents and compressed chunks are read up to the first damage, and each byte is counted once.

use fathom_ftdc::{ChunkBuffer, Document, DocumentReader, MetricChunk};

pub(crate) fn take_input(input: &[u8]) {
    let mut reader = DocumentReader::new(input);
    let mut buffer = ChunkBuffer::default();
    loop {
        match reader.next_document() {
            Ok(Some(Document::Metrics { payload, .. })) => {
                let _ = MetricChunk::parse(payload, &mut buffer);
            }
            Ok(Some(_)) => {}
            Ok(None) => break,
            // The reader may continue after a document that is not one of a recording.
            Err(_) => {}
        }
    }
    assert_eq!(reader.read_bytes() + reader.cut_off_bytes(), input.len() as u64);
}
