//! Facts on a recorded server, in the form that the rules for runs use.

use std::collections::BTreeMap;

/// Facts on a recorded server.
#[derive(Clone, Debug, Default)]
pub struct RecordedFacts {
    /// Its name, if it has one.
    pub host: String,
    pub version: String,
    pub engine: String,
    pub is_router: bool,
    /// Whether its data are not on its host (a build with disaggregated storage): then the verdict does not cover storage.
    pub is_disaggregated: bool,
}

impl RecordedFacts {
    /// The environment of a recorded server, in the form that rules use.
    pub(super) fn environment(&self, member: usize) -> BTreeMap<String, String> {
        let role = if self.is_router { "router" } else { "standalone" };
        [
            (String::new(), self.host.as_str()),
            (".role".to_owned(), role),
            (".engine".to_owned(), self.engine.as_str()),
            (".version".to_owned(), self.version.as_str()),
            (".here".to_owned(), "false"),
            // A recording names no device: the database's disk is determined at its end.
            (".device".to_owned(), "not-named"),
        ]
        .into_iter()
        .map(|(key, value)| (format!("server.{member}{key}"), value.to_owned()))
        .collect()
    }
}
