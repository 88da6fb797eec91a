//! Runs programs of the system to their end: finds them even if `sbin` is not on the path, and reports their errors.
//!
//! Programs are never run through a shell. The error for a missing program names the Debian package.
//!
//! LVM's programs are restricted to given devices. LVM looks at every disk of a machine, keeps copies of its metadata
//! below `/etc`, waits for udev and starts daemons. None of that is wanted for a volume group that lives for minutes on
//! our own loop devices: no other device of the host may be scanned or changed (lvm.conf(5), lvm(8) `--config`). A list
//! of devices is therefore required.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use fathom_errors::{Error, Kind, Result};

use crate::ProcessId;

/// The environment variable that names the owner of each program that we run.
const OWNER: &str = "FATHOM_TOOL_OF";

/// The folders of Debian's administration programs; the path of an ordinary user lacks them.
const ADMINISTRATION: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// One call of a program.
#[derive(Debug)]
pub struct Tool {
    name: String,
    command: Command,
}

impl Tool {
    /// The program `name`, which Debian's `package` contains.
    pub fn new(name: &str, package: &str) -> Result<Tool> {
        let Some(path) = find(name) else {
            let what = format!("the program {name} is not installed");
            return Err(Error::new(Kind::Unsupported, what)
                .with_id("no-program")
                .advise(format!("apt-get install {package}")));
        };
        let mut command = Command::new(path);
        command.env("LC_ALL", "C").env(OWNER, mark(ProcessId::current()?)).stdin(Stdio::null());
        Ok(Tool { name: name.to_owned(), command })
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Tool {
        self.command.arg(arg);
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Tool {
        self.command.args(args);
        self
    }

    /// Runs it and returns its standard output; an exit code other than 0 is an error with the last line of its error
    /// output, before any usage text.
    pub fn run(mut self) -> Result<String> {
        let output = self.command.output().map_err(|e| Error::io("run", &self.name, e))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let complaint = complaint(&String::from_utf8_lossy(&output.stderr));
        let what = format!("{} failed ({}): {complaint}", self.name, output.status);
        Err(Error::new(kind_of_complaint(&complaint), what))
    }
}

/// The line of the error: the last one, without the usage text that some programs add.
fn complaint(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let first = lines.peek().copied().unwrap_or("no message");
    let last = lines.take_while(|line| !line.starts_with("Usage:")).last();
    last.unwrap_or(first).to_owned()
}

fn mark(owner: ProcessId) -> String {
    format!("{}-{}", owner.pid, owner.start_time)
}

/// A program that `owner` had started and that has not ended; the owner's death does not stop it. A program of another
/// user cannot be seen.
pub(crate) fn running_for(owner: ProcessId) -> Option<ProcessId> {
    let wanted = format!("{OWNER}={}", mark(owner));
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(ProcessId::read).find(|process| {
        let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    })
}

/// The error kind of a text of `strerror(3)` in the C locale; programs do not return an error number.
fn kind_of_complaint(complaint: &str) -> Kind {
    let kinds = [
        ("Permission denied", Kind::Permission),
        ("Operation not permitted", Kind::Permission),
        ("must be superuser", Kind::Permission),
        ("No space left", Kind::NoSpace),
        ("Read-only file system", Kind::ReadOnly),
        ("resource busy", Kind::Busy),
        // LVM and mdadm, of a device that a process has open.
        ("in use", Kind::Busy),
        ("exclusive access", Kind::Busy),
        ("temporarily unavailable", Kind::Busy),
        ("No such", Kind::NotFound),
    ];
    kinds.iter().find(|(text, _)| complaint.contains(text)).map_or(Kind::Unsupported, |&(_, kind)| kind)
}

/// The first executable file of that name on the path, then in the administration folders.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let mut candidates = folders.chain(ADMINISTRATION.map(PathBuf::from)).map(|folder| folder.join(name));
    candidates.find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The control socket of udev, if it runs. Without udev, LVM has to make the device nodes itself.
const UDEV: &str = "/run/udev/control";

/// A call of LVM's program `name` (`vgcreate`) that sees only `devices`.
pub fn lvm_tool(name: &str, devices: &[PathBuf]) -> Result<Tool> {
    if devices.is_empty() {
        return Err(Error::usage(format!("{name} was given no device to see")));
    }
    let config = config(devices, Path::new(UDEV).exists());
    Ok(Tool::new(name, "lvm2")?.arg("--config").arg(config))
}

/// The settings: which devices, no list of known devices, no copies of metadata, no daemons, no notifications.
fn config(devices: &[PathBuf], udev: bool) -> String {
    let accept: String =
        devices.iter().map(|device| format!("\"a|^{}$|\", ", device.to_string_lossy())).collect();
    let udev = u8::from(udev);
    format!(
        "devices {{ filter=[{accept}\"r|.*|\"] global_filter=[{accept}\"r|.*|\"] use_devicesfile=0 hints=\"none\" \
         obtain_device_list_from_udev=0 scan_lvs=0 }} \
         backup {{ backup=0 archive=0 }} \
         activation {{ udev_sync={udev} udev_rules={udev} monitoring=0 }} \
         global {{ use_lvmpolld=0 notify_dbus=0 event_activation=0 }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let error = Tool::new("mkfs.no-such", "no-such-progs").unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().ends_with("apt-get install no-such-progs"));
    }

    #[test]
    fn a_lesson_on_usage_does_not_hide_the_complaint() {
        assert_eq!(
            complaint("warning\nLog size must be 64MB.\nUsage: mkfs.xfs\n[-b size]\n"),
            "Log size must be 64MB."
        );
        assert_eq!(complaint("Usage: x\n"), "Usage: x");
        assert_eq!(complaint(""), "no message");
    }

    #[test]
    fn a_program_is_known_for_ours_while_it_runs() {
        let me = ProcessId::current().unwrap();
        let sleeper = std::thread::spawn(|| Tool::new("sleep", "coreutils").unwrap().arg("300").run());
        let program = loop {
            assert!(!sleeper.is_finished(), "never seen");
            if let Some(program) = running_for(me) {
                break program;
            }
        };
        assert!(running_for(ProcessId { start_time: me.start_time + 1, ..me }).is_none());
        assert!(program.signal(rustix::process::Signal::KILL).unwrap());
        sleeper.join().unwrap().unwrap_err();
    }

    #[test]
    fn a_failure_carries_the_last_line_of_the_complaint() {
        let error = Tool::new("ls", "coreutils").unwrap().arg("/no/such/path").run().unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        assert!(error.to_string().contains("No such file"), "{error}");
        assert_eq!(Tool::new("echo", "coreutils").unwrap().arg("a").run().unwrap(), "a\n");
    }

    #[test]
    fn only_the_devices_given_pass_the_filter() {
        let text = config(&["/dev/loop1".into(), "/dev/loop12".into()], false);
        assert!(text.contains(r#"global_filter=["a|^/dev/loop1$|", "a|^/dev/loop12$|", "r|.*|"]"#), "{text}");
        assert!(text.contains("udev_sync=0"));
        assert!(lvm_tool("vgs", &[]).is_err());
    }
}
