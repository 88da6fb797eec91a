//! The server of a cell with its records, its storage, and what its fault needs: a proxy, a network, control groups, members.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bson::{Document, doc};
use fathom_host::DeviceNumber;
use fathom_process::Tool;
use fathom_testkit::{
    Bytes, Cap, CapLimits, DelayProxy, Fathom, Filesystem, LabServer, LimitGroup, Need, Network, OrSkip,
    RealDisk, RunningProgram, Scratch, SlowDisk, Speed, Tmpfs,
};

use super::cell::{Cell, Disk, Fault, Set};
use super::guest;
use crate::faults::other_clients::fill_orders;
use crate::faults::recorder::LoadedServer;
use crate::faults::study::PROGRAM;

/// A round trip that a delay is added to.
pub(crate) const BASE_ROUND_TRIP: Duration = Duration::from_millis(1);
/// Collections of documents that will expire, one for each pass of the TTL monitor.
pub(crate) const TTL_COLLECTIONS: u32 = 15;
/// Documents of one insert.
const BATCH: u32 = 1_000;
/// How long a set may take until it has its primary and its secondaries.
const SET_TIMEOUT: Duration = Duration::from_secs(120);
/// How fast the device of a secondary is without the fault: as fast as the kit can make it.
const MEMBER_SPEED: Speed = Speed { service: Duration::ZERO, parallel: 8 };

/// The data, wherever they are.
pub(crate) enum Storage {
    Folder(Scratch),
    Memory(Box<Tmpfs>),
    Real(Box<RealDisk>),
    Slow(Box<SlowDisk>),
}

impl Storage {
    fn new(disk: Disk) -> Storage {
        match disk {
            Disk::Folder => Storage::Folder(Scratch::new().unwrap()),
            Disk::Real => Storage::Real(Box::new(RealDisk::new(Filesystem::Xfs, Bytes(4 << 30)))),
            Disk::Slow(_, parallel) => {
                // The data are loaded at full speed.
                let speed = Speed { service: Duration::ZERO, parallel };
                Storage::Slow(Box::new(SlowDisk::new(Filesystem::Xfs, Bytes(2 << 30), speed)))
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Storage::Folder(scratch) => scratch.path(),
            Storage::Memory(memory) => memory.path().to_owned(),
            Storage::Real(disk) => disk.path().to_owned(),
            Storage::Slow(disk) => disk.path().to_owned(),
        }
    }

    pub(crate) fn device(&self) -> String {
        match self {
            Storage::Folder(_) | Storage::Memory(_) => panic!("a folder has no device of its own"),
            Storage::Real(disk) => disk.device_name(),
            Storage::Slow(disk) => disk.device_name(),
        }
    }

    pub(crate) fn set_service(&self, service: Duration) {
        if let Storage::Slow(disk) = self {
            disk.set_service(service);
        }
    }
}

/// The time of each request of the slow device of five members. No majority needs that member while all are up.
const SLOW_MEMBER: Duration = Duration::from_millis(20);

/// The server of a cell.
pub(crate) struct Rig {
    pub(crate) cell: Cell,
    // Taken down in this order.
    pub(crate) members: Vec<Member>,
    pub(crate) loaded: LoadedServer,
    pub(crate) storage: Storage,
    pub(crate) proxy: Option<DelayProxy>,
    pub(crate) network: Option<Network>,
    pub(crate) server_group: Option<LimitGroup>,
    pub(crate) client_group: Option<LimitGroup>,
    _latency_request: Option<File>,
}

/// Another member of the set.
pub(crate) struct Member {
    pub(crate) server: LabServer,
    pub(crate) storage: Storage,
}

impl Rig {
    /// Starts the server on its disk and loads its records.
    pub(crate) fn new(cell: &Cell) -> Rig {
        Rig::on(cell, Storage::new(cell.disk))
    }

    /// The same on a file system in memory: the fastest storage there is.
    pub(crate) fn in_memory(cell: &Cell) -> Rig {
        Rig::on(cell, Storage::Memory(Box::new(Tmpfs::new(Bytes(2 << 30)))))
    }

