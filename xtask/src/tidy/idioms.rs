//! Checks that comments and pages are in plain English: idioms of a private dialect are counted, and may only become fewer.
//!
//! The patterns match the idioms that readers of the tree found hardest: passives of "tell" and "stand", metaphors of going, questions in place of
//! nouns ("What a reply holds" for "The contents of a reply"). They are a minimum and do not judge a text. `cargo xtask tidy --idioms` lists them.

use std::io::{self, Write};

use fancy_regex::Regex;

use super::Complaint;
use super::function_length::RATCHET;
use super::markdown::prose;
use super::rules::IdiomLimits;
use super::tree::{Tree, TreeFile};

const PATTERNS: [&str; 11] = [
    r"\b(is|are|was|were|be|been) told\b",
    r"\b(goes|gone)\b",
    r"\b(stands|stood)\b",
    r"\bbeside\b",
    r"\bbears?\b",
    r"\banew\b",
    r"\b[Ww]here (it|there|nothing|nobody|somebody|one|no|none|that)\b",
    r"\b([Ss]omebody|[Nn]obody|[Aa]nybody|[Ww]hoever|[Ww]homever)\b",
    r"^\s*What (is|was|it|a|the|an|one|each|they|we|this|that|comes|came|stands|to|has|can|may|must|servers?|samplers?)\b",
    r"\bnone where\b|\bnothing where\b|; none\b",
    r"\ba person\b",
];
/// The journal keeps the words of its day.
const UNCHECKED: &str = "docs/journal/";
/// The most idioms for each 10,000 lines of comments, and for each 10,000 words of pages. ripgrep has 10 and hyperfine 30 of the first kind.
const MAX_PER_10000: [(Text, usize); 2] = [(Text::Comments, 100), (Text::Pages, 15)];

/// A kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Comments,
    Pages,
}

/// A line with idioms.
struct Idiom<'t> {
    file: &'t TreeFile,
    line: usize,
    text: String,
    count: usize,
}

/// The idioms of a kind of text, and how much text there is: lines of comments, or words of pages.
#[derive(Default)]
struct IdiomCount<'t> {
    idioms: Vec<Idiom<'t>>,
    text: usize,
}

impl IdiomCount<'_> {
    fn count(&self) -> usize {
        self.idioms.iter().map(|idiom| idiom.count).sum()
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let allowed = [tree.ratchet.idioms.comments, tree.ratchet.idioms.pages];
    let before = tree.ratchet_before.as_ref().map(|before| [before.idioms.comments, before.idioms.pages]);
    let mut complaints = Vec::new();
    for (at, ((text, most), allowed)) in MAX_PER_10000.into_iter().zip(allowed).enumerate() {
        let found = count(tree, text);
        let (count, key) = (found.count(), text.key());
        let line = tree.line_with(RATCHET, key);
        if count < allowed {
            complaints.push(Complaint::stale(RATCHET, line, format!("{key} have only {count} idioms")));
        }
        let mut complain = |what: String, advice: &str| {
            complaints.push(Complaint::new(RATCHET, line, what, advice));
        };
        if count > allowed {
            let what = format!("{key} have {count} idioms, {allowed} are allowed");
            complain(what, "cargo xtask tidy --idioms lists them: write what is new in plain English");
        }
        if count * 10_000 > most * found.text {
            complain(format!("{key} have more than {most} idioms in 10,000 {}", text.unit()), "reword some");
        }
        // A tree with a new list has no earlier one to compare with.
        let earlier = before.and_then(|before| before.get(at).copied()).filter(|earlier| *earlier > 0);
        if earlier.is_some_and(|earlier| allowed > earlier) {
            complain(format!("{key} may have {allowed} idioms, which is more than before"), "take it back");
        }
    }
    complaints
}

/// The limits that the tree needs, none larger than the present ones.
pub(super) fn needed(tree: &Tree) -> IdiomLimits {
    let IdiomLimits { comments, pages } = tree.ratchet.idioms;
    IdiomLimits {
        comments: count(tree, Text::Comments).count().min(comments),
        pages: count(tree, Text::Pages).count().min(pages),
    }
}

