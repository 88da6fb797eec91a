//! Fuzzes inflated chunks of FTDC: each is refused or read, and any selection of columns agrees with all of them.

use fathom_ftdc::MetricChunk;

/// A run of zeros makes millions of values from a few bytes, which test no more than fewer values do. The largest real chunk has 1.6 million.
const MAX_EXPANDED: usize = 1 << 21;

pub(crate) fn take_input(input: &[u8]) {
    let Ok(chunk) = MetricChunk::parse_inflated(input) else { return };
    if chunk.samples() * chunk.metrics().len() > MAX_EXPANDED {
        return;
    }
    let mut columns = Vec::new();
    let all = chunk.columns(|_| true, |_, column| columns.push(column.to_vec()));
    for (column, metric) in columns.iter().zip(chunk.metrics()) {
        assert_eq!((column.len(), column.first()), (chunk.samples(), Some(&metric.first)));
    }
    let is_wanted = |at: usize| at % 3 == 1;
    let mut selected = Vec::new();
    let some = chunk.columns(is_wanted, |at, column| selected.push((at, column.to_vec())));
    let read = columns.into_iter().enumerate().filter(|(at, _)| is_wanted(*at));
    assert_eq!(selected, read.collect::<Vec<_>>());
    // Columns after the last wanted one are not read, so damage in them is not seen.
    assert!(all.is_err() || some.is_ok());
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use fathom_ftdc::{ChunkBuffer, Document, DocumentReader};

    use super::*;

    #[test]
    fn real_chunks_are_expanded() {
        let file = "../../tests/fixtures/recordings/standalone-7.0.0/metrics.interim";
        let file = File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        let (mut reader, mut buffer) = (DocumentReader::new(file), ChunkBuffer::default());
        let mut largest = 0;
        while let Some(document) = reader.next_document().unwrap() {
            let Document::Metrics { payload, .. } = document else { continue };
            let chunk = MetricChunk::parse(payload, &mut buffer).unwrap();
            largest = largest.max(chunk.samples() * chunk.metrics().len());
        }
        assert!((1 << 16..=MAX_EXPANDED).contains(&largest), "{largest}");
    }
}
