//! Runs tests in a QEMU guest with Debian's own kernel. The guest has features that this machine's kernel may lack (md, device mapper), and can
//! suffer events that must not happen to this machine (a pause, a step of the clock). A test program runs one of its tests again in the guest, as
//! root.
//!
//! It uses KVM if that works, else emulation, which is about ten times slower. Its kernel and programs are those of
//! setup/guest.sh; without these or QEMU the reason is printed and no guest starts.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use fathom_errors::{Error, Kind, Result};
use fathom_process::{Guard, Tool};
use fathom_units::Bytes;

use crate::fathom::Fathom;
use crate::lab_server::LabServer;
use crate::ports::Ports;
use crate::scratch::{Scratch, note_process};
use crate::skip::{Need, count_fixture, end_as_skipped};

/// The mark on the guest's kernel command line, so that the init script refuses to run on any other machine.
const MARK: &str = "fathom.guest";
const QEMU: &str = "qemu-system-x86_64";
/// The arguments that all machines have.
const QEMU_ARGUMENTS: [&str; 11] =
    ["-cpu", "max", "-m", "1024", "-smp", "2", "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio"];
/// The port of a server inside the guest.
pub const SERVER_PORT: u16 = 27017;
/// The libraries that the guest itself has: the loader and the C library.
const GUEST_LIBRARIES: [&str; 7] =
    ["ld-linux", "libc.so", "libm.so", "libgcc_s.so", "libdl.so", "libpthread.so", "librt.so"];
/// The time limit for an emulated guest on a busy machine; on an idle one it needs a tenth of that.
const GUEST_TIMEOUT: Duration = Duration::from_secs(1500);
/// The time in which a kernel under working KVM prints its name.
const KVM_TIMEOUT: Duration = Duration::from_secs(10);
/// The prefix that the guest's init prints before the exit code of the program.
const EXIT: &str = "guest: exit ";
/// The disk to work on; it takes only what is written.
const WORK: Bytes = Bytes::gib(3);

/// A disk of the guest: the first is `/dev/vdc`, since the program and the folder for its work have the two before.
#[derive(Clone, Debug)]
pub enum Drive {
    Empty(Bytes),
    /// A file of this machine, which can only be read.
    Holding(PathBuf),
    /// A file of this machine that is written to.
    Written(PathBuf),
}

/// The files that boot a guest.
#[derive(Debug)]
pub struct Guest(PathBuf);

impl Guest {
    /// Finds the files; the test ends as skipped if QEMU or the guest is missing.
    #[track_caller]
    pub fn find() -> Guest {
        count_fixture();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../setup/guest.sh");
        let why = match Command::new(script).arg("path").output() {
            Err(error) => error.to_string(),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                let has_qemu = Command::new(QEMU).arg("--version").output().is_ok();
                if output.status.success() && has_qemu {
                    return Guest(PathBuf::from(said));
                }
                let lacks_qemu = format!("{QEMU} is not installed; apt-get install qemu-system-x86");
                if output.status.success() { lacks_qemu } else { said }
            }
        };
        end_as_skipped(Need::Guest, &why)
    }

    /// Returns whether this process runs in the guest.
    pub fn is_here() -> bool {
        let told = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        told.split_whitespace().any(|word| word == MARK)
    }

    /// Prints a line on the guest's console.
    #[expect(clippy::print_stdout, reason = "the guest's console is its standard output")]
    pub fn say(text: &str) {
        println!("guest: {text}");
    }

    /// Boots a guest, runs the ignored test `name` of this very test program in it, and returns what it [said](Guest::say).
    ///
    /// # Errors If the guest did not end, or the test failed; with all console output.
    pub fn run(&self, name: &str, drives: &[Drive]) -> Result<Vec<String>> {
        let scratch = Scratch::new()?;
        let program = own_program(&scratch.path())?;
        let machine = Machine::start(self.command(&scratch.path(), &program, name, drives)?)?;
        let (ended, said) = machine.until(EXIT, GUEST_TIMEOUT);
        if !ended || !said.last().is_some_and(|line| line.ends_with(&format!("{EXIT}0"))) {
            let why = if ended { "the test failed in the guest" } else { "the guest came to no end" };
            return Err(Error::new(Kind::Stopped, format!("{why}:\n{}", said.join("\n"))));
        }
        let told = said.iter().filter_map(|line| line.split_once("guest: "));
        Ok(told.map(|(_, text)| text.to_owned()).collect())
    }

    /// Boots a guest in which the ignored test `name` of this very test program starts a server on [`SERVER_PORT`] of all addresses, and
    /// waits until that has its clients let in. The process of the server that is returned is QEMU's: it stops with the whole machine.
    ///
    /// # Errors
    /// If the server does not come up; the error holds the guest's output.
    pub fn server(&self, name: &str, drives: &[Drive]) -> Result<LabServer> {
        let scratch = Scratch::new()?;
        let program = own_program(&scratch.path())?;
        let ports = Ports::reserve(1)?;
        let mut command = self.command(&scratch.path(), &program, name, drives)?;
        let forward = format!("user,id=net0,hostfwd=tcp:127.0.0.1:{}-:{SERVER_PORT}", ports.first());
        command.args(["-netdev", &forward, "-device", "virtio-net-pci,netdev=net0"]);
        let call = Fathom::new(QEMU).args(command.get_args()).limit(GUEST_TIMEOUT);
        let started = LabServer::at(call, ports.first());
        // QEMU keeps its disks open, whatever becomes of the folder.
        started.map_err(|output| Error::new(Kind::Stopped, output.stdout))
    }

    /// By KVM if that works here, else emulated.
    fn accelerator(&self) -> Result<&'static str> {
        if !Path::new("/dev/kvm").exists() {
            return Ok("tcg");
        }
        let mut command = Command::new(QEMU);
        command.args(QEMU_ARGUMENTS).args(["-accel", "kvm", "-kernel"]).arg(self.0.join("vmlinuz"));
        command.args(["-append", "console=ttyS0 panic=-1"]);
        let works = Machine::start(command)?.until("Linux version", KVM_TIMEOUT).0;
        Ok(if works { "kvm" } else { "tcg" })
    }

    /// QEMU with its kernel and its disks.
    fn command(&self, folder: &Path, program: &Path, name: &str, drives: &[Drive]) -> Result<Command> {
        let kernel_line = format!(
            "console=ttyS0 panic=-1 {MARK} fathom.arguments=\"--ignored --exact {name} --nocapture\""
        );
        let mut command = Command::new(QEMU);
        command
            .args(QEMU_ARGUMENTS)
            .args(["-accel", self.accelerator()?])
            .arg("-kernel")
            .arg(self.0.join("vmlinuz"))
            .arg("-initrd")
            .arg(self.0.join("initrd"))
            .args(["-append", &kernel_line]);
        let all = [Drive::Holding(program.to_owned()), Drive::Empty(WORK)];
        for (number, drive) in all.iter().chain(drives).enumerate() {
            let mut option = "format=raw,if=virtio,file=".to_owned();
            let described = match drive {
                Drive::Holding(path) => write!(option, "{},readonly=on", path.display()),
                Drive::Written(path) => write!(option, "{}", path.display()),
                Drive::Empty(size) => {
                    let path = folder.join(format!("disk{number}"));
                    let made = File::create(&path).and_then(|file| file.set_len(size.0));
                    made.map_err(|e| Error::io("create", &path, e))?;
                    write!(option, "{},cache=unsafe", path.display())
                }
            };
            described.map_err(|e| Error::usage("a drive has no name").because(e))?;
            command.args(["-drive", &option]);
        }
        Ok(command)
    }
}

