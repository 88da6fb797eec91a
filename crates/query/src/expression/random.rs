//! `$rand`: a number in 0..1.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use bson::{Bson, RawBsonRef};

use super::node::Node;
use super::parse::Parser;
use super::value::Value;
use crate::{Code, Failure, Result};

thread_local! {
    /// Each thread begins somewhere else, taken from the standard library's random hash keys.
    static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u64));
}

/// `$rand: {}`, with nothing in it.
pub(super) fn parse(_: &mut Parser<'_>, name: &'static str, value: RawBsonRef<'_>) -> Result<Node> {
    match value {
        RawBsonRef::Document(arguments) if arguments.is_empty() => Ok(Node::Many(name, rand, Vec::new())),
        RawBsonRef::Array(arguments) if arguments.is_empty() => Ok(Node::Many(name, rand, Vec::new())),
        _ => Err(Failure::new(Code(3040501), "$rand does not currently accept arguments")),
    }
}

fn rand<'e>(_: &'static str, _: Vec<Value<'e>>) -> Result<Value<'e>> {
    let bits = STATE.with(|state| {
        let next = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        state.set(next);
        mixed(next)
    });
    // 53 bits, as many as a double's fraction holds.
    Ok(Value::Own(Bson::Double((bits >> 11) as f64 / (1_u64 << 53) as f64)))
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mixed(state: u64) -> u64 {
    let mut bits = state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
