//! Draws a [`Screen`] on a terminal of any size: the most important sections keep their lines if there are few.

mod charts;
pub(crate) mod paint;
mod sections;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

pub(crate) use self::paint::Paint;
use super::view::Screen;

/// From this width on, sections are drawn side by side if they fit.
const MIN_SIDE_BY_SIDE_COLUMNS: u16 = 76;
/// The least and the most lines of the heat strip.
const MIN_HEAT_LINES: usize = 4;
const MAX_HEAT_LINES: usize = 9;
/// Table: the help, which describes the keys and the lines on one screen.
const HELP: [&str; 18] = [
    "q  quit (Ctrl-C and Esc too)      p  pause the screen; reading continues",
    "m  mark this moment in the run    ?  this help",
    "",
    "layers    the mean time of an operation and the share of each layer, over",
    "          the last minutes; ! if the layers do not add up to the whole",
    "heat      each column is a second, each row a factor of ten in latency;",
    "          C: checkpoint, m: your mark. Hotter: more operations",
    "queues    operations in each queue and its limit; +n: operations that wait.",
    "          CAP: share of the last minute in which it was full",
    "serv      time from when an operation was sent",
    "resp      time from when an operation was due",
    "checkpoint time until the next is due; duration and bytes of the last five",
    "device    mean time of reads, writes and flushes over ten seconds",
    "io PSI    share of time in which some task waited for a device",
    "findings  the most important first, with the estimated gain",
    "notes     what could not be read, and what that costs",
    "",
    "Only commands that read are sent; nothing is changed. See docs/watch.md",
];

/// The display options that the user has set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DisplayMode {
    pub(crate) is_paused: bool,
    pub(crate) shows_help: bool,
}

/// Lines that are drawn next to each other; rows with a lower rank keep their lines longer.
struct Row {
    rank: u8,
    left: Vec<Line<'static>>,
    right: Vec<Line<'static>>,
}

impl Row {
    fn one(rank: u8, left: Vec<Line<'static>>) -> Row {
        Row { rank, left, right: Vec::new() }
    }

    fn height(&self) -> usize {
        self.left.len().max(self.right.len())
    }
}

pub(crate) fn draw(frame: &mut Frame<'_>, screen: &Screen, mode: DisplayMode, paint: Paint) {
    let area = frame.area();
    if mode.shows_help {
        frame.render_widget(Paragraph::new(help()), area);
        return;
    }
    let mut rows = rows(screen, mode, area, paint);
    fit(&mut rows, usize::from(area.height));
    let mut top = area.top();
    for row in rows {
        let height = u16::try_from(row.height()).unwrap_or(u16::MAX).min(area.bottom().saturating_sub(top));
        let half = if row.right.is_empty() { area.width } else { area.width / 2 };
        let left = Rect { x: area.left(), y: top, width: half.saturating_sub(1), height };
        // One column stays free between the two, none at the right edge.
        let left = if row.right.is_empty() { Rect { width: area.width, ..left } } else { left };
        frame.render_widget(Paragraph::new(row.left), left);
        if !row.right.is_empty() {
            let right = Rect { x: area.left() + half, y: top, width: area.width - half, height };
            frame.render_widget(Paragraph::new(row.right), right);
        }
        top = top.saturating_add(height);
    }
}

fn rows(screen: &Screen, mode: DisplayMode, area: Rect, paint: Paint) -> Vec<Row> {
    let width = usize::from(area.width);
    let is_wide = area.width >= MIN_SIDE_BY_SIDE_COLUMNS;
    let column = if is_wide { width / 2 - 1 } else { width };
    let right = if is_wide { width - width / 2 } else { width };
    let latency = sections::latency(screen, paint);
    let (ladder, checkpoints) =
        (sections::ladder(screen, column, paint), sections::checkpoints(screen, right, paint));
    let mut rows = vec![
        Row::one(0, sections::header(screen, mode.is_paused, width, paint)),
        Row::one(2, sections::members(screen, width, paint)),
        Row::one(3, sections::changes(screen, width, paint)),
        Row::one(1, sections::loops(screen, width, paint)),
    ];
    let below = [
        Row::one(3, sections::devices(screen, paint)),
        Row::one(5, sections::operations(screen, width, paint)),
        Row::one(1, sections::verdict(screen, width, paint)),
        Row::one(2, sections::suspects(screen, width, paint)),
        Row::one(7, sections::notes(screen, width, paint)),
        Row::one(4, sections::keys(screen, paint)),
    ];
    let others = rows.iter().chain(&below).map(Row::height).sum::<usize>()
        + if is_wide {
            ladder.len().max(checkpoints.len())
        } else {
            ladder.len() + checkpoints.len() + latency.len()
        };
    let free = usize::from(area.height).saturating_sub(others);
    let heat = match screen.heat.is_empty() {
        true => Vec::new(),
        false => charts::heat_strip(&screen.heat, column, free.clamp(MIN_HEAT_LINES, MAX_HEAT_LINES), paint),
    };
    if is_wide {
        rows.push(Row { rank: 6, left: heat, right: latency });
        rows.push(Row { rank: 5, left: ladder, right: checkpoints });
    } else {
        rows.push(Row::one(8, heat));
        rows.push(Row::one(6, latency));
        rows.push(Row::one(5, ladder));
        rows.push(Row::one(9, checkpoints));
    }
    rows.extend(below);
    rows
}

/// Removes lines from the rows with the highest ranks until the others fit.
fn fit(rows: &mut [Row], height: usize) {
    let mut surplus = rows.iter().map(Row::height).sum::<usize>().saturating_sub(height);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(rows.get(*at).map_or(0, |row| row.rank)));
    for at in order {
        let Some(row) = rows.get_mut(at).filter(|_| surplus > 0) else { continue };
        // A heading alone is useless: a section that has no space for two lines is left out.
        let had = row.height();
        let kept = had.saturating_sub(surplus);
        let kept = if kept < 2 && had > 1 && row.rank > 3 { 0 } else { kept };
        row.left.truncate(kept);
        row.right.truncate(kept);
        surplus = surplus.saturating_sub(had - kept);
    }
}

/// The help as lines.
fn help() -> Vec<Line<'static>> {
    HELP.iter().map(|line| Line::raw(*line)).collect()
}
