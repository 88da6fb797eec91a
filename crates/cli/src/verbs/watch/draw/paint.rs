//! The abilities of the terminal (colours, characters beyond ASCII), and numbers in few characters.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// The abilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    pub(crate) colour: bool,
    pub(crate) unicode: bool,
}

impl Paint {
    /// Read from the environment: `NO_COLOR` (no-color.org), `TERM`, and the locale's encoding.
    pub(crate) fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Paint {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        // The first of these that is set decides, as locale(7) says.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_lowercase();
        Paint {
            colour: set("NO_COLOR").is_none() && !is_dumb,
            unicode: (locale.contains("utf-8") || locale.contains("utf8")) && !is_dumb,
        }
    }

    /// A style with a colour, if the terminal has colours.
    pub(super) fn fg(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn heading(self, text: &str) -> Span<'static> {
        Span::styled(text.to_owned(), Style::new().add_modifier(Modifier::BOLD))
    }

    /// An alarm: it is bold, so that it is visible without colours.
    pub(super) fn alarm(self, text: String) -> Span<'static> {
        let style = if self.colour { Style::new().fg(Color::LightRed) } else { Style::new() };
        Span::styled(text, style.add_modifier(Modifier::BOLD))
    }

    pub(super) fn faint(self, text: String) -> Span<'static> {
        Span::styled(text, self.fg(Color::DarkGray))
    }

    /// `text` in at most `width` characters, with a mark at the cut.
    pub(super) fn clip(self, text: &str, width: usize) -> String {
        if text.chars().count() <= width {
            return text.to_owned();
        }
        let mark = if self.unicode { "\u{2026}" } else { "..." };
        let kept = width.saturating_sub(mark.chars().count());
        let cut: String = text.chars().take(kept).collect();
        cut.trim_end().to_owned() + mark
    }
}

/// `text` in at most `width` characters, cut at its beginning: the port at the end of an address distinguishes servers of a host.
pub(super) fn clip_start(text: &str, width: usize, paint: Paint) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let mark = if paint.unicode { "\u{2026}" } else { ".." };
    let kept = width.saturating_sub(mark.chars().count());
    mark.chars().take(width).chain(text.chars().skip(count - kept)).collect()
}

/// A time in five to seven characters.
pub(crate) fn time(ms: f64) -> String {
    match ms {
        ms if ms < 0.9995 => format!("{:.0}us", ms * 1000.0),
        ms if ms < 9.995 => format!("{ms:.2}ms"),
        ms if ms < 99.95 => format!("{ms:.1}ms"),
        ms if ms < 999.5 => format!("{ms:.0}ms"),
        ms => format!("{:.2}s", ms / 1000.0),
    }
}

/// A time, or a dash.
pub(crate) fn time_or_dash(ms: Option<f64>) -> String {
    ms.map_or_else(|| "-".to_owned(), time)
}

/// A count or a rate in at most five characters.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if value < 9.95 && value.fract() != 0.0 => format!("{value:.1}"),
        value if value < 99_999.5 => format!("{value:.0}"),
        value if value < 9_999_500.0 => format!("{:.0}k", value / 1e3),
        value => format!("{:.0}M", value / 1e6),
    }
}

pub(crate) fn megabytes(bytes: f64) -> String {
    let megabytes = bytes / 1e6;
    if megabytes < 99.95 { format!("{megabytes:.1}") } else { format!("{megabytes:.0}") }
}

/// A share in percent.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 9.95 { format!("{percent:.1}%") } else { format!("{percent:.0}%") }
}

/// A long time in few characters.
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 120.0 => format!("{seconds:.0}s"),
        seconds if seconds < 7200.0 => format!("{:.0}min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.1}h", seconds / 3600.0),
        seconds => format!("{:.1}d", seconds / 86_400.0),
    }
}

/// Seconds as a clock shows them.
pub(crate) fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_characters() {
        assert_eq!(
            [0.0123, 0.9994, 1.234, 45.67, 456.7, 12_345.0].map(time),
            ["12us", "999us", "1.23ms", "45.7ms", "457ms", "12.35s"]
        );
        assert_eq!(
            [0.0, 3.25, 12.4, 12_345.0, 123_456.0, 2e7].map(count),
            ["0", "3.2", "12", "12345", "123k", "20M"]
        );
        assert_eq!([0.0, 0.0123, 0.5, 1.0].map(percent), ["0%", "1.2%", "50%", "100%"]);
        assert_eq!(clock(3661.9), "01:01:01");
    }

    #[test]
    fn the_environment_decides() {
        let paint = |pairs: &[(&str, &str)]| {
            Paint::from_environment(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let of = |colour, unicode| Paint { colour, unicode };
        assert_eq!(paint(&[("TERM", "xterm"), ("LANG", "de_DE.UTF-8")]), of(true, true));
        assert_eq!(paint(&[("TERM", "xterm"), ("LANG", "C.utf8"), ("NO_COLOR", "1")]), of(false, true));
        assert_eq!(paint(&[("TERM", "xterm"), ("LC_ALL", "C"), ("LANG", "C.UTF-8")]), of(true, false));
        assert_eq!(paint(&[("TERM", "dumb"), ("LANG", "C.UTF-8")]), of(false, false));
        assert_eq!(paint(&[]), of(false, false));
    }
}
