//! Table: the operators of expressions, by name, with their arguments; also those that MongoDB has and this server refuses.

use bson::RawBsonRef;

use super::node::{Many, Named, Node, One, Two};
use super::parse::{Parser, literal};
use super::{
    arithmetic, arrays, boolean, conditional, conversion, date_format, date_parse, date_parts, logarithms,
    loops, objects, pattern, positions, random, rounding, sets, strings, substrings, summary, trigonometry,
    trim, zip,
};
use crate::Result;

/// How an operator takes its arguments.
pub(super) enum Form {
    /// One.
    One(One),
    /// Two.
    Two(Two),
    /// From so many to so many.
    Many(usize, usize, Many),
    /// An object.
    Named(&'static Signature, Named),
    /// In a way of its own.
    Special(fn(&mut Parser<'_>, &'static str, RawBsonRef<'_>) -> Result<Node>),
    /// Not at all, and why.
    Refused(&'static str),
}

/// What an operator's object may hold, with the codes of what it may not.
pub(super) struct Signature {
    /// The code if the argument is no object.
    pub(super) not_object: i32,
    /// The code of a member that is not known.
    pub(super) unknown: i32,
    /// The members, each with the code if it is missing; those without a code may be.
    pub(super) members: &'static [(&'static str, Option<i32>)],
}

/// The operator of a name, with the name as it lives in the table.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static Form)> {
    OPERATORS
        .binary_search_by(|(known, _)| (*known).cmp(name))
        .ok()
        .and_then(|place| OPERATORS.get(place).map(|(name, form)| (*name, form)))
}

/// All names, for tests that go through them.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    OPERATORS.iter().map(|(name, _)| *name).collect()
}

const ANY: usize = usize::MAX;
const SCRIPT: &str = "it runs no JavaScript";

