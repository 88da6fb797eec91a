//! `setFeatureCompatibilityVersion`: the claimed version is what it is; going to another would change nothing on the disk
//! here and is refused rather than pretended.

use bson::RawBsonRef;
use fathom_query::{Code, Failure};

use super::Reply;
use crate::Result;
use crate::config::version;
use crate::operation::Operation;
use crate::request::Request;

/// Takes the version that is set already.
pub(super) fn run(op: &mut Operation<'_>, request: &Request<'_>, _reply: &mut Reply<'_>) -> Result<()> {
    let RawBsonRef::String(wanted) = request.target else {
        let found = crate::parse::type_name(request.target);
        let what = format!("Command argument must be of type String, but was {found}");
        return Err(Failure::new(Code::TypeMismatch, what));
    };
    let [major, minor, ..] = version::numbers(&op.instance.config.claimed_version);
    let here = format!("{major}.{minor}");
    if wanted == here {
        return Ok(());
    }
    let what = format!(
        "this server stays at the feature compatibility version {here}; start it with --claimedVersion for another than '{wanted}'"
    );
    Err(Failure::new(Code::CommandNotSupported, what))
}
