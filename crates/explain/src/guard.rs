//! The run-queue guard: if the processor is short, time that looks like the disk's is a wait for a processor.
//!
//! It runs before all other rules. Above 5 % of waiting for a processor the verdicts on the disk are withheld, and the finding
//! names the threads that waited (docs/methods.md#waiting-for-a-processor). One figure of the server is not enough: threads that wake
//! up together always wait a little, so the host must be busy too, if its processors were read.

use fathom_record::disk::Entry;
use fathom_record::{Confidence, Finding, Gain, Point, Severity, SlowOperation};
use fathom_stats::MAX_CLIENT_CPU_SHARE;
use fathom_units::{Nanos, count};

use crate::client::{ClientLoads, points};
use crate::logged_operations::{logged_operations, namespace_of};
use crate::outside_server::{gain_of_quota_outside, outside_server};
use crate::standstill::gain_of_stops;
use crate::windows::Window;
use crate::{Evidence, Judgement, busy_seconds};

/// Above this share of waiting for a processor timings are unreliable, in percent.
const MAX_WAIT_PCT: f64 = 5.0;
/// The samplers' limit on a host with idle processors. The samplers wake up together once a second and wait for each other. A quota on their own
/// control group makes them wait longer than this.
const MAX_WAIT_WITH_IDLE_PCT: f64 = 20.0;
/// Time that the hypervisor gave to other machines, above which the host is short, in percent.
const MAX_STEAL_PCT: f64 = 5.0;
/// Time for which a control group was throttled by its quota, above which a server is short of processors, in percent.
const MAX_THROTTLED_PCT: f64 = 5.0;
/// A host with more idle time than this is not short of processors, in percent.
pub(crate) const MAX_SHORT_IDLE_PCT: f64 = 20.0;
/// Tasks that run or want to run, for each processor, above which the host is short whatever other readings say.
const MAX_RUNNABLE: f64 = 2.0;
/// From this share of all processor time on, the load and the servers watched fill the machine themselves.
const MIN_OWN_SHARE: f64 = 0.7;
/// Pressure: part of the time in which at least one task waited for a processor, in percent, on a host that is busy.
const MAX_PRESSURE_PCT: f64 = 20.0;

/// The throttled time of Fathom's own process, which samples and, in a load, is the client.
const OWN_QUOTA: &str = "monitor.throttled_us";
/// The findings that say that processors are short. The first of them gives the reason of a limit.
pub(crate) const PROCESSOR_SHORTAGES: [&str; 3] = [SHORT, "client-limited", SERVER_FILLS];
const SHORT: &str = "processor-is-short";
/// The finding that the server's own operations fill the processors.
pub(crate) const SERVER_FILLS: &str = "server-fills-processors";
/// The end of the series of the time for which a quota held a process back, and the series of steal.
const THROTTLED: &str = ".process.throttled_us";
const STEAL: &str = "host.cpu.steal_pct";
/// From this part of a quota on it is used up: a period may end before its last slice is handed out.
const MIN_USED_QUOTA: f64 = 0.95;
/// Reads and writes of which one takes this many times as long as the other are two kinds of work, if the rarer has this part of the other's number.
const MIN_KIND_RATIO: f64 = 10.0;
const MIN_KIND_PART: f64 = 0.1;

/// Queries that examine this many documents for each one that they return have no index for it.
const MIN_EXAMINED_RATIO: f64 = 100.0;

/// Whether a finding says that the processors are short, as a capacity does whose limit they are.
pub fn is_processor_shortage(finding: &Finding) -> bool {
    PROCESSOR_SHORTAGES.contains(&finding.id.as_str())
}

