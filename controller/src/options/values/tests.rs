use std::time::Duration;

use super::*;

fn duration(text: &str) -> String {
    match text.parse::<GoDuration>() {
        Ok(duration) => duration.to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn durations_are_read_and_printed_as_go_does() {
    for (text, expected) in [
        ("0", "0s"),
        ("-0", "0s"),
        ("10s", "10s"),
        ("90s", "1m30s"),
        ("5m", "5m0s"),
        ("1m30s", "1m30s"),
        ("1h", "1h0m0s"),
        ("12h", "12h0m0s"),
        ("1.5h", "1h30m0s"),
        (".5s", "500ms"),
        ("1.s", "1s"),
        ("1.0001s", "1.0001s"),
        ("1500us", "1.5ms"),
        ("1500ns", "1.5µs"),
        ("3µs", "3µs"),
        ("7ns", "7ns"),
        ("-1.5s", "-1.5s"),
        ("+2m", "2m0s"),
        ("0.1234567890123456789012345s", "123.456789ms"),
        ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
    ] {
        assert_eq!(duration(text), expected, "{text}");
    }
}

#[test]
fn durations_without_sense_are_refused_with_advice() {
    for (text, expected) in [
        (
            "5",
            r#"error: time: missing unit in duration "5"; write it as 5s or 5m"#,
        ),
        (
            "1m5",
            r#"error: time: missing unit in duration "1m5"; write it as 5s or 5m"#,
        ),
        (
            "5d",
            r#"error: time: unknown unit "d" in duration "5d"; the units are ns, us, ms, s, m and h"#,
        ),
        (
            "",
            r#"error: time: invalid duration ""; write it as 10s or 1m30s"#,
        ),
        (
            "s",
            r#"error: time: invalid duration "s"; write it as 10s or 1m30s"#,
        ),
        (
            "-",
            r#"error: time: invalid duration "-"; write it as 10s or 1m30s"#,
        ),
        (
            "1.2.3s",
            r#"error: time: invalid duration "1.2.3s"; write it as 10s or 1m30s"#,
        ),
        (
            "9999999999h",
            r#"error: time: invalid duration "9999999999h"; write it as 10s or 1m30s"#,
        ),
    ] {
        assert_eq!(duration(text), expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn durations_survive_a_round_trip(seconds: u32, nanos in 0_u32..1_000_000_000) {
        let text = format!("{seconds}.{nanos:09}s");
        let duration: GoDuration = text.parse().unwrap();
        assert_eq!(duration.as_std(), Some(Duration::new(seconds.into(), nanos)));
        assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn no_text_is_fatal(text: String) {
        let _ = text.parse::<GoDuration>();
        let _ = text.parse::<Strings>();
        let _ = text.parse::<Int32s>();
        let _ = text.parse::<Quantity>();
    }
}

#[test]
fn lists_split_at_commas_but_not_in_quotes() {
    let check = |text: &str, expected: &[&str]| {
        let got = text.parse::<Strings>().unwrap().0;
        assert_eq!(got, expected, "{text}");
    };
    check("", &[]);
    check("a", &["a"]);
    check("a,b", &["a", "b"]);
    check("a,", &["a", ""]);
    check(r#""a,b",c"#, &["a,b", "c"]);
    check(r#""say ""hi""",c"#, &[r#"say "hi""#, "c"]);
    assert!(r#""a"#.parse::<Strings>().is_err());
    assert!(r#""a"b"#.parse::<Strings>().is_err());
}

#[test]
fn switches_take_every_spelling_that_go_takes() {
    assert_eq!("T".parse(), Ok(GoBool(true)));
    assert_eq!("0".parse(), Ok(GoBool(false)));
    assert!("yes".parse::<GoBool>().is_err());
}
