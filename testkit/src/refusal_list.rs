//! The refusals of a test: the ids are checked at once, and the sentences are collected for a golden.
//!
//! A test then fails at the id if a call is refused for another reason, and at the golden alone if only a sentence was reworded.

use crate::Output;

/// Refusals in the order of their calls, as text. Texts that differ from run to run are hidden.
#[derive(Debug, Default)]
pub struct RefusalList {
    text: String,
    hidden: Vec<(String, &'static str)>,
}

impl RefusalList {
    pub fn new() -> RefusalList {
        RefusalList {
            hidden: vec![(env!("CARGO_PKG_VERSION").to_owned(), "VERSION")],
            ..RefusalList::default()
        }
    }

    /// Writes `name` in place of `text`, such as the path of a scratch folder. The longest text is named first.
    #[must_use]
    pub fn hiding(mut self, text: impl ToString, name: &'static str) -> RefusalList {
        self.hidden.push((text.to_string(), name));
        self
    }

    /// Adds the refusal of a call with these words and `-v`; the test fails if the exit code or the id is another one. Returns the output
    /// without the line of the id.
    #[track_caller]
    pub fn expect(&mut self, words: &[impl AsRef<str>], output: Output, code: i32, id: &str) -> Output {
        let output = output.expect_refusal(code, id);
        self.add(words, &output, code, id);
        output
    }

    /// Adds a refusal whose id was checked.
    pub fn add(&mut self, words: &[impl AsRef<str>], output: &Output, code: i32, id: &str) {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let mut block = format!("$ {}\n{code} [{id}]\n{}\n", words.join(" "), output.stderr);
        for (text, name) in &self.hidden {
            block = block.replace(text.as_str(), name);
        }
        self.text.push_str(&block);
    }

    /// All refusals, for a golden.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(stderr: &str) -> Output {
        Output { code: 3, stdout: String::new(), stderr: stderr.to_owned(), timed_out: false }
    }

    #[test]
    fn sentences_are_collected_without_what_differs() {
        let mut list = RefusalList::new().hiding("/tmp/x1", "DIR");
        let output =
            refused("fathom: there is no cluster in /tmp/x1\nfathom: refusal [no-cluster], exit 3\n");
        let output = list.expect(&["list", "--dir", "/tmp/x1"], output, 3, "no-cluster");
        assert_eq!(output.stderr, "fathom: there is no cluster in /tmp/x1\n");
        assert_eq!(list.text(), "$ list --dir DIR\n3 [no-cluster]\nfathom: there is no cluster in DIR\n\n");
    }

    #[test]
    #[should_panic(expected = "[not-found] was expected")]
    fn another_id_fails_the_test() {
        refused("fathom: x\nfathom: refusal [no-cluster], exit 3\n").expect_refusal(3, "not-found");
    }
}
