//! One value of any type as owned bytes.
use super::{Builder, Element, Elements, kind, malformed, too_deep};
use crate::Result;
use bson::{Bson, RawBsonRef, RawDocumentBuf};

/// A value, kept as a document of one element without a name, so that the BSON library can show it without copying.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    document: RawDocumentBuf,
}

/// Where the type byte lies, and where the value begins after an empty name.
const KIND_AT: usize = 4;
const VALUE_AT: usize = 6;

fn check_depth(value_kind: u8, bytes: &[u8], depth: usize) -> Result<()> {
    if depth > 200 {
        return Err(too_deep());
    }
    if value_kind == kind::DOCUMENT || value_kind == kind::ARRAY {
        for element in Elements::new(bytes)? {
            let element = element?;
            check_depth(element.kind, element.value, depth + 1)?;
        }
    }
    Ok(())
}

impl Value {
    /// From a type byte and the value's bytes.
    pub(crate) fn new(kind: u8, bytes: &[u8]) -> Result<Value> {
        let mut builder = Builder::with_capacity(bytes.len() + VALUE_AT + 1);
        builder.push(kind, b"", bytes);
        Ok(Value { document: builder.document()? })
    }

    /// A copy of an element's value.
    pub(crate) fn of(element: &Element<'_>) -> Result<Value> {
        Value::new(element.kind, element.value)
    }

    /// From a decoded value; a field name with a zero byte in it is refused.
    pub(crate) fn from_bson(value: &Bson) -> Result<Value> {
        let mut document = bson::Document::new();
        document.insert("", value);
        let document = RawDocumentBuf::try_from(&document)
            .map_err(|_| malformed("a field name or pattern contains a zero byte"))?;
        Ok(Value { document })
    }

    /// The type byte.
    pub(crate) fn kind(&self) -> u8 {
        self.document.as_bytes().get(KIND_AT).copied().unwrap_or_default()
    }

    /// The value's bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.document.as_bytes();
        bytes.get(VALUE_AT..bytes.len().saturating_sub(1)).unwrap_or_default()
    }

    /// The value as the BSON library shows it.
    pub(crate) fn view(&self) -> Result<RawBsonRef<'_>> {
        match self.document.iter().next() {
            Some(Ok((_, value))) => Ok(value),
            _ => Err(malformed("a value is not well formed")),
        }
    }

    /// The value decoded. The library decodes by recursion, so what is nested beyond 200 levels is refused.
    pub(crate) fn to_bson(&self) -> Result<Bson> {
        check_depth(self.kind(), self.bytes(), 0)?;
        Bson::try_from(self.view()?).map_err(|_| malformed("a value is not well formed"))
    }
}
