//! A change of a setting: shell commands, the commands that undo it, and lines for an editor.
//!
//! Every command of the doctor is built here, so that names of the host (mount points, devices) are quoted in all of them. A change can be made
//! twice: a setting that must survive a restart has its own file, which is overwritten. This module runs no command.

/// Commands, their undo, and lines for an editor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    apply: Vec<String>,
    undo: Vec<String>,
    by_hand: Vec<String>,
}

impl Change {
    /// A command and the one that undoes it.
    pub(super) fn command(apply: impl Into<String>, undo: impl Into<String>) -> Change {
        Change { apply: vec![apply.into()], undo: vec![undo.into()], by_hand: Vec::new() }
    }

    /// One line for an editor.
    pub(super) fn by_hand(line: impl Into<String>) -> Change {
        Change { by_hand: vec![line.into()], ..Change::default() }
    }

    /// A value of one of the kernel's files, until the next restart.
    pub(super) fn value(path: &str, value: &str, before: &str) -> Change {
        let path = format!("/{}", path.trim_start_matches('/'));
        Change::command(written(value, &path), written(before, &path))
    }

    /// A file that holds these lines and nothing else.
    pub(super) fn file(path: &str, lines: &[&str]) -> Change {
        let quoted_lines: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
        let apply = match quoted_lines.as_slice() {
            [_] => written(lines.first().copied().unwrap_or_default(), path),
            many => format!("printf '%s\\n' {} > {}", many.join(" "), quoted(path)),
        };
        Change::command(apply, format!("rm -f {}", quoted(path)))
    }

    /// A value below `/proc/sys`, now and after a restart.
    pub(super) fn sysctl(path: &str, value: &str, before: &str) -> Change {
        Change::sysctl_instead(path, value, (path, before))
    }

    /// The same of a value whose undo sets another one, which held before.
    pub(super) fn sysctl_instead(path: &str, value: &str, before: (&str, &str)) -> Change {
        let name = sysctl_name(path);
        let set = |path: &str, value: &str| {
            format!("sysctl -w {}", quoted(&format!("{}={value}", sysctl_name(path))))
        };
        Change::command(set(path, value), set(before.0, before.1)).and(Change::file(
            &format!("/etc/sysctl.d/99-mongodb-{name}.conf"),
            &[&format!("{name} = {value}")],
        ))
    }

    /// A setting of the service mongod, which takes effect at its restart.
    pub(super) fn service(name: &str, settings: &[&str]) -> Change {
        const DIR: &str = "/etc/systemd/system/mongod.service.d";
        const RELOAD: &str = "systemctl daemon-reload";
        let lines: Vec<&str> = std::iter::once("[Service]").chain(settings.iter().copied()).collect();
        let file = Change::file(&format!("{DIR}/mongodb-{name}.conf"), &lines);
        Change { apply: vec![format!("mkdir -p {DIR}")], ..Change::default() }
            .and(file)
            .and(Change::command(RELOAD, RELOAD))
            .and(Change::by_hand("restart mongod afterwards: it reads the setting when it starts"))
    }

    /// This change and another. The undo has the order of the changes too, since they do not depend on each other.
    #[must_use]
    pub(super) fn and(mut self, other: Change) -> Change {
        self.apply.extend(other.apply);
        self.undo.extend(other.undo);
        self.by_hand.extend(other.by_hand);
        self
    }

    /// The commands, one a line, then the lines for an editor after `# `. `None` if a name has a control character: a line break in a name
    /// would end its command.
    pub(super) fn commands(&self) -> Option<String> {
        let by_hand = self.by_hand.iter().map(|line| format!("# {line}"));
        lines(self.apply.iter().cloned().chain(by_hand))
    }

    /// The commands that undo it, a line each.
    pub(super) fn undo(&self) -> Option<String> {
        lines(self.undo.iter().cloned())
    }
}

fn lines(lines: impl Iterator<Item = String>) -> Option<String> {
    let lines: Vec<String> = lines.collect();
    let is_whole = !lines.is_empty() && !lines.iter().any(|line| line.contains(char::is_control));
    is_whole.then(|| lines.join("\n"))
}

/// The command that writes a line into a file. Some shells' `echo` reads backslashes and options.
fn written(line: &str, path: &str) -> String {
    let writer = if line.contains('\\') || line.starts_with('-') { "printf '%s\\n'" } else { "echo" };
    format!("{writer} {} > {}", quoted(line), quoted(path))
}

/// A setting's name: `vm.swappiness` for `proc/sys/vm/swappiness`.
pub(super) fn sysctl_name(path: &str) -> String {
    path.trim_start_matches("proc/sys/").replace('/', ".")
}

/// A word as a POSIX shell takes it literally.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_takes_every_word_literally() {
        for word in
            ["sda", "", "my data", "it's", "a;reboot", "$(reboot)", "`x`", "\\n", "-n", "~", "ü*?", "a\"b"]
        {
            let script = format!("printf %s {}", quoted(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn a_file_is_written_whole_and_removed_again() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("it's a file");
        let path = file.display().to_string();
        let run = |script: &str| {
            assert!(Command::new("sh").args(["-ec", script]).status().unwrap().success(), "{script}");
        };
        for lines in [&["one \\n line"][..], &["[Service]", "Limit='1'"]] {
            let change = Change::file(&path, lines);
            // Running it twice has the same effect as once.
            run(&change.commands().unwrap());
            run(&change.commands().unwrap());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", lines.join("\n")));
            run(&change.undo().unwrap());
            run(&change.undo().unwrap());
            assert!(!file.exists());
        }
    }

    #[test]
    fn a_sysctl_is_set_now_and_after_a_restart() {
        let change = Change::sysctl("proc/sys/vm/swappiness", "1", "60");
        let commands = "sysctl -w vm.swappiness=1\necho 'vm.swappiness = 1' > /etc/sysctl.d/99-mongodb-vm.swappiness.conf";
        assert_eq!(change.commands().as_deref(), Some(commands));
        let undo = "sysctl -w vm.swappiness=60\nrm -f /etc/sysctl.d/99-mongodb-vm.swappiness.conf";
        assert_eq!(change.undo().as_deref(), Some(undo));
    }

    #[test]
    fn a_name_with_a_line_break_gets_no_command() {
        let change = Change::value("sys/block/a\nreboot/queue/iostats", "1", "0");
        assert_eq!((change.commands(), change.undo()), (None, None));
        assert_eq!(Change::by_hand("look").commands().as_deref(), Some("# look"));
        assert_eq!(Change::by_hand("look").undo(), None);
    }
}
