//! `fathom completions SHELL`: prints the script with which a shell completes fathom's command lines.
//!
//! The script is made from the command tree itself, so that it is never out of date. The verb installs nothing: packages put the script in
//! its place, and users without a package redirect it there.

use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use clap_complete::aot::{Bash, Fish, Generator, Zsh, generate};

use crate::outcome::VerbOutcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  source <(fathom completions bash)                for this shell
  fathom completions bash > ~/.local/share/bash-completion/completions/fathom
  fathom completions zsh > ~/.zfunc/_fathom        a folder of $fpath
  fathom completions fish > ~/.config/fish/completions/fathom.fish

The Debian package brings all three.
Exit codes: 0 ok, 2 usage, 3 environment.";

/// The arguments of `fathom completions`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The shell that is to complete
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("completions"))
        .about("Print what bash, zsh or fish needs to complete fathom's command lines")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Prints the script for the whole command line.
pub(crate) fn run(config: Config, root: Command) -> Result<VerbOutcome> {
    let script = match config.shell {
        Shell::Bash => script(Bash, root),
        Shell::Zsh => script(Zsh, root),
        Shell::Fish => script(Fish, root),
    };
    output::line(script.trim_end())?;
    Ok(VerbOutcome::Clean)
}

fn script(shell: impl Generator, mut root: Command) -> String {
    let mut bytes = Vec::new();
    generate(shell, &mut root, "fathom", &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
