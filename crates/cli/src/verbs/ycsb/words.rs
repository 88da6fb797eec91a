//! YCSB's command line in the words of ours: it writes long options with one dash.

use std::ffi::OsString;

/// Table: YCSB's options with their names here. The rest (`-P`, `-p`, `-s`, `-l`) is written the same.
const WORDS: [(&str, &str); 7] = [
    ("-threads", "--threads"),
    ("-target", "--target"),
    ("-db", "--db"),
    ("-load", "--load"),
    ("-t", "--run"),
    ("-cp", "--classpath"),
    ("-jvm-args", "--jvm-args"),
];

/// The command line with YCSB's options written as ours, where the verb is `ycsb`.
pub(crate) fn plain(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.collect();
    if words.get(1).is_none_or(|verb| verb != "ycsb") {
        return words;
    }
    let mut value_of_last = false;
    let translate = |word: OsString| {
        // What follows -p may look like an option and is none.
        let is_value = std::mem::replace(&mut value_of_last, word == "-p" || word == "-P" || word == "-l");
        let Some(text) = word.to_str().filter(|_| !is_value) else { return word };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        match (WORDS.iter().find(|(theirs, _)| *theirs == name), value) {
            (Some((_, ours)), None) => OsString::from(ours),
            (Some((_, ours)), Some(value)) => OsString::from(format!("{ours}={value}")),
            (None, _) => word,
        }
    };
    words.into_iter().map(translate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> String {
        let words = plain(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn long_options_get_their_second_dash() {
        assert_eq!(
            after("fathom ycsb run mongodb -threads 8 -target=100 -p -t=1 -s -P -db"),
            "fathom ycsb run mongodb --threads 8 --target=100 -p -t=1 -s -P -db"
        );
        assert_eq!(after("fathom ycsb -load -db x -t"), "fathom ycsb --load --db x --run");
        assert_eq!(after("fathom disk -t"), "fathom disk -t");
    }
}
