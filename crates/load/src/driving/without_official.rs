//! Refuses the official driver in a build without the feature `official-driver`.

use fathom_errors::{Error, Kind};

use super::{DrivingPlan, LoadResult, Observer};
use crate::binding::Binding;
use crate::source::Source;

/// Whether [`run_by_driver`] can run: it cannot.
///
/// # Errors
/// Always, with the build that has the driver.
pub fn check_official_driver() -> Result<(), Error> {
    Err(missing())
}

fn missing() -> Error {
    Error::new(Kind::Unsupported, "MongoDB's official driver is not in this build of fathom")
        .advise("take the program of a package (make package), or build with --features official-driver")
}

/// Refuses: this build has no official driver.
///
/// # Errors
/// Always, as [`check_official_driver`].
pub fn run_by_driver<S>(
    _: &DrivingPlan,
    _: &str,
    _: &Binding,
    _: impl Fn(usize) -> S,
    _: &mut dyn Observer,
) -> Result<LoadResult, Error>
where
    S: Source + 'static,
{
    Err(missing())
}
