//! Tests with tables of results and their types; decimals are compared with the text form that the BSON library writes.
use super::*;
use bson::Bson::{Double, Int32, Int64};

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(parse_decimal(text).unwrap())
}

#[test]
fn sums_take_the_widest_type() {
    let cases = [
        (Int32(1), Int32(2), Int32(3)),
        (Int32(i32::MAX), Int32(1), Int64(1 << 31)),
        (Int32(i32::MIN), Int32(-1), Int64(-(1 << 31) - 1)),
        (Int64(1), Int32(2), Int64(3)),
        (Int32(1), Double(0.5), Double(1.5)),
        (Int64(1), decimal("0.10"), decimal("1.10")),
        (Double(0.1), decimal("1"), decimal("1.100000000000000")),
        (Double(1.0), decimal("1"), decimal("2.00000000000000")),
        (decimal("1E+3"), decimal("1"), decimal("1001")),
        (decimal("NaN"), decimal("1"), decimal("NaN")),
        (decimal("Infinity"), decimal("-1"), decimal("Infinity")),
        (decimal("Infinity"), decimal("-Infinity"), decimal("NaN")),
        (
            decimal("9999999999999999999999999999999999"),
            decimal("1"),
            decimal("1.000000000000000000000000000000000E+34"),
        ),
    ];
    for (left, right, sum) in cases {
        assert_eq!(add(&left, &right).unwrap(), sum, "{left} + {right}");
        assert_eq!(add_or_widen(&right, &left).unwrap(), sum, "{right} + {left}");
    }
}

#[test]
fn int64_overflow_fails_or_widens() {
    let cases = [(Int64(i64::MAX), Int32(1), 9_223_372_036_854_775_808.0)];
    for (left, right, widened) in cases {
        assert_eq!(add(&left, &right).unwrap_err().code(), Code::BadValue);
        assert_eq!(add_or_widen(&left, &right).unwrap(), Double(widened));
    }
    assert_eq!(multiply(&Int64(i64::MAX), &Int64(2)).unwrap_err().code(), Code::BadValue);
    assert_eq!(multiply_or_widen(&Int64(i64::MAX), &Int64(2)).unwrap(), Double(18_446_744_073_709_551_616.0));
    assert_eq!(negate(&Int32(i32::MIN)).unwrap(), Int64(1 << 31));
    assert_eq!(negate(&Int64(i64::MIN)).unwrap(), Double(9_223_372_036_854_775_808.0));
    assert_eq!(absolute(&Int32(-3)).unwrap(), Int32(3));
    assert_eq!(absolute(&decimal("-3.10")).unwrap(), decimal("3.10"));
}

#[test]
fn products_quotients_and_remainders() {
    assert_eq!(multiply(&Int32(1 << 20), &Int32(1 << 20)).unwrap(), Int64(1 << 40));
    assert_eq!(multiply(&decimal("1.20"), &Int32(3)).unwrap(), decimal("3.60"));
    assert_eq!(multiply(&decimal("Infinity"), &decimal("0")).unwrap(), decimal("NaN"));
    assert_eq!(divide(&Int32(7), &Int32(2)).unwrap(), Double(3.5));
    assert_eq!(divide(&decimal("7"), &Int32(2)).unwrap(), decimal("3.5"));
    assert_eq!(divide(&decimal("1"), &Int32(3)).unwrap(), decimal("0.3333333333333333333333333333333333"));
    assert_eq!(divide(&decimal("2"), &Int32(3)).unwrap(), decimal("0.6666666666666666666666666666666667"));
    assert_eq!(divide(&decimal("6"), &Int32(2)).unwrap(), decimal("3"));
    assert_eq!(divide(&Int32(1), &Int32(0)).unwrap_err().code(), Code(16608));
    assert_eq!(divide(&decimal("1"), &Int32(0)).unwrap_err().code(), Code(16608));
    assert_eq!(modulo(&Int32(-7), &Int32(3)).unwrap(), Int32(-1));
    assert_eq!(modulo(&Int32(i32::MIN), &Int32(-1)).unwrap(), Int32(0));
    assert_eq!(modulo(&Double(7.5), &Int64(2)).unwrap(), Double(1.5));
    assert_eq!(modulo(&decimal("-7.5"), &Int32(2)).unwrap(), decimal("-1.5"));
    assert_eq!(modulo(&Int32(1), &Int32(0)).unwrap_err().code(), Code(16610));
    assert_eq!(add(&Bson::String("a".into()), &Int32(1)).unwrap_err().code(), Code::TypeMismatch);
}

