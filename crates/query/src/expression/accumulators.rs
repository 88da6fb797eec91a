//! Accumulators: the state that `$group` keeps of the values it has seen, and the same operators applied to an array.
//!
//! Sums are exact in integers, compensated in doubles, and of 34 digits in decimals. Memory is counted, so that the
//! stage can refuse an accumulator that grows too large. In an expression (`{$sum: ["$a", "$b"]}`, `{$max: "$array"}`) the
//! elements of a single array argument count; of several arguments each counts as a whole.

use std::collections::HashSet;

use bson::{Bson, Document, RawBsonRef};

use super::canonical;
use super::environment::EvaluationScope;
use super::node::ExpressionNode;
use super::number::Number;
use super::objects::merge_into;
use super::parse::Parser;
use super::value::{Value, measure};
use crate::{Code, Decimal, Failure, Result};

/// The most bytes one `$push` or `$addToSet` may hold, as in MongoDB.
const MAX_COLLECTED_BYTES: usize = 100 * 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccumulatorKind {
    Sum,
    Average,
    Least,
    Greatest,
    First,
    Last,
    Push,
    AddToSet,
    MergeObjects,
    DeviationOfPopulation,
    DeviationOfSample,
}

impl AccumulatorKind {
    /// The accumulator of a name.
    pub(crate) fn parse(name: &str) -> Option<AccumulatorKind> {
        Some(match name {
            "$sum" => AccumulatorKind::Sum,
            "$avg" => AccumulatorKind::Average,
            "$min" => AccumulatorKind::Least,
            "$max" => AccumulatorKind::Greatest,
            "$first" => AccumulatorKind::First,
            "$last" => AccumulatorKind::Last,
            "$push" => AccumulatorKind::Push,
            "$addToSet" => AccumulatorKind::AddToSet,
            "$mergeObjects" => AccumulatorKind::MergeObjects,
            "$stdDevPop" => AccumulatorKind::DeviationOfPopulation,
            "$stdDevSamp" => AccumulatorKind::DeviationOfSample,
            _ => return None,
        })
    }
}

/// A sum of numbers in the widest of their types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    integers: i128,
    doubles: f64,
    /// The rounding error of `doubles` (Neumaier's summation).
    lost: f64,
    decimals: Option<Decimal>,
    long: bool,
    double: bool,
}

impl Total {
    pub(crate) fn add(&mut self, number: Number) {
        match number {
            Number::Int(value) => self.integers = self.integers.saturating_add(i128::from(value)),
            Number::Long(value) => {
                self.integers = self.integers.saturating_add(i128::from(value));
                self.long = true;
            }
            Number::Double(value) => {
                self.double = true;
                let sum = self.doubles + value;
                if sum.is_finite() {
                    self.lost += if self.doubles.abs() >= value.abs() {
                        (self.doubles - sum) + value
                    } else {
                        (value - sum) + self.doubles
                    };
                }
                self.doubles = sum;
            }
            Number::Decimal(value) => {
                let value = Decimal::unpack(value);
                let sum = self.decimals.take().map_or(value.clone(), |sum| sum.add(&value));
                // Rounded at each step, so that the digits stay 34.
                self.decimals = Some(Decimal::unpack(sum.pack()));
            }
        }
    }

    fn all_doubles(&self) -> f64 {
        self.integers as f64 + (self.doubles + self.lost)
    }

    /// The sum: an integer that does not fit becomes a double.
    pub(crate) fn number(&self) -> Number {
        if let Some(decimals) = &self.decimals {
            return Number::Decimal(self.decimal(decimals).pack());
        }
        if self.double {
            return Number::Double(self.all_doubles());
        }
        match i64::try_from(self.integers) {
            Ok(sum) if self.long => Number::Long(sum),
            Ok(sum) => Number::integer(sum),
            Err(_) => Number::Double(self.integers as f64),
        }
    }

