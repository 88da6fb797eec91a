//! Checks that docs/exits.md lists every stable id of an exit, a refusal or a finding, and no id that the code does not have.
//!
//! The ids of findings are the first arguments of `Finding::new` and of the functions that make causes, and the fields `id` of tables of rules. A
//! few are the parts of tuples: of these only the page is checked, because any literal may be such a part.

use std::collections::{BTreeMap, BTreeSet};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprLit, ExprMethodCall, Lit};

use super::Complaint;
use super::empty_tests::{is_cfg_test, is_test_file};
use super::markdown::sections;
use super::tree::{Tree, TreeFile};

/// The page that lists the ids.
const PAGE: &str = "docs/exits.md";
const ERRORS: &str = "crates/errors/src/lib.rs";
const ENTRY: &str = "crates/cli/src/main.rs";
const OUTCOME: &str = "crates/cli/src/outcome.rs";
/// The folders whose code makes findings.
const JUDGES: [&str; 3] = ["crates/explain/src/", "crates/host/src/doctor/", "crates/probe/src/judge/"];
/// The functions that take the id of a finding or of a cause as their first argument.
const MAKERS: [&str; 7] = ["above_device", "base", "cause", "finding", "spikes", "stop", "storage"];

/// The ids of one section of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum IdKind {
    Exit,
    Refusal,
    Finding,
}

impl IdKind {
    /// The heading of its section.
    fn title(self) -> &'static str {
        match self {
            IdKind::Exit => "Exits",
            IdKind::Refusal => "Refusals",
            IdKind::Finding => "Findings",
        }
    }
}

/// The ids of the code with the first place of each, and all literals that may be ids of findings.
#[derive(Default)]
struct CodeIds {
    ids: BTreeMap<(IdKind, String), (String, usize)>,
    literals: BTreeSet<String>,
}

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(page) = tree.file(PAGE) else {
        return vec![Complaint::new(PAGE, 1, "the page of ids is missing", "write it")];
    };
    let mut code = CodeIds::default();
    let is_product = |file: &&TreeFile| file.path.starts_with("crates/") && !is_test_file(file);
    tree.rust().filter(is_product).for_each(|file| code.read(file));
    let listed = listed(page);
    let mut complaints = Vec::new();
    for ((kind, id), (path, line)) in &code.ids {
        if !listed.contains_key(&(*kind, id.clone())) {
            let what = format!("the id '{id}' is not in {PAGE}");
            complaints.push(Complaint::new(path, *line, what, format!("add a row under {}", kind.title())));
        }
    }
    for ((kind, id), line) in &listed {
        let is_part = *kind == IdKind::Finding && code.literals.contains(id);
        if !code.ids.contains_key(&(*kind, id.clone())) && !is_part {
            let what = format!("no code has the id '{id}'");
            complaints.push(Complaint::new(
                PAGE,
                *line,
                what,
                "an id is stable: restore it, or remove the row",
            ));
        }
    }
    complaints
}

/// The ids in the first column of each table, with their lines.
fn listed(page: &TreeFile) -> BTreeMap<(IdKind, String), usize> {
    let mut found = BTreeMap::new();
    let mut kind = None;
    for section in sections(&page.text) {
        if section.level == 2 {
            let all = [IdKind::Exit, IdKind::Refusal, IdKind::Finding];
            kind = all.into_iter().find(|kind| kind.title() == section.title);
        }
        for (index, row) in section.body.lines().enumerate() {
            let id = row.strip_prefix("| `").and_then(|rest| rest.split_once('`')).map(|(id, _)| id);
            if let (Some(kind), Some(id)) = (kind, id) {
                found.insert((kind, id.to_owned()), section.line + index + 1);
            }
        }
    }
    found
}

impl CodeIds {
    fn read(&mut self, file: &TreeFile) {
        let Some(syntax) = file.parsed() else { return };
        let mut reader = IdReader {
            file,
            makes_findings: JUDGES.iter().any(|folder| file.path.starts_with(folder)),
            texts: BTreeMap::new(),
            ids: self,
        };
        // A constant may be used above its line.
        let mut texts = ConstantTexts(BTreeMap::new());
        texts.visit_file(syntax);
        reader.texts = texts.0;
        reader.visit_file(syntax);
    }
}

/// The constants of a file that are texts.
struct ConstantTexts(BTreeMap<String, String>);

impl<'ast> Visit<'ast> for ConstantTexts {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if let Some(text) = literal(&item.expr) {
            self.0.insert(item.ident.to_string(), text);
        }
    }
}

struct IdReader<'r> {
    file: &'r TreeFile,
    makes_findings: bool,
    texts: BTreeMap<String, String>,
    ids: &'r mut CodeIds,
}

impl IdReader<'_> {
    fn add(&mut self, kind: IdKind, id: String, at: &impl Spanned) {
        let place = (self.file.path.clone(), at.span().start().line);
        self.ids.ids.entry((kind, id)).or_insert(place);
    }

    /// The text of an argument: a literal, a constant of the file, or a format with a star for each value.
    fn text(&self, argument: &Expr) -> Option<String> {
        match argument {
            Expr::Path(path) => self.texts.get(&path.path.segments.last()?.ident.to_string()).cloned(),
            Expr::Macro(one) if one.mac.path.is_ident("format") => {
                let text = one.mac.tokens.to_string();
                let text = text.strip_prefix('"')?.split_once('"')?.0;
                let (head, tail) = (text.split_once('{')?.0, text.split_once('}')?.1);
                Some(format!("{head}*{tail}"))
            }
            other => literal(other),
        }
    }

    /// Adds the literals of a function or constant whose values are ids.
    fn add_all(&mut self, kind: IdKind, literals: Literals<'_>) {
        literals.0.into_iter().for_each(|text| self.add(kind, text.value(), text));
    }
}