#[test]
fn conversions_are_exact_or_none() {
    assert_eq!(to_i64_exact(&Double(3.0)), Some(3));
    assert_eq!(to_i64_exact(&Double(3.5)), None);
    assert_eq!(to_i64_exact(&Double(f64::NAN)), None);
    assert_eq!(to_i64_exact(&Double(9_223_372_036_854_775_808.0)), None);
    assert_eq!(to_i64_exact(&Double(-9_223_372_036_854_775_808.0)), Some(i64::MIN));
    assert_eq!(to_i64_exact(&decimal("1E+3")), Some(1000));
    assert_eq!(to_i64_exact(&decimal("10.00")), Some(10));
    assert_eq!(to_i64_exact(&decimal("10.01")), None);
    assert_eq!(to_i64_exact(&decimal("9223372036854775808")), None);
    assert_eq!(to_i64_exact(&decimal("-9223372036854775808")), Some(i64::MIN));
    assert_eq!(to_i64_exact(&decimal("0E+6000")), Some(0));
    assert_eq!(to_i64_exact(&Bson::Null), None);
    assert_eq!(to_f64(&decimal("1.5")), Some(1.5));
    assert_eq!(to_f64(&decimal("-Infinity")), Some(f64::NEG_INFINITY));
}

#[test]
fn decimals_round_trip_with_the_librarys_text() {
    let texts = [
        "0",
        "-0",
        "0.00",
        "1",
        "-1.50",
        "1E+3",
        "1E-6176",
        "9.999999999999999999999999999999999E+6144",
        "Infinity",
        "-Infinity",
        "NaN",
        "1234567890123456789012345678901234",
    ];
    for text in texts {
        let ours = parse_decimal(text).unwrap();
        assert_eq!(ours, text.parse().unwrap(), "{text}");
        assert_eq!(Decimal::unpack(ours).pack(), ours, "{text}");
    }
}

#[test]
fn decimals_round_and_clamp() {
    let text = |input: &str| parse_decimal(input).unwrap().to_string();
    assert_eq!(text("12345678901234567890123456789012345"), "1.234567890123456789012345678901234E+34");
    assert_eq!(text("12345678901234567890123456789012355"), "1.234567890123456789012345678901236E+34");
    assert_eq!(text("99999999999999999999999999999999995"), "1.000000000000000000000000000000000E+35");
    assert_eq!(text("1E+6145"), "Infinity");
    assert_eq!(text("1E+6112"), "1.0E+6112");
    assert_eq!(text("1E-6177"), "0E-6176");
    assert_eq!(text("6E-6177"), "1E-6176");
    assert_eq!(text("0E+7000"), "0E+6111");
    assert_eq!(text("1e2000000000"), "Infinity");
    assert_eq!(text("1e-2000000000"), "0E-6176");
    let barely_more = Decimal::parse(&format!("1.{}1", "0".repeat(20_000))).unwrap();
    assert_eq!((barely_more.to_f64(), barely_more.to_i64_exact()), (1.0, None));
    for bad in ["", "-", ".", "1e", "0x1", "1.2.3", "e5", "--1"] {
        assert_eq!(parse_decimal(bad), None, "{bad}");
    }
    let halves = Decimal::parse("-2.5").unwrap();
    let rounded = |rounding| halves.rounded(0, rounding).pack().to_string();
    assert_eq!(rounded(Rounding::HalfEven), "-2");
    assert_eq!(rounded(Rounding::Truncate), "-2");
    assert_eq!(rounded(Rounding::Floor), "-3");
    assert_eq!(rounded(Rounding::Ceiling), "-2");
    assert_eq!(Decimal::parse("125").unwrap().rounded(-1, Rounding::HalfEven).pack().to_string(), "1.2E+2");
}
