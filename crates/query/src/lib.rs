//! The semantics of MongoDB's documents: their order, index keys, filters, updates, projections and pipelines.
//!
//! The crate is pure: it computes documents from documents, without storage and without a clock (the caller passes the time).
//! The server, the router and the programs that check them share it. Features that MongoDB has and this crate lacks are refused
//! by name, with MongoDB's code, and never ignored.

mod arithmetic;
mod decimal;
mod expression;
mod filter;
mod hash;
mod index;
mod key_pattern;
mod keystring;
mod order;
mod paths;
mod pipeline;
mod plan;
mod projection;
mod raw;
mod sort;
mod update;

pub use arithmetic::{
    Decimal, Rounding, absolute, add, add_or_widen, divide, f64_to_i64_exact, is_number, modulo, multiply,
    multiply_or_widen, negate, parse_decimal, subtract, to_decimal, to_f64, to_i64_exact,
};
pub use expression::{Expression, Variables};
pub use fathom_wire::{Code, Failure};
pub use filter::{Filter, FilterMatch};
pub use hash::{hash64, hash64_owned};
pub use index::{IndexKeys, KeyExtractor};
pub use key_pattern::{FieldKind, KeyField, KeyPattern};
pub use keystring::{Bound, KeyBuilder, KeyString, decode, leading_record_id, record_id_of, split_record_id};
pub use order::{canonical_type, compare, compare_documents, compare_mixed, compare_owned};
pub use pipeline::{CountForm, MergePipeline, Pipeline, ProcessInterface, Query, Rows};
pub use plan::{Access, Hint, IndexInfo, Plan, Range, between, choose};
pub use projection::{Dialect, Projection};
pub use sort::{Sort, Sorter};
pub use update::{DocumentUpdate, Update, UpdateMoment};

/// The result of every function here, with the failure that the client sees.
pub type Result<T, E = Failure> = std::result::Result<T, E>;