    fn on(cell: &Cell, storage: Storage) -> Rig {
        let latency_request = request_latency().ok();
        let network = matches!(cell.fault, Fault::Loss(_)).then(|| Network::new(1));
        let mut flags = cell.server.flags.to_vec();
        if network.is_some() {
            flags.push("--bind_ip_all");
        }
        if cell.server.set != Set::Standalone {
            flags.extend(["--replSet", "rs"]);
        }
        let start = || {
            LabServer::start(PROGRAM, cell.server.engine, &storage.path().join("db"), &flags)
                .expect("the server comes up")
        };
        let server = match &network {
            Some(network) => network.on(0, start).unwrap(),
            None if matches!(cell.fault, Fault::HostPause(_)) => guest::server(),
            None => start(),
        };
        let server_group = match cell.fault {
            Fault::Quota(_) => Some(LimitGroup::new("cpu")),
            // Pages in the page cache belong to the group that read them.
            Fault::MemoryLimit(_) => Some(LimitGroup::new("memory")),
            _ => None,
        };
        server_group.iter().for_each(|group| group.adopt_process(server.pid()).unwrap());
        let client_group = matches!(cell.fault, Fault::ClientQuota(_)).then(|| LimitGroup::new("cpu"));
        let members = members(cell, &server);
        let load = || {
            let loaded = LoadedServer::load_into(server, cell.server.records);
            prepare(cell, &loaded);
            loaded
        };
        let mut loaded = match &network {
            Some(network) => network.on(0, load).unwrap(),
            None => load(),
        };
        if let Some(network) = &network {
            loaded.host = network.address(0).to_string();
        }
        if let Disk::Slow(service, _) = cell.disk {
            storage.set_service(service);
        }
        if matches!(cell.fault, Fault::TwoMembersDown) {
            members[0].storage.set_service(SLOW_MEMBER);
        }
        if cell.server.is_pinned {
            pin(loaded.server.pid());
        }
        let server = SocketAddr::from(([127, 0, 0, 1], loaded.server.port()));
        let proxy = matches!(cell.fault, Fault::Delay(_))
            .then(|| DelayProxy::start(server, BASE_ROUND_TRIP).unwrap());
        Rig {
            cell: *cell,
            members,
            loaded,
            storage,
            proxy,
            network,
            server_group,
            client_group,
            _latency_request: latency_request,
        }
    }

    /// Where the load connects.
    pub(crate) fn port(&self) -> u16 {
        self.proxy.as_ref().map_or_else(|| self.loaded.server.port(), DelayProxy::port)
    }

    /// The load for some seconds, watched, with the flags in `words`.
    pub(crate) fn watched(&self, time: Duration, words: &str) -> Fathom {
        self.loaded.watched(self.port(), time.as_secs(), words)
    }

    /// Starts the load where the clients are, within their limits.
    pub(crate) fn start(&self, load: Fathom) -> RunningProgram {
        let running = match &self.network {
            Some(network) => network.among_clients(|| load.spawn()).unwrap(),
            None => load.spawn(),
        };
        self.client_group.iter().for_each(|group| group.adopt_process(running.pid()).unwrap());
        if self.cell.server.is_pinned {
            pin(running.pid());
        }
        running
    }

    /// The counts of the block throttle each second without the fault: reads, bytes read, and writes with flushes. A limit is a
    /// share of these: merging makes the device's own counts smaller.
    pub(crate) fn calm_rates(&self, time: Duration) -> [f64; 3] {
        if !matches!(self.cell.fault, Fault::ReadCap(_) | Fault::ReadBandwidth(_) | Fault::WriteCap(_)) {
            thread::sleep(time);
            return [0.0; 3];
        }
        let unlimited = CapLimits { read_iops: Some(u64::from(u32::MAX)), ..CapLimits::default() };
        let cap = self.capped(unlimited);
        let device = cap.devices()[0];
        let before = served(cap.path(), device);
        thread::sleep(time);
        let after = served(cap.path(), device);
        cap.lift().unwrap();
        [0, 1, 2].map(|at| (after[at] - before[at]) / time.as_secs_f64())
    }

    pub(crate) fn capped(&self, limits: CapLimits) -> Cap {
        let (ledger, number) = match &self.storage {
            Storage::Real(disk) => (disk.ledger(), disk.device_number()),
            Storage::Slow(disk) => (disk.ledger(), disk.device_number()),
            Storage::Folder(_) | Storage::Memory(_) => panic!("a folder has no device of its own"),
        };
        let cap = Cap::new(ledger, number, limits).or_skip(Need::Cgroup);
        cap.adopt_process(self.loaded.server.pid()).unwrap();
        cap
    }

    pub(crate) fn stop(self) {
        self.members.into_iter().for_each(|member| drop(member.server.stop()));
        self.loaded.stop();
    }
}

/// Asks the kernel for processors that wake up at once, as long as the file is open (torvalds/linux:Documentation/power/pm_qos_interface.rst). A
/// virtual processor that halts takes some 50 us to wake up, and a sync of a loop device wakes several threads: without this the fastest device of
/// the kit is slower than its class.
fn request_latency() -> io::Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}