/// Judges whether the client, the samplers, the servers or the host were short of processors.
pub(crate) fn judge(evidence: &Evidence, judgement: &mut Judgement) {
    let client = ClientLoads::from_evidence(evidence).map(|client| client_share(evidence, &client));
    let has_client = client.is_some();
    if let Some((share, name)) = client.filter(|(share, _)| *share > MAX_CLIENT_CPU_SHARE) {
        judgement
            .withheld
            .push(format!("the client's loops are busy for {:.0} % of their time.", 100.0 * share));
        judgement.findings.push(client_limited(share, name, evidence));
    }
    if let Some(throttled_pct) =
        throttled_pct(evidence, OWN_QUOTA).filter(|pct| has_client && *pct > MAX_THROTTLED_PCT)
    {
        judgement.withheld.push(format!("a quota held the client back {throttled_pct:.0} % of the time."));
        let mut finding = client_under_quota(throttled_pct, evidence);
        finding.gain = gain_of_quota(evidence, judgement, OWN_QUOTA);
        judgement.findings.push(finding);
    }
    let (held, mut busy): (Vec<Sign>, Vec<Sign>) = signs(evidence).into_iter().partition(Sign::is_of_limit);
    let busy_seconds = busy_seconds::find(evidence, judgement);
    let is_short_otherwise = !busy.is_empty();
    busy.extend(busy_seconds.as_ref().map(|found| Sign {
        reason: "other programs took the processors for some seconds.".to_owned(),
        evidence: found.evidence.clone(),
        series: "host.cpu.idle_pct".to_owned(),
    }));
    judgement.withheld.extend(held.iter().chain(&busy).map(|sign| sign.reason.clone()));
    if !held.is_empty() {
        let finding = held_by_limit(evidence, judgement, held);
        judgement.findings.push(finding);
    }
    if !busy.is_empty() {
        let mut finding = match server_fills(evidence) {
            Some(finding) if is_short_otherwise => finding,
            _ => host_is_busy(evidence, is_short_otherwise),
        };
        for sign in busy {
            finding = finding.evidence(sign.evidence).series([sign.series]);
        }
        finding.gain = busy_seconds.map(|found| found.gain);
        judgement.findings.push(finding);
    }
}

/// The finding that a quota or the hypervisor holds a server back, whatever else runs on the host.
fn held_by_limit(evidence: &Evidence, judgement: &Judgement, signs: Vec<Sign>) -> Finding {
    let is_quota = signs.iter().any(|sign| sign.series.ends_with(THROTTLED));
    let idle =
        evidence.idle_pct().map_or_else(String::new, |idle| format!(" (the host is idle for {idle:.0} %)"));
    let (claim, advice, look) = if is_quota {
        (
            "A quota of processors holds the server back",
            "Raise the quota, or remove it if it is not meant (cpu.max, or cpu.cfs_quota_us, of its control group): other programs are not the cause.",
            "The group of the process is in /proc/PID/cgroup, and how often its quota ran out in cpu.stat of the group.",
        )
    } else {
        (
            "The hypervisor gives the processors to other machines",
            "Move the machine to a host with free processors, or to one whose processors are not shared: nothing in the machine helps.",
            "Watch steal over a day: it follows the other machines' load.",
        )
    };
    let said =
        signs.first().map_or_else(String::new, |sign| format!(": {}", sign.reason.trim_end_matches('.')));
    let mut finding = Finding::new(SHORT, Severity::Warning, format!("{claim}{idle}{said}."))
        .confidence(Confidence::Certain)
        .advice(advice)
        .next_look(look)
        .window(evidence.window_ns);
    for sign in signs {
        let _ = name_file_of_quota(evidence, &sign.series, &mut finding);
        finding = finding.evidence(sign.evidence).series([sign.series]);
    }
    let members = evidence.members();
    let [member] = members.as_slice() else { return finding };
    if is_quota {
        finding.gain = quota_of_one(evidence)
            .and_then(|quota| gain_of_quota(evidence, judgement, &quota.series))
            .or_else(|| {
                let pct = throttled_pct(evidence, &format!("server.{member}{THROTTLED}"))?;
                gain_of_quota_outside(evidence, member, pct / 100.0)
            });
        finding.evidence.extend(outside_server(evidence, member));
        finding.evidence.extend(used_quota(evidence, member));
        let pid = evidence.fact(&format!("server.{member}.pid")).filter(|_| finding.command.is_none());
        finding.command = finding.command.or_else(|| {
            let group = format!("cat /proc/{}/cgroup", pid?);
            Some(format!(
                "{group}    # its group below /sys/fs/cgroup: cpu.max, or cpu.cfs_quota_us (-1 lifts it)"
            ))
        });
    }
    finding
}

/// Names the file of a server's quota in the advice, with the commands that lift the quota and that set it again, if the run holds them.
fn name_file_of_quota(evidence: &Evidence, series: &str, finding: &mut Finding) -> Option<()> {
    let fact = |what| evidence.fact(&format!("{}.process.cpu_quota.{what}", series.strip_suffix(THROTTLED)?));
    let (file, setting) = (fact("file")?, fact("setting")?);
    // Version 1 has the period in a file of its own.
    let lifted = if file.ends_with("cpu.cfs_quota_us") { "-1" } else { "max" };
    finding.advice = Some(format!(
        "Raise the quota in {file}, or remove it if it is not meant: other programs are not the cause."
    ));
    finding.command = Some(format!("echo {lifted} > {file}"));
    finding.undo = Some(format!("echo \"{setting}\" > {file}"));
    Some(())
}

