//! A standstill on this machine; `testkit/src/disturbance.rs` tests the decision on simulated ones.

mod timed {
    use std::cell::Cell;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use fathom_testkit::{DisturbanceLimit, assert, test, undisturbed, with_disturbance};
    use rustix::process::{Pid, Signal, kill_process};

    const LIMIT: DisturbanceLimit =
        DisturbanceLimit { standstill: Duration::from_millis(200), wait_share: 1.0 };

    #[test]
    #[ignore = "a part of the test below, in a process of its own"]
    fn works_for_half_a_second() {
        let attempts = Cell::new(0);
        undisturbed(LIMIT, || {
            attempts.set(attempts.get() + 1);
            with_disturbance(|| thread::sleep(Duration::from_millis(500)))
        });
        println!("{} attempts", attempts.get());
        assert!(attempts.get() > 0);
    }

    #[test]
    fn work_in_which_the_machine_stood_still_is_done_again() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--nocapture", "--exact", "disturbance::timed::works_for_half_a_second"])
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
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, noted) = (text(&output.stdout), text(&output.stderr));
        // If the machine pauses in the second attempt too, the work panics.
        assert!(
            noted.contains("disturbed, attempt 1") && !printed.contains("1 attempts"),
            "{printed}{noted}"
        );
    }
}
