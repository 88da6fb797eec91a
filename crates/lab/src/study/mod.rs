//! A study: what it asks, what it varies, what it measures, how often, and in which sizes.
//!
//! A file says it in YAML (docs/compare.md has an example of everything). It refuses a file with a sentence that names the line, before
//! anything is made.

mod file;
mod lines;

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_record::figure::Better;
use fathom_record::study::PublishedTable;
use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::{Factor, Metric, Place, Setup};

use file::{File, Size};
pub(crate) use lines::Lines;

/// The largest file that is read, in bytes.
const LARGEST_BYTES: u64 = 1 << 20;
/// Blocks where a file does not say otherwise: exact tests then reach 1 percent (analysis.md A7).
const BLOCKS: usize = 8;
/// More cells than this are a mistake.
const MOST_CELLS: usize = 512;
/// Below this share no difference is worth a word (analysis.md A7).
const MARGIN: f64 = 0.02;
/// The size of a file that has no others.
pub(crate) const WHOLE: &str = "full";

/// What a study's trials do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measures {
    /// Load servers.
    Load,
    /// Probe a disk.
    Probe,
}

/// How trials are repeated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// How often each cell runs: once in each block.
    pub blocks: usize,
    /// Of the order and of all loads.
    pub seed: u64,
    /// Whether the first cell runs twice in each block, which shows how far two equal runs lie apart.
    pub twin: bool,
    /// How often the answer may be looked at: 1, or 3 planned looks.
    pub looks: usize,
    /// Of 2^k cells only one in 2^this runs.
    pub fraction: u32,
    /// Differences below this share count as none.
    pub margin: f64,
}

/// A factor with the levels that it takes; the first is the baseline.
#[derive(Clone, Debug)]
pub(crate) struct Varied {
    pub factor: &'static Factor,
    pub levels: Vec<Level>,
    /// Whether its levels are compared; else they are conditions under which others are.
    pub compared: bool,
}