/// Sorted by name.
static OPERATORS: &[(&str, Form)] = &[
    ("$_internalFindAllValuesAtPath", Form::Refused("it is internal to MongoDB")),
    ("$_internalJsEmit", Form::Refused(SCRIPT)),
    ("$_testApiVersion", Form::Refused("it is internal to MongoDB")),
    ("$abs", Form::One(rounding::abs)),
    ("$accumulator", Form::Refused(SCRIPT)),
    ("$acos", Form::One(trigonometry::apply)),
    ("$acosh", Form::One(trigonometry::apply)),
    ("$add", Form::Many(0, ANY, arithmetic::add)),
    ("$allElementsTrue", Form::One(sets::all_elements_true)),
    ("$and", Form::Special(boolean::parse_and)),
    ("$anyElementTrue", Form::One(sets::any_element_true)),
    ("$arrayElemAt", Form::Two(arrays::element_at)),
    ("$arrayToObject", Form::One(objects::array_to_object)),
    ("$asin", Form::One(trigonometry::apply)),
    ("$asinh", Form::One(trigonometry::apply)),
    ("$atan", Form::One(trigonometry::apply)),
    ("$atan2", Form::Two(trigonometry::apply_two)),
    ("$atanh", Form::One(trigonometry::apply)),
    ("$avg", Form::Special(summary::parse)),
    ("$binarySize", Form::One(strings::binary_size)),
    ("$bsonSize", Form::One(objects::bson_size)),
    ("$ceil", Form::One(rounding::ceil)),
    ("$cmp", Form::Two(boolean::compare)),
    ("$concat", Form::Many(0, ANY, strings::concat)),
    ("$concatArrays", Form::Many(0, ANY, arrays::concat)),
    ("$cond", Form::Special(conditional::parse_cond)),
    ("$const", Form::Special(literal)),
    ("$convert", Form::Named(&conversion::SIGNATURE, conversion::convert)),
    ("$cos", Form::One(trigonometry::apply)),
    ("$cosh", Form::One(trigonometry::apply)),
    ("$dateFromParts", Form::Named(&date_parts::FROM_PARTS, date_parts::from_parts)),
    ("$dateFromString", Form::Named(&date_parse::SIGNATURE, date_parse::from_string)),
    ("$dateToParts", Form::Named(&date_parts::TO_PARTS, date_parts::to_parts)),
    ("$dateToString", Form::Named(&date_format::SIGNATURE, date_format::to_string)),
    ("$dayOfMonth", Form::Special(date_parts::parse)),
    ("$dayOfWeek", Form::Special(date_parts::parse)),
    ("$dayOfYear", Form::Special(date_parts::parse)),
    ("$degreesToRadians", Form::One(trigonometry::apply)),
    ("$divide", Form::Two(arithmetic::divide)),
    ("$eq", Form::Two(boolean::compare)),
    ("$exp", Form::One(logarithms::exp)),
    ("$filter", Form::Special(loops::parse_filter)),
    ("$first", Form::One(arrays::end)),
    ("$floor", Form::One(rounding::floor)),
    ("$function", Form::Refused(SCRIPT)),
    ("$gt", Form::Two(boolean::compare)),
    ("$gte", Form::Two(boolean::compare)),
    ("$hour", Form::Special(date_parts::parse)),
    ("$ifNull", Form::Special(conditional::parse_if_null)),
    ("$in", Form::Two(arrays::contains)),
    ("$indexOfArray", Form::Many(2, 4, positions::index_of_array)),
    ("$indexOfBytes", Form::Many(2, 4, positions::index_of_bytes)),
    ("$indexOfCP", Form::Many(2, 4, positions::index_of_code_points)),
    ("$isArray", Form::One(arrays::is_array)),
    ("$isNumber", Form::One(conversion::is_number)),
    ("$isoDayOfWeek", Form::Special(date_parts::parse)),
    ("$isoWeek", Form::Special(date_parts::parse)),
    ("$isoWeekYear", Form::Special(date_parts::parse)),
    ("$last", Form::One(arrays::end)),
    ("$let", Form::Special(loops::parse_let)),
    ("$literal", Form::Special(literal)),
    ("$ln", Form::One(logarithms::natural)),
    ("$log", Form::Two(logarithms::to_base)),
    ("$log10", Form::One(logarithms::decimal)),
    ("$lt", Form::Two(boolean::compare)),
    ("$lte", Form::Two(boolean::compare)),
    ("$ltrim", Form::Named(&trim::SIGNATURE, trim::trim)),
    ("$map", Form::Special(loops::parse_map)),
    ("$max", Form::Special(summary::parse)),
    ("$mergeObjects", Form::Many(0, ANY, objects::merge)),
    ("$meta", Form::Refused("it has no text, geo or full-text search, so documents carry no metadata")),
    ("$millisecond", Form::Special(date_parts::parse)),
    ("$min", Form::Special(summary::parse)),
    ("$minute", Form::Special(date_parts::parse)),
    ("$mod", Form::Two(arithmetic::modulo)),
    ("$month", Form::Special(date_parts::parse)),
    ("$multiply", Form::Many(0, ANY, arithmetic::multiply)),
    ("$ne", Form::Two(boolean::compare)),
    ("$not", Form::One(boolean::not)),
    ("$objectToArray", Form::One(objects::object_to_array)),
    ("$or", Form::Special(boolean::parse_or)),
    ("$pow", Form::Two(logarithms::pow)),
    ("$radiansToDegrees", Form::One(trigonometry::apply)),
    ("$rand", Form::Special(random::parse)),
    ("$range", Form::Many(2, 3, arrays::range)),
    ("$reduce", Form::Special(loops::parse_reduce)),
    ("$regexFind", Form::Named(&pattern::SIGNATURE, pattern::find)),
    ("$regexFindAll", Form::Named(&pattern::SIGNATURE, pattern::find_all)),
    ("$regexMatch", Form::Named(&pattern::SIGNATURE, pattern::is_match)),
    ("$replaceAll", Form::Named(&strings::REPLACE, strings::replace)),
    ("$replaceOne", Form::Named(&strings::REPLACE, strings::replace)),
    ("$reverseArray", Form::One(arrays::reverse)),
    ("$round", Form::Many(1, 2, rounding::round)),
    ("$rtrim", Form::Named(&trim::SIGNATURE, trim::trim)),
    ("$second", Form::Special(date_parts::parse)),
    ("$setDifference", Form::Two(sets::difference)),
    ("$setEquals", Form::Many(0, ANY, sets::equals)),
    ("$setIntersection", Form::Many(0, ANY, sets::intersection)),
    ("$setIsSubset", Form::Two(sets::is_subset)),
    ("$setUnion", Form::Many(0, ANY, sets::union)),
    ("$sin", Form::One(trigonometry::apply)),
    ("$sinh", Form::One(trigonometry::apply)),
    ("$size", Form::One(arrays::size)),
    ("$slice", Form::Many(2, 3, positions::slice)),
    ("$split", Form::Two(strings::split)),
    ("$sqrt", Form::One(logarithms::sqrt)),
    ("$stdDevPop", Form::Special(summary::parse)),
    ("$stdDevSamp", Form::Special(summary::parse)),
    ("$strLenBytes", Form::One(strings::length)),
    ("$strLenCP", Form::One(strings::length)),
    ("$strcasecmp", Form::Two(strings::compare_ignoring_case)),
    ("$substr", Form::Many(3, 3, substrings::bytes)),
    ("$substrBytes", Form::Many(3, 3, substrings::bytes)),
    ("$substrCP", Form::Many(3, 3, substrings::code_points)),
    ("$subtract", Form::Two(arithmetic::subtract)),
    ("$sum", Form::Special(summary::parse)),
    ("$switch", Form::Special(conditional::parse_switch)),
    ("$tan", Form::One(trigonometry::apply)),
    ("$tanh", Form::One(trigonometry::apply)),
    ("$toBool", Form::One(conversion::shorthand)),
    ("$toDate", Form::One(conversion::shorthand)),
    ("$toDecimal", Form::One(conversion::shorthand)),
    ("$toDouble", Form::One(conversion::shorthand)),
    ("$toInt", Form::One(conversion::shorthand)),
    ("$toLong", Form::One(conversion::shorthand)),
    ("$toLower", Form::One(strings::change_case)),
    ("$toObjectId", Form::One(conversion::shorthand)),
    ("$toString", Form::One(conversion::shorthand)),
    ("$toUpper", Form::One(strings::change_case)),
    ("$trim", Form::Named(&trim::SIGNATURE, trim::trim)),
    ("$trunc", Form::Many(1, 2, rounding::round)),
    ("$type", Form::One(conversion::type_of)),
    ("$week", Form::Special(date_parts::parse)),
    ("$year", Form::Special(date_parts::parse)),
    ("$zip", Form::Special(zip::parse)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_every_operator_is_found() {
        for (name, _) in OPERATORS {
            assert_eq!(find(name).map(|(found, _)| found), Some(*name));
        }
        assert!(find("$foo").is_none());
    }
}
