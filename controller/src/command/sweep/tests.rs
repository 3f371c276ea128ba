//! Words of the command that are refused.

use super::*;

fn refused(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
    let line = read(FLAGS, USAGE, &words, &[]).ok().unwrap();
    let flags = Flags::read(&line).ok().unwrap();
    match Settings::of(&flags) {
        Ok(_) => String::new(),
        Err(Refusal(text)) => text,
    }
}

#[test]
fn mistakes_are_refused_before_anything_is_asked() {
    const UID: &str = "--cluster-uid=0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10";
    assert_eq!(refused(&[UID, "--lease=a/b", "--timeout=1s"]), "");
    for (words, why) in [
        (&["--plan"][..], "--cluster-uid must be"),
        (&["--cluster-uid= "], "--cluster-uid must be"),
        (&["--cluster-uid=a b"], "--cluster-uid must be"),
        (
            &["--cluster-uid=0b5bf7b5-1c2e-4b4a"],
            "--cluster-uid must be",
        ),
        (
            &["--cluster-uid=0B5BF7B5-1C2E-4B4A-9D7C-6C2F0E8D5A10"],
            "--cluster-uid must be",
        ),
        (&[UID, "--lease=ccm"], "--lease must be NAMESPACE/NAME"),
        (&[UID, "--lease=a/b/c"], "--lease must be NAMESPACE/NAME"),
        (&[UID, "--timeout=0s"], "--timeout must be greater than 0"),
        (
            &[UID, "--gone-after=-1s"],
            "--gone-after must be greater than 0",
        ),
        (&[UID, "--output=yaml"], "--output must be table or json"),
    ] {
        let refused = refused(words);
        assert!(refused.starts_with(why), "{words:?}: {refused}");
    }
}
