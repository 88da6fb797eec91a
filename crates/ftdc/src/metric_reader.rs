//! Reads the metrics of one document after another. Most have the same fields as the one before, and then only their values are read.

use bson::RawDocument;
use fathom_errors::Result;

use crate::metric::{Metric, VariablePart, malformed, number, second_metric, walk};

/// Reads documents, and keeps the fields of the last one.
#[derive(Debug, Default)]
pub(crate) struct MetricReader {
    metrics: Vec<Metric>,
    schema: u64,
    /// The last document that was read whole, and its parts in their order.
    document: Vec<u8>,
    parts: Vec<VariablePart>,
}

/// The metrics of a document, depth first.
///
/// # Errors
/// If the document is malformed, or deeper than 32 documents.
pub(crate) fn metrics(document: &RawDocument) -> Result<Vec<Metric>> {
    let mut reader = MetricReader::default();
    reader.read(document)?;
    Ok(reader.metrics)
}

impl MetricReader {
    /// The metrics of a document, depth first, and a number that changes with their paths and types.
    ///
    /// # Errors
    /// As [`metrics`].
    pub(crate) fn read(&mut self, document: &RawDocument) -> Result<(&[Metric], u64)> {
        if !self.has_same_fields(document.as_bytes()) {
            self.document.clear();
            let replaced = self.replace(document);
            if !matches!(replaced, Ok(false)) {
                self.schema += 1;
            }
            replaced?;
            self.document.extend_from_slice(document.as_bytes());
        }
        Ok((&self.metrics, self.schema))
    }

    /// Whether all bytes except numbers and text are those of the last document. The values of metrics are set as far as they are read.
    fn has_same_fields(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() != self.document.len() {
            return false;
        }
        let mut metrics = self.metrics.iter_mut();
        let mut from = 0;
        for part in &self.parts {
            let end = part.at + part.length;
            let (fixed, known) = (bytes.get(from..part.at), self.document.get(from..part.at));
            let Some(value) = bytes.get(part.at..end).filter(|_| fixed == known) else { return false };
            from = end;
            let Some(kind) = part.kind else { continue };
            for kind in [kind].into_iter().chain(second_metric(kind)) {
                let (Some(metric), Some(first)) = (metrics.next(), number(kind, value)) else { return false };
                metric.first = first;
            }
        }
        bytes.get(from..) == self.document.get(from..)
    }

    /// Replaces the metrics by those of another document, and returns whether a path or a type differs. Equal paths are not written again.
    fn replace(&mut self, document: &RawDocument) -> Result<bool> {
        let MetricReader { metrics, parts, .. } = self;
        parts.clear();
        let (mut count, mut differs) = (0, false);
        let walked = walk(document, &mut |path, part, value| {
            parts.push(part);
            let Some(kind) = part.kind else { return Ok(()) };
            for kind in [kind].into_iter().chain(second_metric(kind)) {
                let first = number(kind, value).ok_or_else(|| malformed("a value of the wrong length"))?;
                match metrics.get_mut(count) {
                    Some(known) if known.kind == kind && known.path == path => known.first = first,
                    known => {
                        let metric = Metric { path: path.to_owned(), kind, first };
                        match known {
                            Some(known) => *known = metric,
                            None => metrics.push(metric),
                        }
                        differs = true;
                    }
                }
                count += 1;
            }
            Ok(())
        });
        differs |= count < metrics.len();
        metrics.truncate(count);
        walked.map(|()| differs)
    }
}

#[cfg(test)]
mod tests {
    use bson::spec::BinarySubtype;
    use bson::{Binary, Bson, Decimal128, RawDocumentBuf, Timestamp, doc};

    use super::*;

    fn sample(number: i64, text: &str) -> RawDocumentBuf {
        let decimal: Decimal128 = format!("{number}.5").parse().unwrap();
        let hash = Binary { subtype: BinarySubtype::Generic, bytes: text.as_bytes().to_vec() };
        let time = Timestamp { time: number as u32, increment: number as u32 + 1 };
        let sample = doc! {
            "start": bson::DateTime::from_millis(number), "state": text, "hash": hash, "one": number as f64 + 0.25,
            "inner": { "flag": number % 2 == 0, "list": [number as i32, { "optime": Bson::Timestamp(time) }], "none": null },
            "cost": decimal, "last": number,
        };
        RawDocumentBuf::try_from(&sample).unwrap()
    }

