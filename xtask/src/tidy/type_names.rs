//! Checks that type names are nouns: a participle, an adjective, a pronoun or an adverb alone does not describe a value.

use syn::Item;

use super::Complaint;
use super::tree::Tree;

/// Words that were type names in this tree. Others that end in "ed" are participles too.
const WORDS: [&str; 60] = [
    "Above",
    "After",
    "Again",
    "Another",
    "Before",
    "Behind",
    "Below",
    "Beside",
    "Better",
    "Both",
    "Built",
    "Done",
    "Each",
    "Enough",
    "Failing",
    "Few",
    "Found",
    "Gathering",
    "Given",
    "Gone",
    "Happening",
    "Held",
    "Here",
    "Incoming",
    "Inside",
    "Kept",
    "Known",
    "Leaving",
    "Left",
    "Lost",
    "Made",
    "Many",
    "Next",
    "Nobody",
    "Of",
    "Open",
    "Other",
    "Others",
    "Outgoing",
    "Place",
    "Removable",
    "Resting",
    "Running",
    "Said",
    "Seen",
    "Sending",
    "Shown",
    "Shut",
    "Stopping",
    "Such",
    "Taken",
    "Theirs",
    "There",
    "Told",
    "Unknown",
    "Usual",
    "Waiting",
    "What",
    "Where",
    "Who",
];
/// Nouns that end in "ed".
const NOUNS: [&str; 4] = ["Feed", "Need", "Seed", "Speed"];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        let Some(syntax) = file.parsed() else { continue };
        for item in &syntax.items {
            let name = match item {
                Item::Struct(item) => &item.ident,
                Item::Enum(item) => &item.ident,
                Item::Trait(item) => &item.ident,
                Item::Type(item) => &item.ident,
                _ => continue,
            };
            let text = name.to_string();
            if !is_noun(&text) {
                let what = format!("the type name {text} is no noun");
                let line = name.span().start().line;
                complaints.push(Complaint::new(&file.path, line, what, "name what a value is"));
            }
        }
    }
    complaints
}

fn is_noun(name: &str) -> bool {
    let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
    let is_participle = name.ends_with("ed") && !NOUNS.contains(&name);
    !(WORDS.contains(&name) || is_one_word && is_participle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participles_and_adverbs_are_refused() {
        let source = "struct Ended;\nenum Again {}\ntype Speed = f64;\nstruct SeededRandom;\npub struct FixedLength;\n";
        let tree = Tree::from_texts(&[("a.rs", source)]);
        let found: Vec<_> = check(&tree).into_iter().map(|one| (one.line, one.what)).collect();
        let no_noun = |name: &str| format!("the type name {name} is no noun");
        assert_eq!(found, [(1, no_noun("Ended")), (2, no_noun("Again"))]);
    }
}
