//! The layout pass: writes the whole file once, in order, with stamped data, and times it.
//!
//! Thin-provisioned and lazily zeroed disks charge for the first write of a block; a tool that lays its file out silently hides
//! that (docs/methods.md#first-writes-and-syncs-that-do-not-arrive). The first pass is therefore a result, and a region is written
//! a second time with other bytes for comparison. Without a layout pass, reads of a sparse or fallocated file never reach the disk.

use fathom_errors::{Error, Result};
use fathom_record::disk::{Layout, RewriteTimes};
use fathom_units::Bytes;

use crate::buffer::AlignedBuffer;
use crate::clock::now_ns;
use crate::file::BlockFile;
use crate::stamp::{FIRST_GENERATION, Generations, SECOND_GENERATION, Stamper};
use crate::target::{MIN_SIZE, ProbeTarget};

/// Bytes per write: large enough for a disk's full bandwidth, small enough to stop soon.
const WRITE_BYTES: u64 = 1 << 20;
/// The limits of the pass.
pub struct LayoutPlan {
    /// Stop early, with a shorter file, after this many nanoseconds; `None` for no limit.
    pub budget_ns: Option<u64>,
    /// Bytes at the end of the file to write a second time.
    pub second_pass: Bytes,
}

/// Writes the file of `target`. `progress` gets the bytes done and the total, and returns whether to continue. `generations`
/// records which chunks were written a second time.
///
/// # Errors
/// Any write that fails; the file is then deleted with `target`.
pub(crate) fn lay_out(
    target: &mut ProbeTarget,
    stamper: &Stamper,
    generations: Option<&Generations>,
    plan: &LayoutPlan,
    mut progress: impl FnMut(u64, u64) -> Result<bool>,
) -> Result<Layout> {
    target.reserve()?;
    let total = target.size().get();
    let mut buffer = AlignedBuffer::new(WRITE_BYTES as usize)?;
    let second_from = total.saturating_sub(plan.second_pass.get()) / WRITE_BYTES * WRITE_BYTES;
    let began = now_ns();
    let (mut at, mut second_began, mut cut_short) = (0, began, false);
    while at < total {
        if at == second_from {
            second_began = now_ns();
        }
        write_stride(target, stamper, &mut buffer, at, FIRST_GENERATION)?;
        at = (at + WRITE_BYTES).min(total);
        let over_budget = plan.budget_ns.is_some_and(|budget| now_ns() - began > budget);
        let go_on = progress(at, total)?;
        if at < total && (!go_on || (over_budget && at >= MIN_SIZE.get())) {
            cut_short = true;
            break;
        }
    }
    sync(target)?;
    let seconds = (now_ns() - began) as f64 / 1e9;
    let first_mib_per_s = rate(at.saturating_sub(second_from), now_ns() - second_began);
    if cut_short {
        target.cut_to(Bytes(at))?;
    }
    let mut layout = Layout {
        bytes: at,
        seconds,
        mib_per_s: Bytes(at).as_mib() / seconds.max(1e-9),
        rewritten: None,
        reused: false,
        cut_short,
    };
    if !cut_short && plan.second_pass.get() > 0 && second_from < total {
        let (bytes, second_mib_per_s) =
            second_pass(target, stamper, &mut buffer, second_from, &mut progress)?;
        if let Some(generations) = generations {
            generations.wrote(second_from, usize::try_from(bytes).unwrap_or(0), SECOND_GENERATION);
        }
        layout.rewritten = Some(RewriteTimes { bytes, first_mib_per_s, second_mib_per_s });
    }
    Ok(layout)
}

/// Writes the file again from `from` on, to its end or until `progress` ends it. Returns the bytes written and their MiB per second.
fn second_pass(
    target: &ProbeTarget,
    stamper: &Stamper,
    buffer: &mut AlignedBuffer,
    from: u64,
    progress: &mut impl FnMut(u64, u64) -> Result<bool>,
) -> Result<(u64, f64)> {
    let (total, began) = (target.size().get(), now_ns());
    let mut at = from;
    while at < total {
        write_stride(target, stamper, buffer, at, SECOND_GENERATION)?;
        at = (at + WRITE_BYTES).min(total);
        if !progress(total, total)? {
            break;
        }
    }
    sync(target)?;
    Ok((at - from, rate(at - from, now_ns() - began)))
}