/// A copy of this test program.
fn own_program(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("program");
    let own = std::env::current_exe().map_err(|e| Error::io("find", "this program", e))?;
    stripped(&own, &program)?;
    Ok(program)
}

/// A program and the libraries that it names, as an archive for a disk of a guest.
///
/// # Errors
/// Where the program cannot be read or the archive cannot be written.
pub fn packed(program: &Path, folder: &Path) -> Result<PathBuf> {
    let (content, archive) = (folder.join("packed"), folder.join("packed.tar"));
    let libraries = content.join("lib");
    fs::create_dir_all(&libraries).map_err(|e| Error::io("create", &libraries, e))?;
    stripped(program, &content.join("fathom"))?;
    let named = Tool::new("ldd", "libc-bin")?.arg(program).run()?;
    for (name, path) in named.lines().filter_map(|line| line.split_once(" => ")) {
        if !GUEST_LIBRARIES.iter().any(|own| name.trim().starts_with(own)) {
            let path = path.split(" (").next().unwrap_or(path);
            fs::copy(path, libraries.join(name.trim())).map_err(|e| Error::io("copy", path, e))?;
        }
    }
    Tool::new("tar", "tar")?.arg("-C").arg(&content).arg("-cf").arg(&archive).arg(".").run()?;
    Ok(archive)
}

/// Copies a program without its debug information, which is most of it; without `strip`, copies all of it. QEMU reads whole
/// sectors, so the copy is filled up to one.
fn stripped(program: &Path, copy: &Path) -> Result<()> {
    match Tool::new("strip", "binutils") {
        Ok(strip) => strip.args(["--strip-debug", "-o"]).arg(copy).arg(program).run().map(drop)?,
        Err(_) => fs::copy(program, copy).map(drop).map_err(|e| Error::io("copy", program, e))?,
    }
    let failed = |e| Error::io("fill up", copy, e);
    let file = File::options().write(true).open(copy).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    file.set_len(length.next_multiple_of(512)).map_err(failed)
}

/// A running QEMU; ended on drop, and by the next test run if this one is killed.
#[derive(Debug)]
struct Machine {
    child: Child,
    lines: Receiver<String>,
    _noted: Option<Guard>,
}

impl Machine {
    fn start(mut command: Command) -> Result<Machine> {
        let streams = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn().map_err(|e| Error::io("start", QEMU, e))?;
        let output = child.stdout.take().map(BufReader::new);
        let (sender, lines) = channel();
        thread::spawn(move || {
            // Fonts and firmware write bytes that are not text.
            for line in
                output.into_iter().flat_map(|output| output.split(b'\n')).map_while(std::io::Result::ok)
            {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        let noted = note_process(child.id()).ok();
        Ok(Machine { child, lines, _noted: noted })
    }

    /// The console's output up to a line that holds `wanted`, or all of it if none comes within `patience`.
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
