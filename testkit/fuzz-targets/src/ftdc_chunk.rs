//! Fuzzes inflated chunks of FTDC: each is refused or read, and any selection of columns agrees with all of them.

use fathom_ftdc::MetricChunk;

pub(crate) fn take_input(input: &[u8]) {
    let Ok(chunk) = MetricChunk::parse_inflated(input) else { return };
    // A run of zeros makes millions of values from a few bytes, which test no more than fewer values do.
    if chunk.samples() * chunk.metrics().len() > 1 << 16 {
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
