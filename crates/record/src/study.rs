//! What a study came to: its cells with what each block measured, the comparisons of their levels, and the published table beside ours.
//!
//! Everything that is shown of a study is computed from this and its trials' own run folders. A value that a broken trial could not give
//! is absent, never zero. Effects are ratios to the baseline: 1.10 is ten percent more.

use serde::{Deserialize, Serialize};

use crate::better::Better;

/// The result of a study, one line of its `results.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Its name (`xfs-against-ext4`).
    pub name: String,
    /// What it asks.
    pub question: String,
    /// The size that ran: `quick`, `article`, or `full` where the file has no sizes.
    pub size: String,
    /// The seed of the order and of all loads.
    pub seed: u64,
    /// What varied, in the order in which cells name their levels.
    pub factors: Vec<StudyFactor>,
    /// What was the same in every trial, as written.
    pub settings: Vec<(String, String)>,
    /// What was measured.
    pub metrics: Vec<StudyMetric>,
    /// Blocks that were planned; in each, every cell runs once.
    pub blocks_planned: usize,
    /// Blocks of which every trial ran.
    pub blocks_complete: usize,
    /// Every combination of levels that ran.
    pub cells: Vec<StudyCell>,
    /// How far two runs of the same thing lie apart, for each metric.
    pub noise: Vec<StudyNoise>,
    /// Levels against their baseline.
    pub comparisons: Vec<StudyComparison>,
    /// Pairs of factors whose effects depend on each other, or not.
    pub interactions: Vec<StudyInteraction>,
    /// Throughput over a factor that counts (threads, shards).
    pub scalings: Vec<StudyScaling>,
    /// The article's own table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedTable>,
    /// What may not be concluded, and why.
    pub cautions: Vec<String>,
}

/// Something that a study varies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyFactor {
    /// Its name in the study's file.
    pub name: String,
    /// Its levels as written; the first is the baseline.
    pub levels: Vec<String>,
}

/// Something that is measured in each trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StudyMetric {
    /// Its name (`throughput`, `update_p99`).
    pub name: String,
    /// Its unit: `1/s`, `ns`, `bytes`, `1`.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Whether the study's answer rests on it; the others are told beside it.
    pub primary: bool,
}

/// One combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyCell {
    /// The level of each factor, in the order of the factors.
    pub levels: Vec<String>,
    /// Its values, one row for each metric in their order; each row has a place for each block that was planned.
    pub values: Vec<Vec<Option<f64>>>,
    /// Trials that failed: the block, counted from 0, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<(usize, String)>,
    /// Run folders of its trials, relative to the study's, by block.
    pub runs: Vec<Option<String>>,
    /// What was made for it and what the kernel said of that, as name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<(String, String)>,
    /// What each member of its servers asked of its disk, where there is more than one; of the last trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<crate::members::MemberRow>,
}

/// How far apart two runs of the same thing lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyNoise {
    /// The metric.
    pub metric: String,
    /// The ratio that only one in twenty pairs of equal runs exceeds, minus 1: 0.03 is three percent.
    pub floor: f64,
    /// The least effect that this many blocks find four times out of five, as a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_detectable: Option<f64>,
    /// Pairs of equal runs that it rests on.
    pub pairs: usize,
}

/// One of three answers, and that there is no difference worth the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyVerdict {
    /// Surely better, by more than the noise.
    Better,
    /// Surely worse, by more than the noise.
    Worse,
    /// Surely within the margin.
    Same,
    /// It cannot be told.
    Undecided,
}

impl StudyVerdict {
    /// In a word, for people.
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
    /// The factor.
    pub factor: String,
    /// The level.
    pub level: String,
    /// What it is compared with.
    pub baseline: String,
    /// The levels of the other factors, where it holds for these alone; empty where it is the mean over all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<(String, String)>,
    /// The metric.
    pub metric: String,
    /// The level divided by the baseline.
    pub ratio: f64,
    /// Its interval of 95 percent; absent where so few pairs exclude nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The chance of a difference this large without an effect.
    pub p: f64,
    /// The same after all comparisons had their chance (Holm over the primary metrics, Benjamini and Hochberg over the rest).
    pub adjusted_p: f64,
    /// The least `p` that so many pairs can give.
    pub smallest_p: f64,
    /// Each pair: the block and its ratio.
    pub pairs: Vec<(usize, f64)>,
    /// The answer.
    pub verdict: StudyVerdict,
    /// Further blocks that would tell, where that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_blocks: Option<usize>,
    /// The answer in a sentence.
    pub words: String,
}

impl StudyComparison {
    /// Whether there surely is an effect, however small.
    pub fn excludes_none(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }

    /// The answer in a few words. A difference that is sure and within the margin is one, and too small to matter.
    pub fn answer(&self) -> &'static str {
        match self.verdict {
            StudyVerdict::Same if self.excludes_none() => "too small",
            verdict => verdict.word(),
        }
    }
}

/// From this chance on, after all interactions had theirs, two factors are taken to depend on each other.
pub const MAX_INTERACTION_P: f64 = 0.05;

impl StudyInteraction {
    /// Whether the effect of one factor surely depends on the other.
    pub fn is_sure(&self) -> bool {
        self.adjusted_p < MAX_INTERACTION_P
    }
}

/// Whether the effect of one factor depends on another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyInteraction {
    /// The two factors.
    pub factors: (String, String),
    /// Their levels against their baselines.
    pub levels: (String, String),
    /// The metric.
    pub metric: String,
    /// The effect of the first at the level of the second, divided by its effect at the baseline of the second.
    pub ratio: f64,
    /// Its interval of 95 percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The chance of this much without an interaction.
    pub p: f64,
    /// After all interactions had their chance.
    pub adjusted_p: f64,
    /// The answer in a sentence.
    pub words: String,
}

/// A metric over a factor that counts something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyScaling {
    /// The factor (`threads`, `shards`).
    pub factor: String,
    /// The phase of the load that it is of (`load`, `run`), where a trial has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The levels of the other factors.
    pub given: Vec<(String, String)>,
    /// Each level, smallest first.
    pub points: Vec<ScalingPoint>,
    /// The answer in a sentence: where more stops paying.
    pub words: String,
}

/// One level of a scaling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingPoint {
    /// What the factor counts.
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

/// What an article printed, beside which ours stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// What it shows, on what, and when.
    pub caption: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// What of it may not be laid beside our figures, and why.
    #[serde(default)]
    pub may_not_be_compared: Vec<String>,
}

/// A level as it can stand alone: `uncapped`, `4 threads`, `syncdelay 5`, `no read ahead`, `journaled on`; a name stays as it is.
pub fn level_name(factor: &str, level: &str) -> String {
    /// Factors whose number is how many of them there are.
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