    fn decimal(&self, decimals: &Decimal) -> Decimal {
        let integers = Decimal::parse(&self.integers.to_string()).unwrap_or(Decimal::NotANumber);
        let sum = decimals.add(&integers);
        if self.double { sum.add(&Decimal::from_f64(self.doubles + self.lost)) } else { sum }
    }

    /// The sum divided by `count`, which is not 0.
    fn average(&self, count: i64) -> Number {
        match &self.decimals {
            Some(decimals) => {
                Number::Decimal(self.decimal(decimals).divide(&Decimal::from_i64(count)).pack())
            }
            None => Number::Double(self.all_doubles() / count as f64),
        }
    }
}

/// The state over the values so far.
#[derive(Clone, Debug)]
pub(crate) enum Accumulator {
    Sum(Total),
    Average(Total, i64),
    /// The least if true, else the greatest.
    Extreme(bool, Option<Bson>),
    First(Option<Option<Bson>>),
    Last(Option<Bson>),
    Push(Vec<Bson>, usize),
    Set(HashSet<Vec<u8>>, Vec<Bson>, usize),
    Merge(Document),
    /// Count, mean and sum of squared differences (Welford's recurrence); of a sample if true.
    Deviation(bool, DistributionMoments),
}

/// The running moments of a distribution.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DistributionMoments {
    count: i64,
    mean: f64,
    squares: f64,
}

impl Accumulator {
    /// An accumulator that has seen no value.
    pub(crate) fn new(kind: AccumulatorKind) -> Accumulator {
        match kind {
            AccumulatorKind::Sum => Accumulator::Sum(Total::default()),
            AccumulatorKind::Average => Accumulator::Average(Total::default(), 0),
            AccumulatorKind::Least => Accumulator::Extreme(true, None),
            AccumulatorKind::Greatest => Accumulator::Extreme(false, None),
            AccumulatorKind::First => Accumulator::First(None),
            AccumulatorKind::Last => Accumulator::Last(None),
            AccumulatorKind::Push => Accumulator::Push(Vec::new(), 0),
            AccumulatorKind::AddToSet => Accumulator::Set(HashSet::new(), Vec::new(), 0),
            AccumulatorKind::MergeObjects => Accumulator::Merge(Document::new()),
            AccumulatorKind::DeviationOfPopulation => {
                Accumulator::Deviation(false, DistributionMoments::default())
            }
            AccumulatorKind::DeviationOfSample => {
                Accumulator::Deviation(true, DistributionMoments::default())
            }
        }
    }

    /// Adds a value; returns how many more bytes it holds now.
    pub(crate) fn push(&mut self, value: Value<'_>) -> Result<usize> {
        match self {
            Accumulator::Sum(total) => {
                Number::from_value(&value).into_iter().for_each(|number| total.add(number))
            }
            Accumulator::Average(total, count) => {
                if let Some(number) = Number::from_value(&value) {
                    total.add(number);
                    *count += 1;
                }
            }
            Accumulator::Extreme(least, held) => return extreme(*least, held, value),
            Accumulator::First(held) => {
                if held.is_none() {
                    let value = value.into_bson()?;
                    let bytes = value.as_ref().map_or(Ok(0), measure)?;
                    *held = Some(value);
                    return Ok(bytes);
                }
            }
            Accumulator::Last(held) => {
                let before = held.as_ref().map_or(Ok(0), measure)?;
                *held = value.into_bson()?;
                let after = held.as_ref().map_or(Ok(0), measure)?;
                return Ok(after.saturating_sub(before));
            }
            Accumulator::Push(items, held) => {
                let Some(value) = value.into_bson()? else { return Ok(0) };
                let bytes = collected("$push", held, measure(&value)?)?;
                items.push(value);
                return Ok(bytes);
            }
            Accumulator::Set(keys, items, held) => {
                if matches!(value, Value::Missing) {
                    return Ok(0);
                }
                let key = canonical::encode(&value)?;
                if !keys.contains(&key)
                    && let Some(value) = value.into_bson()?
                {
                    let bytes = collected("$addToSet", held, measure(&value)? + key.len())?;
                    keys.insert(key);
                    items.push(value);
                    return Ok(bytes);
                }
            }
            Accumulator::Merge(fields) => {
                let bytes = value.decoded()?.as_deref().map_or(Ok(0), measure)?;
                merge_into(fields, value)?;
                return Ok(bytes);
            }
            Accumulator::Deviation(_, moments) => {
                if let Some(number) = Number::from_value(&value) {
                    moments.add(number.double());
                }
            }
        }
        Ok(0)
    }

