//! Fuzzes workloads from any text: reading never panics, and an accepted workload draws documents and writes messages that are valid BSON.

use std::sync::Arc;

use fathom_load::binding::Binding;
use fathom_load::document_workload::{DocumentShared, DocumentWorkload, Part};
use fathom_load::properties::Properties;
use fathom_load::source::Source;
use fathom_wire::{Message, OpMsgWriter};

/// Messages of each part that are written.
const MESSAGES: usize = 3;
/// The limit for a message: a single line may request megabytes.
const MAX_DOCUMENTS: u64 = 4;
const ENOUGH_BYTES: usize = 1 << 20;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // YAML anchors make a short text long.
    if text.len() > 4096 || text.contains('*') {
        return;
    }
    let Ok(workload) = DocumentWorkload::parse(text) else { return };
    let phases = workload.phases().len();
    let Ok((binding, _)) = Binding::from_properties(&Properties::default()) else { return };
    let shared = Arc::new(DocumentShared::new(workload, binding, &[]));
    for part in std::iter::once(Part::Load).chain((0..phases.min(MESSAGES)).map(Part::Phase)) {
        let mut source = shared.source(part, 1, 0);
        for _ in 0..MESSAGES {
            let mut frame = Vec::new();
            let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
            if source.begin(MAX_DOCUMENTS, &mut message).is_none() || message.finish().is_err() {
                break;
            }
            assert!(Message::parse(&frame).is_ok(), "{text}");
            if frame.len() > ENOUGH_BYTES {
                break;
            }
        }
    }
}
