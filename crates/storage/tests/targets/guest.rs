//! md and LVM for real, whatever this machine's kernel has: Debian's own kernel is booted under QEMU with this very test program
//! inside (setup/guest.sh), builds the arrays, uses them, takes them down and says so on its serial console.
//!
//! KVM where it works, else emulation, which is some ten times slower. Skipped, with the reason, only where QEMU or the
//! guest is missing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::Kind as ErrorKind;
use fathom_process::{Tool, lvm_tool};
use fathom_storage::{ArrayKind, Filesystem, TargetSpec};
use fathom_testkit::{Scratch, note_process};

use crate::arrays::array;
use crate::disk::on_disk;
use crate::killed::{Kind, kill_at};
use crate::{Place, use_it};

/// On the kernel's command line in the guest, so that nobody runs `within` on a machine that matters.
const MARK: &str = "fathom.guest";
const QEMU: &str = "qemu-system-x86_64";
/// Emulated on a busy machine; the guest needs a tenth of that on an idle one.
const PATIENCE: Duration = Duration::from_secs(1500);
/// A kernel that KVM really runs has said its name by then.
const KVM_PATIENCE: Duration = Duration::from_secs(10);

/// Not a test of its own: what runs in the guest.
#[test]
#[ignore = "runs in the guest of the test below"]
fn within() {
    let told = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if !told.split_whitespace().any(|word| word == MARK) {
        return;
    }
    let (array_disks, lvm_disk) = ([Path::new("/dev/vdc"), Path::new("/dev/vdd")], PathBuf::from("/dev/vde"));
    // A whole disk, before it gets another use.
    let place = Place::new().unwrap();
    let spec = TargetSpec { filesystem: Some(Filesystem::Xfs), ..on_disk(&lvm_disk, &place.path()) };
    let target = spec.prepare(&place.ledger).unwrap();
    use_it(target.path());
    target.undo().unwrap();
    say("a whole disk was formatted, used and given back empty");

    // An array and a group of somebody else's.
    Tool::new("mdadm", "mdadm")
        .unwrap()
        .args(["--create", "/dev/md/theirs", "--run", "--level=raid0", "--raid-devices=2"])
        .args(array_disks)
        .run()
        .unwrap();
    let only = [lvm_disk.clone()];
    lvm_tool("vgcreate", &only).unwrap().arg("theirs").arg(&lvm_disk).run().unwrap();
    for disk in [array_disks[0], &lvm_disk] {
        let error = on_disk(disk, &place.path()).check().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::NotOurs), "{error}");
        say(&format!("refused: {error}"));
    }

    // As in a container, without udev; then with it, as on most machines, where its rules look at each new device and put
    // arrays together.
    assert!(array(ArrayKind::MdRaid0, 2, Filesystem::Xfs));
    say("md RAID0 was built, used and taken down");
    assert!(array(ArrayKind::MdRaid10, 4, Filesystem::Ext4));
    say("md RAID10 was built, used and taken down");
    assert!(array(ArrayKind::LvmStriped, 2, Filesystem::Xfs));
    say("LVM striped was built, used and taken down");
    kill_at(4, &[Kind::Md, Kind::Lvm], 8);
    say("4 kills left nothing");
    start_udev();
    assert!(array(ArrayKind::MdRaid0, 2, Filesystem::Ext4));
    assert!(array(ArrayKind::LvmStriped, 2, Filesystem::Ext4));
    say("md RAID0 and LVM striped were built, used and taken down beside udev");
    kill_at(4, &[Kind::Md, Kind::Lvm], 9);
    say("4 kills beside udev left nothing");

    let groups = lvm_tool("vgs", &only).unwrap().args(["--noheadings", "-o", "vg_name"]).run().unwrap();
    assert_eq!(groups.trim(), "theirs");
    let state = std::fs::read_to_string("/proc/mdstat").unwrap();
    assert_eq!(state.matches(" : active ").count(), 1, "{state}");
    say("verdict: theirs untouched, nothing of ours left");
}

