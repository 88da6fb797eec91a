//! Checks that each term of docs/glossary.md is a name of the code and a word of the book.
//!
//! A type has a term if the words of its name contain those of the term, as `RunFolder` has "run folder". A row may name another type in a code
//! span: `Wait::Eviction`. A term that is only prose needs no glossary, and a term that no page uses helps no reader.

use std::collections::BTreeSet;

use syn::visit::{self, Visit};

use super::Complaint;
use super::empty_tests::{is_cfg_test, is_test_file};
use super::tree::{Tree, TreeFile};

const GLOSSARY: &str = "docs/glossary.md";

/// A row of the glossary.
struct GlossaryTerm {
    line: usize,
    /// As it is written, without the remark in parentheses that tells two meanings apart.
    name: String,
    /// The types in code spans of the meaning.
    types: Vec<String>,
}

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(glossary) = tree.file(GLOSSARY) else {
        return vec![Complaint::new(GLOSSARY, 1, "the glossary is missing", "write it")];
    };
    let types = types(tree);
    let words: Vec<Vec<String>> = types.iter().map(|name| words_of_type(name)).collect();
    let is_page = |file: &&TreeFile| {
        let name = file.path.strip_prefix("docs/");
        name.is_some_and(|name| !name.contains('/')) && file.path != GLOSSARY
    };
    let pages: Vec<String> = tree.markdown().filter(is_page).map(|page| plain(&page.text)).collect();
    let mut complaints = Vec::new();
    for term in terms(glossary) {
        let mut complain = |what: String, advice: &str| {
            complaints.push(Complaint::new(GLOSSARY, term.line, what, advice));
        };
        let own: Vec<String> = term.name.split([' ', '-', '/']).map(stem).collect();
        let is_in = |words: &Vec<String>| words.windows(own.len()).any(|some| some == own);
        for name in term.types.iter().filter(|name| !types.contains(*name)) {
            complain(format!("there is no type {name}"), "name the type that has the term now");
        }
        if term.types.is_empty() && !words.iter().any(is_in) {
            let what = format!("no type is called '{}'", term.name);
            complain(what, "name the type in a code span of the meaning, or remove the row");
        }
        if !pages.iter().any(|page| is_used(page, &plain(&term.name))) {
            let what = format!("no page of the book uses '{}'", term.name);
            complain(what, "use the word where its meaning is, or remove the row");
        }
    }
    complaints
}

fn terms(glossary: &TreeFile) -> Vec<GlossaryTerm> {
    let row = |(line, text): (usize, &str)| {
        let mut cells = text.strip_prefix("| ")?.split(" | ");
        let (term, meaning) = (cells.next()?, cells.next()?);
        let name = term.split(" (").next().unwrap_or(term).trim().to_owned();
        let spans = meaning.split('`').skip(1).step_by(2);
        let types = spans.filter_map(|span| span.split("::").next().filter(|name| is_type_name(name)));
        (name != "term").then(|| GlossaryTerm { line, name, types: types.map(str::to_owned).collect() })
    };
    glossary.lines().filter_map(row).collect()
}

/// `MemberLag`, but not `FTDC`.
fn is_type_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.chars().any(|c| c.is_ascii_lowercase())
}

/// The names of all types outside tests.
fn types(tree: &Tree) -> BTreeSet<String> {
    let mut names = TypeNames(BTreeSet::new());
    let is_ours = |file: &&TreeFile| !is_test_file(file) || file.path.starts_with("testkit/src/");
    tree.rust().filter(is_ours).filter_map(TreeFile::parsed).for_each(|syntax| names.visit_file(syntax));
    names.0
}

struct TypeNames(BTreeSet<String>);

impl<'ast> Visit<'ast> for TypeNames {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_cfg_test(item) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.0.insert(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.0.insert(item.ident.to_string());
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.0.insert(item.ident.to_string());
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.0.insert(item.ident.to_string());
    }
}

/// The words of a name in capitals: `run`, `folder` of `RunFolder`.
fn words_of_type(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let begins = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                let is_last_of_capitals = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
                !before.is_ascii_uppercase() || is_last_of_capitals
            });
        if begins {
            words.push(String::new());
        }
        words.last_mut().into_iter().for_each(|word| word.push(*letter));
    }
    words.iter().map(|word| stem(word)).collect()
}

/// A word in lower case and in the singular.
fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let singular = match word.strip_suffix("es") {
        Some(short) if short.ends_with(['x', 'h']) || short.ends_with("ss") => Some(short),
        _ => word.strip_suffix('s').filter(|short| !short.ends_with('s')),
    };
    singular.unwrap_or(&word).to_owned()
}

/// A text in lower case with one space between words.
fn plain(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether a page has the term as a word of its own, in the singular or the plural.
fn is_used(page: &str, term: &str) -> bool {
    page.match_indices(term).any(|(at, _)| {
        let before = page.get(..at).and_then(|before| before.chars().next_back());
        let after = page.get(at + term.len()..).unwrap_or_default();
        let after = after.strip_prefix("es").or(after.strip_prefix('s')).unwrap_or(after);
        !before.is_some_and(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "# Glossary\n\n| term | meaning | not |\n|---|---|---|\n| run folder | a folder | a file |\n\
                        | flush (of a disk) | a command | a sync |\n| eviction | room is made (`Wait::Eviction`) | a fault |\n\
                        | FTDC | `diagnostic.data` | the log |\n";
    const CODE: &str = "pub struct RunFolder;\nenum Wait { Eviction }\nstruct Flushes;\nmod a { trait FTDCReader {} }\n\
         #[cfg(test)]\nmod tests { struct OpenLoop; }\n";
    const PAGE: &str = "A run\nfolder holds flushes. `Eviction` and FTDC.\n";

    fn whats(rows: &str, page: &str) -> Vec<(usize, String)> {
        let tree = Tree::from_texts(&[
            (GLOSSARY, rows),
            ("crates/a/src/lib.rs", CODE),
            ("crates/a/tests/all.rs", "struct OpenLoop;"),
            ("docs/a.md", page),
            ("docs/journal/b.md", "open loop"),
        ]);
        check(&tree).into_iter().map(|one| (one.line, one.what)).collect()
    }

    #[test]
    fn a_term_of_a_type_and_a_page_passes() {
        assert_eq!(whats(ROWS, PAGE), []);
    }

    #[test]
    fn a_term_without_a_type_or_without_a_page_is_named() {
        let rows = format!("{ROWS}| open loop | random times | a rate |\n");
        let no_type = (9, "no type is called 'open loop'".to_owned());
        let no_page = (9, "no page of the book uses 'open loop'".to_owned());
        assert_eq!(whats(&rows, PAGE), [no_type, no_page.clone()]);
        // A type that the row names counts, if it exists.
        let named = rows.replace("random times", "random times (`Wait`)");
        assert_eq!(whats(&named, PAGE), [no_page]);
        let stale = rows.replace("random times", "random times (`Arrivals`)");
        assert_eq!(whats(&stale, "An open loop. A run folder, a flush, eviction, FTDC.").len(), 1);
    }

    #[test]
    fn a_part_of_a_longer_word_is_no_use() {
        assert!(is_used("two flushes", "flush") && is_used("flush.", "flush"));
        assert!(!is_used("flushing", "flush") && !is_used("a subflush", "flush"));
        assert_eq!(words_of_type("FTDCReader"), ["ftdc", "reader"]);
        assert_eq!(
            (stem("passes"), stem("Class"), stem("indexes")),
            ("pass".into(), "class".into(), "index".into())
        );
    }
}
