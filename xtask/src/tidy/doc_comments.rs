//! Checks that a doc comment adds to the signature: one of three words or fewer only repeats the name.

use super::Complaint;
use super::tree::Tree;

const MIN_WORDS: usize = 4;

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        let docs: Vec<Option<&str>> = file.text.lines().map(doc).collect();
        for (at, text) in docs.iter().enumerate() {
            let is_doc = |at: Option<usize>| at.and_then(|at| docs.get(at)).is_some_and(Option::is_some);
            let alone = !is_doc(at.checked_sub(1)) && !is_doc(Some(at + 1));
            if let Some(text) = text.filter(|text| alone && text.split_whitespace().count() < MIN_WORDS) {
                let what = format!("the doc comment \"{text}\" has fewer than {MIN_WORDS} words");
                complaints.push(Complaint::new(
                    &file.path,
                    at + 1,
                    what,
                    "say what the signature does not, or remove it",
                ));
            }
        }
    }
    complaints
}

/// The text of a line that is a doc comment of an item.
fn doc(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("///")?;
    (!text.starts_with('/')).then(|| text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_of_three_words_is_refused() {
        let source = "//! Why.\n/// The name.\nstruct A;\n/// The name, as users type it.\nstruct B;\n\
                      /// Two\n/// lines.\nstruct C;\n// Short.\nfn f() {}\n";
        let tree = Tree::from_texts(&[("a.rs", source)]);
        let found: Vec<_> = check(&tree).into_iter().map(|one| (one.line, one.what)).collect();
        assert_eq!(found, [(2, "the doc comment \"The name.\" has fewer than 4 words".to_owned())]);
    }
}
