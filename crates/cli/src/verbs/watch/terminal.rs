//! The terminal as a screen. It is restored on every exit: the end, an error, a panic, a signal.

use std::io;
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw::{DisplayMode, Paint, draw};
use super::view::Screen;

/// A command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyCommand {
    Quit,
    /// Ctrl-C: the program is to end.
    Stop,
    Pause,
    Mark,
    Help,
    /// The terminal has another size now.
    Resized,
}

/// A terminal in use by the view. Dropping it restores the terminal.
pub(super) struct Terminal {
    inner: DefaultTerminal,
    paint: Paint,
}

impl Terminal {
    /// Enters raw mode and the alternate screen; a panic leaves both before its message is printed.
    pub(super) fn take(paint: Paint) -> Result<Terminal> {
        let inner = ratatui::try_init().map_err(|error| failed("take over the terminal", error))?;
        Ok(Terminal { inner, paint })
    }

    pub(super) fn show(&mut self, screen: &Screen, mode: DisplayMode) -> Result<()> {
        let paint = self.paint;
        let drawn = self.inner.draw(|frame| draw(frame, screen, mode, paint));
        drawn.map(|_| ()).map_err(|error| failed("draw on the terminal", error))
    }

    /// The next key, if one is pressed within `wait`.
    pub(super) fn key(&self, wait: Duration) -> Result<Option<KeyCommand>> {
        let read = || if event::poll(wait)? { event::read().map(Some) } else { Ok(None) };
        match read() {
            Ok(Some(Event::Key(key))) => Ok(wanted(key)),
            Ok(Some(Event::Resize(..))) => Ok(Some(KeyCommand::Resized)),
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

/// The command of a key. In raw mode Ctrl-C is an ordinary key.
fn wanted(key: KeyEvent) -> Option<KeyCommand> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(KeyCommand::Stop),
        _ if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(KeyCommand::Quit),
        KeyCode::Char('p' | 'P' | ' ') => Some(KeyCommand::Pause),
        KeyCode::Char('m' | 'M') => Some(KeyCommand::Mark),
        KeyCode::Char('?' | 'h') => Some(KeyCommand::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let of = |code, modifiers| wanted(KeyEvent::new(code, modifiers));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::NONE), Some(KeyCommand::Quit));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(KeyCommand::Stop));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(of(KeyCode::Char(' '), KeyModifiers::CONTROL), None);
        assert_eq!(of(KeyCode::Char('?'), KeyModifiers::SHIFT), Some(KeyCommand::Help));
    }
}
