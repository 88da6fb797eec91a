//! The data that the loops of a workload share: the database, and the state of each collection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::collection_state::CollectionProgress;
use super::{DocumentWorkload, Phase};
use crate::binding::Binding;
use crate::generators::{Distribution, KeyChooser, Records};

/// A part of a workload's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its collections are filled.
    Load,
    /// The phase at this place.
    Phase(usize),
}

/// The data that the loops of a workload share, from its load to its last phase.
#[derive(Debug)]
pub struct DocumentShared {
    pub(super) workload: DocumentWorkload,
    pub(super) binding: Binding,
    pub(super) collections: Vec<CollectionProgress>,
    /// The position of each `sequential` chooser.
    turns: Vec<Arc<AtomicU64>>,
    /// For each operation, whether a command that the server lacks was reported.
    pub(super) told: Vec<AtomicBool>,
}

impl DocumentShared {
    /// The shared state; `next` has, for each collection, the number of the first document to insert, which is the present count.
    pub fn new(workload: DocumentWorkload, binding: Binding, next: &[u64]) -> DocumentShared {
        let state = |place: usize| CollectionProgress::up_to(next.get(place).copied().unwrap_or(0));
        DocumentShared {
            collections: (0..workload.collections.len()).map(state).collect(),
            turns: workload.choosers.iter().map(|_| Arc::default()).collect(),
            told: workload.operations.iter().map(|_| AtomicBool::new(false)).collect(),
            workload,
            binding,
        }
    }

    pub fn workload(&self) -> &DocumentWorkload {
        &self.workload
    }

    /// The number of documents that the load still has to insert, over all collections.
    pub fn documents_to_load(&self) -> u64 {
        let left = |(collection, state): (&super::WorkloadCollection, &CollectionProgress)| {
            collection.documents.saturating_sub(state.next())
        };
        self.workload.collections.iter().zip(&self.collections).map(left).sum()
    }

    /// Claims the numbers of up to `count` documents that the load still has to insert. Returns the collection's place, the first
    /// number and the count. One collection is filled after another.
    pub(super) fn claim_load(&self, count: u64) -> Option<(usize, u64, u64)> {
        for (place, (collection, state)) in
            self.workload.collections.iter().zip(&self.collections).enumerate()
        {
            if let Some((first, claimed)) = state.claim_below(collection.documents, count) {
                return Some((place, first, claimed));
            }
        }
        None
    }

    /// Claims the numbers of documents that an operation inserts; returns the first.
    pub(super) fn claim(&self, collection: usize, count: u64) -> u64 {
        self.collections.get(collection).map_or(0, |state| state.claim(count))
    }

    /// Records that inserts ended, successfully or not.
    pub(super) fn acknowledge(&self, collection: usize, first: u64, count: u64) {
        if let Some(state) = self.collections.get(collection) {
            state.acknowledge(first, count);
        }
    }

    /// The choosers of one loop in a part of the workload, one for each setting of choosers.
    pub(super) fn choosers(&self, part: Part) -> Vec<Option<KeyChooser>> {
        let phase = match part {
            Part::Load => None,
            Part::Phase(place) => self.workload.phases.get(place),
        };
        let used = |place: usize| self.workload.uses(phase, place);
        let chooser = |(place, turn): (usize, &Arc<AtomicU64>)| {
            let settings = self.workload.choosers.get(place).filter(|_| used(place))?;
            let there = self.collections.get(settings.collection)?.next();
            let wanted = self.workload.collections.get(settings.collection)?.documents;
            // Records that the load inserts first exist when one is chosen.
            let count = if phase.is_none() { wanted.max(there) } else { there };
            let records = Records::whole(count);
            // Zipfian with its own skew covers the existing records; YCSB's constants leave room for twice the inserts.
            let records = match (phase, settings.skew) {
                (Some(phase), None) if settings.distribution == Distribution::Zipfian => {
                    let inserts = self.workload.inserts(phase, settings.collection);
                    records.expecting(inserts.saturating_mul(2), phase.time.is_some())
                }
                _ => records,
            };
            Some(KeyChooser::new(settings.distribution, records, settings.skew, turn))
        };
        self.turns.iter().enumerate().map(chooser).collect()
    }
}

impl DocumentWorkload {
    /// Whether a phase, or the load, uses a chooser.
    fn uses(&self, phase: Option<&Phase>, chooser: usize) -> bool {
        let test = |generator: &super::template::Generator| match generator {
            super::template::Generator::Existing(place) => {
                self.existing.get(*place).is_some_and(|existing| existing.chooser == chooser)
            }
            _ => false,
        };
        let documents = self.collections.iter().filter_map(|collection| collection.document.as_ref());
        let mut templates: Vec<&super::Template> = documents.collect();
        for operation in phase
            .into_iter()
            .flat_map(|phase| &phase.mix)
            .filter_map(|(place, _)| self.operations.get(*place))
        {
            templates.extend(&operation.variables);
            templates.extend(operation.steps.iter().flat_map(|step| step.command.templates()));
        }
        templates.into_iter().any(|template| template.any(&test))
    }

    /// The number of documents that a phase will insert into a collection, if it counts operations.
    fn inserts(&self, phase: &Phase, collection: usize) -> u64 {
        let Some(operations) = phase.operations else { return 0 };
        let share = |(place, operation): (usize, &super::Operation)| {
            let inserts = operation.steps.iter().filter(|step| {
                step.collection == collection
                    && matches!(step.command, super::operations::StepCommand::Insert { .. })
            });
            phase.share(place) * inserts.count() as f64
        };
        let share: f64 = self.operations.iter().enumerate().map(share).sum();
        (operations as f64 * share).min(1e15) as u64
    }
}
