//! Checks a study for contradictions: names, kinds of factors, numbers out of range, and levels that cannot be combined in any cell.
//!
//! Each is refused with its line. [`crate::Bench`] checks before the first trial whether this machine can run the study.

use fathom_errors::{Error, Result};
use fathom_stats::experiment::combinations;
use fathom_storage::{ArrayKind, Filesystem};
use fathom_units::Bytes;

use super::{FactorLevels, Study};
use crate::setup::{Setup, Storage, TrialLoad, TrialServers};
use crate::{Measures, TrialPart};

/// More cells than this are a mistake.
const MAX_CELLS: usize = 512;

/// The smallest file that `fathom disk` takes.
const MIN_FILE: Bytes = Bytes::mib(16);

/// The error, and the factor to change.
type FactorError = Option<(&'static str, String)>;

impl Study {
    /// Refuses a study that is not possible.
    pub(super) fn check(&self) -> Result<()> {
        self.check_name()?;
        self.check_places()?;
        self.check_levels()?;
        self.check_size()?;
        self.check_cells()
    }

    fn check_name(&self) -> Result<()> {
        let is_name = |text: &str| {
            !text.is_empty()
                && text.len() <= 64
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        if !is_name(&self.name) {
            let what = format!(
                "the name '{}' must be of letters, digits, '-', '_' and '.', 64 at most{}",
                self.name,
                self.lines.at("name")
            );
            return Err(Error::usage(what));
        }
        Ok(())
    }

    /// A probe has no servers, and a load has no probe.
    fn check_places(&self) -> Result<()> {
        let place = match self.measures {
            Measures::Load => TrialPart::Probe,
            Measures::Probe => TrialPart::Load,
        };
        let named = self
            .factors
            .iter()
            .map(|varied| varied.factor)
            .chain(self.settings.iter().map(|(factor, _)| *factor));
        let levels =
            self.factors.iter().flat_map(|varied| varied.levels.iter().map(|level| (varied.factor, level)));
        let inner = levels
            .filter(|(factor, _)| factor.place == TrialPart::Any)
            .filter_map(|(_, level)| crate::factors::parts(&level.value).ok());
        let inner = inner.flatten().map(|(factor, _)| factor).collect::<Vec<_>>();
        for factor in named.chain(inner) {
            let strange = factor.place == place
                || (self.measures == Measures::Probe && factor.place == TrialPart::Servers);
            if strange {
                let what = format!(
                    "'{}' has no effect in a study that measures a {}",
                    factor.name,
                    if self.measures == Measures::Load { "load" } else { "probe" }
                );
                return Err(self.refuse(factor.name, &what));
            }
        }
        Ok(())
    }

    fn check_levels(&self) -> Result<()> {
        for varied in &self.factors {
            if varied.levels.is_empty() {
                return Err(self.refuse(
                    varied.factor.name,
                    &format!("the factor '{}' has no level", varied.factor.name),
                ));
            }
            if self.settings.iter().any(|(factor, _)| std::ptr::eq(*factor, varied.factor)) {
                return Err(self.refuse(
                    varied.factor.name,
                    &format!("'{}' is both a factor and a setting", varied.factor.name),
                ));
            }
        }
        let across = self.across.and_then(|at| self.factors.get(at));
        let counts = |varied: &FactorLevels| {
            varied.levels.iter().map(|level| level.value.as_f64()).collect::<Option<Vec<_>>>()
        };
        if let Some(varied) = across
            && !counts(varied).is_some_and(|counts| counts.is_sorted())
        {
            let name = varied.factor.name;
            return Err(self.refuse(
                name,
                &format!("the levels of '{name}', the factor of 'across', must be numbers in rising order"),
            ));
        }
        Ok(())
    }

    fn check_size(&self) -> Result<()> {
        let cells = self.shape().iter().try_fold(1usize, |product, levels| product.checked_mul(*levels));
        if self.factors.is_empty() || cells.is_none_or(|cells| cells > MAX_CELLS) {
            let what = format!(
                "a study has 1 to {MAX_CELLS} combinations of levels, and this one has {}",
                cells.map_or_else(|| "far more".to_owned(), |cells| cells.to_string())
            );
            return Err(self.refuse("factors", &what));
        }
        if !(1..=200).contains(&self.design.blocks) {
            return Err(
                self.refuse("blocks", &format!("'blocks' must be 1 to 200, not {}", self.design.blocks))
            );
        }
        if ![1, 3].contains(&self.design.looks) {
            return Err(self.refuse("looks", &format!("'looks' must be 1 or 3, not {}", self.design.looks)));
        }
        if !(self.design.margin > 0.0 && self.design.margin < 1.0) {
            return Err(self.refuse(
                "margin",
                &format!("'margin' must be above 0 and below 1, not {}", self.design.margin),
            ));
        }
        if !self.metrics.iter().any(|(_, primary)| *primary) {
            return Err(self.refuse("metrics", "a study needs a primary metric"));
        }
        for (metric, _) in &self.metrics {
            if metric.measures != self.measures {
                return Err(self
                    .refuse("metrics", &format!("'{}' is not measured by this kind of study", metric.name)));
            }
        }
        Ok(())
    }

    /// Refuses a study with a cell that contradicts itself.
    fn check_cells(&self) -> Result<()> {
        for levels in combinations(&self.shape()) {
            let setup = self.setup(&levels)?;
            let found = storage(&setup.storage).or_else(|| match self.measures {
                Measures::Load => servers(&setup).or_else(|| load(&setup.load, &setup.servers)),
                Measures::Probe => probe(&setup),
            });
            if let Some((factor, what)) = found {
                let cell = self.labels(&levels).join(", ");
                return Err(self.refuse(factor, &format!("in the cell of {cell}: {what}")));
            }
        }
        Ok(())
    }
}

fn wrong(factor: &'static str, what: impl Into<String>) -> FactorError {
    Some((factor, what.into()))
}

fn storage(storage: &Storage) -> FactorError {
    let Storage { array, filesystem, disks, devices, .. } = storage;
    match (array, filesystem) {
        (Some(ArrayKind::BtrfsRaid0), Some(filesystem)) if *filesystem != Filesystem::Btrfs => {
            return wrong("array", format!("btrfs-raid0 needs btrfs as the file system, not {filesystem}"));
        }
        (Some(_), None) => return wrong("array", "an array needs a file system: add 'filesystem'"),
        _ => {}
    }
    if !devices.is_empty() && *disks > 1 {
        return wrong(
            "disks",
            "'disks' is the number of loop devices, and 'device' names others: leave one of them out",
        );
    }
    let (factor, plural) = if devices.is_empty() { ("disks", "disks") } else { ("device", "devices") };
    if array.is_some() && storage.count() < 2 {
        return wrong(factor, format!("an array needs at least two {plural}"));
    }
    if array.is_none() && storage.count() > 1 {
        return wrong(factor, format!("several {plural} need an array: add 'array'"));
    }
    let twice = devices
        .iter()
        .enumerate()
        .find(|(at, device)| devices.iter().take(*at).any(|other| other.path == device.path));
    if let Some((_, device)) = twice {
        return wrong("device", format!("{} is named more than once", device.path.display()));
    }
    if storage.chunk_kib.is_some_and(|chunk| !chunk.is_power_of_two()) {
        return wrong("chunk", "'chunk' must be a power of two of at least 1K");
    }
    if !storage.is_made() {
        let queue = &storage.queue;
        if queue.read_ahead_kib.is_some() || queue.scheduler.is_some() || queue.nr_requests.is_some() {
            let factor = if queue.scheduler.is_some() {
                "scheduler"
            } else if queue.nr_requests.is_some() {
                "nr_requests"
            } else {
                "read_ahead"
            };
            return wrong(
                factor,
                "Fathom does not change the queue of a device that others use: add 'filesystem' or 'device'",
            );
        }
        if !storage.mkfs.is_empty() || !storage.mount.is_empty() {
            let factor = if storage.mkfs.is_empty() { "mount" } else { "mkfs" };
            return wrong(factor, "options of mkfs and mount need a file system: add 'filesystem'");
        }
        if storage.per_member {
            return wrong("per_member", "storage for each member needs a file system: add 'filesystem'");
        }
    }
    if storage.per_member && !devices.is_empty() {
        return wrong(
            "per_member",
            "the devices of 'device' form one storage, which cannot be the storage of each member",
        );
    }
    None
}

fn servers(setup: &Setup) -> FactorError {
    let TrialServers { engines, members, shards, chunks, .. } = &setup.servers;
    if engines.len() > *members as usize {
        return wrong(
            "engine",
            format!("{} engines are given for a set of {members} members", engines.len()),
        );
    }
    if chunks.is_some() && shards.is_none() {
        return wrong("chunks", "'chunks' needs 'shards'");
    }
    if setup.servers.data_servers() > 32 {
        return wrong("shards", "at most 32 servers can hold data on one machine");
    }
    None
}

fn load(load: &TrialLoad, servers: &TrialServers) -> FactorError {
    if load.operations.is_none() && load.time.is_none() {
        return wrong("operations", "a run needs 'operations' or 'time'; otherwise it would never end");
    }
    if let Some(concern) = &load.write_concern {
        if let Ok(number) = concern.parse::<u32>()
            && number > servers.members
        {
            let what = format!("a write cannot reach {number} members: a set has {} here", servers.members);
            return wrong("write_concern", what);
        }
        if concern == "0" && load.journaled == Some(true) {
            return wrong(
                "journaled",
                "with write concern 0 no acknowledgement is awaited, so none can wait for the journal",
            );
        }
    }
    if load.threads as f64 > load.operations.unwrap_or(u64::MAX) as f64 {
        return wrong("threads", "'threads' exceeds 'operations': some threads would have no operation");
    }
    None
}

fn probe(setup: &Setup) -> FactorError {
    let Setup { storage, probe, .. } = setup;
    if probe.time.is_zero() {
        return wrong("probe_time", "'probe_time' must be above 0");
    }
    let room = storage.disk_size.0.saturating_mul(u64::from(storage.disks));
    if storage.is_made() && storage.devices.is_empty() && probe.size.0 > room / 10 * 9 {
        return wrong(
            "file_size",
            format!("a file of {} does not fit on disks of {} together", probe.size, Bytes(room)),
        );
    }
    if probe.size < MIN_FILE {
        return wrong("file_size", format!("a test file must be at least {MIN_FILE}, not {}", probe.size));
    }
    if probe.size.0 < probe.block.0.saturating_mul(4) {
        return wrong("file_size", "the test file must have at least four blocks");
    }
    None
}