    #[test]
    fn a_document_with_the_fields_of_the_one_before_gives_its_own_values() {
        let mut reader = MetricReader::default();
        for (number, text) in
            [(1, "PRIMARY"), (2, "STARTUP"), (3, "PRIMARY"), (4, "SECONDARY"), (5, "SECONDARY")]
        {
            let sample = sample(number, text);
            let expected = metrics(&sample).unwrap();
            let (read, schema) = reader.read(&sample).unwrap();
            assert_eq!((read, schema), (expected.as_slice(), 1), "{number}");
        }
        let firsts: Vec<i64> = reader.metrics.iter().map(|metric| metric.first).collect();
        assert_eq!(firsts, [5, 5, 0, 5, 5, 6, 5, 5]);
    }

    #[test]
    fn bytes_that_are_no_truth_value_are_refused() {
        let mut reader = MetricReader::default();
        let good = RawDocumentBuf::try_from(&doc! { "a": true }).unwrap();
        let mut bytes = good.as_bytes().to_vec();
        let at = bytes.len() - 2;
        bytes[at] = 7;
        let bad = RawDocumentBuf::from_bytes(bytes).unwrap();
        assert_eq!(reader.read(&good).unwrap().0.len(), 1);
        assert!(reader.read(&bad).is_err() && metrics(&bad).is_err());
        assert_eq!(reader.read(&good).unwrap(), (metrics(&good).unwrap().as_slice(), 3));
    }

    #[test]
    fn a_type_that_changes_without_the_length_is_another_metric() {
        let mut reader = MetricReader::default();
        let integer = RawDocumentBuf::try_from(&doc! { "a": 5_i64 }).unwrap();
        let double = RawDocumentBuf::try_from(&doc! { "a": 5.0 }).unwrap();
        let schemas = [&integer, &double, &double, &integer].map(|sample| reader.read(sample).unwrap().1);
        assert_eq!(schemas, [1, 2, 2, 3]);
    }

    /// Values of all types of BSON lie between metrics, and are passed over by their lengths.
    #[test]
    fn fields_without_a_metric_are_passed_over() {
        let scope = bson::JavaScriptCodeWithScope { code: "f()".to_owned(), scope: doc! { "n": 1 } };
        let regex = bson::Regex { pattern: bson::cstr!("^a").into(), options: bson::cstr!("im").into() };
        let text = Bson::JavaScriptCode("g()".to_owned());
        let values = [
            Bson::Null,
            Bson::Undefined,
            Bson::MinKey,
            Bson::MaxKey,
            Bson::ObjectId(bson::oid::ObjectId::from_bytes([7; 12])),
            Bson::Symbol("s".to_owned()),
            Bson::RegularExpression(regex),
            Bson::JavaScriptCodeWithScope(scope),
            text,
        ];
        let mut sample = bson::Document::new();
        for (at, value) in values.into_iter().enumerate() {
            sample.insert(format!("n{at}"), at as i64);
            sample.insert(format!("v{at}"), value);
        }
        let sample = RawDocumentBuf::try_from(&sample).unwrap();
        let firsts: Vec<i64> = metrics(&sample).unwrap().iter().map(|metric| metric.first).collect();
        assert_eq!(firsts, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        // A document that ends within a value is refused, whatever the type; one that ends between two has fewer metrics.
        for cut in 0..sample.as_bytes().len() - 5 {
            let mut bytes = sample.as_bytes()[..sample.as_bytes().len() - 1 - cut].to_vec();
            bytes.push(0);
            let length = bytes.len() as i32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            let read = metrics(&RawDocumentBuf::from_bytes(bytes).unwrap());
            assert!(read.is_err() || read.unwrap().len() <= firsts.len());
        }
    }
}
