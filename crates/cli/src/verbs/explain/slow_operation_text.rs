//! The slow operations of a log in a few lines: the bytes that they read, and the shapes that read most.

use fathom_record::{ShapeTotals, SlowOperationTable, most_frequent};
use fathom_units::{Bytes, count, time_span};

/// The most shapes that are shown.
pub(super) const MAX_SHAPES: usize = 3;
/// A shape with a smaller share is not shown, in percent.
const MIN_SHARE_PCT: f64 = 0.5;
/// The number of characters after which a shape is cut.
const MAX_SHAPE_CHARS: usize = 130;

/// A sentence with the indents of its first and its other lines.
pub(super) struct IndentedSentence {
    pub(super) text: String,
    pub(super) first: &'static str,
    pub(super) rest: &'static str,
}

/// The sentences on a table, with `max_shapes` shapes at most.
pub(super) fn sentences(table: &SlowOperationTable, max_shapes: usize) -> Vec<IndentedSentence> {
    let sentence = |text: String, first, rest| IndentedSentence { text, first, rest };
    let mut sentences = vec![sentence(heading(table), "", "  ")];
    // Shares are of the bytes read, or of the time if the lines do not have the bytes.
    let (total, unit) = match table.read_bytes {
        Some(bytes) if bytes > 0 => (bytes as f64, "bytes read"),
        _ => (table.time_s * 1e3, "time"),
    };
    let share_of = |shape: &ShapeTotals| {
        let part = match table.read_bytes {
            Some(bytes) if bytes > 0 => shape.read_bytes.unwrap_or(0) as f64,
            _ => shape.time_s * 1e3,
        };
        if total > 0.0 { 100.0 * part / total } else { 0.0 }
    };
    let shown: Vec<&ShapeTotals> =
        table.shapes.iter().filter(|shape| share_of(shape) >= MIN_SHARE_PCT).take(max_shapes).collect();
    for shape in &shown {
        let share = share_of(shape);
        let name = format!("{:.0} % of the {unit}: {} {}", share, shape.namespace, shape.shape);
        sentences.push(sentence(cut(&name), "  ", "      "));
        sentences.push(sentence(figures(shape), "      ", "      "));
    }
    match table.shapes.len() - shown.len() {
        0 => {}
        more if shown.is_empty() => {
            sentences.push(sentence(format!("{more} shapes (--json has them)."), "  ", "    "));
        }
        1 => sentences.push(sentence("One other shape (--json has it).".to_owned(), "  ", "    ")),
        more => sentences.push(sentence(format!("{more} other shapes (--json has them)."), "  ", "    ")),
    }
    sentences
}

fn heading(table: &SlowOperationTable) -> String {
    if table.count == 0 {
        return format!("No slow operation is among {} lines of the log.", count(table.lines as f64));
    }
    let mut text = format!(
        "Slow operations in the log: {}, which took {} in total",
        count(table.count as f64),
        time_span(table.time_s)
    );
    match (table.read_bytes, table.engine_read_bytes) {
        (None, _) => text.push_str(
            ". Shapes are in the order of their time, since mongod logs what operations read only from 4.2 on",
        ),
        (Some(bytes), Some(all)) if all >= 1.0 => {
            let share = (100.0 * bytes as f64 / all).min(100.0);
            let words = format!("; they read {}, {share:.0} % of what mongod read", Bytes(bytes));
            text.push_str(&words);
        }
        (Some(bytes), _) => text.push_str(&format!("; they read {}", Bytes(bytes))),
    }
    text.push('.');
    if let Some(threshold_ms) = table.threshold_ms {
        let sample = table.sample_rate.filter(|rate| *rate < 1.0);
        let sampled = sample.map(|rate| format!(", and {:.0} % of those above are", 100.0 * rate));
        let words =
            format!(" Operations below {threshold_ms} ms are not logged{}.", sampled.unwrap_or_default());
        text.push_str(&words);
    }
    text
}

fn figures(shape: &ShapeTotals) -> String {
    let times =
        if shape.count == 1 { "once".to_owned() } else { format!("{} times", count(shape.count as f64)) };
    let mean_ms = 1e3 * shape.time_s / shape.count.max(1) as f64;
    let mut words = vec![times, format!("mean {mean_ms:.0} ms, longest {} ms", shape.max_ms)];
    if let Some(bytes) = shape.read_bytes.filter(|bytes| *bytes > 0) {
        let share = shape.read_s.filter(|_| shape.time_s > 0.0).map(|s| 100.0 * (s / shape.time_s).min(1.0));
        let during = share.map(|share| format!(", which took {share:.0} % of their time"));
        words.push(format!("read {}{}", Bytes(bytes), during.unwrap_or_default()));
    }
    words.extend(most_frequent(&shape.plans).map(|plan| format!("plan {plan}")));
    words.extend(most_frequent(&shape.applications).map(|name| format!("application {name}")));
    words.extend(most_frequent(&shape.drivers).map(|name| format!("driver {name}")));
    if shape.in_incidents > 0 {
        words.push(format!("{} of them in incidents", count(shape.in_incidents as f64)));
    }
    if let Some(share) = shape.disk_busy_share {
        words.push(format!("the disk was busy {:.0} % of the time around them", 100.0 * share));
    }
    words.join(", ")
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHAPE_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}
