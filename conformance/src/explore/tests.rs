//! The generator and the comparisons. The mistakes of the mock show that each rule finds some.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::{Config, RngSeed, TestRunner},
};

use super::{
    generate,
    state::{Identities, differences, resources},
    trace::{Trace, WORDS},
    world::World,
};

/// Everything that a provider can offer.
fn world() -> World {
    let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    World {
        names: vec!['a', 'b', 'c'],
        nodes: texts(&["worker-1", "worker-2", "worker-3"]),
        families: texts(&["IPv4", "IPv6"]),
        second_protocol: Some("UDP".to_owned()),
        annotations: texts(&["1", "2", "internal"]),
        ..World::default()
    }
}

/// The trace of a seed.
fn trace(seed: u64, world: World) -> Trace {
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    });
    let traces = generate::traces(&Arc::new(world), 8);
    Trace(traces.new_tree(&mut runner).unwrap().current().1)
}

#[test]
fn each_word_comes_and_can_be_left_out_and_a_seed_has_one_trace() {
    let all = |world: &World| {
        let traces = (0..300).map(|seed| trace(seed, world.clone()));
        traces
            .flat_map(|trace| trace.words())
            .collect::<BTreeSet<_>>()
    };
    let words = all(&world());
    for word in WORDS.split(' ') {
        assert!(words.contains(word), "{word} in no trace: {words:?}");
        let mut without = world();
        without.without.insert(word.to_owned());
        assert!(!all(&without).contains(word), "{word} not left out");
    }
    let first = trace(7, world());
    assert_eq!(first, trace(7, world()));
    assert_eq!(first.0.len(), 8);
}

#[test]
fn a_trace_shrinks_to_the_steps_that_fail() {
    // UDP on some Service, and a deletion at some time after it.
    let fails = |trace: &Trace| {
        let text = trace.to_string();
        let udp = text.find("UDP");
        udp.zip(text.rfind(": delete"))
            .is_some_and(|(udp, delete)| udp < delete)
    };
    let mut runner = TestRunner::new(Config {
        rng_seed: RngSeed::Fixed(1),
        ..Config::default()
    });
    let traces = generate::traces(&Arc::new(world()), 12);
    let trees = std::iter::repeat_with(|| traces.new_tree(&mut runner).unwrap());
    let failing = trees.filter(|tree| fails(&Trace(tree.current().1)));
    for mut tree in failing.take(10) {
        let (_, turns, counter) = tree.current();
        counter.unwrap().store(turns.len(), Ordering::SeqCst);
        let mut smallest = Trace(turns);
        let mut failed = true;
        while if failed {
            tree.simplify()
        } else {
            tree.complicate()
        } {
            let smaller = Trace(tree.current().1);
            failed = fails(&smaller);
            if failed {
                smallest = smaller;
            }
        }
        assert_eq!(smallest.0.len(), 2, "{smallest}");
        assert!(!smallest.to_string().contains(['!', ',']), "{smallest}");
    }
}

#[test]
fn what_differs_each_time_is_left_out() {
    let mut identities = Identities::default();
    identities.uid("12345678-9abc-4def-8000-0123456789ab", "UID of a");
    identities.text("198.18.0.1", "address of a");
    let text = "a123456789abc4def80-1 12345678-9abc-4def-8000-0123456789ab. 12345678- 198.18.0.1, 198.18.0.12, 12345679";
    assert_eq!(
        identities.without(text),
        "a<UID of a>-1 <UID of a>. <UID of a>- <address of a>, 198.18.0.12, 12345679"
    );
    let lines = resources("b  1 2026-11-26T22:54:26.1Z\n\na\n");
    assert_eq!(lines, ["a", "b 1 <time>"]);
    let json = r#"{"lbs": [{"ports": [2, 1], "at": "2026-11-26T22:54:26Z"}], "n": 1} [3]"#;
    let lines = resources(json);
    assert_eq!(
        lines,
        ["3", r#"lbs: {"at":"<time>","ports":[1,2]}"#, "n: 1"]
    );
    let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let (first, second) = differences(&texts(&["a", "b", "b"]), &texts(&["b", "c"]));
    assert_eq!((first, second), (texts(&["a", "b"]), texts(&["c"])));
}
