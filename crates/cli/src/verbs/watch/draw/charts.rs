//! Charts of characters, distinguished by colour, or by letters without colours: gauges, stacked bars, and the heat strip. A line of the
//! strip is a decade of latency, or two half decades with colours and half blocks.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::paint::{Paint, percent};
use crate::verbs::watch::view::heat::{STEPS, label};
use crate::verbs::watch::view::{Heat, LoopPart};

/// Table: the layers with a colour of their own, so that a layer keeps its colour when others appear and disappear. The colours are the
/// nearest of 256 to those that people with any colour vision can distinguish (Okabe and Ito).
const LAYERS: [(&str, u8, char); 12] = [
    ("schedule", 250, 's'),
    ("network", 74, 'n'),
    ("ticket", 166, 't'),
    ("flow control", 132, 'f'),
    ("lock", 175, 'l'),
    ("write conflict", 168, 'c'),
    ("replication", 36, 'r'),
    ("page read", 25, 'd'),
    ("evict", 214, 'v'),
    ("journal", 99, 'j'),
    ("engine", 71, 'e'),
    ("unexplained", 244, '?'),
];
/// The colours of layers that are not in the table.
const OTHERS: [(u8, char); 3] = [(110, 'x'), (180, 'y'), (139, 'z')];

fn layer(name: &str) -> (u8, char) {
    let known =
        LAYERS.iter().find(|(layer, ..)| *layer == name).map(|(_, colour, letter)| (*colour, *letter));
    known.unwrap_or_else(|| {
        let sum: usize = name.bytes().map(usize::from).sum();
        OTHERS.get(sum % OTHERS.len()).copied().unwrap_or((244, 'x'))
    })
}

/// A bar for the whole, with a segment for each part.
pub(super) fn stack(parts: &[LoopPart], width: usize, paint: Paint) -> Vec<Span<'static>> {
    let whole: f64 = parts.iter().map(|part| part.share.max(0.0)).sum::<f64>().max(1.0);
    let mut spans = Vec::new();
    let (mut sum, mut drawn) = (0.0, 0);
    for part in parts {
        sum += part.share.max(0.0);
        let end = (sum / whole * width as f64).round() as usize;
        let length = end.saturating_sub(drawn);
        drawn = drawn.max(end);
        let (colour, letter) = layer(&part.name);
        let glyph = match (paint.colour, paint.unicode) {
            (true, true) => '\u{2588}',
            (true, false) => '#',
            (false, _) => letter,
        };
        spans.push(Span::styled(glyph.to_string().repeat(length), paint.fg(Color::Indexed(colour))));
    }
    spans.push(Span::raw(" ".repeat(width.saturating_sub(drawn))));
    spans
}

/// A part's name and share, in its colour or with its letter in front.
pub(super) fn legend(part: &LoopPart, paint: Paint) -> Span<'static> {
    let (colour, letter) = layer(&part.name);
    let share = percent(part.share);
    let text = match paint.colour {
        true => format!("{} {share}", part.name),
        false => format!("{letter}={} {share}", part.name),
    };
    Span::styled(text, paint.fg(Color::Indexed(colour)))
}

/// A gauge from nothing to full.
pub(super) fn gauge(share: f64, width: usize, colour: Color, paint: Paint) -> Vec<Span<'static>> {
    let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    let (full, empty) = if paint.unicode { ("\u{2588}", "\u{2591}") } else { ("#", ".") };
    vec![
        Span::styled(full.repeat(filled), paint.fg(colour)),
        Span::styled(empty.repeat(width - filled), paint.fg(Color::DarkGray)),
    ]
}

/// Columns of the labels.
const LABEL_COLUMNS: usize = 6;
/// The colours from cold to hot, of the 256: readable on light and dark backgrounds, and in order of brightness.
const COLOURS: [u8; 4] = [24, 31, 214, 202];

/// Lines for at most `height` decades that occurred, the slowest first, and a line of checkpoints and marks.
pub(super) fn heat_strip(heat: &Heat, width: usize, height: usize, paint: Paint) -> Vec<Line<'static>> {
    let shown = width.saturating_sub(LABEL_COLUMNS + 1);
    let skipped = heat.columns.len().saturating_sub(shown);
    let columns = heat.columns.get(skipped..).unwrap_or_default();
    let decades = decades(columns, height.saturating_sub(1));
    let mut lines: Vec<Line<'static>> = decades
        .into_iter()
        .rev()
        .map(|decade| {
            let mut spans = vec![paint.faint(format!("{:>LABEL_COLUMNS$} ", label(2 * decade)))];
            let cells = columns.iter().map(|column| {
                let share = |step: usize| column.get(step).copied().unwrap_or(0.0);
                cell(share(2 * decade), share(2 * decade + 1), paint)
            });
            spans.extend(cells);
            Line::from(spans)
        })
        .collect();
    lines.push(events(heat, skipped, paint));
    lines
}

/// The decades that occur, at most this many: the slow ones are kept, since they are the ones of interest.
fn decades(columns: &[[f64; STEPS]], most: usize) -> Vec<usize> {
    let met = |decade: usize| {
        columns.iter().any(|column| column.iter().skip(2 * decade).take(2).any(|share| *share > 0.0))
    };
    let first = (0..STEPS / 2).find(|decade| met(*decade));
    let last = (0..STEPS / 2).rev().find(|decade| met(*decade));
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    (first..=last).skip((last + 1 - first).saturating_sub(most)).collect()
}

/// The level of heat of a share, 0 for none; the scale is in factors of ten, since the tail matters.
fn level(share: f64) -> usize {
    match share {
        share if share <= 0.0 => 0,
        share if share < 0.01 => 1,
        share if share < 0.1 => 2,
        share if share < 0.5 => 3,
        _ => 4,
    }
}

fn cell(low: f64, high: f64, paint: Paint) -> Span<'static> {
    let colour = |share: f64| {
        level(share).checked_sub(1).and_then(|at| COLOURS.get(at)).map(|colour| Color::Indexed(*colour))
    };
    if paint.colour && paint.unicode {
        return match (colour(high), colour(low)) {
            (None, None) => Span::raw(" "),
            (Some(high), None) => Span::styled("\u{2580}", Style::new().fg(high)),
            (None, Some(low)) => Span::styled("\u{2584}", Style::new().fg(low)),
            (Some(high), Some(low)) => Span::styled("\u{2580}", Style::new().fg(high).bg(low)),
        };
    }
    let hotter = if low > high { low } else { high };
    let glyphs = if paint.unicode {
        [" ", "\u{b7}", "\u{2591}", "\u{2592}", "\u{2588}"]
    } else {
        [" ", ".", ":", "+", "#"]
    };
    let glyph = glyphs.get(level(hotter)).copied().unwrap_or(" ");
    Span::styled(glyph, colour(hotter).map_or_else(Style::new, |colour| paint.fg(colour)))
}

fn events(heat: &Heat, skipped: usize, paint: Paint) -> Line<'static> {
    let flags = heat.checkpoint.iter().zip(&heat.marked).skip(skipped);
    let text: String = flags
        .map(|(checkpoint, marked)| match (marked, checkpoint) {
            (true, _) => 'm',
            (_, true) => 'C',
            _ => ' ',
        })
        .collect();
    Line::from(vec![
        paint.faint(format!("{:>LABEL_COLUMNS$} ", "events")),
        Span::styled(text, paint.fg(Color::Indexed(214))),
    ])
}
