//! A server under one cell's conditions, and the injection and removal of its fault.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bson::{Document, doc};
use fathom_testkit::{
    Bytes, Cap, CapLimits, DelayProxy, Fathom, Filesystem, Knob, Need, OrSkip, RealDisk, Running, Scratch,
    SlowDisk, Speed,
};
use rustix::process::{Pid, Signal, kill_process};

use super::cells::{Cell, Disk, Fault, Operations};
use crate::faults::recorder::{LoadedServer, NO_CACHE};
use crate::faults::study::PROGRAM;

/// The data, wherever they are.
enum Storage {
    Folder(Scratch),
    Real(Box<RealDisk>),
    Slow(Box<SlowDisk>),
}

impl Storage {
    fn new(disk: Disk) -> Storage {
        match disk {
            Disk::Folder => Storage::Folder(Scratch::new().unwrap()),
            Disk::Real => Storage::Real(Box::new(RealDisk::new(Filesystem::Xfs, Bytes(4 << 30)))),
            Disk::Slow(service, parallel) => {
                let speed = Speed { service, parallel };
                let disk = SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed);
                // The data are loaded at full speed.
                disk.set_service(Duration::ZERO);
                Storage::Slow(Box::new(disk))
            }
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Storage::Folder(scratch) => scratch.path(),
            Storage::Real(disk) => disk.path().to_owned(),
            Storage::Slow(disk) => disk.path().to_owned(),
        }
    }

    fn device(&self) -> Option<String> {
        match self {
            Storage::Folder(_) => None,
            Storage::Real(disk) => Some(disk.device_name()),
            Storage::Slow(disk) => Some(disk.device_name()),
        }
    }
}

/// The server of a cell.
pub(crate) struct Rig {
    cell: Cell,
    // Taken down in this order.
    pub(crate) loaded: LoadedServer,
    storage: Storage,
    proxy: Option<DelayProxy>,
}

impl Rig {
    /// Starts the server and loads its records.
    pub(crate) fn new(cell: &Cell) -> Rig {
        let storage = Storage::new(cell.disk);
        let (flags, records): (&[&str], u64) = match (cell.load.operations, cell.engine) {
            (Operations::ReadsPastMemory, "wiredTiger") => (&NO_CACHE, 40_000),
            (Operations::ReadsPastMemory, _) => {
                (&["--rocksdbCacheSizeGB", "0.01", "--rocksdbConfigString", "use_direct_reads=true"], 40_000)
            }
            _ => (&[], 10_000),
        };
        let loaded = LoadedServer::start(cell.engine, &storage.path(), flags, records);
        if let (Storage::Slow(disk), Disk::Slow(service, _)) = (&storage, cell.disk) {
            disk.set_service(service);
        }
        let server = SocketAddr::from(([127, 0, 0, 1], loaded.server.port()));
        let proxy = matches!(cell.fault, Fault::Delay(_))
            .then(|| DelayProxy::start(server, Duration::from_millis(1)).unwrap());
        Rig { cell: *cell, loaded, storage, proxy }
    }

    /// Where the load connects.
    pub(crate) fn port(&self) -> u16 {
        self.proxy.as_ref().map_or_else(|| self.loaded.server.port(), DelayProxy::port)
    }

    /// Totals of the device: reads, bytes read, writes with flushes.
    pub(crate) fn device_totals(&self) -> [f64; 3] {
        let Some(device) = self.storage.device() else { return [0.0; 3] };
        let text = fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
        let fields: Vec<f64> = text.split_whitespace().map(|field| field.parse().unwrap()).collect();
        let at = |place: usize| fields.get(place).copied().unwrap_or(0.0);
        [at(0), 512.0 * at(2), at(4) + at(15)]
    }

    fn cap(&self, limits: CapLimits) -> Injection {
        let (ledger, number) = match &self.storage {
            Storage::Real(disk) => (disk.ledger(), disk.device_number()),
            Storage::Slow(disk) => (disk.ledger(), disk.device_number()),
            Storage::Folder(_) => panic!("a folder has no device of its own"),
        };
        let cap = Cap::new(ledger, number, limits).or_skip(Need::Cgroup);
        cap.adopt_process(self.loaded.server.pid()).unwrap();
        Injection::Cap(cap)
    }

