//! The loops that follow the readings: on a terminal, or in lines. A live session and a recording are followed in the same way.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fathom_errors::Result;
use fathom_process::Signals;
use fathom_session::{Feed, JudgeThread};

use super::draw::{DisplayMode, Paint};
use super::terminal::{KeyCommand, Terminal};
use super::text_view;
use super::view::{OperationView, Screen};
use crate::metrics::SeriesMetrics;
use crate::output;

/// The interval between checks for keys and signals.
const TICK: Duration = Duration::from_millis(100);

/// The reason why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verbs) enum FollowEnd {
    /// Its time was over.
    Over,
    /// The user quit the view.
    Quit,
    /// Ctrl-C, or a signal.
    Stopped,
}

/// The moments at which new data are shown. After a pause of the whole machine, moments that were missed are not made up for.
#[derive(Clone, Copy, Debug)]
struct Pace {
    interval: Duration,
    due: Instant,
}

impl Pace {
    /// The time left until the next moment; zero once it has come.
    fn left(self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Returns whether a moment has come; then the next one is an interval later.
    fn take(&mut self, now: Instant) -> bool {
        let has_come = self.left(now).is_zero();
        if has_come {
            let next = self.due + self.interval;
            self.due = if next > now { next } else { now + self.interval };
        }
        has_come
    }
}

/// A loop that shows a feed until it ends: the feed, the judge of its findings, and the interval.
pub(in crate::verbs) struct WatchLoop<'f, S> {
    pub(in crate::verbs) feed: &'f mut S,
    pub(in crate::verbs) target: String,
    pub(in crate::verbs) judge: JudgeThread,
    pub(in crate::verbs) signals: &'f Signals,
    /// The interval at which new data are shown.
    pub(in crate::verbs) interval: Duration,
    pub(in crate::verbs) until: Option<Instant>,
    /// The page of metrics, which shows the operations that servers run now.
    pub(in crate::verbs) metrics: Option<SeriesMetrics>,
}

impl<S: Feed> WatchLoop<'_, S> {
    fn ended(&self) -> Option<FollowEnd> {
        if self.signals.stopped() {
            return Some(FollowEnd::Stopped);
        }
        let is_over = self.feed.is_over() || self.until.is_some_and(|until| Instant::now() >= until);
        is_over.then_some(FollowEnd::Over)
    }

    /// The present content of the screen.
    fn screen(&mut self) -> Screen {
        let window = self.feed.window();
        let screen = Screen::new(&self.target, window, self.interval, self.judge.latest(&window.evidence));
        if let Some(metrics) = &self.metrics {
            metrics.take_operations(screen.operations.iter().map(OperationView::numbers));
        }
        screen
    }

    /// Shows lines if they are requested or standard output is no terminal, else a screen.
    pub(super) fn show(self, is_plain: bool, is_json: bool) -> Result<FollowEnd> {
        match is_plain || is_json || !std::io::stdout().is_terminal() {
            true => self.in_lines(is_json),
            false => self.on_terminal(),
        }
    }

    /// Shows the screen on a terminal, until the user quits.
    pub(in crate::verbs) fn on_terminal(mut self) -> Result<FollowEnd> {
        let paint = Paint::from_environment(|name| std::env::var(name).ok());
        let mut terminal = Terminal::take(paint)?;
        let mut mode = DisplayMode::default();
        let mut screen = self.screen();
        let mut pace = Pace { interval: self.interval, due: Instant::now() };
        loop {
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            self.feed.gather(Duration::ZERO);
            let changed = pace.take(Instant::now());
            if changed && !mode.is_paused {
                screen = self.screen();
            }
            match terminal.key(TICK)? {
                Some(KeyCommand::Quit) => return Ok(FollowEnd::Quit),
                Some(KeyCommand::Stop) => return Ok(FollowEnd::Stopped),
                Some(KeyCommand::Pause) => mode.is_paused ^= true,
                Some(KeyCommand::Help) => mode.shows_help ^= true,
                Some(KeyCommand::Mark) => self.feed.mark(),
                Some(KeyCommand::Resized) => {}
                None if !changed => continue,
                None => {}
            }
            terminal.show(&screen, mode)?;
        }
    }

    /// Prints lines for one moment after another; JSON if `json`.
    pub(in crate::verbs) fn in_lines(mut self, json: bool) -> Result<FollowEnd> {
        let mut moments = 0;
        let mut told = 0;
        let mut several = false;
        let mut changed: Vec<String> = Vec::new();
        let mut operations: Vec<String> = Vec::new();
        let mut pace = Pace { interval: self.interval, due: Instant::now() + self.interval };
        loop {
            while self.ended().is_none() && !pace.take(Instant::now()) {
                self.feed.gather(TICK.min(pace.left(Instant::now())));
            }
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            let screen = self.screen();
            for note in screen.notes.iter().skip(told).filter(|_| !json) {
                output::note(&format!("fathom: {note}"));
            }
            told = screen.notes.len();
            for change in screen.changes.iter().filter(|change| !json && !changed.contains(change)) {
                output::note(&format!("fathom: {change}"));
            }
            changed.clone_from(&screen.changes);
            if json {
                output::line(&output::json(&screen)?)?;
                continue;
            }
            // A server that first answers later than others must not move the columns again.
            let more = text_view::is_several(&screen) && !several;
            several |= more;
            let is_headed = more || moments % text_view::LINES_PER_HEADER == 0;
            if is_headed {
                output::line(&text_view::header(several))?;
            }
            moments += 1;
            text_view::lines(&screen, several).iter().try_for_each(|line| output::line(line))?;
            let main = text_view::main_operations(&screen);
            if is_headed || main != operations {
                text_view::operations(&screen).iter().try_for_each(|line| output::line(line))?;
            }
            operations = main;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which a loop shows something that looks at the clock every 100 ms for 45 s, except in a pause: its begin and length,
    /// in milliseconds.
    fn shown_s(still: (u64, u64)) -> Vec<u64> {
        let begun = Instant::now();
        let mut pace = Pace { interval: Duration::from_secs(1), due: begun + Duration::from_secs(1) };
        let mut shown = Vec::new();
        let mut now_ms = 0;
        while now_ms <= 45_000 {
            let now = begun + Duration::from_millis(now_ms);
            if pace.take(now) {
                shown.push(now_ms / 1000);
            } else {
                now_ms += TICK.min(pace.left(now)).as_millis() as u64;
            }
            if now_ms >= still.0 && now_ms < still.0 + 100 {
                now_ms += still.1;
            }
        }
        shown
    }

    #[test]
    fn each_second_is_shown_without_a_gap() {
        assert_eq!(shown_s((0, 0)), (1..=45).collect::<Vec<_>>());
        assert_eq!(
            shown_s((5_950, 400)),
            (1..=45).collect::<Vec<_>>(),
            "a pause of less than a second is no gap"
        );
    }

    #[test]
    fn moments_that_were_missed_are_not_made_up_for() {
        let shown = shown_s((6_050, 3_000));
        assert_eq!(shown, (1..=6).chain(9..=44).collect::<Vec<_>>());
    }
}
