//! A study: its question, its factors, its metrics, its repetitions and its sizes.
//!
//! A study is a file in YAML (docs/compare.md has an example of everything). A wrong file is refused with a sentence that names the
//! line, before anything is made.

mod check;
mod file;

use std::path::Path;

use fathom_errors::{Error, Kind, Result};
use fathom_record::figure::BetterDirection;
use fathom_record::study::PublishedTable;

use crate::level::FactorLevel;
use crate::{Factor, Measures, Setup, TrialMetric, TrialPart};

pub(crate) use file::LineNames;
use file::{File, Size};

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// The number of blocks unless a file sets another: exact tests then reach 1 percent (docs/methods.md#blocks-and-pairs).
const DEFAULT_BLOCKS: usize = 8;
/// Differences below this share do not matter (docs/methods.md#blocks-and-pairs).
const MIN_RELEVANT_DIFFERENCE: f64 = 0.02;
/// The size of a file that has no others.
pub(crate) const WHOLE: &str = "full";

/// The repetition of trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Design {
    /// The number of runs of each cell: one in each block.
    pub blocks: usize,
    /// The seed of the order and of all loads.
    pub seed: u64,
    /// True if the first cell runs twice in each block, which shows the difference between two equal runs.
    pub twin: bool,
    /// The number of planned looks at the answer: 1 or 3.
    pub looks: usize,
    /// The exponent of a fraction: of 2^k cells only one in 2^this runs.
    pub fraction: u32,
    /// Differences below this share count as none.
    pub margin: f64,
}

/// A factor with the levels that it takes; the first is the baseline.
#[derive(Clone, Debug)]
pub(crate) struct FactorLevels {
    pub factor: &'static Factor,
    pub levels: Vec<FactorLevel>,
    /// True if its levels are compared; otherwise they are conditions for other comparisons.
    pub compared: bool,
}

