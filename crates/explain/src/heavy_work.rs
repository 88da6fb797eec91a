//! Names the operations whose work fills a resource of a server: in the findings on the resource, and as causes with a cost to the others.
//!
//! A finding on a device, on processors or on locks says that operations wait. Whose work they wait behind is in the table of
//! work (docs/methods.md#whose-work-it-is). The cost of that work is what the other operations lose by it, and never its own time.

use fathom_record::verdict::{LatencyClock, MIN_COST_SHARE};
use fathom_record::{Confidence, Finding, OperationGroup, Point, Severity};
use fathom_units::Bytes;

use crate::causes::{is_of_mixed_mean, is_of_work, mixed_mean, ranked_cause, set_mixed_mean};
use crate::client::points;
use crate::guard::{MAX_SHORT_IDLE_PCT, SERVER_FILLS, is_processor_shortage};
use crate::index_proposal::index_command;
use crate::member::{is_router, meets_clients};
use crate::operation_standstill::AT_LIMIT;
use crate::other_operations::{Culprit, OthersLoss, ProcessorUse, loss_by_comparison, loss_by_run_waits};
use crate::removable::Wait;
use crate::server_work::{ClientWork, WorkResource, WorkRow, WorkShare, WorkTable, work_table};
use crate::windows::Window;
use crate::work_users::{UserShare, WorkAction, WorkUser, users};
use crate::{Evidence, Judgement};

/// The series that it is judged by, next to the records of work.
pub(crate) const NEEDS: &[&str] = &[
    "server.{member}.reads.operations",
    "server.{member}.reads.latency_us",
    "server.{member}.writes.operations",
    "server.{member}.writes.latency_us",
    "server.{member}.process.run_wait_us",
    "host.cpu.count",
];

/// A user of a resource is named in a finding from this lower bound of its share on, and so many are.
const MIN_NAMED_SHARE: f64 = 0.1;
const MAX_NAMED_USERS: usize = 2;
/// The lower bound of a share from which on the work is a cause: half of the resource.
const MIN_CAUSE_SHARE: f64 = 0.5;
/// The part of the seconds in which the processors are busy, from which on their users are asked for even if the mean of all seconds is not.
const MIN_BUSY_SECONDS_SHARE: f64 = 0.2;
/// A client with more than this part of all connections uses much because it is many.
const MAX_CONNECTION_PART: f64 = 0.5;
/// Writes are the work of a bulk writer if its connections do hardly anything else, and if other clients have at least this part of all time.
const MIN_OWN_PART: f64 = 0.8;
const MIN_OTHER_CLIENTS_SHARE: f64 = 0.02;
/// Users that wait for this part of their time are not those that others wait for.
const MIN_WAITING_SHARE: f64 = 0.5;

/// Findings without a cap or a stop of their own, whose cost is a part of the mean of all operations.
const OF_THE_MEAN: [&str; 7] = [
    SERVER_FILLS,
    "cache-misses-on-path",
    "device-saturated",
    "eviction-by-operations",
    "journal-on-path",
    "small-cache",
    "tickets-or-locks",
];

/// Findings on times in which operations waited, whatever they waited for.
const SYMPTOMS: [&str; 4] = ["stalls", "operations-stand-still", "checkpoint-spikes", "periodic-spikes"];
/// The least part of these times in which the work ran that explains them.
const MIN_COMMON_PART: f64 = 0.8;

/// Leaves the waits of a watched load to the work that ran meanwhile, if the load's own clock shows what it loses by that: it is one cause. A limit
/// that the device reached is a cause of its own.
pub(crate) fn join_symptoms(findings: &mut [Finding]) {
    let is_measured = |one: &&Finding| {
        let is_costly = one
            .cost
            .as_ref()
            .is_some_and(|cost| cost.share >= MIN_COST_SHARE && cost.clock != LatencyClock::Server);
        is_of_work(one) && one.confidence != Confidence::CannotTell && is_costly
    };
    let Some((work, claim)) =
        findings.iter().find(is_measured).map(|work| (work.windows_ns.clone(), work.claim.clone()))
    else {
        return;
    };
    let is_symptom = |one: &&mut Finding| {
        SYMPTOMS.contains(&one.id.as_str())
            && !one.claim.contains(AT_LIMIT)
            && common_part(&one.windows_ns, &work) >= MIN_COMMON_PART
    };
    for symptom in findings.iter_mut().filter(is_symptom) {
        symptom.evidence.push(format!("The cost is that of the work which ran meanwhile: {claim}."));
        symptom.severity = Severity::Note;
        symptom.cost = None;
        symptom.gain = None;
    }
}

