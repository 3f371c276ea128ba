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
    assert_eq!(refused(&[UID, "--provider-user=10002", "--timeout=1s"]), "");
    for (words, why) in [
        (&["--yes"][..], "--cluster-uid must be given"),
        (&["--cluster-uid=a b"], "--cluster-uid must be a UUID"),
        (
            &["--cluster-uid=0B5BF7B5-1C2E-4B4A-9D7C-6C2F0E8D5A10"],
            "--cluster-uid must be a UUID",
        ),
        (&[UID, "--lease=ccm"], "--lease must be NAMESPACE/NAME"),
        (&[UID, "--timeout=0s"], "--timeout must be greater than 0"),
        (&[UID, "--output=yaml"], "--output must be table or json"),
        (&[UID, "--provider-user=ccm"], "--provider-user: "),
        (
            &[UID, "--kubeconfig=k", "--without-kubeconfig"],
            "--kubeconfig and --without-kubeconfig contradict",
        ),
    ] {
        let refused = refused(words);
        assert!(refused.starts_with(why), "{words:?}: {refused}");
    }
}
