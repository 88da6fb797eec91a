//! The command line: its words as they were given, for a new start of this program, and its secrets hidden from everything else.
//!
//! Every user of the host can read the command line of a process (`ps`), so the secrets in it are overwritten as soon as it is read.
//! The kernel shows the memory that it gave to the program at its start, and that is the program's own to change: as a file,
//! `/proc/self/mem` (proc_pid_mem(5)). A process that may not open that file, such as one with file capabilities, keeps its words.
//! Messages hide the same secrets, also where a part of the program repeats a word that it does not know as a connection string.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use fathom_record::without_secrets;

/// The first field of proc_pid_stat(5) behind the program's name is the third; the 48th is where the arguments begin.
const ARGUMENTS_FIELD: usize = 48 - 3;

static GIVEN: OnceLock<CommandLine> = OnceLock::new();

/// The words of the command line, and the texts in them that no message may repeat.
#[derive(Debug)]
struct CommandLine {
    words: Vec<OsString>,
    /// Words with a secret, and the logins themselves, with their replacements.
    logins: Vec<(String, String)>,
}

/// Returns the words of the command line, and hides their secrets from others. To be called first, while no other thread runs.
pub(crate) fn take() -> Vec<OsString> {
    let given = GIVEN.get_or_init(|| CommandLine::new(std::env::args_os().collect()));
    // A program whose memory cannot be written runs as well; docs/safety.md says so.
    let _ = overwrite();
    given.words.clone()
}

/// The words as they were given.
#[cfg(feature = "lab")]
pub(crate) fn words() -> Vec<OsString> {
    GIVEN.get().map(|given| given.words.clone()).unwrap_or_default()
}

/// The text without the logins of the command line.
pub(crate) fn without_logins(text: &str) -> Cow<'_, str> {
    GIVEN.get().map_or(Cow::Borrowed(text), |given| given.clean(text))
}

impl CommandLine {
    fn new(words: Vec<OsString>) -> CommandLine {
        let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut logins = Vec::new();
        for (given, clean) in texts.iter().zip(without_secrets(texts.clone())) {
            // `--flag=value` may be repeated without its flag.
            let values = given.split_once('=').zip(clean.split_once('='));
            let value = values.map(|((_, given), (_, clean))| (given.to_owned(), clean.to_owned()));
            for (given, clean) in value.into_iter().chain([(given.clone(), clean)]) {
                if given == clean {
                    continue;
                }
                if let Some((login, _)) = given.rsplit_once('@') {
                    let login = login.split_once("://").map_or(login, |(_, login)| login).to_owned();
                    logins.push((login, "***".to_owned()));
                }
                logins.push((given, clean));
            }
        }
        // A colon alone would be replaced in every sentence.
        logins.retain(|(given, _)| given.contains(':') && given.len() > 2);
        logins.sort_by_key(|(given, _)| std::cmp::Reverse(given.len()));
        CommandLine { words, logins }
    }

    fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut clean = Cow::Borrowed(text);
        for (given, instead) in &self.logins {
            if clean.contains(given.as_str()) {
                clean = Cow::Owned(clean.replace(given.as_str(), instead));
            }
        }
        clean
    }
}

/// Overwrites the secrets in the memory that the kernel shows as this process's command line.
fn overwrite() -> io::Result<()> {
    let shown = fs::read("/proc/self/cmdline")?;
    let changes = changes(&shown);
    if changes.is_empty() {
        return Ok(());
    }
    let stat = fs::read_to_string("/proc/self/stat")?;
    let begin = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_ascii_whitespace().nth(ARGUMENTS_FIELD)?.parse::<u64>().ok())
        .filter(|begin| *begin > 0)
        .ok_or(io::ErrorKind::Unsupported)?;
    let memory = fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
    changes.iter().try_for_each(|(place, bytes)| memory.write_all_at(bytes, begin + *place))
}

/// The words that change, each with its place: never longer than before, and filled up with zeros, which end a word.
fn changes(shown: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let words: Vec<&[u8]> = shown.split(|byte| *byte == 0).collect();
    let texts: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let mut place = 0;
    let mut changes = Vec::new();
    for ((word, text), clean) in words.iter().zip(&texts).zip(without_secrets(texts.clone())) {
        if clean != *text {
            let mut bytes = clean.into_bytes();
            bytes.resize(word.len(), 0);
            changes.push((place, bytes));
        }
        place += word.len() as u64 + 1;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &[&str]) -> CommandLine {
        CommandLine::new(words.iter().map(OsString::from).collect())
    }

    const KEY: &str = "mongodb://h/?proxyPassword=s3cret";

    #[test]
    fn messages_lose_the_logins() {
        let line =
            given(&["fathom", "--uri=mongodb://us3r:s3 c'ret@h/x", "runs", "us3r:s3c?ret@h", "mail@h", KEY]);
        for (text, clean) in [
            (
                "unexpected argument 'mongodb://h/?proxyPassword=s3cret' found",
                "unexpected argument 'mongodb://h/?proxyPassword=***' found",
            ),
            ("no run 'mongodb://us3r:s3 c'ret@h/x' is there", "no run 'mongodb://***@h/x' is there"),
            ("/data/mongodb:/us3r:s3 c'ret@h/x", "/data/mongodb:/***@h/x"),
            ("unexpected argument 'us3r:s3c?ret@h' found", "unexpected argument '***@h' found"),
            ("mail@h stays", "mail@h stays"),
        ] {
            assert_eq!(line.clean(text), clean);
        }
    }

    #[test]
    fn the_shown_words_change_in_their_places() {
        let shown = b"fathom\0--uri\0mongodb://u:secret@h\0--password\0x\0--password=\0\xff:1@h\0";
        let changes = changes(shown);
        let mut after = shown.to_vec();
        for (place, bytes) in changes {
            let place = usize::try_from(place).unwrap();
            after[place..place + bytes.len()].copy_from_slice(&bytes);
        }
        let expected = b"fathom\0--uri\0mongodb://***@h\0\0\0\0\0\0--password\0*\0--password=\0***@h\0";
        assert_eq!(after.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
