//! The generator, the shrinking and the rules themselves, without a provider and with one that has a defect.

mod provider;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{
    Explored, Plan, Rule, TraceFile,
    desired::{Act, Desired},
    explore, generate, shrink,
    state::{Identities, around_difference, differences, resources},
    trace::{Change, Name, Trace, WORDS},
    world::World,
};
use provider::{Defect, Faulty};

/// Everything that a provider can offer.
fn world() -> World {
    let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    World {
        names: ['a', 'b', 'c'].map(Name).to_vec(),
        nodes: texts(&["worker-1", "worker-2", "worker-3"]),
        families: texts(&["IPv4", "IPv6"]),
        protocols: texts(&["TCP", "UDP"]),
        classes: texts(&["example.com/internal", "example.com/external"]),
        annotations: 2,
        routes: 5,
        balancers_together: true,
        routes_together: true,
        ..World::default()
    }
}

fn trace(text: &str) -> Trace {
    text.parse().unwrap()
}

proptest! {
    #[test]
    fn a_trace_is_read_as_it_was_written(seed in any::<u64>(), steps in 1_usize..20) {
        let made = generate::trace(seed, &world(), steps);
        prop_assert_eq!(&trace(&made.to_string()), &made);
        prop_assert!(made.0.len() <= steps);
        let file = TraceFile { title: String::new(), trace: made.clone() };
        let read: TraceFile = serde_saphyr::from_str(&serde_json::to_string(&file).unwrap()).unwrap();
        prop_assert_eq!(read.trace, made.clone());
        prop_assert_eq!(generate::trace(seed, &world(), steps), made.clone());
        prop_assert_eq!(world().check(&made), Ok(()));
    }

    #[test]
    fn smaller_traces_are_smaller_and_legal(seed in any::<u64>()) {
        let made = generate::trace(seed, &world(), 8);
        let length = made.to_string().len();
        for smaller in shrink::smaller(&made) {
            let text = smaller.to_string();
            // `none` and `make` stand for an empty list.
            prop_assert!(text.len() < length + 5, "{}: {}", made, text);
            prop_assert_eq!(trace(&text), smaller);
        }
    }
}

#[test]
fn each_word_comes_and_can_be_left_out() {
    let all = |world: &World| {
        let traces = (0..400).map(|seed| generate::trace(seed, world, 8));
        traces
            .flat_map(|trace| trace.words())
            .collect::<BTreeSet<_>>()
    };
    let words = all(&world());
    for word in WORDS {
        assert!(words.contains(word), "{word} in no trace: {words:?}");
        let mut without = world();
        without.without.insert(word.to_owned());
        assert!(
            word == "ports" || !all(&without).contains(word),
            "{word} not left out"
        );
    }
}

#[test]
fn steps_that_cannot_be_made_are_refused() {
    for (text, error) in [
        ("", "one step"),
        ("a ports=TCP/80:1", "no step"),
        ("a: ports=", "one port"),
        ("a: ports=TCP/80", "no port"),
        ("a: colour=red", "no field"),
        ("a: delete & a: delete", "different Services"),
        ("a: delete & nodes: none", "different Services"),
        ("a: delete !soon", "no fault"),
        ("nodes: worker-1/old", "none of moved"),
    ] {
        let refused = text.parse::<Trace>().unwrap_err();
        assert!(refused.contains(error), "{text:?}: {refused}");
    }
    for text in [
        "d: make",
        "route 5: worker-1",
        "nodes: worker-9",
        "a: annotations=3",
        "a: class=x",
    ] {
        let refused = world().check(&trace(text)).unwrap_err();
        assert!(refused.contains(text), "{refused}");
    }
}

#[test]
fn a_change_asks_for_its_call() {
    let world = world();
    let mut desired = Desired::new(&world);
    let a = Name('a');
    for (step, act) in [
        ("a: delete", Act::Nothing),
        ("a: type=ClusterIP", Act::Nothing),
        (
            "a: type=LoadBalancer class=example.com/external",
            Act::Ensure(a),
        ),
        // Kubernetes keeps the class.
        ("a: class=example.com/internal", Act::Ensure(a)),
        ("a: type=ClusterIP ranges=192.0.2.0/24", Act::Delete(a)),
        ("a: type=LoadBalancer", Act::Ensure(a)),
        ("a: delete", Act::Delete(a)),
        ("nodes: none", Act::Update),
        ("route 0: delete", Act::Nothing),
        ("route 0: blackhole", Act::Nothing),
        ("route 0: worker-1", Act::Route(0)),
        ("route 0: blackhole", Act::Blackhole(0)),
        ("route 0: delete", Act::NoRoute(0)),
    ] {
        let change: Change = step.parse().unwrap();
        assert_eq!(desired.apply(&change, &world), act, "{step}");
        if let Some(spec) = desired.services.get(&a) {
            let class = spec.class.as_deref();
            assert!(!matches!(class, Some("example.com/internal")), "{step}");
        }
    }
}

