//! What an engine counts, under the engine's own names.

/// One counter or gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistic {
    /// The group that the engine puts it in (WiredTiger: the text before the colon), or empty.
    pub section: String,
    /// Its name within the group, as the engine says it.
    pub name: String,
    /// Its value.
    pub value: i64,
}

/// Counters and gauges in the engine's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics(pub Vec<Statistic>);

impl Statistics {
    /// Adds one.
    pub fn push(&mut self, section: &str, name: &str, value: i64) {
        self.0.push(Statistic { section: section.to_owned(), name: name.to_owned(), value });
    }

    /// The value of a name within a section.
    pub fn get(&self, section: &str, name: &str) -> Option<i64> {
        self.0.iter().find(|one| one.section == section && one.name == name).map(|one| one.value)
    }
}
