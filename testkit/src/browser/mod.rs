//! Drives Debian's headless Chromium over the DevTools protocol, for tests of pages that only a browser can do.
//!
//! The protocol runs over a pipe (`--remote-debugging-pipe`), so that no port is opened and a browser whose test was killed ends by
//! itself when the pipe closes. The browser has its own temporary profile, reaches no host, and is killed with its whole process
//! group on drop. It allows everything that a page does and reports it; the test judges.

mod pipe;
mod tab;

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fathom_errors::{Error, Kind, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

pub use self::tab::{Paper, Tab};

use self::pipe::Link;
use crate::Scratch;
use crate::skip::{Need, OrSkip, count_fixture};

/// The names of the program in Debian and Ubuntu, in other distributions, and from Google.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The time limit for one call, on a machine that is busy with other tests.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);

/// The flags of its start: no network, no dialogs, no helpers that outlive it, and the same picture on each machine as far as fonts
/// allow.
const FLAGS: [&str; 22] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-component-update",
    "--disable-background-networking",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--metrics-recording-only",
    "--mute-audio",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--password-store=basic",
];

/// A browser that runs until this is dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    link: Link,
    /// Its profile, home and temporary files. Removed after the processes that write to them have ended.
    profile: Scratch,
}

impl Browser {
    /// Starts one. The test ends as skipped if this machine has no Chromium, and fails if Chromium does not start.
    #[track_caller]
    pub fn start() -> Browser {
        count_fixture();
        Browser::launch().or_skip(Need::Chromium)
    }

    fn launch() -> Result<Browser> {
        let program = program()?;
        let profile = Scratch::new()?;
        let home = profile.path();
        // Passing descriptors beyond the third to a program needs unsafe code; a shell can do it.
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh"])
            .arg(&program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", home.display()))
            .arg("about:blank")
            .env("HOME", &home)
            .env("TMPDIR", &home)
            .env("LANG", "C.UTF-8")
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .env_remove("DISPLAY");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|e| Error::io("start", &program, e))?;
        let (Some(into), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new(Kind::Io, "the browser's pipes are missing"));
        };
        let mut browser = Browser { child, link: Link::over(into, from), profile };
        // The first answer takes as long as the start does.
        browser.call(None, "Browser.getVersion", json!({}))?;
        Ok(browser)
    }

    /// A new, empty tab, in which nothing of another tab is left (no cache, no storage).
    ///
    /// # Errors
    /// When the browser has ended, or does not answer in time.
    pub fn tab(&mut self) -> Result<Tab<'_>> {
        Tab::open(self)
    }

    /// The folder of its profile.
    pub fn profile(&self) -> PathBuf {
        self.profile.path()
    }

    /// Calls a method, of the browser or of the tab with this session, and returns its result.
    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Result<Value> {
        self.link.call(session, method, parameters, CALL_TIMEOUT)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Not yet waited for, so the number is still its own.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = self.child.wait();
        // Its children die at once, but not before it: until the last has closed the pipe the profile may still be written to.
        self.link.wait_for_end(Duration::from_secs(10));
    }
}

/// The browser's program, as `$FATHOM_CHROMIUM` or the search path has it.
fn program() -> Result<PathBuf> {
    if let Some(named) = env::var_os("FATHOM_CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let places = NAMES.iter().flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Error::new(Kind::NotFound, "no chromium on this machine").advise("apt-get install chromium")
    })
}
