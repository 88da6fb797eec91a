//! The layout pass: the whole file written once, in order, with stamped data, and timed.
//!
//! Thin-provisioned and lazily zeroed disks charge for the first write of a block; a tool that lays its file out
//! in silence hides that (disk.md 5). So the first pass is a result, and a region is written a second time to
//! compare. Without a layout pass, reads of a sparse or fallocated file never reach the disk at all.

use fathom_errors::{Error, Result};
use fathom_record::disk::{Layout, Rewritten};
use fathom_units::Bytes;

use crate::buffer::AlignedBuffer;
use crate::clock::now_ns;
use crate::file::BlockFile;
use crate::stamp::Stamper;
use crate::target::{SIZE_MIN, Target};

/// Bytes per write: large enough for a disk's full bandwidth, small enough to stop soon.
const STRIDE: u64 = 1 << 20;
/// The generation that the layout pass gives every chunk.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// How far the pass may go.
pub struct LayoutPlan {
    /// Stop early, with a shorter file, after this many nanoseconds; `None` for no limit.
    pub budget_ns: Option<u64>,
    /// Bytes at the end of the file to write a second time.
    pub second_pass: Bytes,
}

/// Writes the file of `target`. `progress` hears bytes done and in all, and answers whether to go on.
///
/// # Errors
/// Any write that fails; the file then goes with `target`.
pub(crate) fn lay_out(
    target: &mut Target,
    stamper: &Stamper,
    plan: &LayoutPlan,
    mut progress: impl FnMut(u64, u64) -> Result<bool>,
) -> Result<Layout> {
    target.reserve()?;
    let total = target.size().get();
    let mut buffer = AlignedBuffer::new(STRIDE as usize)?;
    let second_from = total.saturating_sub(plan.second_pass.get()) / STRIDE * STRIDE;
    let began = now_ns();
    let (mut at, mut second_began, mut cut_short) = (0, began, false);
    while at < total {
        if at == second_from {
            second_began = now_ns();
        }
        write_stride(target, stamper, &mut buffer, at, total)?;
        at = (at + STRIDE).min(total);
        let over_budget = plan.budget_ns.is_some_and(|budget| now_ns() - began > budget);
        let go_on = progress(at, total)?;
        if at < total && (!go_on || (over_budget && at >= SIZE_MIN.get())) {
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
        let second_mib_per_s = second_pass(target, stamper, &mut buffer, second_from, &mut progress)?;
        layout.rewritten = Some(Rewritten { bytes: total - second_from, first_mib_per_s, second_mib_per_s });
    }
    Ok(layout)
}

fn second_pass(
    target: &Target,
    stamper: &Stamper,
    buffer: &mut AlignedBuffer,
    from: u64,
    progress: &mut impl FnMut(u64, u64) -> Result<bool>,
) -> Result<f64> {
    let (total, began) = (target.size().get(), now_ns());
    let mut at = from;
    while at < total {
        write_stride(target, stamper, buffer, at, total)?;
        at = (at + STRIDE).min(total);
        if !progress(total, total)? {
            break;
        }
    }
    sync(target)?;
    Ok(rate(at - from, now_ns() - began))
}

fn write_stride(
    target: &Target,
    stamper: &Stamper,
    buffer: &mut AlignedBuffer,
    at: u64,
    total: u64,
) -> Result<()> {
    let len = usize::try_from(STRIDE.min(total - at)).unwrap_or(0);
    let stride = buffer.as_mut_slice().get_mut(..len).unwrap_or_default();
    stamper.fill(stride, at, FIRST_GENERATION);
    target
        .file()
        .write_at(stride, at)
        .map_err(|e| Error::io("lay out", target.path(), e).advise(format!("it was at offset {at}")))
}

fn sync(target: &Target) -> Result<()> {
    target.file().sync_data().map_err(|e| Error::io("fdatasync", target.path(), e))
}

fn rate(bytes: u64, elapsed_ns: u64) -> f64 {
    Bytes(bytes).as_mib() / (elapsed_ns as f64 / 1e9).max(1e-9)
}
