//! The injection of a cell's fault, and its removal.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bson::{Bson, Document, doc};
use fathom_client::Connection;
use fathom_testkit::{
    Bytes, CapLimits, Fathom, Guest, Knob, LabServer, LimitGroup, RunningProgram, assert, assert_eq, fill_to,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime, clock_settime};

use super::cell::{Disk, Fault};
use super::rig::{BASE_ROUND_TRIP, Rig, TTL_COLLECTIONS};
use crate::faults::other_clients::{ClientWork, OtherClients, build_index, connect, drop_imports};
use crate::faults::study::PROGRAM;

/// After a window's begin, its settling included.
const PULSE_AFTER: Duration = Duration::from_secs(12);
/// How often documents expire.
const EXPIRY: Duration = Duration::from_secs(10);

pub(crate) type Lift<'r> = Box<dyn FnOnce() + 'r>;

/// Brings the server to its state without the fault, before the first window.
pub(crate) fn settle(rig: &Rig) {
    if let Fault::Parameter(name, calm, _) = rig.cell.fault {
        set_calm(rig, name, calm);
    }
}

fn set_calm(rig: &Rig, name: &str, calm: &str) {
    set_parameter(rig, name, calm);
    read_all(rig);
}

/// Makes the fault of a cell for a window; `calm` is what the block throttle counted each second without it, `window` how many windows with the
/// fault came before.
pub(crate) fn inject<'r>(rig: &'r Rig, calm: [f64; 3], window: usize) -> Lift<'r> {
    let of = |calm: f64, share: f64| Some((calm * share).round().max(1.0) as u64);
    let none = CapLimits::default();
    match rig.cell.fault {
        Fault::None | Fault::FewConnections(_) => Box::new(move || {}),
        Fault::ReadCap(share) => cap(rig, CapLimits { read_iops: of(calm[0], share), ..none }),
        Fault::ReadBandwidth(share) => cap(rig, CapLimits { read_bytes_per_s: of(calm[1], share), ..none }),
        Fault::WriteCap(share) => cap(rig, CapLimits { write_iops: of(calm[2], share), ..none }),
        Fault::SlowDevice(more) => slow_device(rig, more),
        Fault::ShortQueue(requests) => {
            let queue = format!("/sys/block/{}/queue/nr_requests", rig.storage.device());
            let knob = Knob::set(queue, &requests.to_string()).unwrap();
            Box::new(move || drop(knob))
        }
        Fault::Neighbour(depth) => end_with(neighbour(rig, depth)),
        Fault::NearlyFull(mib) => {
            let filler = fill_to(&rig.storage.path(), Bytes(mib << 20)).unwrap();
            Box::new(move || std::fs::remove_file(filler).unwrap())
        }
        Fault::Parameter(name, calm, faulty) => {
            set_parameter(rig, name, faulty);
            Box::new(move || set_calm(rig, name, calm))
        }
        Fault::TtlPasses(_) => expire(rig, window),
        Fault::Validations => validate(rig),
        Fault::HotDocument(clients) => {
            let words = format!("-threads {clients} -p readproportion=0 -p updateproportion=1 --no-record");
            end_with(rig.loaded.load(rig.port(), 600, &words).spawn())
        }
        Fault::Stop(time) => stop_once(&rig.loaded.server, time),
        Fault::HostPause(time) => stop_once(&rig.loaded.server, time),
        Fault::ClockStep(seconds) => step_clock(if window.is_multiple_of(2) { seconds } else { -seconds }),
        Fault::FsyncLock(time) => fsync_lock(connection(rig), time),
        Fault::Delay(more) => {
            let proxy = rig.proxy.as_ref().unwrap();
            proxy.set_round_trip(BASE_ROUND_TRIP + more);
            Box::new(move || proxy.set_round_trip(BASE_ROUND_TRIP))
        }
        Fault::Loss(percent) => {
            let network = rig.network.as_ref().unwrap();
            network.lose(0, percent).unwrap();
            Box::new(move || network.lose(0, 0).unwrap())
        }
        Fault::Hogs(each) => hogs(each),
        Fault::Quota(processors) => quota(rig.server_group.as_ref(), processors),
        Fault::ClientQuota(processors) => quota(rig.client_group.as_ref(), processors),
        Fault::MemoryLimit(mib) => memory_limit(rig.server_group.as_ref(), mib),
        Fault::SlowMember(more) => {
            let storage = &rig.members[0].storage;
            storage.set_service(more);
            Box::new(move || storage.set_service(Duration::ZERO))
        }
        Fault::MemberQuota(processors) => {
            let group = LimitGroup::new("cpu");
            group.adopt_process(rig.members[0].server.pid()).unwrap();
            group.set_processors(Some(processors)).unwrap();
            Box::new(move || drop(group))
        }
        Fault::TwoMembersDown => stop_two_members(rig),
        Fault::OtherClients { clients, work, pause, .. } => other_clients(rig, clients, work, pause),
        Fault::IndexBuild => build_an_index(rig),
    }
}