/// The part of windows that lies within others, none of which overlap.
fn common_part(windows: &[Window], others: &[Window]) -> f64 {
    let length = |(begin_ns, end_ns): Window| end_ns.saturating_sub(begin_ns) as f64;
    let common = |one: &Window| -> f64 {
        others.iter().map(|other| length((one.0.max(other.0), one.1.min(other.1)))).sum()
    };
    let all: f64 = windows.iter().copied().map(length).sum();
    if all > 0.0 { windows.iter().map(common).sum::<f64>() / all } else { 0.0 }
}

/// Names users, and adds a finding for each kind of work that fills a resource.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    for member in evidence.members() {
        if is_router(evidence, &member) || !meets_clients(evidence, &member) {
            continue;
        }
        let Ok(number) = member.parse() else { continue };
        let Some(table) = work_table(&evidence.results, number, evidence.window_ns) else { continue };
        let place = WorkPlace { evidence, member: &member, table: &table };
        let mut busy = busy_resources(evidence, judgement, &member);
        for one in &busy {
            if let Some(finding) = one.finding_of(judgement) {
                place.name_users(finding, one.resource);
            }
        }
        if are_processors_busy(evidence) {
            busy.push(BusyResource { finding: None, resource: WorkResource::Processor });
        }
        for heavy in place.causes(&busy) {
            let (finding, loss) = place.finding(&heavy);
            place.withdraw_costs(judgement, &busy, &heavy, loss.as_ref());
            judgement.findings.push(finding);
        }
    }
}

/// A resource that is short, and the place of the finding that says so.
#[derive(Clone, Copy)]
struct BusyResource {
    finding: Option<usize>,
    resource: WorkResource,
}

impl BusyResource {
    fn finding_of(self, judgement: &mut Judgement) -> Option<&mut Finding> {
        judgement.findings.get_mut(self.finding?)
    }
}

/// The resources of a server that findings say are short.
fn busy_resources(evidence: &Evidence, judgement: &Judgement, member: &str) -> Vec<BusyResource> {
    let of_member = format!("server.{member}.");
    let is_alone = evidence.members().len() == 1;
    let is_its = |one: &Finding| is_alone || one.series.iter().any(|name| name.starts_with(&of_member));
    let is_shown = |one: &Finding| one.is_alarm() || one.confidence != Confidence::CannotTell;
    let findings = judgement.findings.iter().enumerate().filter(|(_, one)| is_its(one) && is_shown(one));
    let of_finding = |(at, one): (usize, &Finding)| {
        let resources = resources_of(one).into_iter();
        resources.map(|resource| BusyResource { finding: Some(at), resource }).collect::<Vec<_>>()
    };
    findings.flat_map(of_finding).collect()
}

/// Whether hardly any processor time is free in a good part of the seconds. A processor that waits for a device is free.
fn are_processors_busy(evidence: &Evidence) -> bool {
    let idle = points(evidence, "host.cpu.idle_pct");
    let waits = points(evidence, "host.cpu.iowait_pct");
    let is_busy = |point: &&Point| {
        let at = waits.partition_point(|one| one.end_ns < point.end_ns);
        let waiting = waits.get(at).filter(|one| one.end_ns == point.end_ns).map_or(0.0, |one| one.value);
        point.value + waiting <= MAX_SHORT_IDLE_PCT
    };
    let busy = idle.iter().filter(is_busy).count();
    busy > 0 && busy as f64 >= MIN_BUSY_SECONDS_SHARE * idle.len() as f64
}

