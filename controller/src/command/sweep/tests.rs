//! Words of the command that are refused.

use super::*;

#[test]
fn mistakes_are_refused_before_anything_is_asked() {
    const UID: &str = "--cluster-uid=0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10";
    let refused = |words: &[&str]| {
        let parsed = SweepCommand::try_parse_from(words).err();
        parsed.map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused(&[UID, "--provider-user=10002", "--timeout=1s"]), "");
    for (words, why) in [
        (&["--yes"][..], "--cluster-uid"),
        (&["--cluster-uid=a b"], "must be a UUID"),
        (
            &["--cluster-uid=0B5BF7B5-1C2E-4B4A-9D7C-6C2F0E8D5A10"],
            "must be a UUID",
        ),
        (&[UID, "--lease=ccm"], "must be NAMESPACE/NAME"),
        (&[UID, "--timeout=0s"], "must be greater than 0"),
        (&[UID, "--output=yaml"], "table, json"),
        (&[UID, "--provider-user=ccm"], "--provider-user"),
        (
            &[UID, "--kubeconfig=k", "--without-kubeconfig"],
            "cannot be used with",
        ),
    ] {
        let refused = refused(words);
        assert!(refused.contains(why), "{words:?}: {refused}");
    }
}
