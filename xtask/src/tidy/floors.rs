//! Checks that packages import only from lower floors, so that lower packages can be read, tested and reused without
//! the higher ones.

use super::rules::SidewaysEdge;
use super::tree::Tree;
use super::workspace::{ImportPurpose, Package};
use super::{Complaint, FLOORS};

pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = placement(tree);
    for package in &tree.packages {
        for import in &package.imports {
            if tree.packages.iter().any(|other| other.name == import.name) {
                complaints.extend(edge(tree, package, &import.name, import.need));
            }
        }
    }
    for sideways in &tree.floors.sideways {
        complaints.extend(stale(tree, sideways));
    }
    complaints
}

/// Every package has one place, and every place a package.
fn placement(tree: &Tree) -> Vec<Complaint> {
    let floors = &tree.floors;
    let mut complaints = Vec::new();
    for package in &tree.packages {
        let places = usize::from(floors.floors.contains_key(&package.name))
            + usize::from(floors.beside.contains_key(&package.name));
        if places != 1 {
            let what = format!("{} has {places} places in {FLOORS}", package.name);
            complaints.push(Complaint::new(
                &package.manifest,
                1,
                what,
                "give it one floor, or list it as beside",
            ));
        }
    }
    let named =
        floors.floors.keys().chain(floors.beside.keys()).chain(floors.ceiling.iter().map(|c| &c.package));
    for name in named.filter(|name| !tree.packages.iter().any(|package| package.name == **name)) {
        let what = format!("there is no package {name}");
        complaints.push(Complaint::new(FLOORS, tree.line_with(FLOORS, name), what, "remove it"));
    }
    complaints
}

/// The fault of `package` importing `to`, if any.
fn edge(tree: &Tree, package: &Package, to: &str, need: ImportPurpose) -> Option<Complaint> {
    let floors = &tree.floors;
    let complain = |what: String, advice: &str| {
        let line = tree.line_with(&package.manifest, to);
        Some(Complaint::new(&package.manifest, line, what, advice))
    };
    // Packages outside the floors may import all others; tests may use packages of the same floor.
    let from = floors.floors.get(&package.name)?;
    if floors.beside.contains_key(to) {
        let what = format!("{} imports {to}, which stands beside the floors", package.name);
        return if need == ImportPurpose::Test {
            None
        } else {
            complain(what, "make it a dev-dependency or move the code")
        };
    }
    let target = floors.floors.get(to)?;
    if let Some(ceiling) = floors.ceiling.iter().find(|c| c.package == package.name && *target > c.floor) {
        let what =
            format!("{} imports {to} from floor {target}, above its ceiling {}", package.name, ceiling.floor);
        return complain(what, &format!("keep it out: {}", ceiling.reason));
    }
    let wanted = |edge: &SidewaysEdge| edge.from == package.name && edge.to == to;
    if target > from {
        let what = format!("{} on floor {from} imports {to} from floor {target} above it", package.name);
        complain(what, "move the shared part down, or the caller up")
    } else if target == from && !floors.sideways.iter().any(wanted) {
        let what = format!("{} imports {to} from its own floor {from}", package.name);
        complain(what, &format!("move the shared part down, or list the edge with its reason in {FLOORS}"))
    } else {
        None
    }
}

/// A sideways entry that no manifest needs, that is not sideways, or that gives no reason.
fn stale(tree: &Tree, sideways: &SidewaysEdge) -> Option<Complaint> {
    let SidewaysEdge { from, to, reason } = sideways;
    let used =
        tree.packages.iter().any(|p| p.name == *from && p.imports.iter().any(|import| import.name == *to));
    let level = tree.floors.floors.get(from) == tree.floors.floors.get(to);
    let what = format!("the sideways edge {from} -> {to}");
    let line = tree.line_with(FLOORS, &format!("from = \"{from}\""));
    if !used || !level {
        Some(Complaint::new(FLOORS, line, format!("{what} is not one that is used"), "remove it"))
    } else if reason.trim().is_empty() {
        Some(Complaint::new(FLOORS, line, format!("{what} gives no reason"), "say why"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rules::Floors;
    use crate::tidy::workspace::package;

    const RULES: &str = r#"
        sideways = [{ from = "stats", to = "units", reason = "figures have units" }]
        ceiling = [{ package = "report", floor = 1, reason = "it judges records only" }]
        floors = { units = 0, stats = 0, host = 2, probe = 3, report = 4 }
        beside = { testkit = "for tests" }
    "#;

    fn complaints(packages: Vec<Package>) -> Vec<String> {
        let floors: Floors = toml::from_str(RULES).unwrap();
        let tree = Tree { packages, floors, ..Tree::default() };
        check(&tree).iter().map(|complaint| complaint.what.clone()).collect()
    }

    fn house() -> Vec<Package> {
        vec![
            package("units", &[("serde", ImportPurpose::Run)]),
            package("stats", &[("units", ImportPurpose::Run)]),
            package("host", &[("units", ImportPurpose::Run), ("testkit", ImportPurpose::Test)]),
            package("probe", &[("host", ImportPurpose::Run), ("stats", ImportPurpose::Run)]),
            package("report", &[("stats", ImportPurpose::Run)]),
            package("testkit", &[("probe", ImportPurpose::Run)]),
        ]
    }

    #[test]
    fn imports_that_go_down_are_fine() {
        assert_eq!(complaints(house()), Vec::<String>::new());
    }

    #[test]
    fn up_sideways_above_the_ceiling_and_beside_are_not() {
        for (index, import, need, expected) in [
            (2, "probe", ImportPurpose::Run, "host on floor 2 imports probe from floor 3 above it"),
            (2, "probe", ImportPurpose::Test, "host on floor 2 imports probe from floor 3 above it"),
            (0, "stats", ImportPurpose::Run, "units imports stats from its own floor 0"),
            (4, "host", ImportPurpose::Run, "report imports host from floor 2, above its ceiling 1"),
            (3, "testkit", ImportPurpose::Run, "probe imports testkit, which stands beside the floors"),
        ] {
            let mut packages = house();
            packages[index].imports.extend(package("x", &[(import, need)]).imports);
            assert_eq!(complaints(packages), [expected]);
        }
    }

    #[test]
    fn a_package_without_a_floor_and_a_floor_without_a_package_are_named() {
        let mut packages = house();
        packages.push(package("newcomer", &[]));
        packages.remove(4);
        let what = complaints(packages);
        assert!(what.contains(&"newcomer has 0 places in xtask/floors.toml".to_owned()), "{what:?}");
        assert!(what.contains(&"there is no package report".to_owned()), "{what:?}");
    }

    #[test]
    fn a_sideways_edge_that_nobody_needs_is_stale() {
        let mut packages = house();
        packages[1].imports.clear();
        assert_eq!(complaints(packages), ["the sideways edge stats -> units is not one that is used"]);
    }
}
