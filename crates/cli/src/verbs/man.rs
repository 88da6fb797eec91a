//! `fathom man`: prints a manual page made from the command tree, or writes all pages into a folder.
//!
//! It is for packagers and for users without a package (`fathom man disk | man -l -`). Examples and exit codes follow
//! each verb's options as plain text. A manual would join them into one paragraph, so this module formats them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Command};
use clap_mangen::Man;
use fathom_errors::{Error, Kind};

use crate::outcome::VerbOutcome;
use crate::output;

const EXAMPLES: &str = "\
EXAMPLES:
  fathom man disk | man -l -                       read one page
  fathom man --output /usr/local/share/man/man1    write all of them

Exit codes: 0 ok, 2 usage, 3 environment.";

/// A line of examples with at least this indent continues the comment of the line above.
const COMMENT_INDENT: usize = 12;

/// A definition of an apostrophe that can be pasted, which the library repeats before each section and which is needed once.
const APOSTROPHE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// The verb whose page is printed [default: the page of fathom itself]
    #[arg(value_name = "VERB")]
    verb: Option<String>,
    /// Write all pages into this folder, which is created if it does not exist
    #[arg(short, long, value_name = "DIR", conflicts_with = "verb")]
    output: Option<PathBuf>,
}

/// The command line of the verb.
pub(crate) fn command() -> Command {
    Config::augment_args(Command::new("man"))
        .about("Print a manual page, or write all of them into a folder")
        .long_about(None)
        .after_help(EXAMPLES)
}

/// Prints one page of the whole command line, or writes all.
pub(crate) fn run(config: Config, root: Command) -> Result<VerbOutcome> {
    let root = tree(root);
    if let Some(folder) = config.output {
        write_all(&root, &folder)?;
        return Ok(VerbOutcome::Clean);
    }
    let command = match &config.verb {
        None => &root,
        Some(verb) => root.find_subcommand(verb).ok_or_else(|| {
            let what = format!("there is no verb {verb:?}");
            Error::new(Kind::Usage, what).advise("'fathom --help' lists them")
        })?,
    };
    output::line(page(command)?.trim_end())?;
    Ok(VerbOutcome::Clean)
}

/// The whole command line, with the names of the pages.
fn tree(root: Command) -> Command {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    root
}

fn write_all(root: &Command, folder: &Path) -> Result<()> {
    let failed = |path: &Path, error: std::io::Error| {
        Error::io("write", path, error)
            .with_kind(Kind::Unsupported)
            .advise("name another folder with --output")
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let verbs = root.get_subcommands().filter(|verb| !verb.is_hide_set());
    for command in std::iter::once(root).chain(verbs) {
        let file = folder.join(format!("{}.1", title(command)));
        fs::write(&file, page(command)?).map_err(|error| failed(&file, error))?;
    }
    Ok(())
}

/// `fathom`, `fathom-disk`: the word that a user types after `man`.
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of one command as roff.
fn page(command: &Command) -> Result<String> {
    let man = Man::new(command.clone());
    // The library leaves an empty date out, and the next field moves into its place.
    let (name, version) = (title(command).to_uppercase(), env!("CARGO_PKG_VERSION"));
    let mut text = format!(".TH \"{name}\" \"1\" \"\" \"fathom {version}\" \"Fathom\"\n").into_bytes();
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let has_verbs = command.get_subcommands().any(|verb| !verb.is_hide_set());
    if has_verbs {
        man.render_subcommands_section(&mut text)?;
    }
    let text = String::from_utf8_lossy(&text).replace(".SH SUBCOMMANDS", ".SH VERBS");
    let mut text = format!("{APOSTROPHE}{}", text.replace(APOSTROPHE, ""));
    if let Some(behind) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        text.push_str(&laid_out(&behind.to_string()));
    }
    text.push_str(".SH \"SEE ALSO\"\n");
    text.push_str(if has_verbs {
        "Each verb has a page of its own: \\fBman fathom\\-disk\\fR.\n"
    } else {
        "\\fBfathom\\fR(1)\n"
    });
    Ok(text)
}

/// The text after the options in help, as sections: examples, notes, exit codes.
fn laid_out(behind: &str) -> String {
    let mut out = String::new();
    let mut section = "";
    for line in behind.lines() {
        let words = line.trim();
        let wanted = match section {
            _ if words == "EXAMPLES:" => "EXAMPLES",
            _ if words.starts_with("Exit codes:") => "EXIT STATUS",
            "EXAMPLES" | "" if !words.is_empty() && !line.starts_with(' ') => "NOTES",
            _ => section,
        };
        if wanted != section {
            section = wanted;
            out.push_str(&format!(".SH \"{section}\"\n"));
        }
        match section {
            _ if words == "EXAMPLES:" => {}
            _ if words.is_empty() => out.push_str(".PP\n"),
            "EXAMPLES" => out.push_str(&example(line)),
            "EXIT STATUS" => out.push_str(&escaped(words.trim_start_matches("Exit codes: "))),
            // Indented lines keep their layout.
            _ if line.starts_with(' ') => out.push_str(&format!(".nf\n{}.fi\n", escaped(line))),
            _ => out.push_str(&escaped(words)),
        }
    }
    out
}

/// A command in bold, and its purpose below it.
fn example(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words = line.trim();
    if indent >= COMMENT_INDENT {
        return format!(".RS 4\n{}.RE\n", escaped(words));
    }
    let (command, comment) = words.split_once("  ").unwrap_or((words, ""));
    let deeper = " ".repeat(indent.saturating_sub(2));
    let mut out = format!(".nf\n\\fB{}\\fR\n.fi\n", escaped(&format!("{deeper}{command}")).trim_end());
    if !comment.is_empty() {
        out.push_str(&format!(".RS 4\n{}.RE\n", escaped(comment.trim())));
    }
    out
}

/// A line of text that roff prints unchanged: minus signs can be pasted, and no line is taken for a request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    format!("\\&{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_notes_and_exit_codes_become_sections() {
        let text = laid_out(
            "EXAMPLES:\n  fathom x -y \\\n      'z'    what it does\n                 and more\n\nA note.\n  .by hand\nExit codes: 0 ok.",
        );
        let wanted = ".SH \"EXAMPLES\"\n.nf\n\\fB\\&fathom x \\-y \\e\\fR\n.fi\n.nf\n\\fB\\&    \\(aqz\\(aq\\fR\n.fi\n\
                      .RS 4\n\\&what it does\n.RE\n.RS 4\n\\&and more\n.RE\n.PP\n.SH \"NOTES\"\n\\&A note.\n\
                      .nf\n\\&  .by hand\n.fi\n.SH \"EXIT STATUS\"\n\\&0 ok.\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn every_verb_that_help_lists_has_a_page_with_its_examples() {
        let root = tree(crate::verbs::command());
        for verb in root.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let page = page(verb).unwrap();
            let name = title(verb);
            assert!(page.contains(&format!("{} \\- ", name.replace('-', "\\-"))), "{name}: {page}");
            assert!(page.contains(".SH \"EXAMPLES\"\n"), "{name} has no examples");
            assert!(page.contains(".SH OPTIONS\n"), "{name}");
        }
        assert!(page(&root).unwrap().contains(".SH VERBS\n"));
    }
}
