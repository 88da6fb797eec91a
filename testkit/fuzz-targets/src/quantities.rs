//! Fuzzes sizes and durations: reading and printing never panic, and a parsed number, printed in its smallest unit, is
//! read back as the same (a duration within the precision of an f64).

use fathom_units::{Bytes, Nanos};

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(bytes) = text.parse::<Bytes>() {
        assert!(!bytes.to_string().is_empty());
        assert_eq!(bytes.get().to_string().parse::<Bytes>().ok(), Some(bytes));
    }
    if let Ok(nanos) = text.parse::<Nanos>() {
        assert!(!nanos.to_string().is_empty());
        let back = format!("{}ns", nanos.get()).parse::<Nanos>().map_or(0, Nanos::get);
        assert!(back.abs_diff(nanos.get()) <= nanos.get() / 1_000_000, "{nanos:?} came back as {back} ns");
    }
}
