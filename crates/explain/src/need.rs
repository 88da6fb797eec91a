//! Judges whether the capacities of a server cover a need (`checkup --need`).
//!
//! A need consists of rates of reads and writes on data of a size, on a host with a given amount of memory. Reads, and the updates of records, read
//! from the device what memory does not hold. Three measured points bound what the device does at once: reads alone, journaled writes alone, and
//! a mix of both, with a curve through them ([`sharing_exponent`]).

use std::str::FromStr;

use fathom_errors::{Error, Result};
use fathom_record::capacity::{Capacity, CapacityLoad, NeedAnswer, NeedVerdict};
use fathom_stats::Slo;
use fathom_units::{Bytes, count};
use serde::{Deserialize, Serialize};

/// The range of [`sharing_exponent`]: at its upper end the mix does almost as much of each kind as that kind alone.
const EXPONENTS: (f64, f64) = (0.2, 10.0);
/// Memory of the system and of mongod's connections, which caches no data.
const MEMORY_WITHOUT_DATA: Bytes = Bytes::gib(1);

/// A need: rates, an objective and sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Need {
    text: String,
    reads_per_s: f64,
    writes_per_s: f64,
    /// The objective, if the need has one.
    pub slo: Option<Slo>,
    data: Option<Bytes>,
    memory: Option<Bytes>,
    hot: Option<HotSet>,
}

/// A part of the data that gets more than its part of the accesses; both are shares, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HotSet {
    data: f64,
    accesses: f64,
}

impl FromStr for Need {
    type Err = Error;

    /// `reads=5000,writes=800,p99=10ms,data=500G,memory=64G,hot=20%:80%`; one rate at least.
    fn from_str(text: &str) -> Result<Need> {
        let mut need = Need {
            text: text.to_owned(),
            reads_per_s: 0.0,
            writes_per_s: 0.0,
            slo: None,
            data: None,
            memory: None,
            hot: None,
        };
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| refused(format!("'{part}' has no value")))?;
            let (name, value) = (name.trim(), value.trim());
            match name {
                "reads" => need.reads_per_s = rate(name, value)?,
                "writes" => need.writes_per_s = rate(name, value)?,
                "data" => need.data = Some(size(name, value)?),
                "memory" => need.memory = Some(size(name, value)?),
                "hot" => need.hot = Some(hot_set(value)?),
                _ if name == "max" || name.starts_with('p') => {
                    need.slo = Some(format!("{name}<{value}").parse()?);
                }
                _ => return Err(refused(format!("'{name}' is not a part of a need"))),
            }
        }
        if need.reads_per_s + need.writes_per_s <= 0.0 {
            return Err(refused("a need has reads, writes or both".to_owned()));
        }
        if need.memory.is_some() && need.data.is_none() {
            return Err(refused("memory is given with the size of the data".to_owned()));
        }
        Ok(need)
    }
}

impl TryFrom<String> for Need {
    type Error = Error;

    fn try_from(text: String) -> Result<Need> {
        text.parse()
    }
}

impl From<Need> for String {
    fn from(need: Need) -> String {
        need.text
    }
}

fn refused(what: String) -> Error {
    Error::usage(what).advise("write it like reads=5000,writes=800,p99=10ms,data=500G,memory=64G")
}

fn rate(name: &str, value: &str) -> Result<f64> {
    let rate = value.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or_else(|| refused(format!("{name}={value} is not a number of operations a second")))
}

fn size(name: &str, value: &str) -> Result<Bytes> {
    let size = value.parse::<Bytes>().ok().filter(|size| size.get() > 0);
    size.ok_or_else(|| refused(format!("{name}={value} is not a size")))
}

fn hot_set(value: &str) -> Result<HotSet> {
    let percent = |text: &str| {
        let percent = text.trim().strip_suffix('%')?.parse::<f64>().ok()?;
        (percent > 0.0 && percent < 100.0).then_some(percent / 100.0)
    };
    let read = value.split_once(':').and_then(|(data, accesses)| Some((percent(data)?, percent(accesses)?)));
    let (data, accesses) = read.ok_or_else(|| refused(format!("hot={value} is not like 20%:80%")))?;
    Ok(HotSet { data, accesses })
}

