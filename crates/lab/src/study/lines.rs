//! Where names stand in a study's file, for complaints that only the whole of it shows to be right.
//!
//! The reader of YAML tells the place of what it cannot read; what contradicts something else is found later, and looked up here.

/// The names at the beginning of lines, with their line numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Vec<(String, usize)>);

impl Lines {
    pub(crate) fn of(text: &str) -> Lines {
        let named = |(number, line): (usize, &str)| {
            let line = line.split(" #").next().unwrap_or_default();
            let words = line.split(['{', ',', '[', '-']).filter_map(|part| {
                let (name, _) = part.split_once(':')?;
                let name = name.trim().trim_matches(['"', '\'']);
                let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                is_name.then(|| (name.to_owned(), number))
            });
            words.collect::<Vec<_>>()
        };
        Lines((1..).zip(text.lines()).flat_map(named).collect())
    }

    /// ` (line 7)`, or nothing where the name does not stand there by itself. The last place counts: it beats those before it.
    pub(crate) fn at(&self, name: &str) -> String {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map_or_else(String::new, |(_, line)| format!(" (line {line})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_at_their_lines() {
        let lines = Lines::of(
            "name: a\nfactors:\n  engine: [x, y]  # shards: no\nsizes:\n  quick: {settings: {records: 5}}\n",
        );
        assert_eq!(lines.at("engine"), " (line 3)");
        assert_eq!(lines.at("records"), " (line 5)");
        assert_eq!(lines.at("shards"), "");
    }
}