/// A study in one of its sizes.
#[derive(Clone, Debug)]
pub struct Study {
    pub name: String,
    pub question: String,
    /// The size that was chosen.
    pub size: String,
    /// The activity of its trials.
    pub measures: Measures,
    pub(crate) factors: Vec<FactorLevels>,
    pub(crate) settings: Vec<(&'static Factor, FactorLevel)>,
    pub(crate) across: Option<usize>,
    pub(crate) metrics: Vec<(&'static TrialMetric, bool)>,
    /// The repetition of its trials.
    pub design: Design,
    /// The article's own table.
    pub published: Option<PublishedTable>,
    /// Conclusions that the study does not allow.
    pub cautions: Vec<String>,
    pub(crate) lines: LineNames,
}

impl Study {
    /// Reads a study's file in a size; without one, as written.
    ///
    /// # Errors One sentence with the line of the error.
    pub fn read(path: &Path, size: Option<&str>) -> Result<(Study, String)> {
        let failed = |error| Error::io("read the study", path, error);
        let length = std::fs::metadata(path).map_err(failed)?.len();
        if length > MAX_BYTES {
            return Err(Error::usage(format!(
                "{} is too large for a study: {length} bytes, the limit is 1 MiB",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let study = Study::parse(&text, size).map_err(|error| {
            let what = format!("the study {} is refused", path.display());
            Error::new(Kind::Usage, what).because(error).or_id("bad-study")
        })?;
        Ok((study, text))
    }

    /// Parses the text of a file, in a size.
    pub fn parse(text: &str, size: Option<&str>) -> Result<Study> {
        let lines = LineNames::from_text(text);
        let file: File = serde_yaml_ng::from_str(text).map_err(|cause| invalid(&cause))?;
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
            let named_by = if across.as_deref() == Some(unknown) { "across" } else { "compare" };
            let what = format!("'{unknown}' is not among the factors{}", lines.at(named_by));
            return Err(Error::usage(what));
        }
        let varied = varied(factors, &change, &compare, across.as_deref());
        let strange = change
            .factors
            .0
            .iter()
            .find(|(one, _)| !varied.iter().any(|known| std::ptr::eq(known.factor, *one)));
        if let Some((factor, _)) = strange {
            let what = format!(
                "the size '{name}' has the factor '{}', which the study does not vary{}",
                factor.name,
                lines.at(factor.name)
            );
            return Err(Error::usage(what));
        }
        let mut fixed: Vec<(&'static Factor, FactorLevel)> = Vec::new();
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

    /// The set-up of a cell's trials; `levels` has an index for each factor.
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
        let places = 0..self.factors.len();
        places.zip(levels).map(|(factor, level)| self.label_of(factor, *level)).collect()
    }

    /// The name of a factor by its index.
    pub(crate) fn name_of(&self, factor: usize) -> String {
        self.factors.get(factor).map_or("", |varied| varied.factor.name).to_owned()
    }

    /// The label of a level by its index and its factor's.
    pub(crate) fn label_of(&self, factor: usize, level: usize) -> String {
        let level = self.factors.get(factor).and_then(|varied| varied.levels.get(level));
        level.map_or_else(String::new, |level| level.label.clone())
    }

    /// An error about a factor, with its line.
    pub(crate) fn refuse(&self, factor: &str, what: &str) -> Error {
        Error::usage(format!("{what}{}", self.lines.at(factor))).with_id("bad-study")
    }

    /// An error about a cell that cannot be made here, with the line of the first factor or setting of its kind.
    pub(crate) fn impossible(&self, levels: &[usize], place: TrialPart, error: Error) -> Error {
        let mut all = self
            .factors
            .iter()
            .map(|varied| varied.factor)
            .chain(self.settings.iter().map(|(factor, _)| *factor));
        let first = all.find(|factor| factor.place == place || factor.place == TrialPart::Any);
        let line = first.map_or_else(String::new, |factor| self.lines.at(factor.name));
        let what = format!("the cell of {} cannot be made here{line}", self.labels(levels).join(", "));
        let error = Error::new(error.kind(), what).because(error);
        // The user must then change the study, and not the machine.
        if error.kind() == Kind::Usage { error.or_id("bad-study") } else { error }
    }
}

/// The parser's error, with its line before the sentence: behind it, a line reads like a part of the sentence.
fn invalid(cause: &serde_yaml_ng::Error) -> Error {
    let text = cause.to_string();
    let Some(at) = cause.location() else { return Error::usage(text) };
    let end = format!(" at line {} column {}", at.line(), at.column());
    Error::usage(format!("line {}, {}", at.line(), text.strip_suffix(&end).unwrap_or(&text)))
}

/// The factors with the levels of the size, and whether their levels are compared.
fn varied(
    factors: file::FileLevels,
    change: &Size,
    compare: &[String],
    across: Option<&str>,
) -> Vec<FactorLevels> {
    let one = |(factor, own): (&'static Factor, Vec<FactorLevel>)| {
        let changed = change.factors.0.iter().find(|(one, _)| std::ptr::eq(*one, factor));
        let levels = changed.map_or(own, |(_, levels)| levels.clone());
        let compared = if compare.is_empty() {
            across != Some(factor.name)
        } else {
            compare.iter().any(|name| name == factor.name)
        };
        FactorLevels { factor, levels, compared }
    };
    factors.0.into_iter().map(one).collect()
}

/// The requested size, and its changes.
fn chosen(file: &File, size: Option<&str>) -> Result<(String, Option<Size>)> {
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
            Err(Error::usage(format!("the study has no size '{size}'; {known}")).with_id("unknown-size"))
        }
    }
}

/// The metrics of the file; a load's throughput and a probe's IOPS if it names none.
fn metrics_of(metrics: &file::Metrics, measures: Measures) -> Vec<(&'static TrialMetric, bool)> {
    let mut all: Vec<(&'static TrialMetric, bool)> =
        metrics.primary.iter().map(|metric| (*metric, true)).collect();
    all.extend(metrics.others.iter().map(|metric| (*metric, false)));
    if metrics.primary.is_empty() {
        let first = crate::METRICS
            .iter()
            .find(|metric| metric.measures == measures && metric.better == BetterDirection::Higher);
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
        blocks: change.blocks.or(own.blocks).unwrap_or(DEFAULT_BLOCKS),
        seed: change.seed.or(own.seed).unwrap_or(42),
        twin: change.twin.or(own.twin).unwrap_or(true),
        looks: change.looks.or(own.looks).unwrap_or(1),
        fraction: change.fraction.or(own.fraction).unwrap_or(0),
        margin: change.margin.or(own.margin).unwrap_or(MIN_RELEVANT_DIFFERENCE),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