/// Writes every line with an idiom.
pub(super) fn write(tree: &Tree, out: &mut impl Write) -> io::Result<()> {
    for (text, _) in MAX_PER_10000 {
        let found = count(tree, text);
        for idiom in &found.idioms {
            writeln!(out, "{}:{}: {}", idiom.file.path, idiom.line, idiom.text)?;
        }
        writeln!(out, "{}: {} idioms in {} {}", text.key(), found.count(), found.text, text.unit())?;
    }
    Ok(())
}

impl Text {
    /// Its name in the ratchet.
    fn key(self) -> &'static str {
        match self {
            Text::Comments => "comments",
            Text::Pages => "pages",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Text::Comments => "lines",
            Text::Pages => "words",
        }
    }
}

fn count(tree: &Tree, text: Text) -> IdiomCount<'_> {
    let patterns: Vec<Regex> = PATTERNS.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect();
    let mut found = IdiomCount::default();
    for file in &tree.files {
        let lines: Vec<(usize, String)> = match text {
            Text::Comments => file.comments().map(|(line, text)| (line, text.to_owned())).collect(),
            Text::Pages if file.is_markdown() && !file.path.starts_with(UNCHECKED) => prose(&file.text)
                .lines()
                .enumerate()
                .map(|(index, line)| (index + 1, line.to_owned()))
                .collect(),
            Text::Pages => continue,
        };
        for (line, words) in lines {
            found.text += match text {
                Text::Comments => 1,
                Text::Pages => words.split_whitespace().count(),
            };
            let count = patterns.iter().filter(|pattern| pattern.is_match(&words).unwrap_or(false)).count();
            if count > 0 {
                found.idioms.push(Idiom { file, line, text: words.trim().to_owned(), count });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::rules::Ratchet;
    use super::*;

    fn tree(allowed: usize) -> Tree {
        let plain = "// The contents of a reply.\n".repeat(200);
        let source = format!("{plain}// What it holds, told by nobody.\nfn f() {{}}\n");
        let page = format!("# Title\n\n{}\n```\nnobody\n```\n`beside`\n", "word ".repeat(900));
        let mut tree =
            Tree::from_texts(&[("a.rs", &source), ("docs/a.md", &page), ("docs/journal/b.md", "nobody")]);
        tree.ratchet = Ratchet { idioms: IdiomLimits { comments: allowed, pages: 0 }, ..Ratchet::default() };
        tree
    }

    #[test]
    fn every_pattern_compiles() {
        assert!(PATTERNS.iter().all(|pattern| Regex::new(pattern).is_ok()));
    }

    #[test]
    fn idioms_are_counted_in_comments_and_not_in_code_or_the_journal() {
        let tree = tree(2);
        assert_eq!((count(&tree, Text::Comments).count(), count(&tree, Text::Pages).count()), (2, 0));
        assert_eq!(count(&tree, Text::Comments).idioms[0].line, 201);
        assert!(check(&tree).is_empty(), "{:?}", check(&tree));
        let mut listed = Vec::new();
        write(&tree, &mut listed).unwrap();
        assert!(String::from_utf8(listed).unwrap().starts_with("a.rs:201: What it holds, told by nobody.\n"));
    }

    #[test]
    fn the_count_may_only_shrink() {
        let whats = |tree: &Tree| check(tree).into_iter().map(|complaint| complaint.what).collect::<Vec<_>>();
        assert_eq!(whats(&tree(1)), ["comments have 2 idioms, 1 are allowed"]);
        assert_eq!(whats(&tree(3)), ["comments have only 2 idioms"]);
        let mut raised = tree(2);
        raised.ratchet_before =
            Some(Ratchet { idioms: IdiomLimits { comments: 1, pages: 0 }, ..Ratchet::default() });
        assert_eq!(whats(&raised), ["comments may have 2 idioms, which is more than before"]);
    }
}
