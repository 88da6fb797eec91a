//! The results of a study: its cells with the measurements of each block, the comparisons of their levels, and the published table.
//!
//! All output on a study is computed from this and its trials' own run folders. A value that is missing because of a broken trial
//! is absent, never zero. Effects are ratios to the baseline: 1.10 is ten percent more.

use serde::{Deserialize, Serialize};

use crate::better::BetterDirection;

/// The result of a study, one line of its `results.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyResult {
    /// Its name, such as `xfs-against-ext4`.
    pub name: String,
    pub question: String,
    /// The size that ran: `quick`, `article`, or `full` if the file has no sizes.
    pub size: String,
    /// The seed of the order and of all loads.
    pub seed: u64,
    /// The factors that varied, in the order in which cells name their levels.
    pub factors: Vec<StudyFactor>,
    /// The settings that all trials share, as written.
    pub settings: Vec<(String, String)>,
    pub metrics: Vec<StudyMetric>,
    /// The number of planned blocks; in each block every cell runs once.
    pub blocks_planned: usize,
    /// The number of blocks in which every trial ran.
    pub blocks_complete: usize,
    /// Every combination of levels that ran.
    pub cells: Vec<StudyCell>,
    /// The difference between two runs of the same thing, for each metric.
    pub noise: Vec<StudyNoise>,
    /// Comparisons of levels with their baseline.
    pub comparisons: Vec<StudyComparison>,
    /// Pairs of factors, with a test of whether their effects depend on each other.
    pub interactions: Vec<StudyInteraction>,
    /// Throughput over a factor that is a number (threads, shards).
    pub scalings: Vec<StudyScaling>,
    /// The article's own table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedTable>,
    /// The limits of the conclusions, with reasons.
    pub cautions: Vec<String>,
}

/// A factor that a study varies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyFactor {
    /// Its name in the study's file.
    pub name: String,
    /// Its levels as written; the first is the baseline.
    pub levels: Vec<String>,
}

/// A metric that is measured in each trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyMetric {
    /// Its name (`throughput`, `update_p99`).
    pub name: String,
    /// Its unit: `1/s`, `ns`, `bytes`, `1`.
    pub unit: String,
    /// The direction in which it is better.
    pub better: BetterDirection,
    /// Whether the study's answer is based on it. The others are listed separately.
    pub primary: bool,
}

/// One combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyCell {
    /// The level of each factor, in the order of the factors.
    pub levels: Vec<String>,
    /// Its values, one row for each metric in their order; each row has a place for each block that was planned.
    pub values: Vec<Vec<Option<f64>>>,
    /// Trials that failed: the block, counted from 0, and the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<(usize, String)>,
    /// Run folders of its trials, relative to the study's, by block.
    pub runs: Vec<Option<String>>,
    /// The storage that was made for it and the kernel's facts about it, as name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(String, String)>,
    /// The requests of each member to its disk in the last trial, if there are several members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<crate::members::MemberRow>,
}

/// The difference between two runs of the same thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyNoise {
    pub metric: String,
    /// The ratio that only one in twenty pairs of equal runs exceeds, minus 1: 0.03 is three percent.
    pub floor: f64,
    /// The least effect that this many blocks find four times out of five, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_detectable: Option<f64>,
    /// The number of pairs of equal runs that it rests on.
    pub pairs: usize,
}

/// The verdict of a comparison: one of three answers, or that there is no relevant difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyVerdict {
    /// Certainly better, by more than the noise.
    Better,
    /// Certainly worse, by more than the noise.
    Worse,
    /// Certainly within the margin.
    Same,
    Undecided,
}

impl StudyVerdict {
    /// The verdict as a word for output.
    pub fn word(self) -> &'static str {
        match self {
            StudyVerdict::Better => "better",
            StudyVerdict::Worse => "worse",
            StudyVerdict::Same => "no difference",
            StudyVerdict::Undecided => "cannot tell",
        }
    }
}

