//! Fuzzes files of YCSB's properties: no panic, and an accepted file becomes a load and a run whose requests are complete
//! messages.

use std::sync::Arc;

use fathom_load::binding::Binding;
use fathom_load::client_settings::{ClientSettings, operation_count};
use fathom_load::core_workload::{CoreShared, CoreSource, CoreWorkload, Lengths, Phase};
use fathom_load::properties::Properties;
use fathom_load::source::Source;
use fathom_load::ycsb_report::ReportSettings;
use fathom_wire::{Message, OpMsgWriter};

pub(crate) fn take_input(bytes: &[u8]) {
    let mut properties = Properties::default();
    if properties.add_text(bytes, "file").is_err() {
        return;
    }
    properties.unknown();
    // It could name any file of this machine.
    if properties.get("fieldlengthdistribution").is_some_and(|word| word.contains("histogram")) {
        return;
    }
    properties.set("workload", "CoreWorkload", "-p");
    let _ = ReportSettings::from_properties(&properties);
    for phase in [Phase::Load, Phase::Run] {
        let Ok(operations) = operation_count(&properties) else { return };
        let Ok(workload) = CoreWorkload::from_properties(&properties, phase, operations) else { continue };
        let Ok((binding, _)) = Binding::from_properties(&properties) else { continue };
        let Ok(count) = workload.load_count(&properties) else { continue };
        let Ok((settings, _)) = ClientSettings::from_properties(&properties, phase, count, &binding) else {
            continue;
        };
        let longest = match workload.values.lengths {
            Lengths::Constant(bytes) => bytes,
            Lengths::Uniform { most, .. } => most,
            _ => u64::MAX,
        };
        let names: usize = workload.fields.names().iter().map(String::len).sum();
        let document =
            longest.saturating_mul(workload.fields.names().len() as u64).saturating_add(names as u64);
        if document.saturating_mul(binding.batch) > 1 << 16 || binding.batch > 100 {
            continue;
        }
        let next = workload.records.first;
        let shared = Arc::new(CoreShared::new(workload, binding, settings.retry, next));
        let mut source = CoreSource::new(&shared, 1, 0);
        for request in 0..8 {
            let mut frame = Vec::new();
            let mut message = OpMsgWriter::begin(&mut frame, request, 0);
            let begun = source.begin(settings.plan.batch, &mut message);
            if begun.is_some() && message.finish().is_ok() {
                assert!(Message::parse(&frame).is_ok());
            }
        }
    }
}
