//! Measurements that are worth nothing where the machine stands still in their midst: a virtual machine is paused, a host is
//! overcommitted. A thread that only sleeps tells, so that what is measured cannot be what it is judged by.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const TRIES: usize = 3;
const NAP: Duration = Duration::from_millis(5);

/// What `work` comes to while this machine stood still for no longer than `limit` at once. It is done up to three times; `None`,
/// with the reason printed, where the machine stood still each time.
pub fn undisturbed<T>(limit: Duration, mut work: impl FnMut() -> T) -> Option<T> {
    for _ in 0..TRIES {
        let sleeper = Sleeper::start();
        let done = work();
        let overslept = sleeper.wake();
        if overslept <= limit {
            return Some(done);
        }
        note(&format!("once more: this machine stood still for {overslept:?}"));
    }
    note("skipped: this machine stands still again and again");
    None
}

#[expect(clippy::print_stderr, reason = "a test tells its reader what it did again or left out")]
fn note(text: &str) {
    eprintln!("{text}");
}

/// A thread that naps, and knows by how much it overslept at worst.
struct Sleeper {
    woken: Arc<AtomicBool>,
    thread: Option<JoinHandle<Duration>>,
}

impl Sleeper {
    fn start() -> Sleeper {
        let woken = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&woken);
        let thread = thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !seen.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(NAP);
                worst = worst.max(begun.elapsed().saturating_sub(NAP));
            }
            worst
        });
        Sleeper { woken, thread: Some(thread) }
    }

    fn wake(mut self) -> Duration {
        self.woken.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Also where the work panics.
impl Drop for Sleeper {
    fn drop(&mut self) {
        self.woken.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    #[ignore = "a part of the test below, in a process of its own"]
    fn works_for_half_a_second() {
        let mut tries = 0;
        undisturbed(Duration::from_millis(200), || {
            tries += 1;
            thread::sleep(Duration::from_millis(500));
        });
        println!("{tries} tries");
    }

    #[test]
    fn work_in_which_the_machine_stood_still_is_done_again() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--nocapture", "--exact", "standstill::tests::works_for_half_a_second"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let process = Pid::from_child(&child);
        thread::sleep(Duration::from_millis(250));
        kill_process(process, Signal::STOP).unwrap();
        thread::sleep(Duration::from_millis(400));
        kill_process(process, Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (told, noted) = (text(&output.stdout), text(&output.stderr));
        assert!(noted.contains("this machine stood still for") && !told.contains("1 tries"), "{told}{noted}");
    }
}
