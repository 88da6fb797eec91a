//! The parameters of `setParameter` and `getParameter`: the rules for reading and changing them. `parameters` has their values.
//!
//! Each parameter is a row of the table in `table`. A change takes effect immediately. Parameters of mongod on which
//! this server would not act are not listed and are refused by name.

mod parameter;
mod table;

use bson::{Bson, RawBsonRef};
use fathom_errors::{Error, Kind};
use fathom_query::{Code, Failure};

use crate::Result as Answer;
use crate::config::Config;
use crate::instance::Instance;
use parameter::{Parameter, SettableTime};
use table::PARAMETERS;

/// Refuses invalid values of `--setParameter`, before anything is opened.
pub(crate) fn check_start(config: &Config) -> Result<(), Error> {
    for (name, text) in &config.set_parameters {
        let parameter = PARAMETERS.iter().find(|one| one.name == name && one.is_of(config.storage.engine));
        let Some(parameter) = parameter else {
            return Err(Error::usage(format!("Unknown --setParameter '{name}'")));
        };
        if matches!(parameter.when, SettableTime::Running | SettableTime::Never) {
            return Err(Error::usage(format!("the parameter {name} cannot be set at start")));
        }
        parameter.shape.of_text(name, text).map_err(|failure| usage(&failure))?;
    }
    Ok(())
}

/// Applies the values of `--setParameter`.
pub(crate) fn apply_start(instance: &Instance) -> Result<(), Error> {
    for (name, text) in &instance.config.set_parameters {
        if let Some(parameter) = PARAMETERS.iter().find(|one| one.name == name) {
            let value = parameter.shape.of_text(name, text).map_err(|failure| usage(&failure))?;
            (parameter.write)(instance, &value).map_err(|failure| usage(&failure))?;
        }
    }
    Ok(())
}

fn usage(failure: &Failure) -> Error {
    Error::new(Kind::Usage, "--setParameter is refused").because(failure.message().to_owned())
}

/// The parameters that exist with this engine, sorted by name.
pub(crate) fn all(instance: &Instance) -> impl Iterator<Item = &'static Parameter> {
    let engine = instance.config.storage.engine;
    PARAMETERS.iter().filter(move |parameter| parameter.is_of(engine))
}

/// The current value of a parameter, if it has one.
pub(crate) fn read(instance: &Instance, parameter: &Parameter) -> Option<Bson> {
    (parameter.read)(instance)
}

/// The times at which it may be set, as `getParameter` with `showDetails` reports them.
pub(crate) fn settable(parameter: &Parameter) -> (bool, bool) {
    let start = matches!(parameter.when, SettableTime::Start | SettableTime::Both);
    let running = matches!(parameter.when, SettableTime::Running | SettableTime::Both);
    (start, running)
}

/// The parameter with this name, if a client may change it.
pub(crate) fn to_change(instance: &Instance, name: &str) -> Answer<&'static Parameter> {
    let Some(parameter) = all(instance).find(|parameter| parameter.name == name) else {
        let what = format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
        return Err(Failure::new(Code::InvalidOptions, what));
    };
    if !settable(parameter).1 {
        return Err(Failure::new(
            Code::IllegalOperation,
            format!("not allowed to change [{name}] at runtime"),
        ));
    }
    Ok(parameter)
}

/// Changes a parameter to the value that a client gave.
pub(crate) fn write(instance: &Instance, parameter: &Parameter, value: RawBsonRef<'_>) -> Answer<()> {
    let value = parameter.shape.of_bson(parameter.name, value)?;
    (parameter.write)(instance, &value)
}
