//! Turns signals into a stop flag, so that every loop can end and undo its changes; for services, delivers signals one
//! by one.
//!
//! SIGINT, SIGTERM and SIGHUP have the same meaning: stop soon and keep the partial result. The first and the second of
//! them only ask; a third SIGINT or SIGTERM ends the process at once, for the case that undoing hangs (the undo journal
//! then lets `fathom cleanup` finish). SIGPIPE stays ignored, as Rust's start-up leaves it, so that a closed pipe
//! causes an error and does not kill the process.
//!
//! A service is asked to stop by SIGTERM and SIGINT; a second one ends the process at once, for the case that stopping
//! hangs. SIGHUP and SIGUSR1 ask it to rotate the log. No code of ours runs inside a signal handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use fathom_errors::{Error, Kind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator;

/// The number of SIGINT or SIGTERM taken as a request; the next one ends the process.
const MAX_REQUESTS: u32 = 2;

/// A cloneable handle on the signals this process has received.
#[derive(Clone, Debug)]
pub struct Signals {
    flag: Arc<AtomicBool>,
    bell: Arc<SignalWaker>,
}

/// Wakes waiting threads; the signal handler sets the flag itself before that.
#[derive(Debug, Default)]
struct SignalWaker {
    lock: Mutex<()>,
    rung: Condvar,
}

impl SignalWaker {
    /// The lock guards only the order of events, so a poisoned one can be used.
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signals belong to the process, so there is one handle in it.
static INSTALLED: OnceLock<Signals> = OnceLock::new();
static INSTALLING: Mutex<()> = Mutex::new(());

impl Signals {
    /// Starts handling signals; a second call returns a clone of the first handle.
    pub fn install() -> Result<Signals> {
        let _one_at_a_time = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signals) = INSTALLED.get() {
            return Ok(signals.clone());
        }
        let signals = Signals { flag: Arc::default(), bell: Arc::default() };
        let mut wanted = vec![SIGINT, SIGTERM];
        // `nohup` asks for a hang-up to be ignored. SIGINT is handled even if a shell script's `&` had it ignored: a
        // user who sends `kill -INT` to this process means it.
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

    /// Returns whether a signal asked us to stop. Cheap enough for every operation of a loop.
    pub fn stopped(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// Sleeps for `duration`, or less when a signal comes; returns true if the process should stop.
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

    /// The flag itself, for code without knowledge of signals; setting it stops this process's loops too, but does not
    /// wake one that sleeps in [`Signals::wait`].
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

/// Runs as long as the process: wakes the sleepers and counts repeated signals.
fn listen(mut incoming: iterator::Signals, bell: &SignalWaker) {
    let mut requests = 0;
    for signal in incoming.forever() {
        // Taken so that no sleeper is between its check of the flag and its sleep.
        drop(bell.lock());
        bell.rung.notify_all();
        if signal != SIGHUP {
            requests += 1;
        }
        if requests > MAX_REQUESTS {
            // Ends the process as if the signal had no handler; if that fails, the loop waits for the next.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

/// Returns whether the parent had `signal` ignored, from the `SigIgn` mask (proc_pid_status(5)): bit n-1 is signal n.
fn ignored_at_start(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal - 1).unwrap_or(u32::MAX);
    mask.checked_shr(bit).is_some_and(|mask| mask & 1 == 1)
}

/// The request of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    Stop,
    /// Begin a new log file.
    Rotate,
}

/// The signals of a service.
#[derive(Debug)]
pub struct ServiceSignals(Receiver<SignalRequest>);

impl ServiceSignals {
    pub fn install() -> Result<ServiceSignals> {
        let refused = |e: io::Error| Error::new(Kind::Unsupported, "cannot answer signals").because(e);
        let mut incoming = iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).map_err(refused)?;
        let (sender, receiver) = mpsc::channel();
        let listen = move || {
            let mut stops = 0;
            for signal in incoming.forever() {
                let ask = if matches!(signal, SIGINT | SIGTERM) {
                    SignalRequest::Stop
                } else {
                    SignalRequest::Rotate
                };
                stops += u32::from(ask == SignalRequest::Stop);
                if stops > 1 {
                    // Ends the process as if the signal had no handler.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                // The receiver is dropped when the program is about to end.
                let _ = sender.send(ask);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(listen).map_err(refused)?;
        Ok(ServiceSignals(receiver))
    }

    /// Waits `duration` at most for the next signal.
    pub fn wait(&self, duration: Duration) -> Option<SignalRequest> {
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
        for _ in 0..MAX_REQUESTS {
            kill_process(pid, Signal::TERM).unwrap();
            thread::sleep(Duration::from_millis(50));
        }
        assert!(child.try_wait().unwrap().is_none());
        // On a busy machine two of them may have arrived as one, so ask until it ends.
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