impl Need {
    /// Sets the memory of the need to that of the machine, unless the need has its own or says nothing of data.
    #[must_use]
    pub fn on_machine(mut self, memory: Bytes) -> Need {
        if self.data.is_some() && self.memory.is_none() {
            let memory = memory.to_string().replace(' ', "");
            self.memory = memory.parse().ok();
            self.text = format!("{},memory={memory}", self.text);
        }
        self
    }

    /// The share of accesses that memory does not serve. Without sizes every access reads the device.
    fn miss_share(&self) -> f64 {
        let (Some(data), Some(memory)) = (self.data, self.memory) else { return 1.0 };
        let held = memory.get().saturating_sub(MEMORY_WITHOUT_DATA.get()) as f64 / data.get() as f64;
        let held = held.min(1.0);
        let hit = match self.hot {
            None => held,
            Some(hot) if held <= hot.data => hot.accesses * held / hot.data,
            Some(hot) => hot.accesses + (1.0 - hot.accesses) * (held - hot.data) / (1.0 - hot.data),
        };
        1.0 - hit
    }

    fn device_reads_per_s(&self) -> f64 {
        (self.reads_per_s + self.writes_per_s) * self.miss_share()
    }

    fn assumptions(&self) -> Vec<String> {
        let mut assumptions = Vec::new();
        match (self.data, self.memory) {
            (Some(data), Some(memory)) => assumptions.push(format!(
                "Of {data} of data, mongod's cache and the page cache together hold {memory} less {MEMORY_WITHOUT_DATA}, so {:.0} % of the \
                 accesses read the device.",
                100.0 * self.miss_share()
            )),
            _ => assumptions.push("Every read and every update reads the device, because data= and memory= were not given.".to_owned()),
        }
        assumptions.push(match self.hot {
            Some(hot) => format!(
                "{:.0} % of the data get {:.0} % of the accesses.",
                100.0 * hot.data,
                100.0 * hot.accesses
            ),
            None => "All records are accessed equally often.".to_owned(),
        });
        assumptions.push("Each write waits for the journal (j: true).".to_owned());
        if self.writes_per_s > 0.0 && self.device_reads_per_s() <= 0.0 {
            let words = "The pages that checkpoints write are not counted: they depend on how many records are changed.";
            assumptions.push(words.to_owned());
        }
        assumptions
    }

    /// Whether the capacities of one server cover it. A positive answer says "in burst" if the capacities may not last.
    pub fn answer(&self, server: &str, capacities: &[&Capacity], is_sustained: bool) -> NeedAnswer {
        let needed = IoRates { reads: self.device_reads_per_s(), writes: self.writes_per_s };
        let of = |load: CapacityLoad| capacities.iter().copied().find(|one| one.load == load);
        let factor = |bound: BracketEnd| {
            let point = |load| of(load).and_then(|one| IoRates::from_capacity(one, bound));
            let points = [CapacityLoad::Reads, CapacityLoad::Mix, CapacityLoad::JournaledWrites].map(point);
            needed.factor(points)
        };
        let (held, broken) = (factor(BracketEnd::Held), factor(BracketEnd::Broken));
        let verdict = match (held, broken) {
            (Some(held), _) if held >= 1.0 => NeedVerdict::Yes,
            (_, Some(broken)) if broken < 1.0 => NeedVerdict::No,
            _ => NeedVerdict::CannotTell,
        };
        NeedAnswer {
            server: server.to_owned(),
            need: self.text.clone(),
            verdict,
            sentence: self.sentence(verdict, is_sustained, held, capacities),
            device_reads_per_s: needed.reads,
            writes_per_s: needed.writes,
            factor: held,
            broken_factor: broken.filter(|broken| broken.is_finite()),
            assumptions: self.assumptions(),
        }
    }

