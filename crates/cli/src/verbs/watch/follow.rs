//! The loops that follow what is seen: on a terminal, or in lines. A live session and a recording are followed alike.

use std::time::{Duration, Instant};

use fathom_errors::Result;
use fathom_process::Signals;
use fathom_session::{Feed, JudgeThread};

use super::draw::{Mode, Paint};
use super::plain;
use super::terminal::{Key, Terminal};
use super::view::Screen;
use crate::output;

/// How often keys and signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::verbs) enum Ended {
    /// Its time was over.
    Over,
    /// Somebody wants to see no more of it.
    Quit,
    /// Somebody wants the program to end: Ctrl-C, or a signal.
    Stopped,
}

/// What a loop follows.
pub(in crate::verbs) struct Following<'f, S> {
    pub(in crate::verbs) feed: &'f mut S,
    pub(in crate::verbs) target: String,
    pub(in crate::verbs) judge: JudgeThread,
    pub(in crate::verbs) signals: &'f Signals,
    /// How often there is something new to show.
    pub(in crate::verbs) interval: Duration,
    pub(in crate::verbs) until: Option<Instant>,
}

impl<S: Feed> Following<'_, S> {
    fn ended(&self) -> Option<Ended> {
        if self.signals.stopped() {
            return Some(Ended::Stopped);
        }
        let is_over = self.feed.is_over() || self.until.is_some_and(|until| Instant::now() >= until);
        is_over.then_some(Ended::Over)
    }

    /// What there is to show now.
    fn screen(&mut self) -> Screen {
        let window = self.feed.window();
        Screen::of(&self.target, window, self.judge.latest(&window.evidence))
    }

    /// On a terminal, until somebody quits.
    pub(in crate::verbs) fn on_terminal(mut self) -> Result<Ended> {
        let paint = Paint::of_environment(|name| std::env::var(name).ok());
        let mut terminal = Terminal::take(paint)?;
        let mut mode = Mode::default();
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
                // After a pause of the whole machine it does not catch up.
                due = due.max(Instant::now());
                if !mode.is_paused {
                    screen = self.screen();
                }
                changed = true;
            }
            match terminal.key(TICK)? {
                Some(Key::Quit) => return Ok(Ended::Quit),
                Some(Key::Stop) => return Ok(Ended::Stopped),
                Some(Key::Pause) => mode.is_paused ^= true,
                Some(Key::Help) => mode.shows_help ^= true,
                Some(Key::Mark) => self.feed.mark(),
                Some(Key::Resized) => {}
                None if !changed => continue,
                None => {}
            }
            terminal.show(&screen, mode)?;
        }
    }

    /// In lines, one moment after another; JSON where `json`.
    pub(in crate::verbs) fn in_lines(mut self, json: bool) -> Result<Ended> {
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
            // A server that answers later than others must not move the columns again.
            let more = plain::is_several(&screen) && !several;
            several |= more;
            if more || moments % plain::HEADER_EVERY == 0 {
                output::line(&plain::header(several))?;
            }
            moments += 1;
            plain::lines(&screen, several).iter().try_for_each(|line| output::line(line))?;
        }
    }
}
