//! Table: the workloads that are built into the program and can be run by name.

/// A workload with its name and its text.
type Workload = (&'static str, &'static str);

macro_rules! workload {
    ($name:literal, $file:literal) => {
        ($name, include_str!(concat!("../../../workloads/", $file)))
    };
    ($name:literal) => {
        workload!($name, $name)
    };
}

/// YCSB's workloads and the scenarios of article 4, as files of properties.
static CORE: &[Workload] = &[
    workload!("workloada"),
    workload!("workloadb"),
    workload!("workloadc"),
    workload!("workloadd"),
    workload!("workloade"),
    workload!("workloadf"),
    workload!("s1"),
    workload!("s2"),
    workload!("s3"),
    workload!("s4"),
    workload!("s5"),
];

/// Workloads of documents and commands, in YAML.
static DOCUMENT: &[Workload] = &[
    workload!("bank-transfer", "bank-transfer.yaml"),
    workload!("insert-index-growth", "insert-index-growth.yaml"),
    workload!("nested-orders", "nested-orders.yaml"),
];

/// The properties of the workload of this name, regardless of case.
pub fn core(name: &str) -> Option<&'static str> {
    find(CORE, name)
}

/// The YAML of the workload of this name, regardless of case.
pub fn document(name: &str) -> Option<&'static str> {
    find(DOCUMENT, name)
}

/// The names of the workloads of properties, for messages.
pub fn core_names() -> String {
    names(CORE)
}

/// The names of the workloads of documents, for messages.
pub fn document_names() -> String {
    names(DOCUMENT)
}

fn find(table: &[Workload], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, text)| *text)
}

fn names(table: &[Workload]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document_workload::DocumentWorkload;
    use crate::properties::Properties;

    #[test]
    fn each_can_be_read_and_none_names_a_property_that_is_unknown() {
        for (name, text) in CORE {
            let mut properties = Properties::default();
            properties.add_text(text.as_bytes(), name).unwrap();
            assert_eq!(properties.unknown(), Vec::<String>::new(), "{name}");
            assert!(properties.whole("recordcount").unwrap() > Some(0), "{name}");
        }
        for (name, text) in DOCUMENT {
            DocumentWorkload::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn case_does_not_matter() {
        assert!(core("S1").is_some() && core("workloadA").is_some() && document("Nested-Orders").is_some());
        assert_eq!((core("s6"), core("nested-orders"), document("s1")), (None, None, None));
    }
}