/// The resources that a finding says are short.
fn resources_of(finding: &Finding) -> Vec<WorkResource> {
    if is_processor_shortage(finding) {
        let is_of_server = finding.id != "client-limited";
        return is_of_server.then_some(WorkResource::Processor).into_iter().collect();
    }
    if matches!(finding.id.as_str(), "operations-stand-still" | "checkpoint-spikes") {
        return vec![WorkResource::DiskWrites];
    }
    let Some((_, cause)) = ranked_cause(finding) else { return Vec::new() };
    if matches!(finding.id.as_str(), "fsync-lock" | "lock-held-by") {
        return Vec::new();
    }
    let mut resources: Vec<WorkResource> = cause
        .waits_of(finding)
        .into_iter()
        .filter_map(|wait| match wait {
            Wait::PageRead | Wait::CacheMiss => Some(WorkResource::DiskReads),
            Wait::Eviction | Wait::Journal => Some(WorkResource::DiskWrites),
            Wait::Ticket | Wait::Lock | Wait::Conflict => Some(WorkResource::Time),
            _ => None,
        })
        .collect();
    resources.sort_unstable();
    resources.dedup();
    resources
}

/// A server with its table of work.
struct WorkPlace<'e> {
    evidence: &'e Evidence,
    member: &'e str,
    table: &'e WorkTable,
}

/// The work that fills a resource.
struct HeavyWork<'t> {
    id: &'static str,
    resource: WorkResource,
    share: WorkShare,
    worker: Worker<'t>,
    rows: Vec<&'t WorkRow>,
}

/// The operations or the client behind heavy work.
enum Worker<'t> {
    User(UserShare<'t>),
    Client(&'t ClientWork),
}

impl Worker<'_> {
    fn words(&self) -> String {
        match self {
            Worker::User(user) => user.words(),
            Worker::Client(client) => client_words(client),
        }
    }

    fn owns(&self, group: &OperationGroup) -> bool {
        match self {
            Worker::User(user) => WorkUser::of_group(group) == user.user,
            Worker::Client(one) => {
                (&group.application, &group.driver, &group.client)
                    == (&one.application, &one.driver, &one.client)
            }
        }
    }
}

/// A client by its application, its driver and its host.
fn client_words(client: &ClientWork) -> String {
    let name = client.application.as_deref().or(client.driver.as_deref()).unwrap_or("without a name");
    let host = client.client.as_deref().map_or_else(String::new, |host| format!(" on {host}"));
    let connections = match client.connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    format!("the client {name}{host} with {connections}")
}

