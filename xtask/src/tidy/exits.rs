//! Checks that only the command line ends the process: an exit elsewhere skips the removal of resources, and the meaning of the exit code.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Complaint;
use super::tree::Tree;

/// The package that may exit.
const DOOR: &str = "crates/cli/";

/// The functions that exit: module and name.
const EXITS: [(&str, &str); 5] =
    [("process", "exit"), ("process", "abort"), ("libc", "exit"), ("libc", "_exit"), ("libc", "abort")];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(DOOR)) {
        let mut finder = Finder { lines: Vec::new(), prefix: Vec::new() };
        if let Some(syntax) = file.parsed() {
            finder.visit_file(syntax);
        }
        for line in finder.lines {
            let advice = "return an error, or an ExitCode from main";
            complaints.push(Complaint::new(
                &file.path,
                line,
                "the process is ended outside the command line",
                advice,
            ));
        }
    }
    complaints
}

struct Finder {
    lines: Vec<usize>,
    /// The path so far inside a `use`.
    prefix: Vec<String>,
}

fn is_exit(module: &str, name: &str) -> bool {
    EXITS.contains(&(module, name))
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., module, name] = words.as_slice()
            && is_exit(module, name)
        {
            self.lines.push(path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_use_path(&mut self, path: &'ast syn::UsePath) {
        self.prefix.push(path.ident.to_string());
        visit::visit_use_path(self, path);
        self.prefix.pop();
    }

    fn visit_use_name(&mut self, name: &'ast syn::UseName) {
        self.import(&name.ident);
    }

    fn visit_use_rename(&mut self, name: &'ast syn::UseRename) {
        self.import(&name.ident);
    }
}

impl Finder {
    fn import(&mut self, name: &syn::Ident) {
        if self.prefix.last().is_some_and(|module| is_exit(module, &name.to_string())) {
            self.lines.push(name.span().start().line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_found_however_it_is_written() {
        for text in [
            "fn f() { std::process::exit(1) }",
            "use std::process;\nfn f() { process::abort() }",
            "use std::process::{Command, exit};",
            "use std::process::exit as leave;",
            "fn f() { libc::_exit(1) }",
        ] {
            assert_eq!(check(&Tree::from_texts(&[("crates/probe/src/lib.rs", text)])).len(), 1, "{text}");
        }
    }

    #[test]
    fn the_command_line_and_other_words_are_free() {
        let tree = Tree::from_texts(&[
            ("crates/cli/src/main.rs", "fn f() { std::process::exit(1) }"),
            ("crates/probe/src/lib.rs", "use std::process::ExitCode;\nfn exit() {}\nfn f() { exit() }"),
        ]);
        assert_eq!(check(&tree), Vec::new());
    }
}