#[tokio::test]
async fn a_trace_shrinks_to_the_steps_that_fail() {
    let long = trace(
        "c: make; a: ports=TCP/80:31000,UDP/53:31001 ranges=192.0.2.0/24 !cut=5; nodes: worker-1/moved worker-2; \
         b: make & route 0: worker-1; a: ports=TCP/80:31000 & b: delete !twice; wait: 100",
    );
    // UDP on a, and a deletion of b at some time after it.
    let fails = async |trace: &Trace| {
        let text = trace.to_string();
        let udp = text.find("UDP");
        udp.zip(text.find("b: delete"))
            .is_some_and(|(udp, delete)| udp < delete)
    };
    let (shrunk, tried) = shrink::shrink(long.clone(), 300, fails).await;
    assert_eq!(shrunk.to_string(), "a: ports=UDP/53:31001; b: delete");
    assert!(tried < 100, "{tried} tries");
    let (same, tried) = shrink::shrink(long.clone(), 300, async |_: &Trace| false).await;
    assert_eq!(same, long);
    assert!(tried > 0);
    assert_eq!(shrink::shrink(long, 3, fails).await.1, 3);
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

#[test]
fn a_difference_is_shown_with_its_surroundings() {
    let long = "x".repeat(100);
    let both = around_difference(&format!("{long}2{long}"), &format!("{long}{long}"));
    let x = "x".repeat(60);
    assert_eq!(both, (format!("…{x}2{x}…"), format!("…{x}{x}…")));
    let short = around_difference("a", "ab");
    assert_eq!(short, ("a".to_owned(), "ab".to_owned()));
}

/// Explores a provider with a defect.
async fn explored(defect: Option<Defect>, plan: Plan) -> Explored {
    let provider = Faulty::start(defect).await;
    Box::pin(explore(
        provider.settings(),
        plan,
        "explore".to_owned(),
        |_, _| (),
    ))
    .await
    .unwrap()
}

#[tokio::test]
async fn a_provider_without_a_defect_keeps_all_rules() {
    let plan = Plan::Seeds {
        first: 1,
        count: Some(8),
        duration: None,
        steps: 6,
    };
    let explored = explored(None, plan).await;
    assert!(explored.failure.is_none(), "{explored}");
    assert_eq!(explored.traces, 8);
    assert_eq!(explored.leftovers, [""; 0]);
}

#[tokio::test]
async fn a_defect_is_found_from_a_seed_and_shrunk() {
    let plan = Plan::Seeds {
        first: 1,
        count: Some(60),
        duration: None,
        steps: 4,
    };
    let explored = explored(Some(Defect::LeavesRulesOfRemovedPorts), plan).await;
    let text = explored.to_string();
    let failure = explored.failure.unwrap();
    assert_eq!(failure.broken.rule, Rule::Left, "{text}");
    assert!(failure.trace.0.len() <= 2, "{text}");
    for part in [
        "left: cloud: rule",
        "explore --trace '",
        "--seed",
        "title: after",
        "clause",
    ] {
        assert!(text.contains(part), "{part:?} missing: {text}");
    }
    assert_eq!(explored.leftovers, [""; 0]);
}

#[tokio::test]
async fn each_rule_sees_its_defect() {
    for (defect, rule, text, shrunk) in [
        (
            Defect::KeepsRemovedPorts,
            Rule::Fresh,
            "b: make; a: ports=TCP/443:31001; a: make; a: ports=TCP/80:31000",
            "a: ports=TCP/443:31001; a: ports=TCP/80:31000",
        ),
        (
            Defect::OldAddressIsSaid,
            Rule::Get,
            "a: make; a: ranges=192.0.2.0/24",
            "a: make; a: ranges=192.0.2.0/24",
        ),
        (
            Defect::ReturnsWithOldPorts,
            Rule::Get,
            "a: make; a: delete; a: ports=TCP/443:31001",
            "a: make; a: delete; a: ports=TCP/443:31001",
        ),
        (
            Defect::ForgetsTargets,
            Rule::Get,
            "a: make & b: make; nodes: none",
            "b: make; nodes: none",
        ),
    ] {
        let plan = Plan::Given(vec![(String::new(), trace(text))]);
        let explored = explored(Some(defect), plan).await;
        let text = explored.to_string();
        let failure = explored
            .failure
            .unwrap_or_else(|| panic!("{defect:?} is not found"));
        assert_eq!(failure.broken.rule, rule, "{defect:?}\n{text}");
        assert_eq!(failure.trace.to_string(), shrunk, "{defect:?}\n{text}");
    }
}
