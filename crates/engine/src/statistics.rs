//! An engine's statistics, under the engine's own names.
//!
//! An engine has about a thousand counters, and a monitor reads all of them each second. Their names are stored in one string:
//! two thousand separate strings took half of the cost of `serverStatus`.

/// One counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic<'a> {
    /// The group that the engine puts it in (WiredTiger: the text before the colon), or empty.
    pub section: &'a str,
    /// The engine's name for it within the group.
    pub name: &'a str,
    pub value: i64,
}

/// Counters and gauges in the engine's order.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Section and name of each, without separators.
    text: String,
    entries: Vec<StatisticEntry>,
}

/// The positions of one statistic's section and name in the text, and its value.
#[derive(Clone, Copy, Debug)]
struct StatisticEntry {
    section: usize,
    name: usize,
    end: usize,
    value: i64,
}

impl StatisticEntry {
    fn section<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.section..self.name).unwrap_or_default()
    }
}

impl Statistics {
    pub fn push(&mut self, section: &str, name: &str, value: i64) {
        let begin = self.text.len();
        self.text.push_str(section);
        self.text.push_str(name);
        let entry =
            StatisticEntry { section: begin, name: begin + section.len(), end: self.text.len(), value };
        self.entries.push(entry);
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Statistic<'_>> {
        self.entries.iter().map(|entry| Statistic {
            section: entry.section(&self.text),
            name: self.text.get(entry.name..entry.end).unwrap_or_default(),
            value: entry.value,
        })
    }

    /// Sorts the sections, each with its counters in their present order.
    pub fn sort_by_section(&mut self) {
        let Statistics { text, entries } = self;
        entries.sort_by(|one, other| one.section(text).cmp(other.section(text)));
    }

    /// The value of a name within a section.
    pub fn get(&self, section: &str, name: &str) -> Option<i64> {
        self.iter().find(|one| one.section == section && one.name == name).map(|one| one.value)
    }
}
