//! Checks that a note on remaining work names its issue (`#12`), since otherwise it is forgotten.

use super::Complaint;
use super::markdown::prose;
use super::tree::{Tree, TreeFile};

/// The words that mark such a note, in two halves so that this file does not complain of itself.
const WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| speaks(file)) {
        let text = if file.is_markdown() { prose(&file.text) } else { file.text.clone() };
        for (index, line) in text.lines().enumerate() {
            if let Some(word) = WORDS.iter().find(|word| has_word(line, word)).filter(|_| !names_issue(line))
            {
                let what = format!("a {word} names no issue");
                complaints.push(Complaint::new(
                    &file.path,
                    index + 1,
                    what,
                    "do it, or write the issue as #number",
                ));
            }
        }
    }
    complaints
}

/// Files that people write; recorded data may hold any word.
fn speaks(file: &TreeFile) -> bool {
    let ends = [".rs", ".toml", ".md", ".sh", ".yaml", ".yml"];
    file.name() == "Makefile" || ends.iter().any(|end| file.path.ends_with(end))
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

fn names_issue(line: &str) -> bool {
    line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_needs_its_issue() {
        let [todo, fixme, _] = WORDS;
        let text =
            format!("// {todo} soon\n// {todo} #12: soon\nfn {todo}_LIST() {{}}\n// {fixme}(me): #x\n");
        let tree = Tree::from_texts(&[("a.rs", &text), ("capture.json", &text)]);
        let lines: Vec<_> = check(&tree).into_iter().map(|complaint| complaint.line).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn prose_may_quote_the_word() {
        let [todo, ..] = WORDS;
        let text = format!("No `{todo}` without an issue.\n\n{todo}: write this.\n");
        let lines: Vec<_> =
            check(&Tree::from_texts(&[("a.md", &text)])).into_iter().map(|c| c.line).collect();
        assert_eq!(lines, [3]);
    }
}
