//! A command line in mlaunch's state file, split into words: it was written for a shell, with double quotes around paths.

use fathom_errors::{Error, Kind, Result};

/// Splits as a POSIX shell does, without expanding anything. What a shell would run as more than one program is refused.
pub(crate) fn split(line: &str) -> Result<Vec<String>> {
    let refused =
        |what: &str| Error::new(Kind::Malformed, format!("a start command in .mlaunch_startup {what}"));
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '"' | '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| refused("has a quote that does not end"))? {
                        end if end == c => break,
                        '\\' if c == '"' => word.extend(chars.next()),
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '|' | '&' | ';' | '<' | '>' | '`' | '$' | '(' | ')' => {
                return Err(refused(&format!("holds '{c}', which asks for a shell")));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// A word as a shell would need it, for people to copy.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mlaunch_commands_come_apart() {
        let line = r#""mongod" --replSet replset --dbpath "/data/a b/rs1/db"   --port 27017 --fork  "#;
        let words =
            ["mongod", "--replSet", "replset", "--dbpath", "/data/a b/rs1/db", "--port", "27017", "--fork"];
        assert_eq!(split(line).unwrap(), words);
        assert_eq!(split(r#"a "" 'b c' d\ e"#).unwrap(), ["a", "", "b c", "d e"]);
    }

    #[test]
    fn nothing_else_is_run() {
        for line in ["mongod; rm -rf x", "mongod $(x)", "mongod \"open", "mongod > y"] {
            assert_eq!(split(line).unwrap_err().kind(), Kind::Malformed, "{line}");
        }
    }

    #[test]
    fn words_are_quoted_only_where_they_must_be() {
        assert_eq!(quoted("--dbpath=/a/b"), "--dbpath=/a/b");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
