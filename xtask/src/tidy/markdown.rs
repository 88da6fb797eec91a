//! Reads Markdown as far as the checks need it: prose without code, links, headings and their anchors.
//!
//! It is not a full parser; it covers only the syntax that the documents of this tree use.

/// The text with fenced blocks and code spans blanked out; lines keep their numbers.
pub(super) fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Every second part is between backticks; a last one without a closing backtick is text.
            let mut parts = line.split('`').peekable();
            while let Some(outside) = parts.next() {
                out.push_str(outside);
                if let Some(inside) = parts.next() {
                    out.push_str(if parts.peek().is_some() { " " } else { inside });
                }
            }
        }
        out.push('\n');
    }
    out
}

/// The targets of `[text](target)` and `[name]: target`, with their line.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in prose(text).lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or(rest);
            // A title may follow the target: `(target "Title")`.
            found.extend(target.split_whitespace().next().map(|target| (index + 1, target.to_owned())));
        }
        let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        let target = definition.and_then(|(_, target)| target.split_whitespace().next());
        found.extend(target.map(|target| (index + 1, target.to_owned())));
    }
    found
}

/// One heading and the text under it, up to the next heading of any level.
pub(super) struct Section {
    /// Its line, from 1.
    pub(super) line: usize,
    /// The number of `#` that it has.
    pub(super) level: usize,
    /// Its words as written, code spans included.
    pub(super) title: String,
    /// The lines under it.
    pub(super) body: String,
}

/// All sections; text before the first heading belongs to none. A `#` inside a fenced block is not a heading.
pub(super) fn sections(text: &str) -> Vec<Section> {
    let mut found: Vec<Section> = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        let level = line.chars().take_while(|c| *c == '#').count();
        if !fenced && (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let title = line[level..].trim().to_owned();
            found.push(Section { line: index + 1, level, title, body: String::new() });
        } else if let Some(section) = found.last_mut() {
            section.body.push_str(line);
            section.body.push('\n');
        }
    }
    found
}

/// The anchor that forges give a heading: lower case, spaces to hyphens, other punctuation dropped.
pub(super) fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_what_is_not_code() {
        let text = "a `b` c\n```sh\n# [x](y)\n```\nno [x](`y`) or `z` and a lone ` tick\n";
        assert_eq!(prose(text), "a   c\n\n\n\nno [x]( ) or   and a lone  tick\n");
        assert_eq!(links(text), []);
    }

    #[test]
    fn links_of_both_kinds_are_found() {
        let text = "See [a](x.md) and [b](y.md#z \"Title\").\n\n[c]: w.md\n";
        assert_eq!(links(text), [(1, "x.md".to_owned()), (1, "y.md#z".to_owned()), (3, "w.md".to_owned())]);
    }

    #[test]
    fn sections_and_anchors() {
        let found = sections("intro\n# One\ntext\n```sh\n# no heading\n```\n## `two`, and more\n#hash\n");
        let titles: Vec<_> = found.iter().map(|s| (s.line, s.level, s.title.as_str())).collect();
        assert_eq!(titles, [(2, 1, "One"), (7, 2, "`two`, and more")]);
        assert_eq!(anchor(&found[1].title), "two-and-more");
        assert_eq!(found[1].body, "#hash\n");
    }
}
