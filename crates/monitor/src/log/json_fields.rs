//! The fields of a JSON object in their order, each value as its text.
//!
//! A line of a log has hundreds of values, and a reader needs ten of them. The first field of a command is its name, so the order matters, and a
//! parser into maps loses it. A typed parser rejects a whole line for one field of another type.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of one object.
#[derive(Debug, Default)]
pub(super) struct JsonFields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string that is copied only if it has escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> JsonFields<'a> {
    /// Parses an object; `None` if the text is not one complete object.
    pub(super) fn parse(text: &'a str) -> Option<JsonFields<'a>> {
        serde_json::from_str(text).ok()
    }

    /// The text of a value.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value.get())
    }

    /// The object at a path of names.
    pub(super) fn object(&self, path: &[&str]) -> Option<JsonFields<'a>> {
        let (name, rest) = path.split_first()?;
        let object = JsonFields::parse(self.raw(name)?)?;
        if rest.is_empty() { Some(object) } else { object.object(rest) }
    }

    /// The value of a string, without escapes.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        serde_json::from_str::<Text<'a>>(self.raw(name)?).ok().map(|text| text.0)
    }

    /// A whole number, 0 or more.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.raw(name)?.parse().ok()
    }

    /// The name of the first field.
    pub(super) fn first_name(&self) -> Option<&str> {
        self.0.first().map(|(name, _)| name.as_ref())
    }

    /// The texts of all values.
    pub(super) fn values(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|(_, value)| value.get())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonFieldsVisitor;
        impl<'de> Visitor<'de> for JsonFieldsVisitor {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
                    fields.push((name, map.next_value::<&'de RawValue>()?));
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(JsonFieldsVisitor).map(JsonFields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_duplicates_are_kept_and_types_do_not_matter() {
        let line = r#"{"find":"c","n":7,"n":8,"m":-1,"t":"a\"b","o":{"p":{"q":3}}}"#;
        let fields = JsonFields::parse(line).unwrap();
        assert_eq!(fields.first_name(), Some("find"));
        assert_eq!((fields.number("n"), fields.number("m"), fields.number("t")), (Some(7), None, None));
        assert_eq!((fields.text("t").as_deref(), fields.text("n")), (Some("a\"b"), None));
        assert_eq!(fields.object(&["o", "p"]).unwrap().number("q"), Some(3));
        assert!(fields.object(&["o", "x"]).is_none() && fields.object(&["find"]).is_none());
        assert!(JsonFields::parse("[1]").is_none() && JsonFields::parse(r#"{"a":1"#).is_none());
    }
}