    fn sentence(
        &self,
        verdict: NeedVerdict,
        is_sustained: bool,
        held: Option<f64>,
        capacities: &[&Capacity],
    ) -> String {
        let what = format!(
            "{} requires {} device reads and {} journaled writes a second",
            self.text,
            count(self.device_reads_per_s()),
            count(self.writes_per_s)
        );
        let withheld = capacities.iter().find_map(|one| one.withheld.as_deref());
        match (verdict, held, withheld) {
            (NeedVerdict::Yes, Some(held), _) => {
                let yes = if is_sustained { "Yes" } else { "Yes, in burst" };
                format!("{yes}: {what}. The disk carries {:.0} % more than that.", 100.0 * (held - 1.0))
            }
            (NeedVerdict::No, Some(held), _) => {
                format!("No: {what}. The disk carries {:.0} % of that.", 100.0 * held)
            }
            (NeedVerdict::No, ..) => format!("No: {what}. No rate that was tried holds the objective."),
            (_, _, Some(withheld)) => format!("Cannot tell: {withheld}"),
            (_, Some(held), _) => format!(
                "Cannot tell: {what}. That is within the precision of the search: the objective held at {:.0} % of it and broke a \
                 little above.",
                100.0 * held
            ),
            _ => format!(
                "Cannot tell: {what}. That needs the mix of reads and writes, which --quick leaves out."
            ),
        }
    }
}

/// The end of a search's bracket that is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BracketEnd {
    /// The highest rate that met the objective.
    Held,
    /// The lowest rate that did not meet it.
    Broken,
}

/// Device reads and journaled writes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct IoRates {
    reads: f64,
    writes: f64,
}

impl IoRates {
    /// The rates of a load at a bound of its search; `None` if that was not measured.
    fn from_capacity(capacity: &Capacity, bound: BracketEnd) -> Option<IoRates> {
        if capacity.withheld.is_some() {
            return None;
        }
        let rate = match bound {
            // No rate met the objective: the capacity is below all rates that were tried.
            BracketEnd::Held => capacity.rate_per_s.unwrap_or(0.0),
            BracketEnd::Broken => capacity.broken_per_s?,
        };
        let reads = rate * capacity.device_reads_per_operation.unwrap_or(1.0);
        Some(match capacity.load {
            CapacityLoad::Reads => IoRates { reads, writes: 0.0 },
            CapacityLoad::JournaledWrites => IoRates { reads: 0.0, writes: rate },
            CapacityLoad::Mix => IoRates { reads, writes: rate / 2.0 },
        })
    }

    /// The factor by which these rates could grow until the device is full, by the points of reads alone, the mix and writes alone. `None` if a
    /// point that it needs is missing.
    fn factor(self, [reads, mix, writes]: [Option<IoRates>; 3]) -> Option<f64> {
        if self.writes <= 0.0 {
            return Some(reads?.reads / self.reads);
        }
        if self.reads <= 0.0 {
            return Some(writes?.writes / self.writes);
        }
        let (most_reads, most_writes) = (reads?.reads, writes?.writes);
        let shares = |rates: IoRates| (rates.reads / most_reads, rates.writes / most_writes);
        let (of_reads, of_writes) = shares(self);
        let exponent = sharing_exponent(shares(mix?));
        let used = (of_reads.powf(exponent) + of_writes.powf(exponent)).powf(1.0 / exponent);
        Some(if used.is_finite() { 1.0 / used } else { 0.0 })
    }
}

