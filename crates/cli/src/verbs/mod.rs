//! The table of verbs. A verb is one file that exports `command()`, `Config` and `run(Config)`.

mod checkup;
mod cleanup;
mod cluster;
mod compare;
mod completions;
mod demo;
mod disk;
#[cfg(test)]
mod doc_examples;
mod doctor;
mod explain;
mod ftdc;
mod import;
mod iostat;
mod man;
mod mongoperf;
mod program_name;
mod report;
#[cfg(feature = "lab")]
mod route;
mod runs;
#[cfg(feature = "lab")]
mod serve;
mod session;
mod watch;
#[cfg(not(feature = "lab"))]
mod without_lab;
mod ycsb;

use std::ffi::{OsStr, OsString};

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use crate::outcome::VerbOutcome;

struct Verb {
    command: fn() -> Command,
    run: fn(&ArgMatches) -> Result<VerbOutcome>,
}

/// Every verb, in the order that help lists them.
static VERBS: &[Verb] = &[
    Verb {
        command: checkup::command,
        run: |matches| checkup::run(checkup::Config::from_arg_matches(matches)?),
    },
    Verb { command: disk::command, run: |matches| disk::run(disk::Config::from_arg_matches(matches)?) },
    Verb {
        command: mongoperf::command,
        run: |matches| mongoperf::run(mongoperf::Config::from_arg_matches(matches)?),
    },
    Verb { command: iostat::command, run: |matches| iostat::run(iostat::Config::from_matches(matches)?) },
    Verb { command: doctor::command, run: |matches| doctor::run(doctor::Config::from_arg_matches(matches)?) },
    Verb { command: watch::command, run: |matches| watch::run(watch::Config::from_arg_matches(matches)?) },
    Verb {
        command: explain::command,
        run: |matches| explain::run(explain::Config::from_arg_matches(matches)?),
    },
    Verb { command: report::command, run: |matches| report::run(report::Config::from_arg_matches(matches)?) },
    Verb { command: demo::command, run: |matches| demo::run(demo::Config::from_arg_matches(matches)?) },
    Verb { command: ftdc::command, run: |matches| ftdc::run(ftdc::Config::from_arg_matches(matches)?) },
    Verb { command: import::command, run: |matches| import::run(import::Config::from_arg_matches(matches)?) },
    Verb { command: runs::command, run: |matches| runs::run(runs::Config::from_arg_matches(matches)?) },
    Verb { command: ycsb::command, run: |matches| ycsb::run(ycsb::Config::from_matches(matches)?) },
    #[cfg(feature = "lab")]
    Verb { command: serve::command, run: |matches| serve::run(serve::Config::from_matches(matches)?) },
    Verb { command: cluster::command, run: |matches| cluster::run(cluster::Config::from_matches(matches)?) },
    Verb {
        command: compare::command,
        run: |matches| compare::run(compare::Config::from_arg_matches(matches)?),
    },
    #[cfg(feature = "lab")]
    Verb { command: route::command, run: |matches| route::run(route::Config::from_arg_matches(matches)?) },
    #[cfg(not(feature = "lab"))]
    Verb { command: without_lab::serve, run: |_| without_lab::refuse("serve") },
    #[cfg(not(feature = "lab"))]
    Verb { command: without_lab::route, run: |_| without_lab::refuse("route") },
    Verb {
        command: cleanup::command,
        run: |matches| cleanup::run(cleanup::Config::from_arg_matches(matches)?),
    },
    Verb {
        command: completions::command,
        run: |matches| completions::run(completions::Config::from_arg_matches(matches)?, command()),
    },
    Verb { command: session::command, run: |_| session::run() },
    Verb {
        command: man::command,
        run: |matches| man::run(man::Config::from_arg_matches(matches)?, command()),
    },
];

/// The command line, with the names and options of the replaced tools translated into those of Fathom.
pub(crate) fn plain(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let is_verb = |word: &OsStr| VERBS.iter().any(|verb| word == (verb.command)().get_name());
    iostat::plain(cluster::plain(ycsb::plain(program_name::with_verb(words, is_verb))))
}

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("fathom")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Tells whether storage is what holds a MongoDB back, proves it, and finds what to change")
        .after_help("Exit codes: 0 ok, 1 a finding, a cause or failed operations, 2 usage, 3 environment, 4 not judged.")
        .max_term_width(80)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(VERBS.iter().map(|verb| with_verbose((verb.command)())))
}