    /// Makes the fault for a window; `calm` is what the device did each second without it.
    pub(crate) fn inject(&self, calm: [f64; 3]) -> Injection {
        let of = |calm: f64, share: f64| Some((calm * share).round().max(1.0) as u64);
        let none = CapLimits::default();
        match self.cell.fault {
            Fault::None => Injection::None,
            Fault::ReadCap(share) => self.cap(CapLimits { read_iops: of(calm[0], share), ..none }),
            Fault::ReadBandwidth(share) => {
                self.cap(CapLimits { read_bytes_per_s: of(calm[1], share), ..none })
            }
            Fault::WriteCap(share) => self.cap(CapLimits { write_iops: of(calm[2], share), ..none }),
            Fault::SlowDevice(more) => {
                self.set_service(more);
                Injection::Service
            }
            Fault::ShortQueue(requests) => {
                let device = self.storage.device().unwrap();
                let queue = format!("/sys/block/{device}/queue/nr_requests");
                Injection::Queue(Knob::set(queue, &requests.to_string()).unwrap())
            }
            Fault::Neighbour(depth) => {
                let depth = depth.to_string();
                let words = ["--pattern", "randwrite", "--block", "64K", "--size", "512M", "--time", "10m"];
                let disk = Fathom::new(PROGRAM).arg("disk").arg("--dir").arg(self.storage.path());
                Injection::Neighbour(disk.args(words).args(["--depth", &depth, "--no-record"]).spawn())
            }
            Fault::Stop(time) => {
                let server = Pid::from_raw(i32::try_from(self.loaded.server.pid()).unwrap()).unwrap();
                Injection::Pulse(thread::spawn(move || {
                    thread::sleep(PULSE_AFTER);
                    kill_process(server, Signal::STOP).unwrap();
                    thread::sleep(time);
                    kill_process(server, Signal::CONT).unwrap();
                }))
            }
            Fault::FsyncLock(time) => {
                let mut connection = self.loaded.server.connect().unwrap();
                Injection::Pulse(thread::spawn(move || {
                    thread::sleep(PULSE_AFTER);
                    let mut send = |command: Document| connection.run("admin", &command).unwrap();
                    send(doc! { "fsync": 1, "lock": true });
                    thread::sleep(time);
                    send(doc! { "fsyncUnlock": 1 });
                }))
            }
            Fault::Delay(more) => {
                self.proxy.as_ref().unwrap().set_round_trip(BASE_ROUND_TRIP + more);
                Injection::Delay
            }
            Fault::Hogs(each) => {
                let processors = thread::available_parallelism().map_or(2, usize::from);
                Injection::Hogs((0..each * processors).map(|_| hog()).collect())
            }
        }
    }

    fn set_service(&self, more: Duration) {
        if let (Storage::Slow(disk), Disk::Slow(service, _)) = (&self.storage, self.cell.disk) {
            disk.set_service(service + more);
        }
    }

    /// Ends the fault.
    pub(crate) fn lift(&self, injection: Injection) {
        match injection {
            Injection::None => {}
            Injection::Cap(cap) => cap.lift().unwrap(),
            Injection::Service => self.set_service(Duration::ZERO),
            Injection::Queue(knob) => drop(knob),
            Injection::Neighbour(running) => {
                running.signal(Signal::INT);
                running.wait();
            }
            Injection::Pulse(thread) => thread.join().unwrap(),
            Injection::Delay => self.proxy.as_ref().unwrap().set_round_trip(BASE_ROUND_TRIP),
            Injection::Hogs(mut hogs) => hogs.iter_mut().for_each(|hog| {
                let _ = hog.kill();
                let _ = hog.wait();
            }),
        }
    }
}

/// After a window's begin, its settling included.
const PULSE_AFTER: Duration = Duration::from_secs(12);
const BASE_ROUND_TRIP: Duration = Duration::from_millis(1);

/// A fault that is there.
pub(crate) enum Injection {
    None,
    Cap(Cap),
    Service,
    Queue(Knob),
    Neighbour(Running),
    Pulse(JoinHandle<()>),
    Delay,
    Hogs(Vec<Child>),
}

fn hog() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("a shell")
}