/// The exponent p of the bound r^p + w^p = 1 through a mix that does the shares r and w of the rates of reads and writes alone. It is 1 if
/// they take turns, more if a device does both at once, and less if they disturb each other.
fn sharing_exponent((reads, writes): (f64, f64)) -> f64 {
    let (mut low, mut high) = EXPONENTS;
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        // A larger exponent makes the sum of two shares below 1 smaller.
        if reads.powf(middle) + writes.powf(middle) > 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use fathom_record::capacity::CapacityLimit;
    use fathom_stats::SeededRandom;

    use super::*;

    fn capacity(load: CapacityLoad, held: f64, broken: f64, reads: Option<f64>) -> Capacity {
        Capacity {
            server: "s".to_owned(),
            load,
            objective: "p99<10ms".to_owned(),
            rate_per_s: Some(held),
            broken_per_s: Some(broken),
            quantile_ns: None,
            device_reads_per_operation: reads,
            device_reads_per_page: None,
            is_counted_by_process: false,
            limit: CapacityLimit::Disk,
            limit_reason: String::new(),
            saturation: None,
            checkpoints: None,
            withheld: None,
        }
    }

    /// Capacities of a disk, each with a bracket 5 % wide that contains the true value.
    fn capacities(reads: f64, mix: f64, writes: f64) -> [Capacity; 3] {
        let of = |load, rate: f64, per| capacity(load, rate * 0.975, rate * 1.025, per);
        [
            of(CapacityLoad::Reads, reads, Some(1.0)),
            of(CapacityLoad::Mix, mix, Some(1.0)),
            of(CapacityLoad::JournaledWrites, writes, None),
        ]
    }

    fn verdict(text: &str, capacities: &[Capacity]) -> NeedAnswer {
        text.parse::<Need>().unwrap().answer("s", &capacities.iter().collect::<Vec<_>>(), true)
    }

    #[test]
    fn needs_are_read_and_bad_ones_refused() {
        let need: Need =
            "reads=5000, writes=800, p99=10ms, data=500G, memory=64G, hot=20%:80%".parse().unwrap();
        assert_eq!((need.reads_per_s, need.writes_per_s), (5000.0, 800.0));
        assert_eq!(need.slo.unwrap().text(), "p99<10ms");
        for bad in [
            "",
            "reads",
            "reads=x",
            "reads=-1",
            "p99=10ms",
            "rads=5",
            "reads=1,memory=5G",
            "reads=1,hot=2:3",
            "reads=1,p99=x",
        ] {
            assert!(bad.parse::<Need>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_memory_holds_costs_no_reads() {
        let miss = |text: &str| text.parse::<Need>().unwrap().miss_share();
        assert_eq!(miss("reads=1"), 1.0);
        assert_eq!(miss("reads=1,data=100G,memory=26G"), 0.75);
        assert_eq!(miss("reads=1,data=10G,memory=64G"), 0.0);
        let need = || "reads=1,data=100G".parse::<Need>().unwrap();
        assert_eq!(need().on_machine(Bytes::gib(26)).miss_share(), 0.75);
        let again: Need = String::from(need().on_machine(Bytes::gib(26))).parse().unwrap();
        assert_eq!(again.miss_share(), 0.75, "as it is recorded");
        let own = "reads=1,data=100G,memory=51G".parse::<Need>().unwrap();
        assert_eq!(own.on_machine(Bytes::gib(26)).miss_share(), 0.5);
        // Memory holds the hot fifth, and a sixteenth of the rest.
        let hot = miss("reads=1,data=100G,memory=26G,hot=20%:80%");
        assert!((hot - 0.2 * (1.0 - 5.0 / 80.0)).abs() < 1e-12, "{hot}");
        let part = miss("reads=1,data=100G,memory=11G,hot=20%:80%");
        assert!((part - (1.0 - 0.4)).abs() < 1e-12, "{part}");
    }

    #[test]
    fn a_need_is_held_against_the_mix() {
        let measured = capacities(1000.0, 800.0, 500.0);
        let yes = verdict("reads=900", &measured);
        assert_eq!(yes.verdict, NeedVerdict::Yes, "{}", yes.sentence);
        assert!(yes.sentence.ends_with("The disk carries 8 % more than that."), "{}", yes.sentence);
        let in_burst = "reads=900".parse::<Need>().unwrap().answer("s", &measured.each_ref(), false);
        assert!(in_burst.sentence.starts_with("Yes, in burst: "), "{}", in_burst.sentence);
        assert_eq!(verdict("reads=1000", &measured).verdict, NeedVerdict::CannotTell);
        assert_eq!(verdict("reads=1100", &measured).verdict, NeedVerdict::No);
        // 400 reads alone are few, but each of 400 updates reads its page too, which makes this the mix itself.
        let mix = verdict("reads=400,writes=400", &measured);
        assert!((mix.factor.unwrap() - 0.975).abs() < 1e-9, "{mix:#?}");
        assert!((mix.broken_factor.unwrap() - 1.025).abs() < 1e-9, "{mix:#?}");
        // Updates of records in memory read nothing.
        let cached = verdict("writes=450,data=1G,memory=64G", &measured);
        assert_eq!((cached.verdict, cached.device_reads_per_s), (NeedVerdict::Yes, 0.0));
        let [reads, _, writes] = measured;
        let quick = verdict("reads=10,writes=10", &[reads, writes]);
        assert_eq!(quick.verdict, NeedVerdict::CannotTell);
        assert!(quick.sentence.contains("--quick"), "{}", quick.sentence);
    }

    #[test]
    fn what_cannot_be_measured_is_not_answered() {
        let mut measured = capacities(1000.0, 800.0, 500.0);
        measured[0].withheld = Some("Other programs take the processors.".to_owned());
        measured[0].rate_per_s = None;
        let answer = verdict("reads=10", &measured);
        assert_eq!(answer.verdict, NeedVerdict::CannotTell);
        assert!(answer.sentence.contains("Other programs"), "{}", answer.sentence);
        // No rate met the objective: all that were tried were too high.
        measured[0].withheld = None;
        assert_eq!(verdict("reads=2000", &measured).verdict, NeedVerdict::No);
    }

    /// Simulated disks with two resources (the device's queue, its flushes, ...). Reads and writes each fill one of them alone and a part of the
    /// other. The searches see three points of their bound, each within a bracket of 6 %.
    #[test]
    fn simulated_disks_are_answered_rightly() {
        let mut random = SeededRandom::from_seed(26);
        let (mut wrong, mut untold, mut all) = (0, 0, 0);
        for _ in 0..500 {
            let reads = 100.0 * 10f64.powf(3.0 * random.uniform());
            let writes = reads * 10f64.powf(2.0 * random.uniform() - 1.0);
            let (of_writes, of_reads) = (random.uniform(), random.uniform());
            let used = |x: f64, y: f64| {
                let (x, y) = (x / reads, y / writes);
                (x + of_writes * y).max(of_reads * x + y)
            };
            let fits = |x: f64, y: f64| used(x, y) < 1.0;
            // In the mix each update reads its page too, so n operations are n reads and n / 2 writes.
            let mix = 1.0 / used(1.0, 0.5);
            let measured = [
                (CapacityLoad::Reads, reads, Some(1.0)),
                (CapacityLoad::Mix, mix, Some(1.0)),
                (CapacityLoad::JournaledWrites, writes, None),
            ]
            .map(|(load, rate, per)| {
                let below = 1.0 - 0.06 * random.uniform();
                capacity(load, rate * below, rate * below * 1.06, per)
            });
            let angle = random.uniform();
            let scale = 0.5 + random.uniform();
            let (x, y) = (scale * reads * angle, scale * writes * (1.0 - angle));
            // Reads that come to x together with those of the updates.
            if x < y {
                continue;
            }
            let answer = verdict(&format!("reads={},writes={y}", x - y), &measured);
            all += 1;
            match (answer.verdict, fits(x, y)) {
                (NeedVerdict::Yes, false) | (NeedVerdict::No, true) => wrong += 1,
                (NeedVerdict::CannotTell, _) => untold += 1,
                _ => {}
            }
        }
        assert!(all > 200, "{all}");
        assert!(wrong * 100 <= 5 * all, "{wrong} of {all} are wrong");
        assert!(untold * 100 <= 15 * all, "{untold} of {all} are not told");
    }
}
