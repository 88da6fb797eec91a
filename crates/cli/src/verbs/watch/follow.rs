//! The loops that follow what is seen: on a terminal, or in lines. A live session and a recording are followed alike.

use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_process::Signals;

use super::draw::{Mode, Paint};
use super::plain;
use super::terminal::{Key, Terminal};
use super::view::Screen;
use crate::output;
use crate::watching::{Judging, Recent, Session};

/// How often keys and signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Something that brings readings as time goes by.
pub(in crate::verbs) trait Seen {
    /// Takes what has come, and what comes within `wait`.
    fn gather(&mut self, wait: Duration);
    /// The last minutes.
    fn recent(&self) -> &Recent;
    /// Notes that somebody marked this moment.
    fn mark(&mut self);
    /// Whether nothing more will come.
    fn is_over(&self) -> bool;
}

impl Seen for Session {
    fn gather(&mut self, wait: Duration) {
        Session::gather(self, wait);
    }

    fn recent(&self) -> &Recent {
        &self.recent
    }

    fn mark(&mut self) {
        Session::mark(self);
    }

    fn is_over(&self) -> bool {
        false
    }
}

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
    pub(in crate::verbs) seen: &'f mut S,
    pub(in crate::verbs) target: String,
    pub(in crate::verbs) judging: Judging,
    pub(in crate::verbs) signals: &'f Signals,
    /// How often there is something new to show.
    pub(in crate::verbs) interval: Duration,
    pub(in crate::verbs) until: Option<Instant>,
}

impl<S: Seen> Following<'_, S> {
    fn ended(&self) -> Option<Ended> {
        if self.signals.stopped() {
            return Some(Ended::Stopped);
        }
        let is_over = self.seen.is_over() || self.until.is_some_and(|until| Instant::now() >= until);
        is_over.then_some(Ended::Over)
    }

    /// What there is to show now.
    fn screen(&mut self) -> Screen {
        let recent = self.seen.recent();
        Screen::of(&self.target, recent, self.judging.latest(&recent.evidence))
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
            self.seen.gather(Duration::ZERO);
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
                Some(Key::Mark) => self.seen.mark(),
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
                self.seen.gather(TICK.min(due.saturating_duration_since(Instant::now())));
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
