//! Tests of workload files with random changes of words and bytes: they never panic, and accepted files send valid messages.

use std::sync::Arc;

use fathom_load::binding::Binding;
use fathom_load::document_workload::{DocumentShared, DocumentWorkload, Part};
use fathom_load::properties::Properties;
use fathom_load::source::Source;
use fathom_stats::SeededRandom;
use fathom_wire::{Message, OpMsgWriter};

const BANK: &str = include_str!("../../../fuzz/seeds/load_workload/bank");
const SMALL: &str = include_str!("../../../fuzz/seeds/load_workload/small");
/// What takes the place of a word.
const WORDS: [&str; 14] = [
    "-1",
    "0",
    "99999999999",
    "[]",
    "{}",
    "null",
    "!sequence ",
    "!int [1, 2]",
    "x",
    "!existing c",
    "1.5",
    "''",
    "!key ",
    "!objectid ",
];

/// Changes one to three words of a text.
fn mutated(text: &str, random: &mut SeededRandom) -> String {
    let mut words: Vec<&str> = text.split_inclusive([' ', ',', ':', '\n']).collect();
    for _ in 0..=random.below(3) {
        let place = random.below(words.len() as u64) as usize;
        match random.below(3) {
            0 => words.insert(place, random.pick(&WORDS).unwrap()),
            1 => words[place] = random.pick(&WORDS).unwrap(),
            _ => drop(words.remove(place)),
        }
    }
    words.concat()
}

#[test]
fn changed_files_are_refused_or_work() {
    let (binding, _) = Binding::from_properties(&Properties::default()).unwrap();
    let mut random = SeededRandom::from_seed(13);
    let mut taken = 0;
    for round in 0..2000 {
        let text = mutated(if round % 4 == 0 { BANK } else { SMALL }, &mut random);
        let Ok(workload) = DocumentWorkload::parse(&text) else { continue };
        taken += 1;
        let phases = workload.phases().len();
        let shared = Arc::new(DocumentShared::new(workload, binding.clone(), &[]));
        for part in std::iter::once(Part::Load).chain((0..phases).map(Part::Phase)) {
            let mut source = shared.source(part, 1, 0);
            let mut frame = Vec::new();
            let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
            if source.begin(3, &mut message).is_some() && message.finish().is_ok() {
                assert!(Message::parse(&frame).is_ok(), "{text}");
            }
        }
    }
    // Most changes are mistakes, and some are none.
    assert!((100..1900).contains(&taken), "{taken}");
}
