//! The loops that follow a session: on a terminal, or in lines.

use std::time::{Duration, Instant};

use anyhow::Result;
use fathom_process::Signals;

use super::draw::{Mode, Paint};
use super::terminal::{Key, Terminal};
use super::view::Screen;
use super::{Config, plain};
use crate::output;
use crate::watching::{Judging, Session};

/// How often keys and signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// What a loop follows.
pub(super) struct Following<'f> {
    pub(super) config: &'f Config,
    pub(super) target: String,
    pub(super) session: &'f mut Session,
    pub(super) judging: Judging,
    pub(super) signals: &'f Signals,
    pub(super) until: Option<Instant>,
}

impl Following<'_> {
    fn is_over(&self) -> bool {
        self.signals.stopped() || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// What there is to show now.
    fn screen(&mut self) -> Screen {
        let judgement = self.judging.latest(&self.session.recent.evidence);
        Screen::of(&self.target, &self.session.recent, judgement)
    }

    /// On a terminal, until somebody quits.
    pub(super) fn on_terminal(mut self) -> Result<()> {
        let paint = Paint::of_environment(|name| std::env::var(name).ok());
        let mut terminal = Terminal::take(paint)?;
        let mut mode = Mode::default();
        let mut screen = self.screen();
        let mut due = Instant::now();
        while !self.is_over() {
            self.session.gather(Duration::ZERO);
            let mut changed = false;
            if Instant::now() >= due {
                due += self.config.interval();
                // After a pause of the whole machine it does not catch up.
                due = due.max(Instant::now());
                if !mode.is_paused {
                    screen = self.screen();
                }
                changed = true;
            }
            match terminal.key(TICK)? {
                Some(Key::Quit) => return Ok(()),
                Some(Key::Pause) => mode.is_paused ^= true,
                Some(Key::Help) => mode.shows_help ^= true,
                Some(Key::Mark) => self.session.mark(),
                Some(Key::Resized) => {}
                None if !changed => continue,
                None => {}
            }
            terminal.show(&screen, mode)?;
        }
        Ok(())
    }

    /// In lines, text or JSON, one moment after another.
    pub(super) fn in_lines(mut self) -> Result<()> {
        let mut moments = 0;
        let mut told = 0;
        let mut due = Instant::now() + self.config.interval();
        loop {
            while !self.is_over() && Instant::now() < due {
                self.session.gather(TICK.min(due.saturating_duration_since(Instant::now())));
            }
            if self.is_over() {
                return Ok(());
            }
            due = (due + self.config.interval()).max(Instant::now());
            let screen = self.screen();
            for note in screen.notes.iter().skip(told).filter(|_| !self.config.json) {
                output::note(&format!("fathom: {note}"));
            }
            told = screen.notes.len();
            if self.config.json {
                output::line(&output::json(&screen)?)?;
                continue;
            }
            if moments % plain::HEADER_EVERY == 0 {
                output::line(&plain::header())?;
            }
            moments += 1;
            plain::lines(&screen).iter().try_for_each(|line| output::line(line))?;
        }
    }
}
