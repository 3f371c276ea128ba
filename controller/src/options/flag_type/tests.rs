use super::*;

fn strings(text: &str) -> Result<Vec<String>, String> {
    FlagType::read(text)
}

proptest::proptest! {
    #[test]
    fn no_text_is_fatal(text: String) {
        let _ = strings(&text);
        let _ = Vec::<i32>::read(&text);
        let _ = Quantity::read(&text);
    }
}

#[test]
fn lists_split_at_commas_but_not_in_quotes() {
    let check = |text: &str, expected: &[&str]| {
        let got = strings(text).unwrap();
        assert_eq!(got, expected, "{text}");
    };
    check("", &[]);
    check("a", &["a"]);
    check("a,b", &["a", "b"]);
    check("a,", &["a", ""]);
    check(r#""a,b",c"#, &["a,b", "c"]);
    check(r#""say ""hi""",c"#, &[r#"say "hi""#, "c"]);
    assert!(strings(r#""a"#).is_err());
    assert!(strings(r#""a"b"#).is_err());
}

#[test]
fn switches_take_every_spelling_that_go_takes() {
    assert_eq!(bool::read("T"), Ok(true));
    assert_eq!(bool::read("0"), Ok(false));
    assert!(bool::read("yes").is_err());
}