/// A sentence on a quota that is used up: the server can serve no more than it does.
fn used_quota(evidence: &Evidence, member: &str) -> Option<String> {
    let quota = mean(evidence, &format!("server.{member}.process.cpu_quota")).filter(|quota| *quota > 0.0)?;
    let used = evidence.rate_per_s(&format!("server.{member}.process.cpu_us"))? / 1e6;
    let of = |kind: &str| evidence.rate_per_s(&format!("server.{member}.{kind}.operations"));
    let per_s = of("reads")? + of("writes")?;
    (used >= MIN_USED_QUOTA * quota).then(|| {
        format!(
            "The quota is used up ({:.0} %) by {} operations a second: what clients ask for beyond that is not served.",
            (100.0 * used / quota).min(100.0),
            count(per_s)
        )
    })
}

/// The finding that other programs, or the load on the same host, keep the processors busy.
fn host_is_busy(evidence: &Evidence, is_short_otherwise: bool) -> Finding {
    let mut finding = Finding::new(
        SHORT,
        Severity::Warning,
        "The processors were too busy for the timings to tell anything about the disk.",
    )
    .confidence(Confidence::Certain)
    .advice("Free processors (stop what else runs, a smaller load, more processors) and measure again.")
    .next_look("See which processes use the processors (top, pidstat).")
    .window(evidence.window_ns);
    if let Some(top) = evidence.fact("host.top.cpu") {
        finding.claim = format!(
            "The processors were too busy for the timings to tell anything about the disk; most of their time went to {top}."
        );
        finding = finding.evidence(format!("Most processor time went to {top}."));
    }
    if fills_the_machine(evidence) {
        finding.claim =
            "The load generator and the server together fill this machine; its timings tell nothing about the disk.".to_owned();
        finding.advice = Some(
            "Run the load from another host, or ask for less of it (-target, fewer connections).".to_owned(),
        );
    }
    if !is_short_otherwise {
        finding.claim =
            "Other programs took the processors for some seconds, and operations waited.".to_owned();
    }
    finding
}

/// The finding that the operations of the only server fill the host's processors. `None` if other programs have a good part of them.
fn server_fills(evidence: &Evidence) -> Option<Finding> {
    let members = evidence.members();
    let [member] = members.as_slice() else { return None };
    let used = evidence.rate_per_s(&format!("server.{member}.process.cpu_us"))? / 1e6;
    let processors = mean(evidence, "host.cpu.count").filter(|count| *count > 0.0)?;
    if used < MIN_OWN_SHARE * processors || fills_the_machine(evidence) {
        return None;
    }
    let of_kind = |kind: &str| -> Option<(f64, f64)> {
        let sum = |tail: &str| total(evidence, &format!("server.{member}.{kind}.{tail}"));
        let operations = sum("operations").filter(|operations| *operations > 0.0)?;
        Some((sum("latency_us")? / operations, operations))
    };
    let (reads, writes) = (of_kind("reads"), of_kind("writes"));
    let mixed = reads.zip(writes).filter(|((read_us, reads), (write_us, writes))| {
        let (fewer, more) = (reads.min(*writes), reads.max(*writes));
        fewer >= MIN_KIND_PART * more && read_us.max(*write_us) >= MIN_KIND_RATIO * read_us.min(*write_us)
    });
    let long = mixed.map_or(
        "operations",
        |((read_us, _), (write_us, _))| if read_us > write_us { "reads" } else { "writes" },
    );
    let mut finding = Finding::new(
        SERVER_FILLS,
        Severity::Warning,
        format!("Server {member} itself uses {used:.2} of the host's {processors:.0} processors, for its {long}"),
    )
    .confidence(Confidence::Likely)
    .advice("Find the operations that use them: scans without an index, sorts and aggregations. An index or fewer of them frees processors; stopping other programs does not.")
    .command("mongosh --eval 'db.currentOp({active: true, planSummary: \"COLLSCAN\"}).inprog'    # scans without an index, while they run")
    .next_look("The server's log names slow operations with their plans (COLLSCAN), and the collection.")
    .series([format!("server.{member}.process.cpu_us")])
    .window(evidence.window_ns);
    if let Some(((read_us, _), (write_us, _))) = mixed {
        finding.confidence = Confidence::CannotTell;
        finding.evidence.push(format!(
            "A read takes {} on average and a write {}: the mean of both is of two kinds, and says nothing about what either loses. The {} lose {} each at most.",
            time(read_us),
            time(write_us),
            if long == "reads" { "writes" } else { "reads" },
            time(read_us.min(write_us))
        ));
    }
    match logged_scans(evidence, member) {
        None => finding.evidence.push(examined_words(evidence, member).unwrap_or_else(|| {
            "The run holds no plan of a query, so it does not say which operations these are.".to_owned()
        })),
        Some((count, namespaces)) => {
            finding
                .evidence
                .push(format!("The log has {count} slow scans without an index, of {namespaces}."));
            // Readings of the server's work name its users with their shares.
            let has_readings = evidence.results.iter().any(|one| matches!(one, Entry::ServerWork(_)));
            if !has_readings && long != "writes" {
                finding.claim.push_str(&format!("; its log has scans of {namespaces} without an index"));
            }
        }
    }
    Some(finding)
}