/// A study in one of its sizes.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name.
    pub name: String,
    /// What it asks.
    pub question: String,
    /// The size that was chosen.
    pub size: String,
    /// What its trials do.
    pub measures: Measures,
    pub(crate) factors: Vec<Varied>,
    pub(crate) settings: Vec<(&'static Factor, Level)>,
    pub(crate) across: Option<usize>,
    pub(crate) metrics: Vec<(&'static Metric, bool)>,
    /// How it is repeated.
    pub design: Design,
    /// The article's own table.
    pub published: Option<PublishedTable>,
    /// What may not be concluded.
    pub cautions: Vec<String>,
    pub(crate) lines: Lines,
}

impl Study {
    /// Reads a file and takes it in a size; without one, as it stands.
    ///
    /// # Errors
    /// One sentence with the line of what is wrong.
    pub fn read(path: &Path, size: Option<&str>) -> Result<(Study, String)> {
        let failed = |error| Error::io("read the study", path, error);
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > LARGEST_BYTES {
            return Err(Error::usage(format!("{} is no study: {length} bytes", path.display())));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let study = Study::parse(&text, size).map_err(|error| {
            Error::new(Kind::Usage, format!("the study {} is refused", path.display())).because(error)
        })?;
        Ok((study, text))
    }

    /// What the text of a file says, in a size.
    pub fn parse(text: &str, size: Option<&str>) -> Result<Study> {
        let lines = Lines::of(text);
        let file: File =
            serde_yaml_ng::from_str(text).map_err(|cause| Error::usage("it does not fit").because(cause))?;
        let (name, change) = chosen(&file, size)?;
        let File {
            name: title,
            question,
            measures,
            factors,
            settings,
            compare,
            across,
            metrics,
            design,
            published,
            cautions,
            ..
        } = file;
        let change = change.unwrap_or_default();
        if let Some(unknown) = compare
            .iter()
            .chain(&across)
            .find(|name| !factors.0.iter().any(|(factor, _)| factor.name == **name))
        {
            let what = format!("'{unknown}' is not among the factors{}", lines.at(unknown));
            return Err(Error::usage(what));
        }
        let mut varied: Vec<Varied> = Vec::new();
        let mut fixed: Vec<(&'static Factor, Level)> = Vec::new();
        for (factor, own) in factors.0 {
            let levels = change
                .factors
                .0
                .iter()
                .find(|(one, _)| std::ptr::eq(*one, factor))
                .map_or(own, |(_, levels)| levels.clone());
            let compared = if compare.is_empty() {
                across.as_deref() != Some(factor.name)
            } else {
                compare.iter().any(|name| name == factor.name)
            };
            varied.push(Varied { factor, levels, compared });
        }
        if let Some((factor, _)) = change
            .factors
            .0
            .iter()
            .find(|(one, _)| !varied.iter().any(|known| std::ptr::eq(known.factor, *one)))
        {
            return Err(Error::usage(format!(
                "the size '{name}' has the factor '{}', which the study does not vary{}",
                factor.name,
                lines.at(factor.name)
            )));
        }
        for (factor, level) in settings.0.into_iter().chain(change.settings.0) {
            fixed.retain(|(one, _)| !std::ptr::eq(*one, factor));
            fixed.push((factor, level));
        }
        let across = across.and_then(|name| varied.iter().position(|one| one.factor.name == name));
        let study = Study {
            name: title,
            question,
            size: name,
            measures,
            factors: varied,
            settings: fixed,
            across,
            metrics: metrics_of(change.metrics.as_ref().unwrap_or(&metrics), measures),
            design: design_of(design, change.design),
            published,
            cautions,
            lines,
        };
        study.check()?;
        Ok(study)
    }

    /// The levels of each factor as a number of cells in a full factorial.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.factors.iter().map(|varied| varied.levels.len()).collect()
    }

    /// What a cell's trials are made of; `levels` has a place for each factor.
    pub fn setup(&self, levels: &[usize]) -> Result<Setup> {
        let mut setup = Setup::default();
        for (factor, level) in &self.settings {
            factor.put(&mut setup, &level.value)?;
        }
        for (varied, at) in self.factors.iter().zip(levels) {
            if let Some(level) = varied.levels.get(*at) {
                varied.factor.put(&mut setup, &level.value)?;
            }
        }
        Ok(setup)
    }

    /// The labels of a cell's levels.
    pub(crate) fn labels(&self, levels: &[usize]) -> Vec<String> {
        let label = |(varied, at): (&Varied, &usize)| {
            varied.levels.get(*at).map_or_else(String::new, |level| level.label.clone())
        };
        self.factors.iter().zip(levels).map(label).collect()
    }

    /// The labels of a cell of a plan.
    pub fn labels_of(&self, plan: &crate::Plan, cell: usize) -> Vec<String> {
        plan.cells.get(cell).map(|levels| self.labels(levels)).unwrap_or_default()
    }

    /// An error about a factor, with its line.
    pub(crate) fn refuse(&self, factor: &str, what: &str) -> Error {
        Error::usage(format!("{what}{}", self.lines.at(factor)))
    }

    /// An error about a cell that cannot be had here, with the line of the first factor or setting of its kind.
    pub(crate) fn impossible(&self, levels: &[usize], place: Place, error: Error) -> Error {
        let mut all = self
            .factors
            .iter()
            .map(|varied| varied.factor)
            .chain(self.settings.iter().map(|(factor, _)| *factor));
        let first = all.find(|factor| factor.place == place || factor.place == Place::Any);
        let line = first.map_or_else(String::new, |factor| self.lines.at(factor.name));
        let what = format!("the cell of {} cannot be made here{line}", self.labels(levels).join(", "));
        Error::new(error.kind(), what).because(error)
    }

    fn check(&self) -> Result<()> {
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
        let place = match self.measures {
            Measures::Load => Place::Probe,
            Measures::Probe => Place::Load,
        };
        let named = self
            .factors
            .iter()
            .map(|varied| varied.factor)
            .chain(self.settings.iter().map(|(factor, _)| *factor));
        let levels =
            self.factors.iter().flat_map(|varied| varied.levels.iter().map(|level| (varied.factor, level)));
        let inner = levels
            .filter(|(factor, _)| factor.place == Place::Any)
            .filter_map(|(_, level)| crate::factors::parts(&level.value).ok());
        let inner = inner.flatten().map(|(factor, _)| factor).collect::<Vec<_>>();
        for factor in named.chain(inner) {
            let strange =
                factor.place == place || (self.measures == Measures::Probe && factor.place == Place::Servers);
            if strange {
                let what = format!(
                    "'{}' means nothing in a study that measures a {}",
                    factor.name,
                    if self.measures == Measures::Load { "load" } else { "probe" }
                );
                return Err(self.refuse(factor.name, &what));
            }
        }
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
        let counts = |varied: &Varied| {
            varied.levels.iter().map(|level| level.value.as_f64()).collect::<Option<Vec<_>>>()
        };
        if let Some(varied) = across
            && !counts(varied).is_some_and(|counts| counts.is_sorted())
        {
            let name = varied.factor.name;
            return Err(self.refuse(
                name,
                &format!("the levels of '{name}', across which is compared, must be numbers that rise"),
            ));
        }
        self.check_size()?;
        crate::contradictions::check(self)
    }

    fn check_size(&self) -> Result<()> {
        let cells = self.shape().iter().try_fold(1usize, |product, levels| product.checked_mul(*levels));
        if self.factors.is_empty() || cells.is_none_or(|cells| cells > MOST_CELLS) {
            let what = format!(
                "a study has 1 to {MOST_CELLS} combinations of levels, and this one has {}",
                cells.map_or_else(|| "far more".to_owned(), |cells| cells.to_string())
            );
            return Err(self.refuse("factors", &what));
        }
        if !(1..=200).contains(&self.design.blocks) {
            return Err(self.refuse("blocks", &format!("blocks are 1 to 200, not {}", self.design.blocks)));
        }
        if ![1, 3].contains(&self.design.looks) {
            return Err(self.refuse("looks", &format!("looks are 1 or 3, not {}", self.design.looks)));
        }
        if !(self.design.margin > 0.0 && self.design.margin < 1.0) {
            return Err(self.refuse(
                "margin",
                &format!("a margin lies between 0 and 1, {} does not", self.design.margin),
            ));
        }
        if !self.metrics.iter().any(|(_, primary)| *primary) {
            return Err(self.refuse("metrics", "a study needs a primary metric"));
        }
        for (metric, _) in &self.metrics {
            if metric.measures != self.measures {
                return Err(self.refuse(
                    metric.name,
                    &format!("'{}' is not measured by this kind of study", metric.name),
                ));
            }
        }
        Ok(())
    }
}

/// The size that is asked for, and what it changes.
fn chosen<'f>(file: &'f File, size: Option<&str>) -> Result<(String, Option<Size>)> {
    let Some(size) = size else { return Ok((WHOLE.to_owned(), None)) };
    match file.sizes.get(size) {
        Some(change) => Ok((size.to_owned(), Some(change.clone()))),
        None => {
            let known: Vec<&str> = file.sizes.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            Err(Error::usage(format!("the study has no size '{size}'; {known}")))
        }
    }
}

/// Those of the file; a load's throughput and a probe's IOPS where it names none.
fn metrics_of(metrics: &file::Metrics, measures: Measures) -> Vec<(&'static Metric, bool)> {
    let mut all: Vec<(&'static Metric, bool)> =
        metrics.primary.iter().map(|metric| (*metric, true)).collect();
    all.extend(metrics.others.iter().map(|metric| (*metric, false)));
    if metrics.primary.is_empty() {
        let first = crate::METRICS
            .iter()
            .find(|metric| metric.measures == measures && metric.better == Better::Higher);
        all.extend(first.map(|metric| (metric, true)));
    }
    let mut seen: Vec<&str> = Vec::new();
    all.retain(|(metric, _)| {
        !seen.contains(&metric.name) && {
            seen.push(metric.name);
            true
        }
    });
    all
}

fn design_of(own: file::DesignPart, change: file::DesignPart) -> Design {
    Design {
        blocks: change.blocks.or(own.blocks).unwrap_or(BLOCKS),
        seed: change.seed.or(own.seed).unwrap_or(42),
        twin: change.twin.or(own.twin).unwrap_or(true),
        looks: change.looks.or(own.looks).unwrap_or(1),
        fraction: change.fraction.or(own.fraction).unwrap_or(0),
        margin: change.margin.or(own.margin).unwrap_or(MARGIN),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
