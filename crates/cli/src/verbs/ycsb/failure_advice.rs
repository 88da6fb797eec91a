//! The usual causes of failed operations, and advice.

use fathom_load::core_workload::{CoreWorkload, Phase};
use fathom_load::driving::LoadResult;
use fathom_load::generators::Records;
use fathom_load::measurements::Status;
use fathom_session::LoadPlan;
use fathom_units::count;

/// Metrics of operations that are also counted under other names.
const COMPOSED: [&str; 2] = ["READ-MODIFY-WRITE", "VERIFY"];

/// The collection of a core workload.
pub(super) struct TargetCollection {
    /// The namespace, as `DATABASE.COLLECTION`.
    namespace: String,
    /// The records that it should hold.
    records: Records,
}

impl TargetCollection {
    /// The collection of a load or a run.
    pub(super) fn new(plan: &LoadPlan<CoreWorkload>) -> TargetCollection {
        let namespace = format!("{}.{}", plan.binding.database, plan.workload.table);
        TargetCollection { namespace, records: plan.workload.records }
    }

    /// A sentence for each kind of failure whose usual reason is known.
    pub(super) fn advice(&self, phase: Phase, ended: &LoadResult) -> Vec<String> {
        let counted = || ended.metrics.iter().filter(|(name, _)| !COMPOSED.contains(&name.as_str()));
        let sum = |status| counted().map(|(_, measured)| measured.returned(status)).sum::<u64>();
        let deletes = ended.metrics.iter().any(|(name, _)| *name == "DELETE");
        let missing = sum(Status::NotFound);
        let all: u64 = Status::ALL.into_iter().map(sum).sum();
        let has_duplicates = has_duplicates(ended);
        let sentences = [
            // Deleted records are expected to be missing.
            (missing > 0 && !deletes).then(|| self.missing_records(missing, all)),
            has_duplicates.then(|| self.duplicate_keys(phase)),
        ];
        sentences.into_iter().flatten().collect()
    }

    fn missing_records(&self, missing: u64, all: u64) -> String {
        let TargetCollection { namespace, records: Records { table: records, .. } } = self;
        format!(
            "{} of {} operations found no record: {namespace} holds fewer records than recordcount={records}, or \
             under other keys (insertorder, zeropadding, go-ycsb); load it with the same properties, or give \
             the recordcount that was loaded",
            count(missing as f64),
            count(all as f64)
        )
    }

    fn duplicate_keys(&self, phase: Phase) -> String {
        let TargetCollection { namespace, records: Records { first, count, table, is_apart, .. } } = self;
        match phase {
            Phase::Load => format!(
                "{namespace} already holds records with these keys: go on with 'fathom ycsb run', drop the \
                 collection, or insert other records (-p insertstart=N)"
            ),
            Phase::Run if !is_apart => format!(
                "{namespace} already holds records behind recordcount={table}: leave insertresume=false out, and \
                 inserts go on behind them"
            ),
            Phase::Run => format!(
                "{namespace} already holds records that this run inserts: another client inserts with the same \
                 insertstart={first} and insertcount={count}, or has; give each client its own part of \
                 recordcount={table} (-p insertstart=N -p insertcount=M), and their inserts stay apart"
            ),
        }
    }
}

fn has_duplicates(ended: &LoadResult) -> bool {
    ended.failures.keys().any(|kind| kind.starts_with("DuplicateKey("))
}

/// The same for a workload of documents, whose numbers are looked up once.
pub(super) fn advice_on_documents(ended: &LoadResult) -> Option<String> {
    has_duplicates(ended).then(|| {
        "some documents that it inserts exist already: another client inserts into the same collection, and both go on behind \
         the documents that were there at the start; give each client numbers of its own (!sequence {start: 1, step: 2}) or \
         an _id of !objectid"
            .to_owned()
    })
}
