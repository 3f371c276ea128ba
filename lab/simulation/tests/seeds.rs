//! A few seeds and a story keep all promises, and a seed decides everything.

use std::process::{Command, Output};

#[expect(clippy::unwrap_used, reason = "a part of each test")]
fn simulate(options: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_outrigger-simulation"));
    program.args(options).output().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_same_seed_twice_gives_the_same_log() {
    let log = |seed| text(&simulate(&["--seed", seed, "--rounds", "2", "--log"]));
    let (one, again, other) = (log("7"), log("7"), log("8"));
    let differs = one
        .lines()
        .zip(again.lines())
        .find(|(one, again)| one != again);
    assert_eq!(differs, None);
    assert_eq!(one.len(), again.len());
    assert!(one.contains(" \"fault\" begins=true"), "{one}");
    assert_ne!(one, other);
}

#[test]
fn fixed_seeds_keep_all_promises() {
    let output = simulate(&["--seeds", "5..11", "--rounds", "3"]);
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_story_keeps_all_promises_with_a_fault_at_one_of_its_writes() {
    let fault = ["--at", "write/services/10", "--fault", "lost-answer"];
    let output = simulate(&[&["--story", "service-edited", "--log"], &fault[..]].concat());
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("Once(Write(LostAnswer))"), "{text}");
}

#[test]
fn options_that_cannot_be_followed_are_refused() {
    for (options, why) in [
        (&["--log"][..], "--seed"),
        (&["--shrink"], "--seed"),
        (&["--faults", "1"], "--seed"),
        (
            &["--seed", "7", "--faults", "9999"],
            "has the faults 0 to 30",
        ),
        (&["--seed", "7", "--rounds", "0"], "1..=100000"),
        (
            &["--story", "moon"],
            "no story moon; there are service-comes",
        ),
    ] {
        let output = simulate(options);
        let text = text(&output);
        assert!(!output.status.success() && text.contains(why), "{text}");
    }
}

/// `--shrink` tries it first: a refusal would look as a failure of the seed.
#[test]
fn a_seed_runs_without_any_fault() {
    let output = simulate(&["--seed", "7", "--rounds", "1", "--log", "--faults"]);
    let text = text(&output);
    assert!(
        output.status.success() && text.contains("seed 7: well"),
        "{text}"
    );
    assert!(!text.contains(" \"fault\" begins=true"), "{text}");
}