impl WorkPlace<'_> {
    /// The users of a resource; by the time of operations if threads were not read.
    fn users(&self, resource: WorkResource) -> (WorkResource, Vec<UserShare<'_>>) {
        let of = |resource| users(self.table, resource).map(|found| (resource, found));
        of(resource).or_else(|| of(WorkResource::Time)).unwrap_or((WorkResource::Time, Vec::new()))
    }

    /// Adds the largest users of the resource to the claim, and what belongs to none to the evidence.
    fn name_users(&self, finding: &mut Finding, resource: WorkResource) {
        let (resource, found) = self.users(resource);
        let of_others = |one: &&UserShare<'_>| resource != WorkResource::Time || !mostly_waits(&one.rows);
        let named: Vec<String> = found
            .iter()
            .filter(|one| one.share.low >= MIN_NAMED_SHARE)
            .filter(of_others)
            .take(MAX_NAMED_USERS)
            .filter_map(|one| self.use_words(&one.words(), &one.rows, resource, one.share))
            .collect();
        let is_new = !named.iter().any(|words| finding.claim.contains(words.as_str()));
        if !named.is_empty() && is_new {
            let claim = finding.claim.trim_end_matches('.');
            let end = if claim.len() < finding.claim.len() { "." } else { "" };
            finding.claim = format!("{claim}; {}{end}", named.join(", and "));
        }
        let rest = self.rest_words(resource).filter(|words| !finding.evidence.contains(words));
        finding.evidence.extend(rest);
    }

    /// The use of a resource in words: `scans of a.b without an index use 1.93 processors, 93 to 99 % of the server's processor time`.
    fn use_words(
        &self,
        who: &str,
        rows: &[&WorkRow],
        resource: WorkResource,
        share: WorkShare,
    ) -> Option<String> {
        let percent = share.words()?;
        Some(match resource {
            WorkResource::Processor => {
                let used_us: f64 = rows.iter().filter_map(|row| row.used.processor_us).sum();
                let processors = used_us / 1e6 / self.table.threads_s.max(1e-3);
                format!("{who} use {processors:.2} processors, {percent} of the server's processor time")
            }
            WorkResource::DiskReads => format!("{who} read {percent} of the bytes that come from the disk"),
            WorkResource::DiskWrites => {
                format!("{who} wrote {percent} of the bytes that connections write to the disk")
            }
            WorkResource::Time => format!("{who} take {percent} of the time of all operations"),
        })
    }

    /// The part of a resource that belongs to no operation that was seen.
    fn rest_words(&self, resource: WorkResource) -> Option<String> {
        let (rest, all) = (self.table.unattributed_of(resource)?, self.table.all_of(resource)?);
        if all <= 0.0 {
            return None;
        }
        let what = match resource {
            WorkResource::Processor => "the server's processor time",
            WorkResource::DiskReads => "the bytes read",
            WorkResource::DiskWrites => "the bytes that connections wrote",
            WorkResource::Time => {
                let words = "The threads of the server were not read, so the shares are those of the operations' time.";
                return (self.table.threads_s <= 0.0).then(|| words.to_owned());
            }
        };
        let mut words = format!("Not attributed to any operation: {:.0} % of {what}.", 100.0 * rest / all);
        if resource == WorkResource::DiskWrites
            && let Some(engine) = self.table.engine.written_bytes.filter(|bytes| *bytes >= 1.0)
        {
            words.push_str(&format!(
                " The engine's own threads wrote {} more for all of them.",
                Bytes(engine as u64)
            ));
        }
        Some(words)
    }

    /// The work that fills a busy resource: one of each kind, and a client only if no operation explains it.
    fn causes(&self, busy: &[BusyResource]) -> Vec<HeavyWork<'_>> {
        let mut resources: Vec<WorkResource> = busy.iter().map(|one| one.resource).collect();
        resources.sort_unstable();
        resources.dedup();
        let find = |id: &'static str, is_its: &dyn Fn(&UserShare<'_>) -> bool| {
            resources.iter().find_map(|resource| {
                let (resource, found) = self.users(*resource);
                let is_most = |one: &&UserShare<'_>| self.least_share(resource, one) >= MIN_CAUSE_SHARE;
                let heavy = found.iter().filter(is_most).find(|one| is_its(one))?.clone();
                let (share, rows) = (heavy.share, heavy.rows.clone());
                Some(HeavyWork { id, resource, share, rows, worker: Worker::User(heavy) })
            })
        };
        let scans = find("collection-scan", &|one| one.user.action == WorkAction::Scan);
        let writes = find("bulk-writer", &|one| one.user.action.is_write() && self.is_apart(&one.rows));
        let mut causes: Vec<HeavyWork<'_>> = scans.into_iter().chain(writes).collect();
        if causes.is_empty() {
            causes.extend(resources.iter().find_map(|resource| self.client(*resource)));
        }
        let seconds = self.evidence.window_ns.1.saturating_sub(self.evidence.window_ns.0) as f64 / 1e9;
        causes.retain(|heavy| {
            let owns = |group: &OperationGroup| heavy.worker.owns(group);
            Culprit::new(self.evidence, self.member, &owns).has_others(self.table, seconds)
        });
        causes
    }

    /// The lower bound of a user's share. The engine's threads evict and write for what connections change, so that a share of processor time by
    /// writes is one of what connections use themselves.
    fn least_share(&self, resource: WorkResource, one: &UserShare<'_>) -> f64 {
        let is_shared = resource == WorkResource::Processor && one.user.action.is_write();
        let engine = self.table.engine.of(resource).filter(|_| is_shared).unwrap_or(0.0);
        let all = self.table.all_of(resource).unwrap_or(0.0);
        if all > engine { (one.share.low * all / (all - engine)).min(1.0) } else { one.share.low }
    }

    /// Whether operations are a work of their own, and not a part of what every client does.
    fn is_apart(&self, rows: &[&WorkRow]) -> bool {
        let own_part: f64 = rows.iter().map(|row| row.own_part).sum();
        let is_its = |one: &&ClientWork| {
            rows.iter().any(|row| {
                (&row.application, &row.driver, &row.client) == (&one.application, &one.driver, &one.client)
            })
        };
        let time_us = |of_others: bool| -> f64 {
            let clients = self.table.clients.iter().filter(|one| !of_others || !is_its(one));
            clients.map(|one| one.used.time_us).sum()
        };
        own_part >= MIN_OWN_PART && time_us(true) >= MIN_OTHER_CLIENTS_SHARE * time_us(false)
    }

    /// The client that uses half of a resource or more over few connections.
    fn client(&self, resource: WorkResource) -> Option<HeavyWork<'_>> {
        if self.table.clients.len() < 2 {
            return None;
        }
        let all = self.table.connections.len() as f64;
        let is_few = |one: &&ClientWork| one.connections as f64 <= MAX_CONNECTION_PART * all;
        let share = |one| Some((one, self.table.share_of_client(one, resource)?));
        let (client, share) = self
            .table
            .clients
            .iter()
            .filter(is_few)
            .filter_map(share)
            .find(|(_, share)| share.low >= MIN_CAUSE_SHARE)?;
        let worker = Worker::Client(client);
        let is_its = |row: &&WorkRow| {
            (&row.application, &row.driver, &row.client)
                == (&client.application, &client.driver, &client.client)
        };
        let rows = self.table.rows.iter().filter(is_its).collect();
        Some(HeavyWork { id: "one-client", resource, share, worker, rows })
    }

    /// The finding on heavy work, and the loss of the other operations as far as it is known.
    fn finding(&self, heavy: &HeavyWork<'_>) -> (Finding, Option<OthersLoss>) {
        let who = heavy.worker.words();
        let claim = self
            .use_words(&who, &heavy.rows, heavy.resource, heavy.share)
            .unwrap_or_else(|| format!("{who} use most of a resource"));
        let loss = self.loss(heavy);
        let is_known = loss.as_ref().is_some_and(OthersLoss::is_known);
        let mut finding = Finding::new(heavy.id, Severity::Note, upper_first(&claim))
            .confidence(Confidence::CannotTell)
            .advice(advice(heavy))
            .next_look("Watch once more without these operations: the difference is what the others lose.")
            .series(
                ["reads.operations", "reads.latency_us", "writes.operations", "writes.latency_us"]
                    .map(|name| format!("server.{}.{name}", self.member)),
            );
        let compared = loss.as_ref().map(|loss| loss.windows.clone()).filter(|windows| !windows.is_empty());
        finding.windows_ns = compared.unwrap_or_else(|| vec![self.evidence.window_ns]);
        finding.evidence.extend(loss.as_ref().map(|loss| loss.words.clone()));
        if is_known || heavy.id == "collection-scan" {
            let own = self.is_most_of_time(heavy).then(|| mixed_mean(&who));
            finding.evidence.extend(own);
        }
        match loss.as_ref().filter(|_| is_known) {
            Some(loss) => {
                finding.confidence = Confidence::Likely;
                finding.cost = Some(loss.cost.clone());
            }
            None => finding.evidence.push(
                "What other operations lose by it is not known: the readings have too few of them, or no time without it."
                    .to_owned(),
            ),
        }
        finding.evidence.extend(self.rest_words(heavy.resource));
        finding.evidence.extend(longest(&heavy.rows));
        finding.command = command(heavy);
        (finding, loss)
    }

    fn loss(&self, heavy: &HeavyWork<'_>) -> Option<OthersLoss> {
        let owns = |group: &OperationGroup| heavy.worker.owns(group);
        let culprit = Culprit::new(self.evidence, self.member, &owns);
        loss_by_comparison(self.evidence, self.member, &culprit).or_else(|| {
            let own = ProcessorUse {
                share: heavy.share.low,
                run_wait_us: heavy.rows.iter().filter_map(|row| row.used.run_wait_us).sum(),
            };
            let is_read = heavy.resource == WorkResource::Processor;
            is_read.then(|| loss_by_run_waits(self.evidence, self.member, self.table, &culprit, own))?
        })
    }

    /// Whether the work takes most of the time of all operations, so that their mean is its own.
    fn is_most_of_time(&self, heavy: &HeavyWork<'_>) -> bool {
        let share = self.table.share_of_rows(&heavy.rows, WorkResource::Time);
        share.is_some_and(|share| share.low >= MIN_CAUSE_SHARE)
    }

    /// Takes the cost from findings on the resource if it is a share of a mean that holds the culprit's own time: if the others' loss is known
    /// and large, or if most of all time is the culprit's.
    fn withdraw_costs(
        &self,
        judgement: &mut Judgement,
        busy: &[BusyResource],
        heavy: &HeavyWork<'_>,
        loss: Option<&OthersLoss>,
    ) {
        let known = loss.filter(|loss| loss.is_known());
        let is_most = self.is_most_of_time(heavy);
        let is_withdrawn = match known {
            Some(loss) => !loss.is_small() || is_most || heavy.resource == WorkResource::Processor,
            None => is_most && heavy.id == "collection-scan",
        };
        let is_of_all = heavy.resource == WorkResource::Time;
        let of_resource = busy.iter().filter(|one| is_of_all || one.resource == heavy.resource);
        for one in of_resource.filter(|_| is_withdrawn) {
            let Some(finding) = one.finding_of(judgement) else { continue };
            if OF_THE_MEAN.contains(&finding.id.as_str()) && !is_of_mixed_mean(finding) {
                set_mixed_mean(finding, &heavy.worker.words());
            }
        }
    }
}

