//! Signals turned into one question, "shall I stop?", so that every loop ends in its own time and undoes what it made;
//! and signals of a program that runs until it is told to stop, which come out one by one.
//!
//! SIGINT, SIGTERM and SIGHUP ask for the same thing: stop soon and keep the partial result. The first and the second
//! of them only ask; a third SIGINT or SIGTERM ends the process at once, for the case that undoing hangs (the undo
//! journal then lets `fathom cleanup` finish). SIGPIPE stays ignored, as Rust's start-up leaves it, so that a closed
//! pipe is an error and not a death.
//!
//! Of a service, SIGTERM and SIGINT ask to stop; a second one ends the process at once, for the case that stopping
//! hangs. SIGHUP and SIGUSR1 ask to rotate the log. It refuses to run any code of ours inside a signal handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use fathom_errors::{Error, Kind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator;

/// How many SIGINT or SIGTERM are taken as a request; the next one ends the process.
const PATIENCE: u32 = 2;

/// A cloneable handle on the signals this process has received.
#[derive(Clone, Debug)]
pub struct Signals {
    flag: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

/// Wakes those who wait; the flag itself is set by the signal handler, before the bell rings.
#[derive(Debug, Default)]
struct Bell {
    lock: Mutex<()>,
    rung: Condvar,
}

impl Bell {
    /// The lock guards nothing but the order of events, so a poisoned one is as good as new.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals belong to the process, so there is one handle in it.
static INSTALLED: OnceLock<Signals> = OnceLock::new();
static INSTALLING: Mutex<()> = Mutex::new(());

impl Signals {
    /// Starts answering signals; a second call gives a clone of the first handle.
    pub fn install() -> Result<Signals> {
        let _one_at_a_time = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signals) = INSTALLED.get() {
            return Ok(signals.clone());
        }
        let signals = Signals { flag: Arc::default(), bell: Arc::default() };
        let mut wanted = vec![SIGINT, SIGTERM];
        // `nohup` asks for a hang-up to be ignored. SIGINT is answered even where a shell script's `&` had it
        // ignored: whoever names our process in `kill -INT` means us.
        if !ignored_at_start(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let refused = |e: io::Error| Error::new(Kind::Unsupported, "cannot answer signals").because(e);
        for &signal in &wanted {
            signal_hook::flag::register(signal, Arc::clone(&signals.flag)).map_err(refused)?;
        }
        let incoming = iterator::Signals::new(&wanted).map_err(refused)?;
        let bell = Arc::clone(&signals.bell);
        let listen = move || listen(incoming, &bell);
        thread::Builder::new().name("signals".into()).spawn(listen).map_err(refused)?;
        Ok(INSTALLED.get_or_init(|| signals).clone())
    }

    /// Whether a signal asked us to stop. Cheap enough for every operation of a loop.
    pub fn stopped(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Sleeps for `duration`, or less when a signal comes; true if we are to stop.
    pub fn wait(&self, duration: Duration) -> bool {
        let start = Instant::now();
        let mut held = self.bell.lock();
        while !self.stopped() {
            let Some(left) = duration.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                break;
            };
            held = self.bell.rung.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(held);
        self.stopped()
    }

    /// The flag itself, for code that knows nothing of signals; setting it stops this process's loops too, though
    /// one that sleeps in [`Signals::wait`] sleeps on.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

/// Runs for as long as the process: wakes the sleepers and counts the impatient signals.
fn listen(mut incoming: iterator::Signals, bell: &Bell) {
    let mut requests = 0;
    for signal in incoming.forever() {
        // Taken so that no sleeper is between its look at the flag and its sleep.
        drop(bell.lock());
        bell.rung.notify_all();
        if signal != SIGHUP {
            requests += 1;
        }
        if requests > PATIENCE {
            // Ends the process as if we had never answered the signal; should that fail, we wait for the next.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

/// Whether the parent had `signal` ignored, from the `SigIgn` mask (proc_pid_status(5)): bit n-1 is signal n.
fn ignored_at_start(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).is_some_and(|mask| mask & 1 == 1)
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Stop cleanly.
    Stop,
    /// Begin a new log file.
    Rotate,
}

/// The signals of a service.
#[derive(Debug)]
pub struct ServiceSignals(Receiver<Ask>);

impl ServiceSignals {
    /// Starts answering signals.
    pub fn install() -> Result<ServiceSignals> {
        let refused = |e: io::Error| Error::new(Kind::Unsupported, "cannot answer signals").because(e);
        let mut incoming = iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).map_err(refused)?;
        let (sender, receiver) = mpsc::channel();
        let listen = move || {
            let mut stops = 0;
            for signal in incoming.forever() {
                let ask = if matches!(signal, SIGINT | SIGTERM) { Ask::Stop } else { Ask::Rotate };
                stops += u32::from(ask == Ask::Stop);
                if stops > 1 {
                    // Ends the process as if we had never answered the signal.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                // Nobody listens any more when the program is about to end.
                let _ = sender.send(ask);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(listen).map_err(refused)?;
        Ok(ServiceSignals(receiver))
    }

    /// Waits `duration` at most for the next signal.
    pub fn wait(&self, duration: Duration) -> Option<Ask> {
        match self.0.recv_timeout(duration) {
            Ok(ask) => Some(ask),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(duration);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_wakes_the_sleeper_and_stays_set() {
        let signals = Signals::install().unwrap();
        assert!(!signals.wait(Duration::from_millis(1)));
        let sleeper = signals.clone();
        let handle = thread::spawn(move || sleeper.wait(Duration::from_secs(60)));
        signal_hook::low_level::raise(SIGHUP).unwrap();
        let ignored = ignored_at_start(SIGHUP);
        assert!(ignored || handle.join().unwrap());
        assert!(ignored || Signals::install().unwrap().stopped());
    }

    #[test]
    #[ignore = "the helper process of the next test"]
    fn helper_process() {
        let ready = std::env::var_os("FATHOM_TEST_READY").expect("only another test runs this");
        let signals = Signals::install().unwrap();
        fs::write(ready, "ready").unwrap();
        for _ in 0..6000 {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(signals.stopped());
    }

    #[test]
    fn two_signals_ask_and_the_third_ends_the_process() {
        use rustix::process::{Pid, Signal, kill_process};
        use std::os::unix::process::ExitStatusExt;

        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::tests::helper_process", "--ignored"])
            .env("FATHOM_TEST_READY", &ready)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while !ready.exists() {
            assert!(child.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(5));
        }
        let pid = Pid::from_child(&child);
        for _ in 0..PATIENCE {
            kill_process(pid, Signal::TERM).unwrap();
            thread::sleep(Duration::from_millis(50));
        }
        assert!(child.try_wait().unwrap().is_none());
        // On a busy machine two of them may have arrived as one, so ask until it goes.
        let status = loop {
            kill_process(pid, Signal::TERM).unwrap();
            thread::sleep(Duration::from_millis(50));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
        };
        assert_eq!(status.signal(), Some(SIGTERM));
    }

    #[test]
    fn sigpipe_is_ignored_by_the_start_up_code_of_rust() {
        assert!(ignored_at_start(signal_hook::consts::SIGPIPE));
    }
}
