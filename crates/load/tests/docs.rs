//! docs/ycsb.md names every property with its default, as the program knows them.

use std::path::Path;

use fathom_load::properties::KNOWN;

#[test]
fn the_page_has_each_property() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ycsb.md");
    let page = std::fs::read_to_string(page).unwrap();
    let default = |default: &str| if default.is_empty() { String::new() } else { format!("`{default}`") };
    let rows = KNOWN
        .iter()
        .map(|known| format!("| `{}` | {} | {} |", known.name, default(known.default), known.about));
    let missing: Vec<String> = rows.filter(|row| !page.lines().any(|line| line == row)).collect();
    assert!(missing.is_empty(), "docs/ycsb.md lacks:\n{}", missing.join("\n"));
    // And none that no longer exist.
    let tables = page.split_once("\n## Properties\n").unwrap().1;
    let named =
        tables.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).map(|(name, _)| name);
    let unknown: Vec<&str> = named.filter(|name| !KNOWN.iter().any(|known| known.name == *name)).collect();
    assert!(unknown.is_empty(), "docs/ycsb.md has {unknown:?}");
}