fn write_stride(
    target: &ProbeTarget,
    stamper: &Stamper,
    buffer: &mut AlignedBuffer,
    at: u64,
    generation: u64,
) -> Result<()> {
    let rest = target.size().get().saturating_sub(at);
    let len = usize::try_from(WRITE_BYTES.min(rest)).unwrap_or(0);
    let stride = buffer.as_mut_slice().get_mut(..len).unwrap_or_default();
    stamper.fill(stride, at, generation);
    target
        .file()
        .write_at(stride, at)
        .map_err(|e| Error::io("lay out", target.path(), e).advise(format!("it was at offset {at}")))
}

fn sync(target: &ProbeTarget) -> Result<()> {
    target.file().sync_data().map_err(|e| Error::io("fdatasync", target.path(), e))
}

fn rate(bytes: u64, elapsed_ns: u64) -> f64 {
    Bytes(bytes).as_mib() / (elapsed_ns as f64 / 1e9).max(1e-9)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use fathom_process::Ledger;

    use super::*;
    use crate::probe_location::{Permits, ProbeLocation};
    use crate::target::TargetNeeds;

    const SEED: u64 = 7;
    const REGION: u64 = 4 * WRITE_BYTES;

    /// Lays a file out with a second pass of [`REGION`], in which `go_on` hears how many strides were written. Checks that every stamp is
    /// the one that verification expects, and returns the layout and how many bytes of the region differ from those of the first pass.
    fn laid_out(go_on: impl Fn(u64) -> bool) -> (Layout, u64) {
        let (place, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let permits = Permits { any_file_system: true, destroy: None };
        let place = ProbeLocation::look(place.path(), true, &permits).unwrap();
        let ledger = Ledger::open_in(state.path()).unwrap();
        let needs = TargetNeeds { writes: true, journal: false };
        let mut target = ProbeTarget::open(place, Some(MIN_SIZE), false, needs, &ledger).unwrap();
        let stamper = Stamper::new(SEED, true);
        let generations = Generations::new(SEED, MIN_SIZE.get(), FIRST_GENERATION);
        let plan = LayoutPlan { budget_ns: None, second_pass: Bytes(REGION) };
        let mut seconds = 0;
        let layout = lay_out(&mut target, &stamper, Some(&generations), &plan, |done, total| {
            let is_second = done == total;
            seconds += u64::from(is_second);
            // The first call with all bytes done is that of the first pass.
            Ok(seconds < 2 || go_on(seconds - 1))
        });
        let layout = layout.unwrap();
        let mut written = vec![0; MIN_SIZE.get() as usize];
        target.file().read_exact_at(&mut written, 0).unwrap();
        stamper.verify(&written, 0, |offset| generations.expected(offset)).unwrap();
        let mut first = vec![0; MIN_SIZE.get() as usize];
        stamper.fill(&mut first, 0, FIRST_GENERATION);
        let strides = written.chunks(WRITE_BYTES as usize).zip(first.chunks(WRITE_BYTES as usize));
        let changed = strides.filter(|(written, first)| written != first).count() as u64 * WRITE_BYTES;
        target.close(false).unwrap();
        (layout, changed)
    }

    #[test]
    fn the_second_pass_writes_other_bytes_than_the_first() {
        let (layout, changed) = laid_out(|_| true);
        assert_eq!((layout.rewritten.unwrap().bytes, changed), (REGION, REGION));
    }

    #[test]
    fn a_second_pass_that_a_signal_ended_says_how_much_it_wrote() {
        let (layout, changed) = laid_out(|strides| strides < 2);
        assert_eq!((layout.rewritten.unwrap().bytes, changed), (2 * WRITE_BYTES, 2 * WRITE_BYTES));
        assert_eq!(layout.bytes, MIN_SIZE.get());
    }
}
