use outrigger_provider_sdk::ErrorReason;

use super::*;

#[test]
fn a_provider_id_is_of_a_cloud_or_of_another_provider_or_malformed() {
    assert_eq!(parse("linux://demo/i-0123abcd").unwrap(), Some("demo"));
    assert_eq!(parse("aws:///eu-1a/i-0123abcd").unwrap(), None);
    for malformed in [
        "linux://",
        "linux://demo",
        "linux://demo/0123abcd",
        "linux://demo/i-0123ABCD",
        "linux:///i-0123abcd",
    ] {
        let error = parse(malformed).unwrap_err();
        assert_eq!(
            error.reason(),
            Some(ErrorReason::MalformedProviderId),
            "{malformed}"
        );
    }
}
