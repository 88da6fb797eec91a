//! What an engine counts, under the engine's own names.
//!
//! An engine counts a thousand things, and somebody who watches asks for all of them each second: their names stand in one text
//! rather than in two thousand, whose making was half of what `serverStatus` cost.

/// One counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic<'a> {
    /// The group that the engine puts it in (WiredTiger: the text before the colon), or empty.
    pub section: &'a str,
    /// Its name within the group, as the engine says it.
    pub name: &'a str,
    /// Its value.
    pub value: i64,
}

/// Counters and gauges in the engine's order.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Section and name of each, without anything between them.
    text: String,
    entries: Vec<Entry>,
}

/// Where the texts of one begin and end.
#[derive(Clone, Copy, Debug)]
struct Entry {
    section: usize,
    name: usize,
    end: usize,
    value: i64,
}

impl Entry {
    fn section<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.section..self.name).unwrap_or_default()
    }
}

impl Statistics {
    /// Adds one.
    pub fn push(&mut self, section: &str, name: &str, value: i64) {
        let begin = self.text.len();
        self.text.push_str(section);
        self.text.push_str(name);
        let entry = Entry { section: begin, name: begin + section.len(), end: self.text.len(), value };
        self.entries.push(entry);
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Statistic<'_>> {
        self.entries.iter().map(|entry| Statistic {
            section: entry.section(&self.text),
            name: self.text.get(entry.name..entry.end).unwrap_or_default(),
            value: entry.value,
        })
    }

    /// Puts the sections in order, each with its counters as they stood.
    pub fn sort_by_section(&mut self) {
        let Statistics { text, entries } = self;
        entries.sort_by(|one, other| one.section(text).cmp(other.section(text)));
    }

    /// The value of a name within a section.
    pub fn get(&self, section: &str, name: &str) -> Option<i64> {
        self.iter().find(|one| one.section == section && one.name == name).map(|one| one.value)
    }
}
