//! The I/O scheduler of each layer.
//!
//! The older single-queue kernels call the same two ideas `noop` and `deadline`; both names are accepted, and the
//! command names the one that this kernel has.

use super::device::{Medium, medium};
use super::queue::persistent;
use super::{Context, Verdict};

/// From 6.0: `none` for virtual disks, NVMe and SSD, `mq-deadline` for what turns.
pub(super) fn current(context: &Context) -> Vec<Verdict> {
    judge(context, |medium| match medium {
        Medium::Virtual | Medium::Nvme | Medium::SolidState => &["none", "noop"],
        Medium::Spinning => &["mq-deadline", "deadline"],
        Medium::Remote | Medium::Stacked => &["none", "noop", "mq-deadline", "deadline"],
    })
}

/// Up to 5.0: `noop` in virtual machines, `deadline` on metal.
pub(super) fn older(context: &Context) -> Vec<Verdict> {
    judge(context, |medium| match medium {
        Medium::Virtual => &["noop", "none"],
        Medium::Nvme => &["deadline", "mq-deadline", "none"],
        Medium::SolidState | Medium::Spinning => &["deadline", "mq-deadline"],
        Medium::Remote | Medium::Stacked => &["deadline", "mq-deadline", "noop", "none"],
    })
}

fn judge(context: &Context, accepted: fn(Medium) -> &'static [&'static str]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for device in context.disks() {
        let path = format!("{}/scheduler", device.queue());
        let name = &device.name;
        let (Some(text), Some(chosen)) = (context.view.value(&path), context.view.choice(&path)) else {
            // Devices that pass requests on untouched (md, most of device mapper) have no such file, or "none".
            if device.below.is_empty() {
                verdicts.push(Verdict::cannot_tell(
                    format!("The scheduler of {name} cannot be read."),
                    format!("/{path} would tell."),
                ));
            }
            continue;
        };
        let medium = medium(context, device);
        let accepted = accepted(medium);
        let kyber = chosen == "kyber" && medium == Medium::Virtual && context.kernel.at_least(4, 12);
        let verdict = if accepted.contains(&chosen.as_str()) {
            Verdict::pass(format!("{name} ({}) uses the scheduler {chosen}.", in_words(medium)))
        } else if kyber {
            Verdict::pass(format!("{name} uses kyber, which suits several workloads in one virtual machine."))
        } else {
            let offered: Vec<&str> =
                text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
            let best =
                accepted.iter().find(|name| offered.contains(name)).or(accepted.first()).unwrap_or(&"none");
            let verdict =
                Verdict::fail(format!("{name} ({}) uses the scheduler {chosen}.", in_words(medium)))
                    .wanted(match *best {
                        "none" | "noop" => {
                            format!("Wanted: {best}: the device or the host below orders requests itself.")
                        }
                        _ => format!("Wanted: {best}."),
                    })
                    .command(format!(
                        "echo {best} > /{path}\n{}",
                        persistent(device, &format!("ATTR{{queue/scheduler}}=\"{best}\""))
                    ));
            match medium {
                Medium::Spinning => {
                    verdict.wanted(format!("Wanted: {best}, if this disk really turns.")).likely()
                }
                _ => verdict,
            }
        };
        verdicts.push(verdict.read(&path, text));
    }
    verdicts
}

fn in_words(medium: Medium) -> &'static str {
    match medium {
        Medium::Nvme => "NVMe",
        Medium::Virtual => "a virtual disk",
        Medium::Remote => "an array's volume over iSCSI",
        Medium::SolidState => "a solid-state disk",
        Medium::Spinning => "a spinning disk by its own word",
        Medium::Stacked => "a stacked device",
    }
}
