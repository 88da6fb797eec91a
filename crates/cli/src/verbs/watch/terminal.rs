//! The terminal as a screen, given back on every way out: the end, an error, a panic, a signal.

use std::io;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw::{Mode, Paint, draw};
use super::view::Screen;

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    /// Ctrl-C: the program is to end.
    Stop,
    Pause,
    Mark,
    Help,
    /// The terminal has another size now.
    Resized,
}

/// A terminal taken over. Dropped, it is as it was.
pub(super) struct Terminal {
    inner: DefaultTerminal,
    paint: Paint,
}

impl Terminal {
    /// Takes the terminal over; a panic gives it back before it is told.
    pub(super) fn take(paint: Paint) -> Result<Terminal> {
        let inner = ratatui::try_init().map_err(|error| failed("take over the terminal", error))?;
        Ok(Terminal { inner, paint })
    }

    /// Shows a screen.
    pub(super) fn show(&mut self, screen: &Screen, mode: Mode) -> Result<()> {
        let paint = self.paint;
        let drawn = self.inner.draw(|frame| draw(frame, screen, mode, paint));
        drawn.map(|_| ()).map_err(|error| failed("draw on the terminal", error))
    }

    /// The next key, where one is pressed within `wait`.
    pub(super) fn key(&self, wait: Duration) -> Result<Option<Key>> {
        let read = || if event::poll(wait)? { event::read().map(Some) } else { Ok(None) };
        match read() {
            Ok(Some(Event::Key(key))) => Ok(wanted(key)),
            Ok(Some(Event::Resize(..))) => Ok(Some(Key::Resized)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(failed("read the terminal's keys", error)),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::new(Kind::OutputClosed, format!("cannot {what}")).because(error)
}

/// What a key stands for. In raw mode Ctrl-C is a key like others.
fn wanted(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Stop),
        _ if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('p' | 'P' | ' ') => Some(Key::Pause),
        KeyCode::Char('m' | 'M') => Some(Key::Mark),
        KeyCode::Char('?' | 'h') => Some(Key::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let of = |code, modifiers| wanted(KeyEvent::new(code, modifiers));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Stop));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(of(KeyCode::Char(' '), KeyModifiers::CONTROL), None);
        assert_eq!(of(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(Key::Help));
    }
}
