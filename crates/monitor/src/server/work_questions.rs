//! Asks a busy server which operations run (`$currentOp`) and which collections are used (`top`), within a budget of its time.
//!
//! Both walk structures that grow with connections and collections. Each is asked once a second at most, and less often if its
//! answer takes long: on average a question takes no more than [`MAX_SHARE_OF_TIME`] of the server's time.

use std::collections::HashMap;
use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use fathom_record::disk::Entry;
use fathom_record::{CollectionUse, ServerWork};

use super::collection::number_at;
use super::current_operations::running_operations;
use super::link::{Refusal, ServerLink};
use super::open_transactions::{MIN_OPEN_US, open_transactions};
use crate::Batch;
use crate::sampler::Notes;

/// The share of the server's time that each question may take: half a millisecond a second.
const MAX_SHARE_OF_TIME: f64 = 0.0005;
/// The shortest and the longest time between two questions. A stalled server answers late, which is not its cost.
const PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// The number of operations that one reply lists.
const MAX_OPERATIONS: i32 = 256;
/// The number of uses of collections that are kept of one reading.
const MAX_USES: usize = 12;
/// The kinds of use by `top`.
const KINDS: [&str; 6] = ["queries", "getmore", "insert", "update", "remove", "commands"];

/// When a question may be asked again.
#[derive(Debug, Default)]
struct QuestionBudget {
    next_ns: u64,
    is_refused: bool,
    /// The time of the last two answers.
    took_ns: [u64; 2],
}

impl QuestionBudget {
    /// Returns whether the question may be asked, within a tenth of its shortest period.
    fn is_due(&self, now_ns: u64) -> bool {
        !self.is_refused && now_ns.saturating_add(nanos(PERIODS.0) / 10) >= self.next_ns
    }

