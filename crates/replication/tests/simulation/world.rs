//! A set of simulated members, the network between them, and the simulated time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use fathom_replication::{Host, MonotonicTime, OpTime, ReplicaSetConfig};

use crate::chance::Chance;
use crate::checks::Checks;
use crate::member::{Disk, Effect, Event, Member, Wait};
use crate::wire::Message;

/// The behaviour of a network.
#[derive(Clone, Copy)]
pub(crate) struct Network {
    /// Messages lost, per thousand.
    pub(crate) loss: u64,
    /// The longest usual delay, in milliseconds.
    pub(crate) delay_ms: u64,
    /// Messages per thousand that take up to 12 s.
    pub(crate) slow: u64,
    /// The longest sync of a disk, in milliseconds.
    pub(crate) disk_ms: u64,
}

impl Network {
    pub(crate) const GOOD: Network = Network { loss: 0, delay_ms: 3, slow: 0, disk_ms: 10 };
}

enum Incident {
    Deliver { from: usize, to: usize, message: Message },
    Refused { from: usize, to: usize, message: Message },
    Within { member: usize, incarnation: u64, event: Event },
    ClientWrite,
}

/// One position in the set: a running member, or its disk while it is down.
pub(crate) struct MemberSlot {
    pub(crate) member: Option<Member>,
    disk: Disk,
    incarnation: u64,
    /// The end of a pause; messages that arrive before it wait.
    paused_until: Duration,
    /// The rate of its clock relative to the world's, per thousand.
    rate: u64,
    /// The offset of its wall clock from the world's, in seconds.
    ahead: u64,
    wake_at: Option<MonotonicTime>,
}

pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) chance: Chance,
    pub(crate) config: ReplicaSetConfig,
    pub(crate) places: Vec<MemberSlot>,
    pub(crate) network: Network,
    /// The members that cannot hear each other, by direction.
    pub(crate) cut: Vec<Vec<bool>>,
    pub(crate) checks: Checks,
    hosts: HashMap<Host, usize>,
    queue: BinaryHeap<Reverse<(Duration, u64)>>,
    happenings: HashMap<u64, Incident>,
    number: u64,
    through_documents: bool,
}

impl World {
    pub(crate) fn new(config: ReplicaSetConfig, seed: u64) -> World {
        let mut chance = Chance::new(seed);
        let first = OpTime::new(1000 << 32 | 1, 0);
        let places = config.members.iter().map(|member| {
            let log = if member.arbiter { Vec::new() } else { vec![first] };
            let disk = Disk { synced: log.len(), log, vote: None };
            MemberSlot {
                member: None,
                disk,
                incarnation: 0,
                paused_until: Duration::ZERO,
                rate: 970 + chance.number() % 60,
                // A few seconds, or minutes if clocks are not synchronised.
                ahead: chance.number() % [4, 400][usize::from(chance.per_mille(250))],
                wake_at: None,
            }
        });
        let places: Vec<MemberSlot> = places.collect();
        let count = places.len();
        let hosts =
            config.members.iter().enumerate().map(|(index, member)| (member.host.clone(), index)).collect();
        let mut world = World {
            now: Duration::from_secs(1000),
            chance,
            config,
            places,
            network: Network::GOOD,
            cut: vec![vec![false; count]; count],
            checks: Checks::default(),
            hosts,
            queue: BinaryHeap::new(),
            happenings: HashMap::new(),
            number: 0,
            through_documents: seed.is_multiple_of(10),
        };
        (0..count).for_each(|index| world.start(index));
        world.push(Duration::from_millis(50), Incident::ClientWrite);
        world
    }

    fn clock(&self, place: usize) -> MonotonicTime {
        MonotonicTime(self.now * u32::try_from(self.places[place].rate).unwrap() / 1000)
    }

    fn seconds(&self, place: usize) -> u64 {
        self.now.as_secs() + self.places[place].ahead
    }

    fn push(&mut self, after: Duration, what: Incident) {
        self.number += 1;
        self.queue.push(Reverse((self.now + after, self.number)));
        self.happenings.insert(self.number, what);
    }

