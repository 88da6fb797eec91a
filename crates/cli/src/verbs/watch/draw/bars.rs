//! Bars of characters: gauges, and stacked bars whose parts are told apart by colour, or by letters where there is none.

use ratatui::style::Color;
use ratatui::text::Span;

use super::paint::Paint;
use crate::verbs::watch::view::LoopPart;

/// Table: the layers with a colour of their own, so that a layer keeps its colour when others come and go. The colours are the
/// nearest of 256 to those that people with any colour vision tell apart (Okabe and Ito).
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
/// For layers beyond the table.
const OTHERS: [(u8, char); 3] = [(110, 'x'), (180, 'y'), (139, 'z')];

fn layer(name: &str) -> (u8, char) {
    let known =
        LAYERS.iter().find(|(layer, ..)| *layer == name).map(|(_, colour, letter)| (*colour, *letter));
    known.unwrap_or_else(|| {
        let sum: usize = name.bytes().map(usize::from).sum();
        OTHERS.get(sum % OTHERS.len()).copied().unwrap_or((244, 'x'))
    })
}

/// A bar as long as the whole, a stretch for each part.
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
    let share = super::paint::percent(part.share);
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
