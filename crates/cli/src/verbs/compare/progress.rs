//! How far a study has come: a bar on a terminal, a line for each trial elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use fathom_lab::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Where progress is shown.
pub(super) struct Shown {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Shown {
    /// On standard error; with a document on standard output, and no terminal, there is none.
    pub(super) fn new(document: bool) -> Shown {
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Shown { bar, quiet: document && !terminal }
    }

    /// A trial begins.
    pub(super) fn show(&mut self, progress: Progress<'_>) {
        let levels = progress.levels.join(", ");
        let left = progress.left.map_or_else(String::new, |left| format!(", about {} left", words(left)));
        if let Some(why) = progress.broken {
            self.say(&format!("fathom: the trial before failed: {why}"));
        }
        let block = progress.block + 1;
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.total as u64);
                bar.set_position(progress.done as u64);
                bar.set_message(format!("block {block}: {levels}{left}"));
            }
            None if self.quiet => {}
            None => output::note(&format!(
                "trial {} of {}, block {block}: {levels}{left}",
                progress.done + 1,
                progress.total
            )),
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::note(text)),
            None => output::note(text),
        }
    }

    /// No more trials.
    pub(super) fn end(&mut self) {
        self.bar.take().into_iter().for_each(|bar| bar.finish_and_clear());
    }
}

/// A time as a person says it.
pub(super) fn words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        assert_eq!(words(Duration::from_secs(59)), "59 s");
        assert_eq!(words(Duration::from_secs(61)), "2 min");
        assert_eq!(words(Duration::from_secs(9000)), "2.5 h");
    }
}