    pub(crate) fn start(&mut self, index: usize) {
        let now = self.clock(index);
        let seed = self.chance.number();
        let place = &mut self.places[index];
        if place.member.is_none() {
            place.incarnation += 1;
            place.wake_at = None;
            place.member = Some(Member::start(now, &self.config, index, place.disk.clone(), seed));
            self.after(index);
        }
    }

    /// Kills a member: unsynced data are lost.
    pub(crate) fn crash(&mut self, index: usize) {
        let place = &mut self.places[index];
        if let Some(member) = place.member.take() {
            place.disk = member.disk;
            place.disk.log.truncate(place.disk.synced);
            self.check_majority();
        }
    }

    /// Checks that committed entries are on the disks of a majority, including members that are down.
    fn check_majority(&self) {
        let Some(newest) = self.checks.committed_log().last() else { return };
        let having = self.config.members.iter().zip(&self.places).filter(|(member, place)| {
            let disk = place.member.as_ref().map_or(&place.disk, |member| &member.disk);
            member.is_voter() && disk.log[..disk.synced.min(disk.log.len())].binary_search(newest).is_ok()
        });
        let having = having.count();
        assert!(having >= self.config.write_majority(), "{newest:?} is committed, and on {having} disks");
    }

    pub(crate) fn pause(&mut self, index: usize, span: Duration) {
        self.places[index].paused_until = self.now + span;
    }

