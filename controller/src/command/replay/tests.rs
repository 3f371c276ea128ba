//! Recordings that are decided on again.

use std::path::Path;

use super::*;

/// A controller initialised a Node, kept the taint of another, deleted the first, and made, changed and deleted load
/// balancers. A decision that changes on purpose has it recorded again: CONTRIBUTING.md.
const RECORDING: &str = include_str!("../../../tests/data/recording.jsonl");

fn replayed(text: &str) -> Result<(Tally, String), String> {
    let mut out = Vec::new();
    let tally = replay(text.as_bytes(), Path::new("file"), false, &mut out);
    let output = String::from_utf8(out).unwrap();
    tally
        .map(|tally| (tally, output))
        .map_err(|Refusal(text)| text)
}

#[test]
fn a_recording_of_an_earlier_build_is_decided_the_same() {
    let (tally, output) = replayed(RECORDING).unwrap();
    assert_eq!(tally.other, 0, "{output}");
    assert!(tally.same > 20 && tally.notes > 10, "{tally:?}");
    for kind in [
        "initialize",
        "addresses",
        "refresh",
        "check",
        "judge",
        "next_step",
        "ensure",
        "update",
        "delete",
    ] {
        assert!(
            output.contains(&format!(" {kind} ")),
            "no {kind}:\n{output}"
        );
    }
}

#[test]
fn a_text_that_would_move_the_cursor_is_shown_as_it_is_written() {
    let header = RECORDING.lines().next().unwrap();
    let line = r#"{"time":"2026-01-01T00:00:00Z","object":"node/a","source":"x","kind":"sync","rule":"r","text":"\u001b[2J"}"#;
    let (tally, output) = replayed(&format!("{header}\n{line}\n")).unwrap();
    assert_eq!(tally.notes, 1);
    assert!(
        !output.contains('\u{1b}') && output.contains("u{1b}"),
        "{output:?}"
    );
}