    fn asked(&mut self, begin_ns: u64, end_ns: u64) {
        self.took_ns = [self.took_ns[1], end_ns.saturating_sub(begin_ns)];
        // Of two, the shorter: a single late answer says nothing of the cost.
        let cost_ns = self.took_ns[0].min(self.took_ns[1]);
        let rest_ns = (cost_ns as f64 / MAX_SHARE_OF_TIME) as u64;
        self.next_ns = begin_ns.saturating_add(rest_ns.clamp(nanos(PERIODS.0), nanos(PERIODS.1)));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The times and counts of `top`, by namespace and kind.
type UseTotals = HashMap<(String, &'static str), (u64, u64)>;

/// The signs by which a server is worth asking what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkSigns {
    /// Whether operations wait or keep it busy.
    pub(super) is_busy: bool,
    /// Whether transactions are open. These may belong to sessions between two operations, which hold what others wait for.
    pub(super) has_transactions: bool,
}

impl WorkSigns {
    pub(super) fn is_any(self) -> bool {
        self.is_busy || self.has_transactions
    }
}

/// The questions on one server's work.
#[derive(Debug)]
pub(super) struct WorkQuestions {
    number: usize,
    /// True if the server does not know the stage, only the command.
    is_command: bool,
    operations: QuestionBudget,
    collections: QuestionBudget,
    totals: Option<(u64, UseTotals)>,
    last_ns: Option<u64>,
}

impl WorkQuestions {
    pub(super) fn new(number: usize) -> WorkQuestions {
        WorkQuestions {
            number,
            is_command: false,
            operations: QuestionBudget::default(),
            collections: QuestionBudget::default(),
            totals: None,
            last_ns: None,
        }
    }

    /// Asks what a server does, as far as the budget allows.
    pub(super) fn sample(
        &mut self,
        signs: WorkSigns,
        link: &mut ServerLink,
        notes: &mut Notes,
        batch: &mut Batch,
    ) -> Result<(), Refusal> {
        let begin_ns = batch.clock.now_ns();
        let mut work = ServerWork { server: self.number, ..ServerWork::default() };
        self.read_operations(signs, link, notes, batch, &mut work)?;
        if signs.is_busy {
            self.read_collections(link, notes, batch, &mut work)?;
        }
        let end_ns = batch.clock.now_ns();
        if work.begin_ns == 0 {
            work.begin_ns = self.last_ns.unwrap_or(begin_ns);
        }
        work.end_ns = end_ns;
        if work.has_read_operations || !work.collections.is_empty() {
            self.last_ns = Some(end_ns);
            batch.entries.push(Entry::ServerWork(Box::new(work)));
        }
        Ok(())
    }

    fn read_operations(
        &mut self,
        signs: WorkSigns,
        link: &mut ServerLink,
        notes: &mut Notes,
        batch: &mut Batch,
        work: &mut ServerWork,
    ) -> Result<(), Refusal> {
        let begin_ns = batch.clock.now_ns();
        if !self.operations.is_due(begin_ns) {
            return Ok(());
        }
        let who = link.who();
        match link.ask("admin", &question(self.is_command, signs.has_transactions)) {
            Ok(reply) => {
                if signs.has_transactions {
                    work.transactions = open_transactions(reply);
                }
                let running = running_operations(reply);
                (work.operations, work.unlisted) = (running.groups, running.unlisted);
                work.has_read_operations = true;
            }
            Err(Refusal::Lost(reason)) => return Err(Refusal::Lost(reason)),
            Err(Refusal::Denied) => {
                self.operations.is_refused = true;
                let note = "the user may not see the operations of others ($currentOp; the role clusterMonitor is enough)";
                let cost =
                    "what runs while something waits, and whose transactions stay open, cannot be named";
                notes.once(batch, format!("{who}: {note}: {cost}"));
            }
            // Versions before 3.6, and servers that speak the protocol only in part.
            Err(_) if !self.is_command => self.is_command = true,
            Err(refusal) => {
                self.operations.is_refused = true;
                let cost = "what runs while something waits cannot be named";
                notes.once(batch, format!("{who} does not answer currentOp ({refusal:?}): {cost}"));
            }
        }
        self.operations.asked(begin_ns, batch.clock.now_ns());
        Ok(())
    }

    fn read_collections(
        &mut self,
        link: &mut ServerLink,
        notes: &mut Notes,
        batch: &mut Batch,
        work: &mut ServerWork,
    ) -> Result<(), Refusal> {
        let begin_ns = batch.clock.now_ns();
        if !self.collections.is_due(begin_ns) {
            return Ok(());
        }
        let who = link.who();
        match link.ask("admin", &rawdoc! { "top": 1 }) {
            Ok(reply) => {
                let now = use_totals(reply);
                let at_ns = begin_ns.midpoint(batch.clock.now_ns());
                if let Some((before_ns, before)) = &self.totals {
                    work.collections = growth(before, &now);
                    work.begin_ns = *before_ns;
                }
                self.totals = Some((at_ns, now));
            }
            Err(Refusal::Lost(reason)) => return Err(Refusal::Lost(reason)),
            Err(_) => {
                self.collections.is_refused = true;
                let note =
                    "does not say how much each collection is used (top; the role clusterMonitor is enough)";
                notes.once(
                    batch,
                    format!("{who} {note}: the time of operations is not divided among collections"),
                );
            }
        }
        self.collections.asked(begin_ns, batch.clock.now_ns());
        Ok(())
    }
}

/// The active operations of all users with the longest first, long commands cut. With transactions also the sessions that hold one open
/// between two operations: these are the first, because they keep what they hold.
fn question(is_command: bool, with_transactions: bool) -> RawDocumentBuf {
    let is_active = rawdoc! { "active": true, "op": { "$ne": "none" } };
    let is_open = rawdoc! { "transaction.timeOpenMicros": { "$gte": MIN_OPEN_US } };
    if is_command {
        return match with_transactions {
            true => rawdoc! { "currentOp": 1, "$or": [is_active, is_open] },
            false => rawdoc! { "currentOp": 1, "active": true },
        };
    }
    let mut shown = rawdoc! { "allUsers": true, "idleConnections": false, "truncateOps": true };
    let (wanted, order) = match with_transactions {
        true => {
            // Versions before 4.0 refuse the option, and have no transactions.
            shown.append(bson::cstr!("idleSessions"), true);
            let order = rawdoc! { "transaction.timeOpenMicros": -1, "microsecs_running": -1 };
            (rawdoc! { "$or": [is_active, is_open] }, order)
        }
        false => (is_active, rawdoc! { "microsecs_running": -1 }),
    };
    rawdoc! {
        "aggregate": 1,
        "pipeline": [
            { "$currentOp": shown },
            { "$match": wanted },
            { "$sort": order },
            { "$limit": MAX_OPERATIONS },
        ],
        "cursor": { "batchSize": MAX_OPERATIONS },
    }
}

/// The totals of the collections of users.
fn use_totals(reply: &RawDocument) -> UseTotals {
    let mut totals = UseTotals::new();
    let Ok(all) = reply.get_document("totals") else { return totals };
    for (name, value) in all.iter().flatten() {
        let Some(usage) = value.as_document() else { continue };
        let is_internal = name.as_str().split_once('.').is_none_or(|(database, collection)| {
            matches!(database, "admin" | "config") || collection.starts_with("$cmd")
        });
        if is_internal {
            continue;
        }
        for kind in KINDS {
            let figure = |field| number_at(usage, &[kind, field]).map(|figure| figure as u64);
            if let Some(used) = figure("time").zip(figure("count")).filter(|used| used.1 > 0) {
                totals.insert((name.as_str().to_owned(), kind), used);
            }
        }
    }
    totals
}

/// The uses that grew, the longest time first. A collection that was dropped and made again counts from zero.
fn growth(before: &UseTotals, now: &UseTotals) -> Vec<CollectionUse> {
    let grown = |(key, (time_us, count)): (&(String, &'static str), &(u64, u64))| {
        let (past_us, past) = before.get(key).copied().filter(|past| past.1 <= *count).unwrap_or_default();
        let (namespace, kind) = (key.0.clone(), key.1.to_owned());
        (*count > past).then(|| CollectionUse {
            namespace,
            kind,
            time_us: time_us.saturating_sub(past_us),
            count: count - past,
        })
    };
    let mut uses: Vec<CollectionUse> = now.iter().filter_map(grown).collect();
    uses.sort_by(|one, other| {
        (other.time_us, &one.namespace, &one.kind).cmp(&(one.time_us, &other.namespace, &other.kind))
    });
    uses.truncate(MAX_USES);
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS_NS: u64 = 1_000_000;

    #[test]
    fn a_question_that_takes_long_is_asked_less_often() {
        let mut budget = QuestionBudget::default();
        assert!(budget.is_due(0));
        let mut asked = |at_ms: u64, took_ms: f64| {
            let begin_ns = at_ms * MS_NS;
            budget.asked(begin_ns, begin_ns + (took_ms * 1e6) as u64);
            (budget.next_ns - begin_ns) / MS_NS
        };
        assert_eq!(asked(0, 0.1), 1000, "a cheap one once a second");
        assert_eq!(asked(1000, 4000.0), 1000, "one late answer is no cost");
        assert_eq!(asked(2000, 2.0), 4000);
        assert_eq!(asked(6000, 60.0), 4000);
        assert_eq!(asked(10_000, 60.0), 10_000, "at least every ten seconds");
        let budget = QuestionBudget { is_refused: true, ..QuestionBudget::default() };
        assert!(!budget.is_due(u64::MAX));
    }

    #[test]
    fn uses_are_the_growth_between_two_readings() {
        let top = |queries: (i64, i64), insert: (i64, i64)| {
            let of = |(time, count): (i64, i64)| rawdoc! { "time": time, "count": count };
            use_totals(&rawdoc! { "totals": {
                "note": "all times in microseconds",
                "shop.a": { "total": of((0, 0)), "queries": of(queries), "insert": of((0, 0)) },
                "shop.b": { "insert": of(insert) },
                "admin.system.version": { "queries": of((9, 9)) },
                "shop.$cmd.aggregate": { "commands": of((9, 9)) },
            } })
        };
        let uses = growth(&top((100, 1), (500, 9)), &top((1100, 3), (20, 2)));
        let found: Vec<_> = uses
            .iter()
            .map(|one| (one.namespace.as_str(), one.kind.as_str(), one.time_us, one.count))
            .collect();
        assert_eq!(found, [("shop.a", "queries", 1000, 2), ("shop.b", "insert", 20, 2)]);
        let same = top((100, 1), (500, 9));
        assert_eq!(growth(&same, &same), []);
    }

    #[test]
    fn both_forms_of_the_question_ask_for_active_operations() {
        assert!(question(true, false).get_bool("active").unwrap());
        let shown = |with_transactions: bool| {
            let stage = question(false, with_transactions);
            let pipeline = stage.get_array("pipeline").unwrap();
            let first = pipeline.get_document(0).unwrap().get_document("$currentOp").unwrap();
            assert!(first.get_bool("truncateOps").unwrap() && !first.get_bool("idleConnections").unwrap());
            (first.get_bool("idleSessions").ok(), pipeline.get_document(1).unwrap().to_owned())
        };
        let active = rawdoc! { "$match": { "active": true, "op": { "$ne": "none" } } };
        assert_eq!(shown(false), (None, active), "an option that versions before 4.0 refuse");
        // Open transactions are asked for as well, in either form.
        let (idle, wanted) = shown(true);
        let wanted = wanted.get_document("$match").unwrap().get_array("$or").unwrap().to_owned();
        let command = question(true, true);
        assert_eq!((idle, command.get_array("$or").unwrap()), (Some(true), &*wanted));
    }
}