    /// Lets the simulated time pass.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(Reverse((at, number))) = self.queue.peek().copied() {
            if at > end {
                break;
            }
            self.queue.pop();
            self.now = at;
            if let Some(what) = self.happenings.remove(&number) {
                self.handle(what);
            }
        }
        self.now = end;
    }

    fn handle(&mut self, what: Incident) {
        let whose = match &what {
            Incident::Deliver { to, .. } => Some(*to),
            Incident::Refused { from, .. } => Some(*from),
            Incident::Within { member, .. } => Some(*member),
            Incident::ClientWrite => None,
        };
        if let Some(until) =
            whose.map(|place| self.places[place].paused_until).filter(|until| *until > self.now)
        {
            self.push(until - self.now, what);
            return;
        }
        match what {
            Incident::Deliver { from, to, message } => self.deliver(from, to, message),
            Incident::Refused { from, to, message } => {
                let (now, host) = (self.clock(from), self.config.members[to].host.clone());
                if let Some(member) = &mut self.places[from].member {
                    member.unreachable(now, &host, &message);
                    self.after(from);
                }
            }
            Incident::Within { member: index, incarnation, event } => {
                let (now, seconds) = (self.clock(index), self.seconds(index));
                let place = &mut self.places[index];
                if place.incarnation != incarnation {
                    return;
                }
                if matches!(event, Event::Wake) {
                    place.wake_at = None;
                }
                if let Some(member) = &mut place.member {
                    member.happen(now, seconds, event);
                    self.after(index);
                }
            }
            Incident::ClientWrite => self.client_write(),
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        // A partition that began while the message was in transit cuts it off.
        if self.cut[from][to] {
            return;
        }
        let (now, host) = (self.clock(to), self.config.members[from].host.clone());
        if let Some(member) = &mut self.places[to].member {
            member.receive(now, &host, message);
            self.after(to);
        } else {
            let after = self.chance.millis(0, self.network.delay_ms + 1);
            self.push(after, Incident::Refused { from, to, message });
        }
    }

    /// Every member that accepts writes gets one; if there are several primaries, all do.
    fn client_write(&mut self) {
        for index in 0..self.places.len() {
            let (now, seconds) = (self.clock(index), self.seconds(index));
            if self.places[index].paused_until <= self.now
                && let Some(member) = &mut self.places[index].member
            {
                member.write(now, seconds);
                self.after(index);
            }
        }
        let after = self.chance.millis(20, 800);
        self.push(after, Incident::ClientWrite);
    }

    /// Executes a member's effects, and schedules its next wakeup.
    fn after(&mut self, index: usize) {
        let Some(member) = &mut self.places[index].member else { return };
        let effects = std::mem::take(&mut member.effects);
        for effect in effects {
            self.effect(index, effect);
        }
        let place = &mut self.places[index];
        let Some(at) = place.member.as_ref().and_then(|member| member.coordinator.next_wakeup()) else {
            return;
        };
        if place.wake_at.is_some_and(|planned| planned <= at) {
            return;
        }
        place.wake_at = Some(at);
        let world = at.0 * 1000 / u32::try_from(place.rate).unwrap() + Duration::from_micros(10);
        let incarnation = place.incarnation;
        let after = world.saturating_sub(self.now);
        self.push(after, Incident::Within { member: index, incarnation, event: Event::Wake });
    }

    fn effect(&mut self, index: usize, effect: Effect) {
        match effect {
            Effect::Send { to, message } => self.send(index, &to, *message),
            Effect::Later { after, what } => {
                let after = match after {
                    Wait::Disk => self.chance.millis(0, self.network.disk_ms),
                    Wait::Short => self.chance.millis(0, 20),
                    Wait::Millis(most) => self.chance.millis(most / 2, most),
                };
                let incarnation = self.places[index].incarnation;
                self.push(after, Incident::Within { member: index, incarnation, event: what });
            }
            effect => self.check(index, effect),
        }
    }

    fn check(&mut self, index: usize, effect: Effect) {
        let Some(member) = &self.places[index].member else { return };
        let log = &member.disk.log;
        match effect {
            Effect::Leads { term } => self.checks.leads(index, term, log),
            Effect::Committed { optime, leads } => self.checks.committed(index, optime, log, leads),
            Effect::Voted { term, candidate } => self.checks.voted(index, term, candidate),
            Effect::RolledBack(cut) => {
                self.checks.rolls_back(index, &cut, member.coordinator.last_committed());
                self.check_majority();
            }
            Effect::Wrote(optime) => self.checks.wrote(index, optime),
            Effect::Send { .. } | Effect::Later { .. } => {}
        }
    }

    fn send(&mut self, from: usize, to: &Host, message: Message) {
        let Some(to) = self.hosts.get(to).copied() else { return };
        if self.cut[from][to] || self.chance.per_mille(self.network.loss) {
            return;
        }
        let message = if self.through_documents { message.through_documents() } else { message };
        let after = if self.chance.per_mille(self.network.slow) {
            self.chance.millis(0, 12_000)
        } else {
            self.chance.millis(0, self.network.delay_ms)
        };
        self.push(after, Incident::Deliver { from, to, message });
    }

    /// The members that accept writes.
    pub(crate) fn writable(&self) -> Vec<usize> {
        let members = self.places.iter().enumerate();
        members
            .filter(|(_, place)| {
                place.member.as_ref().is_some_and(|member| member.coordinator.can_accept_writes())
            })
            .map(|(index, _)| index)
            .collect()
    }

    pub(crate) fn member(&self, index: usize) -> &Member {
        self.places[index].member.as_ref().unwrap()
    }

    pub(crate) fn with_member<T>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Member, MonotonicTime) -> T,
    ) -> Option<T> {
        let now = self.clock(index);
        let member = self.places[index].member.as_mut()?;
        let result = act(member, now);
        member.carry_out(now);
        self.after(index);
        Some(result)
    }

    /// Ends all faults and restarts all members.
    pub(crate) fn heal(&mut self) {
        self.network = Network::GOOD;
        self.cut.iter_mut().flatten().for_each(|cut| *cut = false);
        for index in 0..self.places.len() {
            self.places[index].paused_until = Duration::ZERO;
            self.start(index);
        }
    }

    /// Cuts a group off from all others, both ways.
    pub(crate) fn isolate(&mut self, group: &[usize]) {
        for a in 0..self.places.len() {
            for b in 0..self.places.len() {
                if group.contains(&a) != group.contains(&b) {
                    self.cut[a][b] = true;
                }
            }
        }
    }
}
