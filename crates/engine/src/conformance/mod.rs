//! The conformance suite that every engine passes, so that the server can rely on the rules of this crate for any engine.
//!
//! An engine's test file defines how the engine is opened and gets one test for each case:
//!
//! ```text
//! fn subject() -> Subject<'static> {
//!     Subject { open: &|folder| my_engine::open(folder), durable: true }
//! }
//! fathom_engine::conformance_tests!(subject);
//! ```
//!
//! If the rules leave a choice (`Duplicate` or `WriteConflict` when both are true), a case accepts either; everything else
//! is checked to the letter. [`model`] compares long random histories with a model that is simple enough to be trusted,
//! and [`crash`] kills a writing process and checks what is left. This is test code in a library: it panics, and is
//! compiled only with the feature `conformance`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "test code that fails by panicking, as tests do; it is not compiled into the product"
)]

pub mod atomicity;
pub mod conflicts;
pub mod crash;
pub mod cursors;
mod fixture;
pub mod isolation;
pub mod keys;
pub mod lifetime;
pub mod model;
mod random;
pub mod ranges;
pub mod tables;
pub mod threads;

use std::path::Path;
use std::sync::Arc;

use crate::{Engine, Result};

/// The engine under test.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// Opens or creates the engine in an existing folder.
    pub open: &'a (dyn Fn(&Path) -> Result<Arc<dyn Engine>> + Sync),
    /// Whether committed data survives closing and opening again.
    pub durable: bool,
}

/// A case of the suite, by name.
pub type Case = (&'static str, fn(&Subject<'_>));

/// Passes the list of cases, `module { case, ... } ...`, to a macro, after the tokens given in brackets. It is the only list.
#[macro_export]
macro_rules! for_each_conformance_case {
    ($callback:path, [$($extra:tt)*]) => {
        $callback! { [$($extra)*]
            tables {
                are_made_opened_listed_and_dropped,
                refuse_keys_of_the_other_kind,
                drop_despite_a_cursor_once_it_is_gone,
            }
            keys {
                numbers_are_in_numeric_order,
                bytes_are_in_order_of_memcmp,
                values_of_all_sizes,
                get_appends,
            }
            cursors {
                go_both_ways_and_end,
                seek_to_the_nearest,
                turn_around,
                see_own_writes,
                survive_removal_under_them,
                stand_beside_each_other,
                find_nothing_in_an_empty_table,
                are_placed_again_after_a_transaction,
            }
            isolation {
                a_snapshot_stays,
                a_cursor_stays_in_its_snapshot,
                uncommitted_writes_are_unseen,
                outside_a_transaction_the_newest_is_seen,
            }
            conflicts {
                of_two_active_writers,
                with_a_commit_after_the_snapshot,
                of_two_inserts,
                with_a_removal,
                end_with_a_rollback,
                outside_a_transaction,
                none_on_different_keys,
            }
            atomicity {
                duplicate_leaves_the_transaction_usable,
                rollback_undoes_all,
                dropping_a_session_rolls_back,
                commit_spans_tables,
                each_write_alone_outside_a_transaction,
                transactions_do_not_nest,
                splices_equal_the_whole,
                a_value_is_read_changed_and_read_again,
            }
            ranges {
                of_all_shapes_are_truncated,
                of_numbers_are_truncated,
                truncate_within_a_transaction,
                truncate_conflicts,
            }
            threads {
                lose_no_update,
                keep_the_sum_of_accounts,
                insert_each_key_once,
            }
            lifetime {
                statistics_and_sizes_make_sense,
                unknown_settings_are_refused,
                many_sessions,
                closed_is_stopped,
                everything_is_there_after_opening_again,
            }
            model {
                few_keys_many_conflicts,
                many_keys_long_walks,
            }
        }
    };
}

/// One `#[test]` for each case of the suite; `subject` names a function in the same module that returns a [`Subject`].
#[macro_export]
macro_rules! conformance_tests {
    ($subject:ident) => {
        $crate::for_each_conformance_case!($crate::conformance_test_functions, [$subject]);
    };
}

/// The part of `conformance_tests` that gets the list.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test_functions {
    ([$subject:ident] $($module:ident { $($case:ident),* $(,)? })*) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                $crate::conformance::$module::$case(&super::$subject());
            })*
        })*
    };
}

macro_rules! table_of_cases {
    ([] $($module:ident { $($case:ident),* $(,)? })*) => {
        /// All cases, for a caller that runs them directly.
        pub const CASES: &[Case] =
            &[$($((concat!(stringify!($module), "::", stringify!($case)), $module::$case)),*),*];
    };
}
for_each_conformance_case!(table_of_cases, []);

/// Runs every case, one after the other.
pub fn run_all(subject: &Subject<'_>) {
    for (name, case) in CASES {
        eprintln!("conformance: {name}");
        case(subject);
    }
}