/// The verb and those below it with `-v` and `--verbose`, by which ids are shown. An option that has one of the two names keeps its meaning. A verb that
/// passes options to servers gets no `-v`, because that is an option of theirs.
///
/// A global option would collide with that of verbs that count it.
fn with_verbose(verb: Command) -> Command {
    const NAME: &str = "verbose";
    let verb = verb.mut_subcommands(with_verbose);
    let has_long = verb.get_arguments().any(|argument| argument.get_long() == Some(NAME));
    let has_short = verb.get_arguments().any(|argument| argument.get_short() == Some('v'));
    let passes_options = verb.get_arguments().any(Arg::is_last_set);
    match (has_long, has_short) {
        (true, false) if !passes_options => verb.mut_arg(NAME, |argument| argument.short('v')),
        (false, false) => {
            let argument = Arg::new(NAME).long(NAME).action(ArgAction::SetTrue);
            let argument =
                argument.help("Print the ids of findings, refusals and exits").help_heading(None::<&str>);
            verb.arg(if passes_options { argument } else { argument.short('v') })
        }
        _ => verb,
    }
}

/// Runs the named verb.
pub(crate) fn dispatch(matches: &ArgMatches) -> Result<VerbOutcome> {
    let Some((name, matches)) = matches.subcommand() else { anyhow::bail!("no verb was named") };
    match VERBS.iter().find(|verb| (verb.command)().get_name() == name) {
        Some(verb) => (verb.run)(matches),
        None => anyhow::bail!("the verb '{name}' is not in the table"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The first lines of the comments on structs that describe arguments, in all files below a folder.
    fn struct_comments(folder: &Path) -> Vec<String> {
        let mut comments = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                comments.extend(struct_comments(&entry));
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap_or_default();
            let mut comment = None;
            for line in text.lines() {
                match line.strip_prefix("/// ") {
                    Some(words) => _ = comment.get_or_insert_with(|| words.trim_end_matches('.').to_owned()),
                    None if line.starts_with("#[derive(") && line.contains("Args") => {
                        comments.extend(comment.take());
                    }
                    None => comment = None,
                }
            }
        }
        comments
    }

    /// The verbs below a command that have no description, or that have such a comment as their description.
    fn undescribed(command: &Command, path: &str, comments: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let path = format!("{path} {}", verb.get_name());
            let about = verb.get_about().map(ToString::to_string);
            let long = verb.get_long_about().map(ToString::to_string);
            let is_comment = |text: &String| comments.iter().any(|comment| text.starts_with(comment));
            if about.is_none() || about.iter().chain(&long).any(is_comment) {
                found.push(format!("{path}: {about:?}"));
            }
            found.extend(undescribed(verb, &path, comments));
        }
        found
    }

    /// The verbs below a command that refuse an option, as their paths.
    fn without_option(command: &Command, path: &str, has: &impl Fn(&Command) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for verb in command.get_subcommands() {
            let path = format!("{path} {}", verb.get_name());
            found.extend((!has(verb)).then(|| path.clone()));
            found.extend(without_option(verb, &path, has));
        }
        found
    }

    #[test]
    fn every_verb_can_show_ids() {
        let command = command();
        let long =
            |verb: &Command| verb.get_arguments().any(|argument| argument.get_long() == Some("verbose"));
        assert_eq!(without_option(&command, "fathom", &long), Vec::<String>::new());
        let short = |verb: &Command| verb.get_arguments().any(|argument| argument.get_short() == Some('v'));
        let without = without_option(&command, "fathom", &short);
        // mlaunch and this program hand `-v` to the servers of these.
        assert!(without.iter().all(|verb| verb.starts_with("fathom cluster ")), "{without:?}");
        command.debug_assert();
    }

    #[test]
    fn no_verb_is_described_by_the_comment_on_its_struct() {
        let root = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "crates/cli".into(), PathBuf::from);
        let comments = struct_comments(&root.join("src"));
        assert!(comments.len() > 20, "only {} structs of arguments were found", comments.len());
        assert_eq!(undescribed(&command(), "fathom", &comments), Vec::<String>::new());
    }
}
