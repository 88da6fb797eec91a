//! Fuzzes two successive readings of `/proc/diskstats` of any kernel: no panic, and every figure is finite and not negative.

use fathom_host::diskstats::parse;
use fathom_host::rates::Rates;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A blank line separates the readings, so that a seed can be read; the length of the input varies the interval.
    let (before, after) = text.split_once("\n\n").unwrap_or((text, text));
    let interval_ns = (text.len() as u64 % 8) * 500_000_000;
    let (before, after) = (parse(before), parse(after));
    for (before, after) in before.iter().zip(&after) {
        let rates = Rates::between(&before.counters, &after.counters, interval_ns);
        let flows = [Some(rates.read), Some(rates.write), rates.discard, rates.flush, Some(rates.all)];
        for flow in flows.into_iter().flatten() {
            let figures =
                [Some(flow.per_s), Some(flow.kib_per_s), flow.merged_pct, flow.await_ms, flow.areq_kib];
            assert!(figures.into_iter().flatten().all(is_sane), "{flow:?}");
        }
        let figures = [rates.aqu_sz, rates.util_pct, rates.corrected_writes_per_s.unwrap_or_default()];
        assert!(figures.into_iter().all(is_sane), "{rates:?}");
    }
}

fn is_sane(figure: f64) -> bool {
    figure.is_finite() && figure >= 0.0
}