/// The texts of a function or an expression.
#[derive(Default)]
struct Literals<'ast>(Vec<&'ast syn::LitStr>);

impl<'ast> Literals<'ast> {
    fn of_block(block: &'ast syn::Block) -> Self {
        let mut literals = Literals::default();
        literals.visit_block(block);
        literals
    }
}

impl<'ast> Visit<'ast> for Literals<'ast> {
    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.0.push(text);
    }
}

fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for IdReader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_cfg_test(item) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.sig.ident == "id" {
            match self.file.path.as_str() {
                ERRORS => self.add_all(IdKind::Refusal, Literals::of_block(&function.block)),
                OUTCOME => self.add_all(IdKind::Exit, Literals::of_block(&function.block)),
                _ => {}
            }
        }
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if function.sig.ident == "usage_id" && self.file.path == ENTRY {
            self.add_all(IdKind::Refusal, Literals::of_block(&function.block));
        }
        visit::visit_item_fn(self, function);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if item.ident == "INTERNAL" && self.file.path == ENTRY {
            let mut literals = Literals::default();
            literals.visit_expr(&item.expr);
            self.add_all(IdKind::Refusal, literals);
        }
        visit::visit_item_const(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let first = call.args.first().and_then(|argument| self.text(argument));
        if call.method == "with_id" || call.method == "or_id" {
            first.into_iter().for_each(|id| self.add(IdKind::Refusal, id, &call.method));
        } else if self.makes_findings && MAKERS.iter().any(|maker| call.method == maker) {
            first.into_iter().for_each(|id| self.add(IdKind::Finding, id, &call.method));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = call.func.as_ref()
            && self.makes_findings
        {
            let words: Vec<String> =
                function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let makes = match words.as_slice() {
                [.., kind, name] if kind == "Finding" => name == "new",
                [.., name] => MAKERS.contains(&name.as_str()),
                [] => false,
            };
            let id = call.args.first().filter(|_| makes).and_then(|argument| self.text(argument));
            id.into_iter().for_each(|id| self.add(IdKind::Finding, id, call));
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        let is_id = matches!(&field.member, syn::Member::Named(name) if name == "id");
        if let Some(id) = literal(&field.expr).filter(|_| is_id && self.makes_findings) {
            self.add(IdKind::Finding, id, field);
        }
        visit::visit_field_value(self, field);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        if self.makes_findings {
            self.ids.literals.insert(text.value());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: &str =
        "impl Kind { pub fn id(self) -> &'static str { match self { Kind::Busy => \"busy\" } } }";
    const EXITS: &str = "impl VerbOutcome { fn id(self) -> &'static str { \"ok\" } }";
    const ENTRIES: &str = "const INTERNAL: (&str, u8) = (\"internal\", 3);\nfn usage_id() { \"usage.no\" }";
    const JUDGE: &str = "const ID: &str = \"full\";\nfn f() { Finding::new(ID); Finding::new(format!(\"tail-{}\", x)); }\n\
                         static R: R = R { id: \"rule\" };\nfn g() { cause(\"slow\"); (\"part\", 1); refuse().with_id(\"taken\"); }\n\
                         #[cfg(test)] mod tests { fn t() { Finding::new(\"made-up\"); } }";
    const ROWS: &str = "# Ids\n\n## Exits\n\n| id |\n|---|\n| `ok` |\n\n## Refusals\n\n| `busy` | x |\n| `internal` |\n| `usage.no` |\n\
                        | `taken` |\n\n## Findings\n\n### Of a run\n\n| `full` |\n| `tail-*` |\n| `rule` |\n| `slow` |\n| `part` |\n";

    fn whats(page: &str) -> Vec<(String, usize, String)> {
        let tree = Tree::from_texts(&[
            (PAGE, page),
            (ERRORS, KINDS),
            (OUTCOME, EXITS),
            (ENTRY, ENTRIES),
            ("crates/explain/src/rule.rs", JUDGE),
            ("crates/explain/src/rule_tests.rs", "fn t() { Finding::new(\"made-up\"); }"),
            ("crates/report/src/page.rs", "static P: P = P { id: \"panel\" };"),
        ]);
        check(&tree).into_iter().map(|one| (one.path, one.line, one.what)).collect()
    }

    #[test]
    fn a_page_with_every_id_passes() {
        assert_eq!(whats(ROWS), []);
    }

    #[test]
    fn an_id_that_the_page_lacks_is_named_with_its_place() {
        for (id, path, line) in [
            ("ok", OUTCOME, 1),
            ("busy", ERRORS, 1),
            ("internal", ENTRY, 1),
            ("usage.no", ENTRY, 2),
            ("taken", "crates/explain/src/rule.rs", 4),
            ("full", "crates/explain/src/rule.rs", 2),
            ("tail-*", "crates/explain/src/rule.rs", 2),
            ("rule", "crates/explain/src/rule.rs", 3),
            ("slow", "crates/explain/src/rule.rs", 4),
        ] {
            let page = ROWS.replace(&format!("| `{id}` |"), "| x |");
            let expected = format!("the id '{id}' is not in docs/exits.md");
            assert_eq!(whats(&page), [(path.to_owned(), line, expected)]);
        }
    }

    #[test]
    fn an_id_that_no_code_has_is_named_with_its_row() {
        let page = format!("{ROWS}| `gone` |\n");
        let expected = (PAGE.to_owned(), 25, "no code has the id 'gone'".to_owned());
        assert_eq!(whats(&page), [expected]);
        // A part of a tuple is no refusal.
        let page = ROWS.replace("| `taken` |", "| `taken` |\n| `part` |");
        assert_eq!(whats(&page).len(), 1);
    }
}