/// The number of slow scans without an index in the log, and their collections.
fn logged_scans(evidence: &Evidence, member: &str) -> Option<(usize, String)> {
    let is_scan = |one: &&SlowOperation| one.plan.as_deref().is_some_and(|plan| plan.contains("COLLSCAN"));
    let mut namespaces: Vec<String> =
        logged_operations(evidence, member).filter(is_scan).map(namespace_of).collect();
    let count = namespaces.len();
    namespaces.sort_unstable();
    namespaces.dedup();
    (count > 0).then(|| (count, namespaces.join(", ")))
}

/// A sentence on queries that examine far more documents than they return, as those without an index do.
fn examined_words(evidence: &Evidence, member: &str) -> Option<String> {
    let rate = |tail: &str| evidence.rate_per_s(&format!("server.{member}.{tail}"));
    let (examined, returned) = (rate("scan.documents")?, rate("documents.returned")?);
    let whole = rate("scan.collections").filter(|scans| *scans >= 1.0);
    let whole = whole
        .map_or_else(String::new, |scans| format!(", {} scans of a whole collection a second", count(scans)));
    (examined >= MIN_EXAMINED_RATIO * returned.max(1.0)).then(|| {
        format!(
            "Queries examine {} documents a second and return {}, as those without an index do{whole}; the run holds no plan, so it does not say of which collection.",
            count(examined),
            count(returned)
        )
    })
}

fn time(us: f64) -> Nanos {
    Nanos((us.max(0.0) * 1e3).round() as u64)
}

/// The quota of the only server that was watched.
fn quota_of_one(evidence: &Evidence) -> Option<Sign> {
    let members = evidence.members();
    let [member] = members.as_slice() else { return None };
    quota(evidence, member)
}

/// The additional wait of operations in the seconds in which a quota throttled a process, compared with the other seconds. `series` is its throttled
/// time. `None` if these are most of the seconds, or if several servers were watched.
fn gain_of_quota(evidence: &Evidence, judgement: &Judgement, series: &str) -> Option<Gain> {
    let members = evidence.members();
    let [member] = members.as_slice() else { return None };
    let points = points(evidence, series);
    let is_held_back = |point: &&Point| {
        let length_us = point.end_ns.saturating_sub(point.begin_ns) as f64 / 1e3;
        100.0 * point.value > MAX_THROTTLED_PCT * length_us
    };
    let windows: Vec<Window> =
        points.iter().filter(is_held_back).map(|point| (point.begin_ns, point.end_ns)).collect();
    let are_few = 2 * windows.len() < points.len();
    if are_few { gain_of_stops(evidence, judgement, member, &windows) } else { None }
}

/// Whether most of the processor time went to the load and the servers watched, on one host.
pub(crate) fn fills_the_machine(evidence: &Evidence) -> bool {
    let share = evidence.fact("host.top.cpu.own_share").and_then(|share| share.parse::<f64>().ok());
    let has_idle = evidence.idle_pct().is_some_and(|idle_pct| idle_pct > MAX_SHORT_IDLE_PCT);
    ClientLoads::from_evidence(evidence).is_some()
        && !has_idle
        && share.is_some_and(|share| share >= MIN_OWN_SHARE)
}

/// One thing that waited.
struct Sign {
    reason: String,
    evidence: String,
    series: String,
}

