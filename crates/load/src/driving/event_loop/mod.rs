//! An event loop: one thread that serves many connections and blocks only in the wait for all of them.
//!
//! A socket is read once when it is ready and its next request is sent at once, so an operation costs two system
//! calls and its share of a third. Slow work (connecting, logging in, writing to disk) is done elsewhere.

mod operations;
mod traffic;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use fathom_client::ConnectionParts;
use fathom_errors::{Error, Kind};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::OwnedFd;

use super::arrivals::ArrivalTimes;
use super::connector::{ConnectionEvent, ConnectionQueue, ReconnectRequest, ReconnectSender};
use super::link::{ConnectionSlot, PendingOperation};
use super::plan::{LoopsState, thread_cpu_ns};
use super::recorder;
use super::recorder::{LatencyPoint, LoopGauge, LoopMessage, LoopSecond};
use crate::measurements::Status;
use crate::source::{MetricIndex, Source, all_metrics};

/// The token of the mailbox's wake-up among the sockets.
const BELL: u64 = u64::MAX;
/// The interval of checks that have no event: deadlines, the end of the time, the end of a second.
pub(super) const TICK_NS: u64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The time that operations under way may still take when the run stops.
pub(super) const GRACE_NS: u64 = 5 * SECOND_NS;
/// Events taken from the kernel at once.
const MAX_EVENTS_AT_ONCE: usize = 256;
/// Bytes of one read: most replies fit whole.
const SCRATCH_BYTES: usize = 64 << 10;
/// Operations that are sent without waiting for a reply, before the loop looks at its sockets again.
const MAX_UNANSWERED_AT_ONCE: usize = 64;

/// The parts that belong to one loop.
pub(super) struct LoopContext {
    pub(super) shared: Arc<LoopsState>,
    pub(super) words: Sender<LoopMessage>,
    pub(super) wishes: ReconnectSender,
    pub(super) mailbox: Arc<ConnectionQueue>,
    /// Read by samplers of the load.
    pub(super) gauge: Arc<LoopGauge>,
    pub(super) schedule: Option<ArrivalTimes>,
    /// The number of the first connection.
    pub(super) first_connection: usize,
    /// The server of a test in simulated time.
    #[cfg(test)]
    pub(super) simulated: Option<Box<dyn super::plan::SimulatedPeer>>,
}

/// An operation that will be sent again.
struct RetryWait<State> {
    due_ns: u64,
    link: usize,
    job: PendingOperation<State>,
}

pub(super) struct ClientLoop<S: Source> {
    place: LoopContext,
    source: S,
    /// The metric of closing connections.
    cleanup: MetricIndex,
    epoll: OwnedFd,
    links: Vec<ConnectionSlot<S::State>>,
    /// Connections with room for an operation, if operations follow a schedule.
    idle: VecDeque<usize>,
    /// Connections that may continue at once, because no reply is expected, or because they wait for the loop to look at its sockets.
    ready: VecDeque<usize>,
    resting: Vec<RetryWait<S::State>>,
    piece: LoopSecond,
    /// The time that a request takes to prepare, averaged over the last few.
    preparing_ns: u64,
    second: i64,
    cpu_ns: u64,
    next_tick_ns: u64,
    under_way: u64,
    /// The time of the last change of operations under way.
    changed_ns: u64,
    /// Whether the loop begins no more operations.
    draining: bool,
    /// When it began to drain.
    drain_ns: u64,
    scratch: Vec<u8>,
    frame: Vec<u8>,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
}

fn no_epoll(error: rustix::io::Errno) -> Error {
    Error::new(Kind::Unsupported, "cannot wait for sockets").because(std::io::Error::from(error))
}

