//! Tests that this program accepts every `fathom ...` command line that the documents and the help quote.
//!
//! It reads README.md, CONTRIBUTING.md, the pages under docs/ (not the journal, which describes the state of its day), and the
//! text after each verb's options. The command lines are only parsed, not run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::ErrorKind;

/// Splits a line as a shell does, into simple commands. Redirections are removed, a comment ends the line, and nothing is expanded.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut drops_next = false;
    let mut chars = line.chars().peekable();
    fn end(word: &mut Option<String>, drops_next: &mut bool, all: &mut [Vec<String>]) {
        if let Some(word) = word.take()
            && !std::mem::take(drops_next)
            && let Some(last) = all.last_mut()
        {
            last.push(word);
        }
    }
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => break,
            // In help, comments come after two blanks.
            ' ' if word.is_none() && all.last().is_some_and(|last| !last.is_empty()) => break,
            ' ' | '\t' => end(&mut word, &mut drops_next, &mut all),
            '\'' | '"' => {
                let quoted = chars.by_ref().take_while(|inner| *inner != c);
                word.get_or_insert_default().extend(quoted);
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '|' | '&' | ';' | '(' | ')' => {
                end(&mut word, &mut drops_next, &mut all);
                // `<(` does not name a file.
                drops_next = false;
                all.push(Vec::new());
                while chars.next_if(|next| [' ', '|', '&'].contains(next)).is_some() {}
            }
            '<' | '>' => {
                // `2>` is not an argument.
                word = word.filter(|word| !word.chars().all(|c| c.is_ascii_digit()));
                end(&mut word, &mut drops_next, &mut all);
                drops_next = true;
                while chars.next_if(|next| [' ', '<', '>'].contains(next)).is_some() {}
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut drops_next, &mut all);
    all
}

/// The command lines of fathom within a line, without words in front of the program.
fn of_fathom(line: &str) -> Vec<Vec<String>> {
    let is_prefix = |word: &String| word == "sudo" || word == "env" || word == "time" || word.contains('=');
    let ours = |mut words: Vec<String>| {
        words.drain(..words.iter().position(|word| !is_prefix(word))?);
        // Three dots mean arguments that the reader knows.
        words.retain(|word| word != "...");
        let is_fathom = words.first()?.rsplit('/').next() == Some("fathom");
        is_fathom.then_some(words)
    };
    commands(line).into_iter().filter_map(ours).collect()
}

/// The lines of a Markdown file that quote commands, with their numbers: those in blocks (in a transcript the text
/// after the prompt), and code spans, which are marked because they may omit required arguments.
fn quotations(text: &str) -> Vec<(usize, bool, String)> {
    let mut found: Vec<(usize, bool, String)> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language) };
        } else if let Some(language) = fence {
            let prompted = line.trim().strip_prefix("$ ");
            let is_script = matches!(language, "" | "sh");
            let Some(command) = prompted.or_else(|| (is_script || goes_on).then(|| line.trim())) else {
                continue;
            };
            match found.last_mut().filter(|_| goes_on) {
                Some((_, _, before)) => before.push_str(command.trim_end_matches('\\')),
                None => found.push((index + 1, false, command.trim_end_matches('\\').to_owned())),
            }
            goes_on = command.ends_with('\\');
        } else {
            let spans = line.split('`').skip(1).step_by(2).filter(|span| span.contains("fathom "));
            found.extend(
                spans.map(|span| (index + 1, true, span.replace(['[', ']'], "").replace("\\|", "|"))),
            );
        }
    }
    found
}

/// The reason why the program would refuse it.
fn refusal(words: &[String], is_span: bool) -> Option<String> {
    let words = std::iter::once("fathom").chain(words.iter().skip(1).map(String::as_str)).map(OsString::from);
    let error = super::command().try_get_matches_from(super::plain(words)).err()?;
    let names_only = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    let is_fine = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
        || is_span && names_only.contains(&error.kind());
    (!is_fine).then(|| error.to_string())
}

fn refused(text: &str) -> Vec<String> {
    let complaints = |(line, is_span, quoted): (usize, bool, String)| {
        let of_line = of_fathom(&quoted).into_iter().filter_map(move |words| refusal(&words, is_span));
        of_line.map(move |why| format!("{line}: {quoted}: {why}")).collect::<Vec<_>>()
    };
    quotations(text).into_iter().flat_map(complaints).collect()
}

/// The documents of the current tree.
fn documents() -> Vec<PathBuf> {
    // Read at run time, because one build may serve several clones.
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| "crates/cli".into(), PathBuf::from);
    let root = root.join("../..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    ["README.md", "CONTRIBUTING.md"].iter().map(|name| root.join(Path::new(name))).chain(pages).collect()
}

#[test]
fn the_documents_quote_what_the_program_takes() {
    let mut quoted = 0;
    let mut complaints = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        quoted += quotations(&text).iter().filter(|(_, _, line)| !of_fathom(line).is_empty()).count();
        complaints.extend(refused(&text).into_iter().map(|what| format!("{}:{what}", path.display())));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(quoted > 100, "only {quoted} command lines were found: is the reader of documents broken?");
}

#[test]
fn the_help_quotes_what_the_program_takes() {
    let root = super::command();
    let mut verbs: Vec<&Command> = root.get_subcommands().filter(|verb| !verb.is_hide_set()).collect();
    let mut count = 0;
    while let Some(verb) = verbs.pop() {
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let block = format!("```sh\n{help}\n```\n");
        assert_eq!(refused(&block), Vec::<String>::new(), "{}", verb.get_name());
        let has_example = quotations(&block).iter().any(|(_, _, line)| !of_fathom(line).is_empty());
        assert!(has_example, "{} has no example", verb.get_name());
        verbs.extend(verb.get_subcommands().filter(|action| !action.is_hide_set()));
        count += 1;
    }
    assert!(count > 35, "{count} verbs and actions");
}

#[test]
fn the_first_page_lists_every_verb() {
    let path = documents().into_iter().find(|path| path.ends_with("README.md")).unwrap();
    let page = fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("- [")).collect();
    for verb in super::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("`fathom {}", verb.get_name());
        assert!(rows.iter().any(|row| row.contains(&name)), "README.md lists no {name}`");
    }
}

#[test]
fn what_the_program_refuses_is_found() {
    assert_eq!(
        refused("See `fathom disk` and `fathom report [RUN]`, not fathom dusk.\n"),
        Vec::<String>::new()
    );
    assert_eq!(refused("See `fathom dusk`.\n").len(), 1);
    assert_eq!(refused("```sh\nls && sudo fathom disk --colour red | head\n```\n").len(), 1);
    assert_eq!(
        refused("```console\n$ fathom disk --dir /x   # fine\nfathom dusk\n$ fathom \\\n    dusk\n```\n")
            .len(),
        1
    );
    assert_eq!(refused("```yaml\nfathom dusk\n```\n"), Vec::<String>::new());
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    let line = "X=1 bin/fathom ycsb run mongodb --slo 'p99<5ms' 2> log < file && fathom explain   the newest";
    let found: Vec<_> = of_fathom(line).iter().map(|words| words.join(" ")).collect();
    assert_eq!(found, ["bin/fathom ycsb run mongodb --slo p99<5ms", "fathom explain"]);
    assert_eq!(of_fathom("source <(fathom completions bash)"), [["fathom", "completions", "bash"]]);
}