fn start_udev() {
    for words in [
        &["/lib/systemd/systemd-udevd", "--daemon"][..],
        &["udevadm", "trigger", "--subsystem-match=block"],
        &["udevadm", "settle"],
    ] {
        assert!(Command::new(words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
    }
    assert!(Path::new("/run/udev/control").exists());
}

fn say(text: &str) {
    println!("guest: {text}");
}

/// A running QEMU; ended when this goes, and by the next test run if this one is killed.
struct Machine {
    child: Child,
    lines: Receiver<String>,
    _noted: Option<fathom_testkit::Guard>,
}

impl Machine {
    fn boot(guest: &Path, disks: &Path, accelerator: &str) -> Machine {
        let program = std::env::current_exe().unwrap();
        let kernel_line = format!(
            "console=ttyS0 panic=-1 {MARK} fathom.arguments=\"--ignored --exact guest::within --nocapture\""
        );
        let drive = |path: &Path, more: &str| format!("file={},format=raw,if=virtio{more}", path.display());
        let mut command = Command::new(QEMU);
        command
            .args(["-accel", accelerator, "-cpu", "max", "-m", "1024", "-smp", "2"])
            .args(["-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio"])
            .arg("-kernel")
            .arg(guest.join("vmlinuz"))
            .arg("-initrd")
            .arg(guest.join("initrd"))
            .args(["-append", &kernel_line])
            .args(["-drive", &drive(&program, ",readonly=on")]);
        for (name, size) in [("work", 3 << 30), ("c", 64 << 20), ("d", 64 << 20), ("e", 400 << 20)] {
            let path = disks.join(name);
            std::fs::File::create(&path).unwrap().set_len(size).unwrap();
            command.args(["-drive", &drive(&path, ",cache=unsafe")]);
        }
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            // Fonts and firmware write what is no text.
            for line in output.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        let noted = note_process(child.id()).ok();
        Machine { child, lines, _noted: noted }
    }

    /// Everything said until a line that holds `wanted`, or all where it does not come within `patience`.
    fn until(&self, wanted: &str, patience: Duration) -> (bool, Vec<String>) {
        let start = Instant::now();
        let mut said = Vec::new();
        while let Some(left) = patience.checked_sub(start.elapsed()) {
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    said.push(line);
                    if said.last().is_some_and(|line| line.contains(wanted)) {
                        return (true, said);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        (false, said)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder with kernel and initramfs, or why there is none.
fn guest() -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup/guest.sh");
    let output = Command::new(script).arg("path").output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() { Ok(PathBuf::from(said)) } else { Err(said) }
}

/// A machine whose kernel has begun to run: by KVM if that works, else emulated.
fn boot(guest: &Path, disks: &Path) -> Machine {
    if Path::new("/dev/kvm").exists() {
        let machine = Machine::boot(guest, disks, "kvm");
        if machine.until("Linux version", KVM_PATIENCE).0 {
            return machine;
        }
        eprintln!("KVM does not run a guest on this machine; going on emulated");
    }
    Machine::boot(guest, disks, "tcg")
}

#[test]
fn md_and_lvm_stand_in_a_guest_and_nothing_of_them_stays() {
    let guest = match guest() {
        Ok(folder) => folder,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    if Command::new(QEMU).arg("--version").output().is_err() {
        return eprintln!("skipped: {QEMU} is not installed; apt-get install qemu-system-x86");
    }
    let scratch = Scratch::new().unwrap();
    let machine = boot(&guest, &scratch.path());
    let (ended, said) = machine.until("guest: exit ", PATIENCE);
    let transcript = said.join("\n");
    assert!(ended, "the guest did not come to an end:\n{transcript}");
    assert!(transcript.contains("guest: exit 0"), "{transcript}");
    assert!(transcript.contains("guest: verdict: theirs untouched, nothing of ours left"), "{transcript}");
    for line in said.iter().filter(|line| line.contains("guest: ")) {
        println!("{line}");
    }
}
