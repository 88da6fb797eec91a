//! The meaning of the figures for the user's data, in sentences with the arithmetic.

use fathom_record::disk::{Knee, Meaning, Step};
use fathom_units::{Bytes, Nanos, count, decimal, hours};
use serde::{Deserialize, Serialize};

use super::evidence::{journal_step, of_shape};
use super::nearest;

/// WiredTiger's leaf page on disk before compression (`leaf_page_max=32KB`, MongoDB's default).
const PAGE_BYTES: u64 = 32 << 10;

/// The data that the sentences refer to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetSize {
    pub count: u64,
    pub bytes: Bytes,
}

impl Default for DatasetSize {
    /// The study's 100 million documents (docs/methods.md#the-studies), of 1 KiB.
    fn default() -> Self {
        DatasetSize { count: 100_000_000, bytes: Bytes::kib(1) }
    }
}

/// Every sentence that the steps support.
pub fn meanings(steps: &[Step], knee: Option<&Knee>, documents: DatasetSize) -> Vec<Meaning> {
    let mut meanings = Vec::new();
    meanings.extend(cold_scan(steps, documents));
    meanings.extend(point_reads(steps));
    meanings.extend(commits(steps));
    meanings.extend(resembles(knee));
    meanings
}

/// A sentence on a step. If the processors set its pace, the sentence says so and makes no claim on the disk.
fn meaning(id: &str, of: &Step, sentence: String, arithmetic: String) -> Meaning {
    let sentence =
        if of.cpu_bound() { format!("{sentence} (Not the disk: the CPU set the pace.)") } else { sentence };
    Meaning { id: id.to_owned(), sentence, arithmetic }
}

/// A scan reads one page after another through one cursor, so the latency of one request decides.
fn cold_scan(steps: &[Step], documents: DatasetSize) -> Option<Meaning> {
    let one = of_shape(steps, "randread", PAGE_BYTES)
        .find(|step| step.streams.first().is_some_and(|s| s.depth == 1))?;
    let per_s = one.per_s();
    let per_page = (PAGE_BYTES as f64 / documents.bytes.get().max(1) as f64).max(1.0);
    let reads_per_document = (documents.bytes.get() as f64 / PAGE_BYTES as f64).max(1.0);
    let pages = documents.count as f64 / per_page * reads_per_document;
    (per_s > 0.0).then(|| {
        meaning(
            "cold-scan",
            one,
            format!(
                "A cold scan of {} documents of {} takes about {} when its pages are scattered.",
                count(documents.count as f64), documents.bytes, hours(pages / per_s)
            ),
            format!(
                "{} documents / {} per 32 KiB page = {} page reads; one cursor reads them one at a time at {}/s",
                count(documents.count as f64), decimal(per_page), count(pages), decimal(per_s)
            ),
        )
    })
}

fn point_reads(steps: &[Step]) -> Option<Meaning> {
    let most = of_shape(steps, "randread", PAGE_BYTES).max_by(|a, b| a.per_s().total_cmp(&b.per_s()))?;
    let (per_s, depth) = (most.per_s(), most.streams.first()?.depth);
    (per_s > 0.0).then(|| {
        meaning(
            "point-reads",
            most,
            format!(
                "Past RAM it serves about {} point reads per second; with half of the pages in cache, {}.",
                count(per_s), count(per_s * 2.0)
            ),
            format!("each miss is one 32 KiB page read; the disk gave {}/s of them with {depth} in flight; half of them missing: {} / 0.5", count(per_s), count(per_s)),
        )
    })
}

fn commits(steps: &[Step]) -> Option<Meaning> {
    let step = journal_step(steps)?;
    let durable = step.streams.first()?.kind("durable")?;
    let (per_s, mean) = (durable.per_s, Nanos(durable.latency.mean_ns as u64));
    Some(meaning(
        "journaled-commits",
        step,
        format!(
            "One writer that waits for the journal (j: true) commits {} times per second; writers that wait together share a sync.",
            count(per_s)
        ),
        format!(
            "append and fdatasync take {mean} on average, so 1 s / {mean} = {}/s syncs; every sync may carry many writers' commits",
            count(per_s)
        ),
    ))
}

fn resembles(knee: Option<&Knee>) -> Option<Meaning> {
    let knee = knee.filter(|knee| knee.withheld.is_none())?;
    let latency_ms = knee.latency_at_one_ns / 1e6;
    let class = nearest(knee.throughput_max_per_s, latency_ms)?;
    Some(Meaning {
        id: "resembles".to_owned(),
        sentence: format!("It behaves like {}. Beware: {}.", class.name, class.warning),
        arithmetic: format!(
            "about {} random reads per second, {} for one",
            count(knee.throughput_max_per_s),
            Nanos(knee.latency_at_one_ns as u64)
        ),
    })
}
