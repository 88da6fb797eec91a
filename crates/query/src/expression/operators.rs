//! Table: the expression operators by name with their arguments, including those that MongoDB has and this server refuses.

use bson::RawBsonRef;

use super::node::ExpressionNode;
use super::parse::{Parser, literal};
use super::value::{BinaryOperator, NamedOperator, OperatorSignature, UnaryOperator, VariadicOperator};
use super::{
    accumulators, arithmetic, arrays, conversion, date_parts, date_text, functions, logic, loops, objects,
    pattern, positions, sets, strings,
};
use crate::Result;

/// The form in which an operator takes its arguments.
pub(super) enum Form {
    One(UnaryOperator),
    Two(BinaryOperator),
    /// A number of arguments between two bounds.
    Many(usize, usize, VariadicOperator),
    /// Arguments by name, in a document.
    Named(&'static OperatorSignature, NamedOperator),
    /// Arguments with a parser of their own.
    Special(fn(&mut Parser<'_>, &'static str, RawBsonRef<'_>) -> Result<ExpressionNode>),
    /// Refused, with the reason.
    Refused(&'static str),
}

/// The operator of a name, with the table's copy of the name.
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

/// Table: the operators, sorted by name.
static OPERATORS: &[(&str, Form)] = &[
    ("$_internalFindAllValuesAtPath", Form::Refused("it is internal to MongoDB")),
    ("$_internalJsEmit", Form::Refused(SCRIPT)),
    ("$_testApiVersion", Form::Refused("it is internal to MongoDB")),
    ("$abs", Form::One(arithmetic::abs)),
    ("$accumulator", Form::Refused(SCRIPT)),
    ("$acos", Form::One(functions::angle)),
    ("$acosh", Form::One(functions::angle)),
    ("$add", Form::Many(0, ANY, arithmetic::add)),
    ("$allElementsTrue", Form::One(sets::all_elements_true)),
    ("$and", Form::Special(logic::parse_and)),
    ("$anyElementTrue", Form::One(sets::any_element_true)),
    ("$arrayElemAt", Form::Two(arrays::element_at)),
    ("$arrayToObject", Form::One(objects::array_to_object)),
    ("$asin", Form::One(functions::angle)),
    ("$asinh", Form::One(functions::angle)),
    ("$atan", Form::One(functions::angle)),
    ("$atan2", Form::Two(functions::angle_of_two)),
    ("$atanh", Form::One(functions::angle)),
    ("$avg", Form::Special(accumulators::parse)),
    ("$binarySize", Form::One(strings::binary_size)),
    ("$bsonSize", Form::One(objects::bson_size)),
    ("$ceil", Form::One(arithmetic::ceil)),
    ("$cmp", Form::Two(logic::compare)),
    ("$concat", Form::Many(0, ANY, strings::concat)),
    ("$concatArrays", Form::Many(0, ANY, arrays::concat)),
    ("$cond", Form::Special(logic::parse_cond)),
    ("$const", Form::Special(literal)),
    ("$convert", Form::Named(&conversion::SIGNATURE, conversion::convert)),
    ("$cos", Form::One(functions::angle)),
    ("$cosh", Form::One(functions::angle)),
    ("$dateFromParts", Form::Named(&date_parts::FROM_PARTS, date_parts::from_parts)),
    ("$dateFromString", Form::Named(&date_text::FROM_STRING, date_text::from_string)),
    ("$dateToParts", Form::Named(&date_parts::TO_PARTS, date_parts::to_parts)),
    ("$dateToString", Form::Named(&date_text::TO_STRING, date_text::to_string)),
    ("$dayOfMonth", Form::Special(date_parts::parse)),
    ("$dayOfWeek", Form::Special(date_parts::parse)),
    ("$dayOfYear", Form::Special(date_parts::parse)),
    ("$degreesToRadians", Form::One(functions::angle)),
    ("$divide", Form::Two(arithmetic::divide)),
    ("$eq", Form::Two(logic::compare)),
    ("$exp", Form::One(functions::exp)),
    ("$filter", Form::Special(loops::parse_filter)),
    ("$first", Form::One(arrays::end)),
    ("$floor", Form::One(arithmetic::floor)),
    ("$function", Form::Refused(SCRIPT)),
    ("$gt", Form::Two(logic::compare)),
    ("$gte", Form::Two(logic::compare)),
    ("$hour", Form::Special(date_parts::parse)),
    ("$ifNull", Form::Special(logic::parse_if_null)),
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
    ("$ln", Form::One(functions::ln)),
    ("$log", Form::Two(functions::log)),
    ("$log10", Form::One(functions::log10)),
    ("$lt", Form::Two(logic::compare)),
    ("$lte", Form::Two(logic::compare)),
    ("$ltrim", Form::Named(&strings::TRIM, strings::trim)),
    ("$map", Form::Special(loops::parse_map)),
    ("$max", Form::Special(accumulators::parse)),
    ("$mergeObjects", Form::Many(0, ANY, objects::merge)),
    ("$meta", Form::Refused("it has no text, geo or full-text search, so documents carry no metadata")),
    ("$millisecond", Form::Special(date_parts::parse)),
    ("$min", Form::Special(accumulators::parse)),
    ("$minute", Form::Special(date_parts::parse)),
    ("$mod", Form::Two(arithmetic::modulo)),
    ("$month", Form::Special(date_parts::parse)),
    ("$multiply", Form::Many(0, ANY, arithmetic::multiply)),
    ("$ne", Form::Two(logic::compare)),
    ("$not", Form::One(logic::not)),
    ("$objectToArray", Form::One(objects::object_to_array)),
    ("$or", Form::Special(logic::parse_or)),
    ("$pow", Form::Two(functions::pow)),
    ("$radiansToDegrees", Form::One(functions::angle)),
    ("$rand", Form::Special(functions::parse_rand)),
    ("$range", Form::Many(2, 3, arrays::range)),
    ("$reduce", Form::Special(loops::parse_reduce)),
    ("$regexFind", Form::Named(&pattern::SIGNATURE, pattern::find)),
    ("$regexFindAll", Form::Named(&pattern::SIGNATURE, pattern::find_all)),
    ("$regexMatch", Form::Named(&pattern::SIGNATURE, pattern::is_match)),
    ("$replaceAll", Form::Named(&strings::REPLACE, strings::replace)),
    ("$replaceOne", Form::Named(&strings::REPLACE, strings::replace)),
    ("$reverseArray", Form::One(arrays::reverse)),
    ("$round", Form::Many(1, 2, arithmetic::round)),
    ("$rtrim", Form::Named(&strings::TRIM, strings::trim)),
    ("$second", Form::Special(date_parts::parse)),
    ("$setDifference", Form::Two(sets::difference)),
    ("$setEquals", Form::Many(0, ANY, sets::equals)),
    ("$setIntersection", Form::Many(0, ANY, sets::intersection)),
    ("$setIsSubset", Form::Two(sets::is_subset)),
    ("$setUnion", Form::Many(0, ANY, sets::union)),
    ("$sin", Form::One(functions::angle)),
    ("$sinh", Form::One(functions::angle)),
    ("$size", Form::One(arrays::size)),
    ("$slice", Form::Many(2, 3, positions::slice)),
    ("$split", Form::Two(strings::split)),
    ("$sqrt", Form::One(functions::sqrt)),
    ("$stdDevPop", Form::Special(accumulators::parse)),
    ("$stdDevSamp", Form::Special(accumulators::parse)),
    ("$strLenBytes", Form::One(strings::length)),
    ("$strLenCP", Form::One(strings::length)),
    ("$strcasecmp", Form::Two(strings::compare_ignoring_case)),
    ("$substr", Form::Many(3, 3, strings::substring_bytes)),
    ("$substrBytes", Form::Many(3, 3, strings::substring_bytes)),
    ("$substrCP", Form::Many(3, 3, strings::substring_code_points)),
    ("$subtract", Form::Two(arithmetic::subtract)),
    ("$sum", Form::Special(accumulators::parse)),
    ("$switch", Form::Special(logic::parse_switch)),
    ("$tan", Form::One(functions::angle)),
    ("$tanh", Form::One(functions::angle)),
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
    ("$trim", Form::Named(&strings::TRIM, strings::trim)),
    ("$trunc", Form::Many(1, 2, arithmetic::round)),
    ("$type", Form::One(conversion::type_of)),
    ("$week", Form::Special(date_parts::parse)),
    ("$year", Form::Special(date_parts::parse)),
    ("$zip", Form::Special(arrays::parse_zip)),
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
