//! The loops that follow the readings: on a terminal, or in lines. A live session and a recording are followed in the same way.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use fathom_errors::Result;
use fathom_process::Signals;
use fathom_session::{Feed, JudgeThread};

use super::draw::{DisplayMode, Paint};
use super::terminal::{KeyCommand, Terminal};
use super::text_view;
use super::view::Screen;
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

/// The sources that a loop follows, and its output.
pub(in crate::verbs) struct Following<'f, S> {
    pub(in crate::verbs) feed: &'f mut S,
    pub(in crate::verbs) target: String,
    pub(in crate::verbs) judge: JudgeThread,
    pub(in crate::verbs) signals: &'f Signals,
    /// The interval at which new data are shown.
    pub(in crate::verbs) interval: Duration,
    pub(in crate::verbs) until: Option<Instant>,
}

impl<S: Feed> Following<'_, S> {
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
        Screen::new(&self.target, window, self.judge.latest(&window.evidence))
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
        let paint = Paint::of_environment(|name| std::env::var(name).ok());
        let mut terminal = Terminal::take(paint)?;
        let mut mode = DisplayMode::default();
        let mut screen = self.screen();
        let mut due = Instant::now();
        loop {
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            self.feed.gather(Duration::ZERO);
            let mut changed = false;
            if Instant::now() >= due {
                due += self.interval;
                // After a pause of the whole machine it does not make up for missed frames.
                due = due.max(Instant::now());
                if !mode.is_paused {
                    screen = self.screen();
                }
                changed = true;
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
        let mut due = Instant::now() + self.interval;
        loop {
            while self.ended().is_none() && Instant::now() < due {
                self.feed.gather(TICK.min(due.saturating_duration_since(Instant::now())));
            }
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            due = (due + self.interval).max(Instant::now());
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
            if more || moments % text_view::HEADER_EVERY == 0 {
                output::line(&text_view::header(several))?;
            }
            moments += 1;
            text_view::lines(&screen, several).iter().try_for_each(|line| output::line(line))?;
        }
    }
}
