use proptest::prelude::*;

use super::*;

proptest! {
    /// NaN only where it is written out.
    #[test]
    fn what_is_no_nan_is_a_number(text in "[+-]?(0x)?[0-9a-f_.]{0,6}([ep][+-]?[0-9]{0,5})?") {
        prop_assert!(float64(&text).is_ok_and(f64::is_nan) == text.eq_ignore_ascii_case("nan"));
        let _ = (int32(&text), int(&text), level(&text), float32(&text));
    }
}

#[test]
fn whole_numbers_are_read_as_by_go() {
    for (text, expected) in [
        ("0", Ok(0)),
        ("16", Ok(16)),
        ("+16", Ok(16)),
        ("-16", Ok(-16)),
        ("0x10", Ok(16)),
        ("0X1f", Ok(31)),
        ("-0x10", Ok(-16)),
        ("010", Ok(8)),
        ("0o10", Ok(8)),
        ("0b101", Ok(5)),
        ("1_000", Ok(1000)),
        ("0x_10", Ok(16)),
        ("0_10", Ok(8)),
        ("2147483647", Ok(i32::MAX)),
        ("-2147483648", Ok(i32::MIN)),
        ("2147483648", Err(RANGE)),
        ("99999999999999999999999999999999999999999", Err(RANGE)),
        ("", Err(INTEGER)),
        ("-", Err(INTEGER)),
        ("08", Err(INTEGER)),
        ("0x", Err(INTEGER)),
        ("0x-1", Err(INTEGER)),
        ("--1", Err(INTEGER)),
        ("_1", Err(INTEGER)),
        ("1_", Err(INTEGER)),
        ("1__0", Err(INTEGER)),
        ("1e3", Err(INTEGER)),
        ("1.0", Err(INTEGER)),
        (" 1", Err(INTEGER)),
        ("ten", Err(INTEGER)),
    ] {
        assert_eq!(int32(text), expected.map_err(ToOwned::to_owned), "{text:?}");
    }
    assert_eq!(int("0x7fffffffffffffff"), Ok(i64::MAX));
    assert_eq!(int("0x8000000000000000"), Err(RANGE.into()));
}

#[test]
fn numbers_with_fractions_are_read_as_by_go() {
    for (text, expected) in [
        ("20", Ok(20.0)),
        ("-1", Ok(-1.0)),
        (".5", Ok(0.5)),
        ("5.", Ok(5.0)),
        ("1e3", Ok(1000.0)),
        ("1_000.5", Ok(1000.5)),
        ("0x1p4", Ok(16.0)),
        ("-0x1.8p+1", Ok(-3.0)),
        ("0x0p9999", Ok(0.0)),
        ("0x8000000000000000p-1080", Ok(0.0)),
        ("010", Ok(10.0)),
        ("1e40", Err(RANGE)),
        ("", Err(FLOAT)),
        ("1e", Err(FLOAT)),
        ("0x10", Err(FLOAT)),
        ("+nan", Err(FLOAT)),
        ("1__0", Err(FLOAT)),
        ("1,5", Err(FLOAT)),
    ] {
        assert_eq!(
            float32(text),
            expected.map_err(ToOwned::to_owned),
            "{text:?}"
        );
    }
    assert_eq!(float64("1e40"), Ok(1e40));
    assert_eq!(float64("0x8000000000000000p-1080"), Ok(2_f64.powi(-1_017)));
    assert_eq!(float64("0x1p9999"), Err(RANGE.into()));
    assert_eq!(float64("1e400"), Err(RANGE.into()));
    assert_eq!(float64("-Inf"), Ok(f64::NEG_INFINITY));
}
