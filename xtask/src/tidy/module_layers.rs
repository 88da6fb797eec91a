//! Checks that the modules of a large package are in layers, as packages are, and use only lower layers.
//!
//! `[modules]` of `xtask/floors.toml` has the layers of a package, the lowest first, each with its top modules (a file, or a folder with all that
//! is in it). The first file of the package is above all layers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::tree::Tree;
use super::{Complaint, FLOORS};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (name, layers) in &tree.floors.modules {
        let line = tree.line_with(FLOORS, &format!("{name} = ["));
        let mut complain =
            |what: String, advice: &str| complaints.push(Complaint::new(FLOORS, line, what, advice));
        let Some(graph) = tree.graph(name) else {
            complain(format!("there is no package {name}"), "remove its layers");
            continue;
        };
        let mut layer_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (number, modules) in layers.iter().enumerate() {
            for module in modules {
                if layer_of.insert(module, number).is_some() {
                    complain(format!("{name}: the module {module} stands in two layers"), "remove one");
                }
            }
        }
        let used = graph.used_modules();
        for (module, uses) in &used {
            let Some(layer) = layer_of.remove(module.as_str()) else {
                complain(format!("{name}: the module {module} stands in no layer"), "add it to one");
                continue;
            };
            let number =
                |other: &str| layers.iter().position(|modules| modules.iter().any(|one| one == other));
            for other in uses.iter().filter(|other| number(other).is_some_and(|number| number >= layer)) {
                let what =
                    format!("{name}: {module} of layer {layer} uses {other}, which does not stand below it");
                complain(what, "move what both need below both");
            }
        }
        for module in layer_of.keys() {
            complain(format!("{name}: there is no module {module}"), "remove it");
        }
    }
    complaints
}

/// A line for each package whose modules have layers.
pub(super) fn write(tree: &Tree, out: &mut impl Write) -> io::Result<()> {
    for (name, layers) in &tree.floors.modules {
        let layers: Vec<String> = layers.iter().map(|modules| modules.join(" ")).collect();
        writeln!(out, "{name}: {}", layers.join(" < "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::workspace::package;

    const FILES: [(&str, &str); 4] = [
        ("crates/a/src/lib.rs", "mod low;\nmod high;\npub use high::High;"),
        ("crates/a/src/low.rs", "pub struct Low;"),
        ("crates/a/src/high/mod.rs", "mod inner;\nuse crate::low::Low;\npub struct High(Low);"),
        ("crates/a/src/high/inner.rs", "use super::High;"),
    ];

    fn complaints(layers: &str) -> Vec<String> {
        let mut tree = Tree::from_texts(&FILES);
        tree.packages = vec![package("a", &[])];
        tree.floors = toml::from_str(&format!("floors = {{ a = 0 }}\n[modules]\na = {layers}")).unwrap();
        check(&tree).iter().map(|complaint| complaint.what.clone()).collect()
    }

    #[test]
    fn modules_use_only_what_stands_below_them() {
        assert_eq!(complaints(r#"[["low"], ["high"]]"#), Vec::<String>::new());
        for layers in [r#"[["high"], ["low"]]"#, r#"[["high", "low"]]"#] {
            let found = complaints(layers);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with("a: high of layer 0 uses low"), "{found:?}");
        }
    }

    #[test]
    fn each_module_stands_in_one_layer() {
        assert_eq!(complaints(r#"[["low"]]"#), ["a: the module high stands in no layer"]);
        assert_eq!(complaints(r#"[["low"], ["high"], ["gone"]]"#), ["a: there is no module gone"]);
        assert_eq!(complaints(r#"[["low"], ["high"], ["low"]]"#), ["a: the module low stands in two layers"]);
    }
}