/// The one with the slow device stays, so that a majority needs it.
fn stop_two_members<'r>(rig: &Rig) -> Lift<'r> {
    let pids = [1, 2].map(|at| pid_of(&rig.members[at].server));
    pids.iter().for_each(|pid| kill_process(*pid, Signal::STOP).unwrap());
    Box::new(move || pids.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap()))
}

fn build_an_index<'r>(rig: &Rig) -> Lift<'r> {
    let mut connection = connect(&rig.loaded.server, "administration");
    join(thread::spawn(move || {
        thread::sleep(PULSE_AFTER);
        build_index(&mut connection, ("ycsb", "usertable"), "field0");
    }))
}

fn cap(rig: &Rig, limits: CapLimits) -> Lift<'_> {
    let cap = rig.capped(limits);
    Box::new(move || cap.lift().unwrap())
}

fn slow_device(rig: &Rig, more: Duration) -> Lift<'_> {
    let Disk::Slow(service, _) = rig.cell.disk else { panic!("the speed of this disk is its own") };
    rig.storage.set_service(service + more);
    Box::new(move || rig.storage.set_service(service))
}

fn quota(group: Option<&LimitGroup>, processors: f64) -> Lift<'_> {
    let group = group.unwrap();
    group.set_processors(Some(processors)).unwrap();
    Box::new(move || group.set_processors(None).unwrap())
}

fn memory_limit(group: Option<&LimitGroup>, mib: u64) -> Lift<'_> {
    let group = group.unwrap();
    let limit = Bytes(group.anonymous_memory().unwrap().0 + (mib << 20));
    group.set_memory(Some(limit)).unwrap();
    Box::new(move || group.set_memory(None).unwrap())
}

/// Other clients of one application. What they imported is dropped at the end, so that windows do not fill the disk.
fn other_clients(rig: &Rig, clients: u32, work: ClientWork, pause: Duration) -> Lift<'_> {
    let others = OtherClients::start(&rig.loaded.server, "other", clients, work, pause);
    Box::new(move || {
        others.end();
        drop_imports(&rig.loaded.server);
    })
}

fn neighbour(rig: &Rig, depth: u32) -> RunningProgram {
    let depth = depth.to_string();
    let words = ["--pattern", "randwrite", "--block", "64K", "--size", "512M", "--time", "10m"];
    let disk = Fathom::new(PROGRAM).arg("disk").arg("--dir").arg(rig.storage.path());
    disk.args(words).args(["--depth", &depth, "--no-record"]).spawn()
}

/// A program that is a fault while it runs.
fn end_with<'r>(running: RunningProgram) -> Lift<'r> {
    Box::new(move || {
        running.signal(Signal::INT);
        running.wait();
    })
}

fn connection(rig: &Rig) -> Connection {
    rig.loaded.server.connect().unwrap()
}

fn set_parameter(rig: &Rig, name: &str, value: &str) {
    let value = value.parse().map_or_else(|_| Bson::from(value), Bson::Double);
    let command = Document::from_iter([("setParameter".to_owned(), Bson::from(1)), (name.to_owned(), value)]);
    connection(rig).run("admin", &command).unwrap();
}