fn mostly_waits(rows: &[&WorkRow]) -> bool {
    let (mut waits, mut all) = (0.0, 0.0);
    for row in rows {
        waits += row.waiting_share * row.sightings as f64;
        all += row.sightings as f64;
    }
    all > 0.0 && waits >= MIN_WAITING_SHARE * all
}

/// The longest time for which one of the operations was seen running.
fn longest(rows: &[&WorkRow]) -> Option<String> {
    let row = rows.iter().filter(|row| row.longest_us > 0).max_by_key(|row| row.longest_us)?;
    let plan = row.plan.as_deref().map_or_else(String::new, |plan| format!(", plan {plan}"));
    let shape = if row.shape.is_empty() { String::new() } else { format!(" {}", row.shape) };
    Some(format!(
        "One of them was seen after {:.0} ms: {}{shape} on {}{plan}.",
        row.longest_us as f64 / 1e3,
        row.kind,
        row.namespace
    ))
}

fn advice(heavy: &HeavyWork<'_>) -> String {
    let words = match heavy.id {
        "collection-scan" => {
            "Give these queries an index, or send fewer of them at a time; more of the resource would feed the scans too."
        }
        "bulk-writer" => {
            "Let it write less at a time (smaller batches, pauses between them, fewer connections), or when few others are at work."
        }
        _ => {
            "Let this client ask for less at a time, or read from a member that no other operation waits for."
        }
    };
    let kill = kill_command(&heavy.rows)
        .map_or_else(String::new, |kill| format!(" To end the one that ran at the end of the run: {kill}."));
    format!("{words}{kill}")
}

