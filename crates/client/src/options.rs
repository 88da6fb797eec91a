//! The options `name=value&name=value`, in a connection string and in the TXT record of `mongodb+srv://`.

use std::time::Duration;

use fathom_errors::{Error, Kind, Result};

/// The options that are not taken yet, in order.
pub(crate) struct UriOptions(pub(crate) Vec<(String, String)>);

impl UriOptions {
    pub(crate) fn read(text: &str) -> Result<UriOptions> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let read = pairs.map(|pair| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((decoded(name)?, decoded(value)?)),
            _ => Err(Error::usage("an option of the connection string is not written name=value")),
        });
        Ok(UriOptions(read.collect::<Result<_>>()?))
    }

    /// Whether an option is present and not taken yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
    }

    /// Takes an option out; names ignore case, and the last value applies, as in the drivers.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let mut found = None;
        self.0.retain_mut(|(key, value)| {
            let same = key.eq_ignore_ascii_case(name);
            if same {
                found = Some(std::mem::take(value));
            }
            !same
        });
        found
    }

    /// Takes an option whose value is `true` or `false`.
    pub(crate) fn truth(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => {
                Err(Error::usage(format!("{name} in the connection string is neither true nor false")))
            }
        }
    }

    /// Takes a duration; 0 means none, as in the drivers.
    pub(crate) fn milliseconds(&mut self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let number: u64 = text.parse().map_err(|_| {
            Error::usage(format!("{name} in the connection string is not a number of milliseconds"))
        })?;
        Ok(Some(Duration::from_millis(number)).filter(|duration| !duration.is_zero()))
    }

    /// A count, from 0.
    pub(crate) fn count(&mut self, name: &str) -> Result<Option<usize>> {
        let number = |text: String| {
            text.parse().map_err(|_| {
                Error::usage(format!("{name} in the connection string is not a whole number from 0"))
            })
        };
        self.take(name).map(number).transpose()
    }
}

/// Decodes the percent escapes of a part.
pub(crate) fn decoded(text: &str) -> Result<String> {
    let invalid = || {
        Error::usage("the connection string has a percent sign that escapes nothing")
            .advise("write %25 for %")
    };
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).ok_or_else(invalid)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| invalid())?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| {
        Error::usage("an escape in the connection string is not UTF-8")
            .advise("write %25 for a % that begins no escape")
    })
}

/// The error for a load balancer in front of routers, which requires service ids that this client does not keep.
pub(crate) fn load_balanced() -> Error {
    Error::new(Kind::Unsupported, "loadBalanced=true is not supported").advise("name the routers themselves")
}