impl Sign {
    /// Whether a quota or the hypervisor makes it, so that the host may be idle.
    fn is_of_limit(&self) -> bool {
        self.series.ends_with(THROTTLED) || self.series == STEAL
    }
}

fn signs(evidence: &Evidence) -> Vec<Sign> {
    let mut signs = Vec::new();
    let idle_pct = evidence.idle_pct();
    let has_idle = idle_pct.is_some_and(|idle| idle > MAX_SHORT_IDLE_PCT);
    let most_pct = if has_idle { MAX_WAIT_WITH_IDLE_PCT } else { MAX_WAIT_PCT };
    if let Some(wait_pct) = mean(evidence, "monitor.run_wait_pct").filter(|wait| *wait > most_pct) {
        signs.push(Sign {
            reason: format!("the samplers waited for a processor {wait_pct:.0} % of the time."),
            evidence: format!(
                "The samplers waited for a processor {wait_pct:.1} % of the time ({most_pct:.0} % is the most)."
            ),
            series: "monitor.run_wait_pct".to_owned(),
        });
    }
    // A member that only follows delays clients through replication, which has its own finding.
    let leads = |member: &&String| !crate::member::follows(evidence, member);
    signs.extend(evidence.members().iter().filter(leads).filter_map(|member| quota(evidence, member)));
    if let Some(steal_pct) = mean(evidence, "host.cpu.steal_pct").filter(|steal| *steal > MAX_STEAL_PCT) {
        signs.push(Sign {
            reason: format!("other virtual machines took {steal_pct:.0} % of the processors' time."),
            evidence: format!(
                "The hypervisor gave {steal_pct:.1} % of the processors' time to other machines (steal; 5 % is the most)."
            ),
            series: STEAL.to_owned(),
        });
    }
    if has_idle {
        return signs;
    }
    for member in evidence.members() {
        signs.extend(server_waits(evidence, &member, idle_pct));
    }
    let runnable = mean(evidence, "host.runnable").zip(mean(evidence, "host.cpu.count"));
    if let Some((runnable, count)) = runnable.filter(|(runnable, count)| *runnable > MAX_RUNNABLE * count) {
        signs.push(Sign {
            reason: format!("{runnable:.1} tasks at a time competed for the host's {count:.0} processors."),
            evidence: format!("On average {runnable:.1} tasks competed for {count:.0} processors."),
            series: "host.runnable".to_owned(),
        });
    }
    let pressure = rate_pct(evidence, "host.pressure.cpu.some_us").filter(|pct| *pct > MAX_PRESSURE_PCT);
    if let Some((pressure, idle)) = pressure.zip(idle_pct) {
        signs.push(Sign {
            reason: format!("at least one task waited for a processor {pressure:.0} % of the time."),
            evidence: format!(
                "At least one task waited for a processor {pressure:.0} % of the time, and the processors were idle for {idle:.0} %."
            ),
            series: "host.pressure.cpu.some_us".to_owned(),
        });
    }
    signs
}

/// A sentence on each member that only follows and that a quota holds back.
pub(crate) fn followers_under_quota(evidence: &Evidence) -> Vec<String> {
    let members = evidence.members();
    let follows = members.iter().filter(|member| crate::member::follows(evidence, member));
    follows.filter_map(|member| Some(quota(evidence, member)?.evidence)).collect()
}

/// Whether a quota holds a server back.
pub(crate) fn is_under_quota(evidence: &Evidence, member: &str) -> bool {
    quota(evidence, member).is_some()
}

/// A server that its control groups hold back, although the host may have idle processors.
fn quota(evidence: &Evidence, member: &str) -> Option<Sign> {
    let series = format!("server.{member}.process.throttled_us");
    let throttled_pct = throttled_pct(evidence, &series).filter(|pct| *pct > MAX_THROTTLED_PCT)?;
    let allowed = mean(evidence, &format!("server.{member}.process.cpu_quota"))
        .map_or_else(String::new, |quota| format!(" of {} processors", (100.0 * quota).round() / 100.0));
    Some(Sign {
        reason: format!("a quota{allowed} held server {member} back {throttled_pct:.0} % of the time."),
        evidence: format!(
            "A control group's quota{allowed} held server {member} back for {throttled_pct:.0} % of the time (cpu.max, cpu.cfs_quota_us)."
        ),
        series,
    })
}