/// Reads every record once by its key, since a scan does not fill the cache of RocksDB. A cache that is larger again would fill for most of the
/// window without the fault.
fn read_all(rig: &Rig) {
    let mut connection = connection(rig);
    let mut batch = |command: Document| -> Vec<Document> {
        let reply = Document::try_from(connection.run("ycsb", &command).unwrap().as_ref()).unwrap();
        let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        batch.iter().map(|record| record.as_document().unwrap().clone()).collect()
    };
    let all =
        doc! { "find": "usertable", "projection": { "_id": 1 }, "batchSize": 1_000_000, "singleBatch": true };
    let keys: Vec<Bson> = batch(all).into_iter().filter_map(|mut record| record.remove("_id")).collect();
    assert_eq!(u64::try_from(keys.len()).unwrap(), rig.cell.server.records);
    for some in keys.chunks(1000) {
        let command = doc! { "find": "usertable", "filter": { "_id": { "$in": some } }, "batchSize": 1000, "singleBatch": true };
        assert_eq!(batch(command).len(), some.len());
    }
}

/// Something that a thread does until the fault ends.
fn meanwhile<'r>(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Lift<'r> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    let thread = thread::spawn(move || work(&seen));
    Box::new(move || {
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    })
}

/// Lets the documents of one collection expire every ten seconds, collections of earlier windows left out.
fn expire(rig: &Rig, window: usize) -> Lift<'_> {
    let mut connection = connection(rig);
    let each = TTL_COLLECTIONS / 3;
    let first = u32::try_from(window).unwrap() * each;
    meanwhile(move |stop| {
        for at in first..first + each {
            let index = doc! { "keyPattern": { "at": 1 }, "expireAfterSeconds": 1 };
            let command = doc! { "collMod": format!("expiring{at}"), "index": index };
            connection.run("ttl", &command).unwrap();
            for _ in 0..EXPIRY.as_millis() / 100 {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
        }
    })
}

fn validate(rig: &Rig) -> Lift<'_> {
    let mut connection = connection(rig);
    meanwhile(move |stop| {
        while !stop.load(Ordering::Relaxed) {
            connection.run("ycsb", &doc! { "validate": "usertable", "full": true }).unwrap();
        }
    })
}

fn pid_of(server: &LabServer) -> Pid {
    Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap()
}

fn join<'r>(thread: JoinHandle<()>) -> Lift<'r> {
    Box::new(move || thread.join().unwrap())
}

fn stop_once<'r>(server: &LabServer, time: Duration) -> Lift<'r> {
    let server = pid_of(server);
    join(thread::spawn(move || {
        thread::sleep(PULSE_AFTER);
        kill_process(server, Signal::STOP).unwrap();
        thread::sleep(time);
        kill_process(server, Signal::CONT).unwrap();
    }))
}

fn step_clock<'r>(seconds: i64) -> Lift<'r> {
    assert!(Guest::is_here(), "this machine's clock is not ours");
    join(thread::spawn(move || {
        thread::sleep(PULSE_AFTER);
        let mut now = clock_gettime(ClockId::Realtime);
        now.tv_sec += seconds;
        clock_settime(ClockId::Realtime, now).unwrap();
    }))
}

fn fsync_lock<'r>(mut connection: Connection, time: Duration) -> Lift<'r> {
    join(thread::spawn(move || {
        thread::sleep(PULSE_AFTER);
        let mut send = |command: Document| connection.run("admin", &command).unwrap();
        send(doc! { "fsync": 1, "lock": true });
        thread::sleep(time);
        send(doc! { "fsyncUnlock": 1 });
    }))
}

fn hogs<'r>(each: usize) -> Lift<'r> {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let mut hogs: Vec<Child> = (0..each * processors).map(|_| hog()).collect();
    Box::new(move || {
        hogs.iter_mut().for_each(|hog| {
            let _ = hog.kill();
            let _ = hog.wait();
        });
    })
}

fn hog() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().expect("a shell")
}