    pub(crate) fn finish(self) -> Bson {
        match self {
            Accumulator::Sum(total) => total.number().bson(),
            Accumulator::Average(_, 0) => Bson::Null,
            Accumulator::Average(total, count) => total.average(count).bson(),
            Accumulator::Extreme(_, held) | Accumulator::Last(held) => held.unwrap_or(Bson::Null),
            Accumulator::First(held) => held.flatten().unwrap_or(Bson::Null),
            Accumulator::Push(items, _) | Accumulator::Set(_, items, _) => Bson::Array(items),
            Accumulator::Merge(fields) => Bson::Document(fields),
            Accumulator::Deviation(of_sample, moments) => moments.deviation(of_sample),
        }
    }
}

fn extreme(least: bool, held: &mut Option<Bson>, value: Value<'_>) -> Result<usize> {
    if value.is_nullish() {
        return Ok(0);
    }
    if let Some(held) = held {
        let ordering = value.compare(&Value::Ref(held));
        if if least { !ordering.is_lt() } else { !ordering.is_gt() } {
            return Ok(0);
        }
    }
    *held = value.into_bson()?;
    held.as_ref().map_or(Ok(0), measure)
}

/// Counts the bytes that a collecting accumulator holds; refuses more than MongoDB allows.
fn collected(name: &str, held: &mut usize, bytes: usize) -> Result<usize> {
    *held += bytes;
    if *held > MAX_COLLECTED_BYTES {
        let message = format!(
            "{name} used too much memory and cannot spill to disk. Memory limit: {MAX_COLLECTED_BYTES} bytes"
        );
        return Err(Failure::new(Code::ExceededMemoryLimit, message));
    }
    Ok(bytes)
}

impl DistributionMoments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let difference = value - self.mean;
        self.mean += difference / self.count as f64;
        self.squares += difference * (value - self.mean);
    }

    fn deviation(self, of_sample: bool) -> Bson {
        let degrees = if of_sample { self.count - 1 } else { self.count };
        if degrees <= 0 { Bson::Null } else { Bson::Double((self.squares / degrees as f64).sqrt()) }
    }
}

/// Any of `$sum`, `$avg`, `$min`, `$max`, `$stdDevPop`, `$stdDevSamp`.
pub(super) fn parse(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: RawBsonRef<'_>,
) -> Result<ExpressionNode> {
    let kind = AccumulatorKind::parse(name).ok_or_else(|| {
        Failure::new(Code::InvalidPipelineOperator, format!("Unrecognized expression '{name}'"))
    })?;
    Ok(ExpressionNode::Summary(kind, parser.arguments(value)?))
}

#[inline(never)]
pub(super) fn evaluate<'e>(
    kind: AccumulatorKind,
    nodes: &'e [ExpressionNode],
    environment: &EvaluationScope<'e>,
) -> Result<Value<'e>> {
    let mut accumulator = Accumulator::new(kind);
    if let [only] = nodes {
        let value = only.evaluate(environment)?;
        if value.is_array() {
            for item in value.items()?.unwrap_or_default() {
                accumulator.push(item)?;
            }
        } else {
            accumulator.push(value)?;
        }
    } else {
        for node in nodes {
            accumulator.push(node.evaluate(environment)?)?;
        }
    }
    Ok(Value::Own(accumulator.finish()))
}
