//! The parameters of `setParameter` and `getParameter`: their values now, and the rules of reading and changing them.
//!
//! Each parameter is a row of the table in `table`. A change counts from the moment it is made. What mongod has and this
//! server would not act upon is no parameter here: it is refused by name.

mod table;
mod value;
mod values;

use bson::{Bson, RawBsonRef};
use fathom_errors::{Error, Kind};
use fathom_query::{Code, Failure};

use crate::Result as Answer;
use crate::config::{Config, EngineName};
use crate::instance::Instance;
use table::PARAMETERS;
use value::Shape;
pub(crate) use values::Parameters;

/// When a parameter may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// By `--setParameter` only.
    Start,
    /// By the command only.
    Running,
    /// By both.
    Both,
    /// Never.
    Never,
}

/// One parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    when: When,
    shape: Shape,
    /// The engine that it belongs to; with another one there is no such parameter.
    engine: Option<EngineName>,
    /// Its value now; none if it is only an action.
    read: fn(&Instance) -> Option<Bson>,
    /// Changes it to a value that has the shape.
    write: fn(&Instance, &Bson) -> Answer<()>,
}

impl Parameter {
    fn is_of(&self, engine: EngineName) -> bool {
        self.engine.is_none_or(|only| only == engine)
    }
}

/// Refuses what `--setParameter` cannot mean, before anything is opened.
pub(crate) fn check_start(config: &Config) -> Result<(), Error> {
    for (name, text) in &config.set_parameters {
        let parameter = PARAMETERS.iter().find(|one| one.name == name && one.is_of(config.storage.engine));
        let Some(parameter) = parameter else {
            return Err(Error::usage(format!("Unknown --setParameter '{name}'")));
        };
        if matches!(parameter.when, When::Running | When::Never) {
            return Err(Error::usage(format!("the parameter {name} cannot be set at start")));
        }
        parameter.shape.of_text(name, text).map_err(|failure| usage(&failure))?;
    }
    Ok(())
}

/// Sets what `--setParameter` says.
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

/// The parameters that there are with this engine, in the order of their names.
pub(crate) fn all(instance: &Instance) -> impl Iterator<Item = &'static Parameter> {
    let engine = instance.config.storage.engine;
    PARAMETERS.iter().filter(move |parameter| parameter.is_of(engine))
}

/// The value of a parameter now, if it has one.
pub(crate) fn read(instance: &Instance, parameter: &Parameter) -> Option<Bson> {
    (parameter.read)(instance)
}

/// When it may be set, as `getParameter` with `showDetails` says it.
pub(crate) fn settable(parameter: &Parameter) -> (bool, bool) {
    let start = matches!(parameter.when, When::Start | When::Both);
    let running = matches!(parameter.when, When::Running | When::Both);
    (start, running)
}

/// The parameter of a name, if a client may change it.
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

/// Changes a parameter to what a client gave.
pub(crate) fn write(instance: &Instance, parameter: &Parameter, value: RawBsonRef<'_>) -> Answer<()> {
    let value = parameter.shape.of_bson(parameter.name, value)?;
    (parameter.write)(instance, &value)
}