/// The time that a server's threads waited for a processor, as a share of the time of its operations and of their run time.
fn server_waits(evidence: &Evidence, member: &str, idle_pct: Option<f64>) -> Option<Sign> {
    let sum = |tail: &str| total(evidence, &format!("server.{member}.{tail}"));
    // A wait of a member that only follows delays no operation of a client.
    if crate::member::follows(evidence, member) {
        return None;
    }
    let waits_us = sum("process.run_wait_us")?;
    let ran_us = sum("process.cpu_us")?;
    let time_us = sum("reads.latency_us")? + sum("writes.latency_us")?;
    let (of_time, of_run) = (100.0 * waits_us / time_us, 100.0 * waits_us / (waits_us + ran_us));
    if time_us <= 0.0 || of_time <= MAX_WAIT_PCT || of_run <= MAX_WAIT_PCT {
        return None;
    }
    let idle = idle_pct.map_or(String::new(), |idle| format!("; the processors were idle for {idle:.0} %"));
    Some(Sign {
        reason: format!(
            "server {member}'s threads waited {:.1} s for a processor, while its operations took {:.1} s.",
            waits_us / 1e6,
            time_us / 1e6
        ),
        evidence: format!(
            "Server {member}'s threads waited {:.1} s for a processor and ran {:.1} s, while its operations took {:.1} s{idle}.",
            waits_us / 1e6,
            ran_us / 1e6,
            time_us / 1e6
        ),
        series: format!("server.{member}.process.run_wait_us"),
    })
}

/// The busiest load's share, and the name of its series.
fn client_share(evidence: &Evidence, client: &ClientLoads) -> (f64, String) {
    let shares = client.loads.iter().map(|load| {
        let name = format!("{load}cpu_share");
        (mean(evidence, &name).unwrap_or(0.0), name)
    });
    shares.max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default()
}

fn client_under_quota(throttled_pct: f64, evidence: &Evidence) -> Finding {
    Finding::new("client-limited", Severity::Warning, "A processor quota limits the client that makes the load.")
        .confidence(Confidence::Likely)
        .evidence(format!(
            "The quota of Fathom's control group stopped it for {throttled_pct:.0} % of the time (cpu.max, cpu.cfs_quota_us)."
        ))
        .advice("Raise the quota of the client or reduce the load before you change anything on the server.")
        .next_look("Run the load again without the quota.")
        .undo("Nothing is changed on the server.")
        .window(evidence.window_ns)
        .series([OWN_QUOTA])
}

fn client_limited(share: f64, series: String, evidence: &Evidence) -> Finding {
    Finding::new("client-limited", Severity::Warning, "The client that makes the load is the limit, not the server.")
        .confidence(Confidence::Likely)
        .evidence(format!(
            "The client's loops use {:.0} % of the processors that they may use; above {:.0} % they measure themselves.",
            100.0 * share,
            100.0 * MAX_CLIENT_CPU_SHARE
        ))
        .advice("Run the client on another host or with more loops, or reduce the load, before you change anything on the server.")
        .next_look("Compare the client's share of its processors at half the load.")
        .undo("Nothing is changed on the server.")
        .window(evidence.window_ns)
        .series([series])
}

/// The mean of the readings of a gauge, without those that are no numbers.
fn mean(evidence: &Evidence, name: &str) -> Option<f64> {
    let values: Vec<f64> =
        points(evidence, name).iter().map(|point| point.value).filter(|value| value.is_finite()).collect();
    fathom_stats::mean(&values)
}

fn total(evidence: &Evidence, name: &str) -> Option<f64> {
    let points = points(evidence, name);
    (!points.is_empty()).then(|| points.iter().map(|point| point.value).sum())
}

/// The microseconds of a counter as a share of the time over which it was counted, in percent.
fn rate_pct(evidence: &Evidence, name: &str) -> Option<f64> {
    let points = points(evidence, name);
    let time_us: f64 = points.iter().map(|one| one.end_ns.saturating_sub(one.begin_ns) as f64 / 1000.0).sum();
    (time_us > 0.0).then(|| 100.0 * points.iter().map(|point| point.value).sum::<f64>() / time_us)
}

/// The share of the time for which a quota held a group back, in percent. The kernel adds up the time of all processors, so a figure above all of the
/// time is that of several: as many as it needs at least.
fn throttled_pct(evidence: &Evidence, name: &str) -> Option<f64> {
    rate_pct(evidence, name).map(|pct| pct / (pct / 100.0).ceil().max(1.0))
}
