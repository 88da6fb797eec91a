//! Checks that type names are nouns: a participle, an adjective, a pronoun, an adverb or a phrase without a noun does not describe a value.

use syn::visit::{self, Visit};

use super::Complaint;
use super::tree::Tree;

/// Words that are no nouns, or that say nothing. Most were type names in this tree. One word that ends in "ed" or "ing" is a participle.
const WORDS: [&str; 102] = [
    "Above",
    "Active",
    "After",
    "Again",
    "Another",
    "Ask",
    "Bare",
    "Before",
    "Behind",
    "Below",
    "Beside",
    "Better",
    "Both",
    "Built",
    "Busy",
    "Calm",
    "Common",
    "Current",
    "Dirty",
    "Done",
    "Each",
    "Empty",
    "Enough",
    "Every",
    "Exact",
    "Fast",
    "Few",
    "Found",
    "Fresh",
    "Full",
    "Given",
    "Gone",
    "Held",
    "Here",
    "Idle",
    "Inside",
    "Kept",
    "Known",
    "Large",
    "Last",
    "Late",
    "Latest",
    "Lazy",
    "Least",
    "Left",
    "Less",
    "Lost",
    "Made",
    "Main",
    "Many",
    "More",
    "Most",
    "Near",
    "New",
    "Next",
    "Nobody",
    "Normal",
    "Of",
    "Old",
    "Open",
    "Other",
    "Others",
    "Own",
    "Place",
    "Plain",
    "Quick",
    "Quiet",
    "Rare",
    "Raw",
    "Removable",
    "Said",
    "Same",
    "Seen",
    "Several",
    "Short",
    "Shown",
    "Shut",
    "Single",
    "Slow",
    "Small",
    "Stale",
    "Steady",
    "Strict",
    "Such",
    "Taken",
    "Theirs",
    "There",
    "Told",
    "Torn",
    "Unknown",
    "Usual",
    "What",
    "When",
    "Where",
    "Which",
    "Who",
    "Whole",
    "Whose",
    "Wide",
    "Worst",
    "Written",
    "Wrong",
];
/// Nouns that end in "ed" or "ing".
const NOUNS: [&str; 20] = [
    "Backing",
    "Binding",
    "Ceiling",
    "Drawing",
    "Feed",
    "Finding",
    "Housekeeping",
    "Mapping",
    "Meaning",
    "Need",
    "Reading",
    "Recording",
    "Ring",
    "Rounding",
    "Scaling",
    "Seed",
    "Setting",
    "Sharding",
    "Speed",
    "String",
];
/// A name that begins or ends with one of these is a phrase, such as `OverTime` and `LeftOut`.
const FIRST_WORDS: [&str; 14] = [
    "After", "As", "At", "Before", "Beside", "By", "For", "From", "Of", "Over", "Per", "Take", "When", "With",
];
const LAST_WORDS: [&str; 8] = ["As", "Found", "Is", "Left", "Made", "Of", "Out", "What"];

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for file in tree.rust() {
        let Some(syntax) = file.parsed() else { continue };
        let mut names = TypeNames::default();
        names.visit_file(syntax);
        for (line, name) in names.0.into_iter().filter(|(_, name)| !is_noun(name)) {
            let what = format!("the type name {name} is no noun");
            complaints.push(Complaint::new(&file.path, line, what, "name what a value is"));
        }
    }
    complaints
}

/// The names of the types that a file defines, also within modules and functions, with their lines.
#[derive(Default)]
struct TypeNames(Vec<(usize, String)>);

impl TypeNames {
    fn add(&mut self, name: &syn::Ident) {
        self.0.push((name.span().start().line, name.to_string()));
    }
}

impl<'a> Visit<'a> for TypeNames {
    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.add(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.add(&item.ident);
    }
}

fn is_noun(name: &str) -> bool {
    let mut starts = name.char_indices().filter(|(_, letter)| letter.is_ascii_uppercase()).map(|(at, _)| at);
    let (first, last) = (starts.nth(1), starts.next_back());
    let Some(second) = first else {
        let is_participle = name.ends_with("ed") || name.ends_with("ing");
        return !WORDS.contains(&name) && (!is_participle || NOUNS.contains(&name));
    };
    let (first, last) = (name.get(..second), name.get(last.unwrap_or(second)..));
    !first.is_some_and(|word| FIRST_WORDS.contains(&word))
        && !last.is_some_and(|word| LAST_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_nouns_are_refused() {
        let refused = [
            "Ended",
            "Again",
            "Every",
            "Lazy",
            "Current",
            "Whole",
            "Normal",
            "Waiting",
            "OverTime",
            "TimeLeftOut",
            "CellMade",
            "AsIs",
        ];
        let nouns = [
            "Speed",
            "SeededRandom",
            "FixedLength",
            "NormalLevel",
            "PeriodTimer",
            "LazyRows",
            "Reading",
            "OutTarget",
            "InfoArgs",
        ];
        let source: String = refused.iter().chain(&nouns).map(|name| format!("struct {name};\n")).collect();
        let tree = Tree::from_texts(&[("a.rs", &source)]);
        let found: Vec<_> = check(&tree).into_iter().map(|one| (one.line, one.what)).collect();
        let expected: Vec<_> = (1..)
            .zip(refused)
            .map(|(line, name)| (line, format!("the type name {name} is no noun")))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn types_in_modules_and_functions_are_checked() {
        let source = "mod tests {\n    enum Quiet {}\n    fn f() {\n        struct Torn;\n    }\n}\n";
        let tree = Tree::from_texts(&[("a.rs", source)]);
        let lines: Vec<_> = check(&tree).into_iter().map(|one| one.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