/// Starts the other members and waits until the set has all of them.
fn members(cell: &Cell, primary: &LabServer) -> Vec<Member> {
    let secondaries = match cell.server.set {
        Set::Standalone => return Vec::new(),
        Set::SecondaryAndArbiter => 1,
        Set::FourSecondaries => 4,
    };
    let start = |disk: Disk| {
        let storage = Storage::new(disk);
        let flags = ["--replSet", "rs"];
        let server = LabServer::start(PROGRAM, cell.server.engine, &storage.path().join("db"), &flags)
            .expect("the member comes up");
        Member { server, storage }
    };
    // One secondary has a device whose speed the kit sets.
    let disks = (0..secondaries).map(|at| match at {
        0 => Disk::Slow(MEMBER_SPEED.service, MEMBER_SPEED.parallel),
        _ => Disk::Folder,
    });
    let mut members: Vec<Member> = disks.map(start).collect();
    let host = |server: &LabServer| format!("127.0.0.1:{}", server.port());
    let mut listed = vec![doc! { "_id": 0, "host": host(primary), "priority": 2 }];
    for (at, member) in members.iter().enumerate() {
        listed.push(
            doc! { "_id": i32::try_from(at).unwrap() + 1, "host": host(&member.server), "priority": 0 },
        );
    }
    if cell.server.set == Set::SecondaryAndArbiter {
        let arbiter = start(Disk::Folder);
        listed.push(doc! { "_id": 2, "host": host(&arbiter.server), "arbiterOnly": true });
        members.push(arbiter);
    }
    let mut connection = primary.connect().unwrap();
    let config = doc! { "_id": "rs", "members": listed };
    connection.run("admin", &doc! { "replSetInitiate": config }).unwrap();
    let begun = Instant::now();
    let mut is_ready = || {
        let Ok(status) = connection.run("admin", &doc! { "replSetGetStatus": 1 }) else { return false };
        let status = Document::try_from(status.as_ref()).unwrap();
        let members = status.get_array("members").unwrap();
        let states = || members.iter().filter_map(|member| member.as_document()?.get_i32("state").ok());
        states().filter(|state| *state == 1).count() == 1
            && states().filter(|state| *state == 2).count() == secondaries
    };
    while !is_ready() {
        assert!(begun.elapsed() < SET_TIMEOUT, "the set has no primary or lacks secondaries");
        thread::sleep(Duration::from_millis(100));
    }
    members
}

/// The collections that a fault needs in the server before the first window.
fn prepare(cell: &Cell, loaded: &LoadedServer) {
    if let Fault::OtherClients { documents, .. } = cell.fault {
        fill_orders(&loaded.server, documents);
    }
    let Fault::TtlPasses(documents) = cell.fault else { return };
    let mut connection = loaded.server.connect().unwrap();
    let expired = bson::DateTime::from_millis(0);
    let padding = "x".repeat(200);
    for at in 0..TTL_COLLECTIONS {
        let name = format!("expiring{at}");
        for _ in 0..documents / BATCH {
            let batch: Vec<Document> =
                (0..BATCH).map(|_| doc! { "at": expired, "padding": &padding }).collect();
            connection.run("ttl", &doc! { "insert": &name, "documents": batch }).unwrap();
        }
        // Nothing expires before its pass.
        let index = doc! { "key": { "at": 1 }, "name": "at", "expireAfterSeconds": 2_147_483_647 };
        connection.run("ttl", &doc! { "createIndexes": &name, "indexes": [index] }).unwrap();
    }
}

/// Keeps all threads of a process on the first processor.
fn pin(pid: u32) {
    let taskset = Tool::new("taskset", "util-linux").or_skip(Need::Program);
    taskset.args(["-a", "-c", "-p", "0", &pid.to_string()]).run().unwrap();
}

/// Reads, bytes read and writes of a device that a group's throttle has counted. The disk below a loop device is charged with the same again.
fn served(group: &Path, device: DeviceNumber) -> [f64; 3] {
    let file = |name: &str| fs::read_to_string(group.join(name)).unwrap_or_default();
    // Version 1: `7:0 Read 12`; version 2: `7:0 rbytes=1 wbytes=2 rios=3 wios=4`.
    let prefix = format!("{device} ");
    let of = |text: &str, key: &str| -> f64 {
        let lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        let mut counts = lines.flat_map(str::split_whitespace).skip_while(|word| !word.starts_with(key));
        let count = counts.next().map(|word| word.trim_start_matches(key).to_owned());
        let count = count.filter(|count| !count.is_empty()).or_else(|| counts.next().map(str::to_owned));
        count.and_then(|count| count.parse().ok()).unwrap_or(0.0)
    };
    let (requests, bytes) = ("blkio.throttle.io_serviced", "blkio.throttle.io_service_bytes");
    if group.join(requests).exists() {
        return [of(&file(requests), "Read"), of(&file(bytes), "Read"), of(&file(requests), "Write")];
    }
    let stat = file("io.stat");
    ["rios=", "rbytes=", "wios="].map(|key| of(&stat, key))
}