/// The command that ends the operation that ran for the longest at the last reading.
fn kill_command(rows: &[&WorkRow]) -> Option<String> {
    let running = rows.iter().filter(|row| row.is_running).max_by_key(|row| row.longest_us)?;
    let number = running.longest_operation.as_deref()?;
    // A router's numbers are text with the shard's name.
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("db.killOp({number}), as long as db.currentOp({{opid: {number}}}) shows it"))
}

fn command(heavy: &HeavyWork<'_>) -> Option<String> {
    if heavy.id == "collection-scan" {
        let proposed = heavy.rows.iter().find_map(|row| index_command(&row.namespace, &row.shape));
        return proposed.or_else(|| Some(see_command("planSummary: \"COLLSCAN\"")));
    }
    Some(match &heavy.worker {
        Worker::User(user) => see_command(&format!("ns: \"{}\"", user.user.namespace)),
        Worker::Client(client) => {
            match client.application.as_deref().filter(|name| !name.contains(['"', '\''])) {
                Some(name) => see_command(&format!("appName: \"{name}\"")),
                None => see_command(""),
            }
        }
    })
}

fn see_command(filter: &str) -> String {
    let filter = if filter.is_empty() { String::new() } else { format!(", {filter}") };
    format!(
        "mongosh --eval 'db.currentOp({{active: true{filter}}}).inprog'    # these operations, while they run"
    )
}

fn upper_first(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
