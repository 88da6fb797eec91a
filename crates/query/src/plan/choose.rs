//! Chooses a plan among those that the indexes of a collection allow.

use super::candidate::{Candidate, Question};
use super::hint::HintPlan;
use super::predicates::{Predicate, collect, conjunction};
use super::{Access, Hint, IndexInfo, Plan, hint, implied};
use crate::filter::FilterNode;
use crate::{Filter, Projection, Result, Sort};

/// Chooses a plan; also returns the rejected plans, for explain. An unknown hint is refused (2).
pub fn choose(
    filter: &Filter,
    sort: Option<&Sort>,
    projection: Option<&Projection>,
    hint: Option<&Hint>,
    indexes: &[IndexInfo<'_>],
) -> Result<(Plan, Vec<Plan>)> {
    let natural = sort.and_then(hint::natural_order);
    let hinted = match hint {
        Some(hint) => Some(hint::find(hint, indexes)?),
        None => natural.map(|backwards| HintPlan::Scan { backwards }),
    };
    if hinted.is_none()
        && let Some(id) = filter.only_id()
        && indexes.iter().any(|index| index.pattern.is_id())
    {
        let plan = Plan { access: Access::Id(id.clone()), filter: false, sorted: true, covered: false };
        return Ok((plan, Vec::new()));
    }
    if conjunction(filter.root()).iter().any(|part| matches!(part, FilterNode::Always(false))) {
        let plan = Plan { access: Access::Nothing, filter: false, sorted: true, covered: false };
        return Ok((plan, Vec::new()));
    }
    let scan = |backwards| Plan {
        access: Access::Scan { backwards },
        filter: !filter.is_empty(),
        sorted: sort.is_none() || natural == Some(backwards),
        covered: false,
    };
    let mut predicates = Vec::new();
    collect(filter.root(), 0, &mut predicates);
    let parts = conjunction(filter.root()).len();
    let question = Question { predicates: &predicates, parts, sort, projection };
    match hinted {
        Some(HintPlan::Scan { backwards }) => Ok((scan(backwards), Vec::new())),
        Some(HintPlan::Index(place)) => {
            let Some(index) = indexes.get(place) else { return Ok((scan(false), Vec::new())) };
            let usable = is_usable(index, filter.root(), &predicates);
            Ok((Candidate::new(place, *index, question, !usable).plan()?, Vec::new()))
        }
        None => {
            let mut candidates = useful(filter.root(), question, indexes);
            let narrowed = candidates.first().is_some_and(Candidate::is_narrowed);
            if !narrowed && let Some(plan) = union(filter.root(), &predicates, indexes)? {
                let lost = candidates.iter().map(Candidate::plan).collect::<Result<_>>()?;
                return Ok((plan, lost));
            }
            if candidates.is_empty() {
                return Ok((scan(false), Vec::new()));
            }
            let lost = candidates.split_off(1).iter().map(Candidate::plan).collect::<Result<_>>()?;
            match candidates.first() {
                Some(best) => Ok((best.plan()?, lost)),
                None => Ok((scan(false), lost)),
            }
        }
    }
}

/// The candidates that are better than a scan, the best first.
fn useful<'a>(root: &FilterNode, question: Question<'a>, indexes: &[IndexInfo<'a>]) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate<'a>> = indexes
        .iter()
        .enumerate()
        .filter(|(_, index)| is_usable(index, root, question.predicates))
        .map(|(place, index)| Candidate::new(place, *index, question, false))
        .filter(|candidate| candidate.is_useful(question.sort))
        .collect();
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.merit()));
    candidates
}

/// Whether the index has a key for every document that the filter matches.
fn is_usable(index: &IndexInfo<'_>, root: &FilterNode, predicates: &[Predicate<'_>]) -> bool {
    let complete = !index.sparse
        || predicates.iter().any(|predicate| {
            predicate.needs_field() && index.pattern.fields.iter().any(|field| field.path == predicate.path)
        });
    complete && index.partial.is_none_or(|partial| implied::is_subset(root, partial.root()))
}

/// One plan for each branch of an `$or`, if each has an index that narrows it.
fn union(root: &FilterNode, around: &[Predicate<'_>], indexes: &[IndexInfo<'_>]) -> Result<Option<Plan>> {
    for part in conjunction(root) {
        let FilterNode::Or(branches) = part else { continue };
        let plans: Option<Vec<Plan>> = branches
            .iter()
            .map(|branch| branch_plan(branch, root, around, indexes))
            .collect::<Result<_>>()?;
        let Some(mut plans) = plans else { continue };
        plans.retain(|plan| plan.access != Access::Nothing);
        return Ok(Some(match plans.is_empty() {
            true => Plan { access: Access::Nothing, filter: false, sorted: true, covered: false },
            false => Plan { access: Access::Union(plans), filter: true, sorted: false, covered: false },
        }));
    }
    Ok(None)
}

/// The best plan for a branch with the rest of the query; `None` if only a scan would do.
fn branch_plan(
    branch: &FilterNode,
    root: &FilterNode,
    around: &[Predicate<'_>],
    indexes: &[IndexInfo<'_>],
) -> Result<Option<Plan>> {
    if matches!(branch, FilterNode::Always(false)) {
        return Ok(Some(Plan { access: Access::Nothing, filter: false, sorted: true, covered: false }));
    }
    let mut predicates = around.to_vec();
    let parts = conjunction(root).len();
    collect(branch, parts, &mut predicates);
    // The whole filter is evaluated for each document anyway, so no branch's bounds need to express all of it.
    let question = Question { predicates: &predicates, parts: usize::MAX, sort: None, projection: None };
    let both = FilterNode::And([root, branch].into_iter().cloned().collect());
    let candidates = useful(&both, question, indexes);
    match candidates.first() {
        Some(best) if best.is_narrowed() => best.plan().map(Some),
        _ => union(branch, &predicates, indexes),
    }
}