/// A level against the baseline of its factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyComparison {
    pub factor: String,
    pub level: String,
    pub baseline: String,
    /// The levels of the other factors if it holds for these alone. Empty for the mean over all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<(String, String)>,
    pub metric: String,
    /// The level divided by the baseline.
    pub ratio: f64,
    /// Its 95 percent interval; absent if the pairs are too few to exclude anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The chance of a difference this large without an effect.
    pub p: f64,
    /// The same, adjusted for the number of comparisons (Holm over the primary metrics, Benjamini and Hochberg over the rest).
    pub adjusted_p: f64,
    /// The least `p` that this number of pairs can give.
    pub smallest_p: f64,
    /// Each pair: the block and its ratio.
    pub pairs: Vec<(usize, f64)>,
    pub verdict: StudyVerdict,
    /// The number of further blocks that would decide it, if that can be estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_blocks: Option<usize>,
    /// The answer in a sentence.
    pub words: String,
}

impl StudyComparison {
    /// Whether an effect is certain, however small.
    pub fn excludes_none(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }

    /// The answer in a few words. A difference that is certain and within the margin exists, but is too small to matter.
    pub fn answer(&self) -> &'static str {
        match self.verdict {
            StudyVerdict::Same if self.excludes_none() => "too small",
            verdict => verdict.word(),
        }
    }
}

/// From this probability on, adjusted for all interactions, two factors are taken to depend on each other.
pub const MAX_INTERACTION_P: f64 = 0.05;

impl StudyInteraction {
    /// Whether the effect of one factor certainly depends on the other.
    pub fn is_sure(&self) -> bool {
        self.adjusted_p < MAX_INTERACTION_P
    }
}

/// Whether the effect of one factor depends on another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyInteraction {
    pub factors: (String, String),
    /// Their levels against their baselines.
    pub levels: (String, String),
    pub metric: String,
    /// The effect of the first at the level of the second, divided by its effect at the baseline of the second.
    pub ratio: f64,
    /// Its interval of 95 percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The chance of a ratio this extreme without an interaction.
    pub p: f64,
    /// The same, adjusted for the number of interactions.
    pub adjusted_p: f64,
    /// The answer in a sentence.
    pub words: String,
}

/// A metric over a factor that is a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyScaling {
    /// The factor (`threads`, `shards`).
    pub factor: String,
    /// The phase of the load that it belongs to (`load`, `run`), if a trial has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The levels of the other factors.
    pub given: Vec<(String, String)>,
    /// Each level, smallest first.
    pub points: Vec<ScalingPoint>,
    /// The answer in a sentence: the level from which on more bring no benefit.
    pub words: String,
}

/// One level of a scaling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// The unit that the factor counts.
    pub count: f64,
    /// Operations a second, the median over blocks.
    pub throughput_per_s: f64,
    /// Mean latency in nanoseconds, the median over blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Throughput divided by that of the first level.
    pub speedup: f64,
    /// Its interval of 95 percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

/// The published table of an article.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// Its content, machine and date.
    pub caption: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The figures that cannot be compared with ours, with reasons.
    #[serde(default)]
    pub may_not_be_compared: Vec<String>,
}

/// A level in a form that is clear by itself: `uncapped`, `4 threads`, `syncdelay 5`, `no read ahead`, `journaled on`; a name stays as it is.
pub fn level_name(factor: &str, level: &str) -> String {
    /// Factors whose level is a number of things.
    const COUNTED: [&str; 6] = ["threads", "shards", "members", "disks", "chunks", "records"];
    let words = factor.replace('_', " ");
    match level {
        "none" if factor == "cap" => "uncapped".to_owned(),
        "none" => format!("no {words}"),
        "on" | "off" => format!("{words} {level}"),
        _ if level.parse::<f64>().is_err() => level.to_owned(),
        "1" if COUNTED.contains(&factor) => format!("1 {}", factor.trim_end_matches('s')),
        _ if COUNTED.contains(&factor) => format!("{level} {factor}"),
        _ => format!("{words} {level}"),
    }
}