impl<S: Source> ClientLoop<S> {
    pub(super) fn new(
        place: LoopContext,
        source: S,
        connections: Vec<ConnectionParts>,
    ) -> Result<Self, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_epoll)?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, place.mailbox.bell(), data, epoll::EventFlags::IN).map_err(no_epoll)?;
        let mut this = ClientLoop {
            // The last of all metrics.
            cleanup: all_metrics(&source).len() - 1,
            source,
            epoll,
            links: Vec::with_capacity(connections.len()),
            idle: VecDeque::new(),
            ready: VecDeque::new(),
            resting: Vec::new(),
            piece: LoopSecond::default(),
            preparing_ns: 0,
            second: 0,
            cpu_ns: 0,
            next_tick_ns: 0,
            under_way: 0,
            changed_ns: 0,
            draining: false,
            drain_ns: 0,
            scratch: vec![0; SCRATCH_BYTES],
            frame: Vec::new(),
            packed: Vec::new(),
            unpacked: Vec::new(),
            place,
        };
        for parts in connections {
            this.links.push(ConnectionSlot::new());
            let place = this.links.len() - 1;
            this.attach(place, parts)
                .map_err(|error| Error::new(Kind::Io, "cannot take over a connection").because(error))?;
        }
        Ok(this)
    }

    fn attach(&mut self, place: usize, parts: ConnectionParts) -> std::io::Result<()> {
        let Some(link) = self.links.get_mut(place) else { return Ok(()) };
        link.attach(parts)?;
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if let Some(fd) = link.fd() {
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(place as u64), flags)?;
        }
        Ok(())
    }

    /// Works until all operations are done, the time is over or a stop is requested.
    pub(super) fn run(mut self) {
        // Timers rounded by 50 us would show in the latencies of a schedule. If this call fails, timers are a little late.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        self.cpu_ns = thread_cpu_ns();
        let clock = self.place.shared.clock;
        self.second = self.place.shared.second_of(clock.now_ns());
        for place in 0..self.links.len() {
            for _ in 0..self.place.shared.depth {
                self.go_on(place);
            }
        }
        let mut events = Vec::with_capacity(MAX_EVENTS_AT_ONCE);
        loop {
            let now_ns = clock.now_ns();
            if now_ns >= self.next_tick_ns {
                self.tick(now_ns);
            }
            if self.is_over(now_ns) {
                break;
            }
            self.start_due(now_ns);
            self.go_on_ready();
            events.clear();
            if let Err(error) = self.wait(&mut events) {
                self.stop(&format!("cannot wait for sockets: {error}"));
                break;
            }
            for event in &events {
                self.take(*event);
            }
        }
        self.end();
    }

    fn take(&mut self, event: epoll::Event) {
        let (flags, data) = (event.flags, event.data.u64());
        if data == BELL {
            self.open_mail();
            return;
        }
        let place = usize::try_from(data).unwrap_or(usize::MAX);
        if flags.contains(epoll::EventFlags::OUT) {
            self.writable(place);
        }
        let ended =
            flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        if ended || flags.contains(epoll::EventFlags::IN) {
            self.readable(place, ended);
        }
    }

    /// Waits for sockets, at most until the next time when work is due.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> std::io::Result<()> {
        let now_ns = self.place.shared.clock.now_ns();
        let mut until_ns = self.next_tick_ns;
        if let Some(schedule) =
            self.place.schedule.as_ref().filter(|_| !self.idle.is_empty() && !self.draining)
        {
            until_ns = until_ns.min(schedule.due_ns());
        }
        let mut left_ns = until_ns.saturating_sub(now_ns);
        if !self.ready.is_empty() && !self.draining {
            left_ns = 0;
        }
        #[cfg(test)]
        if let Some(server) = &mut self.place.simulated {
            server.wait(left_ns);
            left_ns = 0;
        }
        // epoll's own time-out is in milliseconds on older kernels. For shorter times, the wait for its descriptor has nanoseconds.
        if self.place.schedule.is_some() && left_ns > 0 {
            let time = timespec(left_ns);
            let mut ready = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut ready, Some(&time)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            left_ns = 0;
        }
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timespec(left_ns))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Does the work that is due without an event.
    fn tick(&mut self, now_ns: u64) {
        self.next_tick_ns = now_ns - now_ns % TICK_NS + TICK_NS;
        let overdue = self.place.schedule.as_ref().is_some_and(|schedule| schedule.due_ns() <= now_ns);
        self.place.gauge.overdue.store(overdue && !self.draining, Ordering::Relaxed);
        let second = self.place.shared.second_of(now_ns);
        if second != self.second {
            self.tell();
            self.second = second;
        }
        let shared = Arc::clone(&self.place.shared);
        if shared.is_over(now_ns) {
            self.drain(now_ns);
        }
        if let Some(deadline_ns) = shared.deadline_ns {
            let late = |job: &PendingOperation<S::State>| now_ns.saturating_sub(job.sent_ns) > deadline_ns;
            let late: Vec<usize> = (0..self.links.len())
                .filter(|place| self.links.get(*place).and_then(|link| link.jobs.front()).is_some_and(late))
                .collect();
            for place in late {
                let seconds = Duration::from_nanos(deadline_ns);
                self.fail(place, "no reply", &format!("no reply within {seconds:?}"));
            }
        }
        self.wake_resting(now_ns);
    }

    /// Sends the measurements since the end of the last second.
    fn tell(&mut self) {
        self.add_up_to(self.place.shared.clock.now_ns());
        self.piece.user_bytes = self.source.take_user_bytes();
        self.piece.draws = self.source.take_key_draws();
        let cpu_ns = thread_cpu_ns();
        self.piece.cpu_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        // A collector that has ended needs no data.
        let _ = self
            .place
            .words
            .send(LoopMessage::LoopSecond(self.second, Box::new(std::mem::take(&mut self.piece))));
    }

    fn drain(&mut self, now_ns: u64) {
        if !self.draining {
            self.draining = true;
            self.drain_ns = now_ns;
        }
    }

    /// Stops the whole run.
    fn stop(&mut self, why: &str) {
        self.place.shared.stop_because(why);
        self.drain(self.place.shared.clock.now_ns());
    }

    fn is_over(&self, now_ns: u64) -> bool {
        // An operation without a reply is done when the socket has taken it.
        let is_done = || self.under_way == 0 && !self.links.iter().any(ConnectionSlot::is_congested);
        self.draining && (now_ns > self.drain_ns.saturating_add(GRACE_NS) || is_done())
    }

    /// Closes the connections, which YCSB measures too.
    fn close(&mut self) {
        let shared = Arc::clone(&self.place.shared);
        let metric = self.cleanup;
        for link in &mut self.links {
            let begun_ns = shared.clock.now_ns();
            link.detach();
            let end_ns = shared.clock.now_ns();
            let took_ns = end_ns.saturating_sub(begun_ns);
            let (service_ns, response_ns) = (took_ns, took_ns);
            self.piece.record(
                &shared,
                LatencyPoint { metric, status: Status::Ok, end_ns, service_ns, response_ns },
            );
        }
    }

    fn end(mut self) {
        self.close();
        self.tell();
        let _ = self.place.words.send(LoopMessage::Ended(self.under_way));
    }

    /// Takes connections that were opened again.
    fn open_mail(&mut self) {
        for (place, made) in self.place.mailbox.take() {
            let attached = match made {
                Ok(parts) => self.attach(place, parts).map_err(|error| {
                    self.links.get_mut(place).into_iter().for_each(ConnectionSlot::detach);
                    self.wish(place);
                    error.to_string()
                }),
                Err(error) => Err(error.to_string()),
            };
            if let Err(said) = attached {
                recorder::note(&mut self.piece.failures, "cannot connect", &said);
                continue;
            }
            self.piece.reconnects += 1;
            let free = self
                .links
                .get(place)
                .map_or(0, |link| self.place.shared.depth.saturating_sub(link.under_way()));
            for _ in 0..free {
                self.go_on(place);
            }
        }
    }

    fn wish(&self, place: usize) {
        let number = self.place.first_connection + place;
        let mailbox = Arc::clone(&self.place.mailbox);
        // If the connecting threads have ended, the run is ending.
        let _ =
            self.place.wishes.send(ConnectionEvent::Lost(ReconnectRequest { mailbox, link: place, number }));
    }

    /// Adds the time that operations were under way since the last change.
    fn add_up_to(&mut self, now_ns: u64) {
        self.piece.in_flight_ns += self.under_way * now_ns.saturating_sub(self.changed_ns);
        self.changed_ns = self.changed_ns.max(now_ns);
    }

    /// Adds a change of the number of operations under way at a time.
    fn count_under_way(&mut self, change: i64, now_ns: u64) {
        self.add_up_to(now_ns);
        self.under_way = self.under_way.saturating_add_signed(change);
        self.place.gauge.in_flight.store(self.under_way, Ordering::Relaxed);
    }
}

fn timespec(nanos: u64) -> Timespec {
    let seconds = i64::try_from(nanos / SECOND_NS).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: i64::try_from(nanos % SECOND_NS).unwrap_or(0) }
}
