use jiff::{SignedDuration, Timestamp};

use super::{AddressDoubt, BelievedAddresses, EVENT_ADDRESSES_KEPT, unnamed};
use crate::{
    fixture::{addresses, registered},
    node::{NodeView, Ready, instance::Instance},
};

/// A Node that is Ready and initialised, with these addresses from the cloud, and the doubt about it.
struct Doubted {
    node: NodeView,
    doubt: AddressDoubt,
    warnings: usize,
}

impl Doubted {
    fn with(words: &str) -> Self {
        Self {
            node: NodeView {
                addresses: addresses(words),
                ready: Ready::True,
                taints: [].into(),
                ..registered("n1")
            },
            doubt: AddressDoubt::default(),
            warnings: 0,
        }
    }

    /// The addresses that count after an answer at this second.
    fn hears(&mut self, second: i64, words: &str) -> String {
        self.hears_of(second, &answer(words), &[])
    }

    fn hears_of(&mut self, second: i64, instance: &Instance, elsewhere: &[Box<str>]) -> String {
        let BelievedAddresses { addresses, warning } =
            self.doubt
                .believe(at(second), &self.node, instance, elsewhere);
        if let Some(warning) = warning {
            assert_eq!(warning.event, Some(EVENT_ADDRESSES_KEPT));
            self.warnings += 1;
        }
        self.node.addresses = addresses;
        let list = self.node.addresses.iter();
        let words = list.map(|one| format!("{}={}", one.kind, one.address));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn answer(words: &str) -> Instance {
    Instance {
        addresses: addresses(words),
        ..Instance::default()
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

const ALL: &str = "InternalIP=10.0.0.5 ExternalIP=192.0.2.5 Hostname=h";

#[test]
fn addresses_that_a_found_instance_no_longer_names_are_kept_with_one_warning() {
    for (before, said) in [
        (ALL, "Hostname=h"),
        (ALL, "InternalIP=10.0.0.5 Hostname=h"),
        (ALL, "ExternalIP=192.0.2.5"),
        (
            "InternalIP=10.0.0.5 InternalIP=fd00::5",
            "InternalIP=fd00::5",
        ),
        (
            "InternalIP=10.0.0.5 InternalIP=fd00::5",
            "InternalIP=10.0.0.5",
        ),
        ("InternalIP=10.0.0.5 InternalDNS=a.b", "InternalIP=10.0.0.5"),
    ] {
        // A host name that is not named is the kubelet's (N-42).
        let kept = before.strip_suffix(" Hostname=h").unwrap_or(before);
        let kept = if said.contains("Hostname") {
            before
        } else {
            kept
        };
        let mut node = Doubted::with(before);
        for second in [0, 1, 150, 299] {
            assert_eq!(node.hears(second, said), kept, "{said}");
        }
        assert_eq!(node.warnings, 1, "{said}");
        // They are named again, and the time begins again.
        assert_eq!(node.hears(300, before), before);
        assert!(node.doubt == AddressDoubt::default());
        for second in [301, 302, 600] {
            assert_eq!(node.hears(second, said), kept, "{said}");
        }
        assert_eq!(node.warnings, 2, "{said}");
    }
}

#[test]
fn three_answers_over_five_minutes_that_agree_are_believed() {
    let said = "InternalIP=10.0.0.5 Hostname=h";
    let ends = |seconds: &[i64]| {
        let mut node = Doubted::with(ALL);
        let answers = seconds.iter().map(|second| node.hears(*second, said));
        answers.last().as_deref() == Some(said)
    };
    assert!(ends(&[0, 150, 300]));
    assert!(ends(&[0, 299, 300]));
    assert!(!ends(&[0, 300]), "two answers");
    assert!(!ends(&[0, 100, 200, 299]), "less than five minutes");
    // Answers that lack others do not agree.
    let mut node = Doubted::with(ALL);
    node.hears(0, said);
    node.hears(150, "Hostname=h");
    assert_eq!(node.hears(300, said), ALL);
}

/// The sweep may come in hours.
#[test]
fn the_provider_is_asked_again_until_three_answers_agree() {
    let mut node = Doubted::with(ALL);
    let said = "InternalIP=10.0.0.5 Hostname=h";
    for (second, next) in [(0, Some(150)), (150, Some(300)), (300, None)] {
        node.hears(second, said);
        assert_eq!(node.doubt.ask_at(), next.map(at));
    }
    node.hears(301, said);
    assert!(node.doubt == AddressDoubt::default());
    // Answers in quick succession put the last question off no further.
    let mut node = Doubted::with(ALL);
    for (second, next) in [(0, 150), (1, 300), (2, 300)] {
        node.hears(second, said);
        assert_eq!(node.doubt.ask_at(), Some(at(next)));
    }
}

#[test]
fn the_last_internal_ip_of_a_ready_node_stays() {
    let mut node = Doubted::with(ALL);
    for second in [0, 150, 300, 600, 900, 3600] {
        node.hears(second, "Hostname=h");
    }
    assert_eq!(
        node.hears(7200, "Hostname=h"),
        "InternalIP=10.0.0.5 Hostname=h"
    );
    assert_eq!(node.doubt.ask_at(), None, "sweeps go on");
    // A kubelet that is silent proves nothing.
    node.node.ready = Ready::Unknown;
    assert_eq!(node.hears(7500, "Hostname=h"), "Hostname=h");
    // An InternalIP of the other family is enough.
    let mut node = Doubted::with("InternalIP=10.0.0.5 InternalIP=fd00::5");
    let last = [0, 150, 300].map(|second| node.hears(second, "InternalIP=fd00::5"));
    assert_eq!(last[2], "InternalIP=fd00::5");
}

#[test]
fn an_address_replaced_by_another_of_its_kind_goes_through_at_once() {
    for (before, said) in [
        ("InternalIP=10.0.0.5", "InternalIP=10.0.0.6"),
        (
            "InternalIP=10.0.0.5 InternalIP=10.0.0.6",
            "InternalIP=10.0.0.6",
        ),
        (
            "InternalIP=10.0.0.5 InternalIP=10.0.0.6",
            "InternalIP=10.0.0.9 InternalIP=10.0.0.6",
        ),
        (ALL, "InternalIP=10.0.0.5 ExternalIP=192.0.2.9 Hostname=h"),
        ("ExternalDNS=a.b", "ExternalDNS=c.d"),
        (
            "InternalIP=10.0.0.5",
            "InternalIP=10.0.0.5 ExternalIP=192.0.2.5",
        ),
    ] {
        let mut node = Doubted::with(before);
        assert_eq!(node.hears(0, said), said);
        assert!(
            node.doubt == AddressDoubt::default() && node.warnings == 0,
            "{before}"
        );
    }
}

#[test]
fn kept_addresses_go_at_once_when_another_node_is_given_them() {
    let elsewhere = ["10.0.0.5".into()];
    let mut node = Doubted::with(ALL);
    // Before this one is answered.
    let now = node.hears_of(0, &answer("Hostname=h"), &elsewhere);
    assert_eq!(now, "ExternalIP=192.0.2.5 Hostname=h");
    // After it; then the provider is asked about this one.
    let mut node = Doubted::with(ALL);
    node.hears(0, "Hostname=h");
    assert!(node.doubt.is_about("10.0.0.5"));
    node.doubt.ask_now(at(7));
    assert_eq!(node.doubt.ask_at(), Some(at(7)));
    let now = node.hears_of(8, &answer("Hostname=h"), &elsewhere);
    assert_eq!(now, "ExternalIP=192.0.2.5 Hostname=h");
    assert!(!node.doubt.is_about("10.0.0.5"));
}

#[test]
fn a_new_order_is_followed_when_two_answers_at_least_five_minutes_apart_have_it() {
    let (before, other) = (
        "InternalIP=10.0.0.1 InternalIP=10.0.0.2 InternalIP=10.0.0.3",
        "InternalIP=10.0.0.2 InternalIP=10.0.0.3 InternalIP=10.0.0.1",
    );
    let third = "InternalIP=10.0.0.3 InternalIP=10.0.0.1 InternalIP=10.0.0.2";
    let mut node = Doubted::with(before);
    assert_eq!(node.hears(0, other), before);
    assert_eq!(node.hears(299, other), before);
    assert_eq!(node.hears(300, other), other);
    // An order of its own in each answer is never followed.
    let mut node = Doubted::with(before);
    for (second, said) in (0..)
        .step_by(300)
        .zip([other, third, other, before, other, third])
    {
        assert_eq!(node.hears(second, said), before, "{second}");
    }
    assert_eq!(node.warnings, 0);
    assert_eq!(node.doubt.ask_at(), None);
}

/// Only the new one is where the answer has it.
#[test]
fn a_replaced_address_comes_at_once_and_the_others_stay_in_their_order() {
    let mut node = Doubted::with("InternalIP=10.0.0.1 InternalIP=10.0.0.2 InternalIP=10.0.0.3");
    let said = "InternalIP=10.0.0.9 InternalIP=10.0.0.3 InternalIP=10.0.0.2";
    let now = "InternalIP=10.0.0.9 InternalIP=10.0.0.2 InternalIP=10.0.0.3";
    assert_eq!(node.hears(0, said), now);
    // The primary family stays the first, whatever else is lacking.
    let mut node = Doubted::with("InternalIP=10.0.0.1 InternalIP=fd00::1");
    let said = "InternalIP=fd00::2";
    assert_eq!(
        node.hears(0, said),
        "InternalIP=10.0.0.1 InternalIP=fd00::2"
    );
}

#[test]
fn a_faulty_address_takes_none_from_the_node() {
    let mut node = Doubted::with(ALL);
    let faulty = Instance {
        faulty_addresses: ["none".into()].into(),
        ..answer("ExternalIP=192.0.2.1")
    };
    for second in [0, 150, 300, 3600] {
        let now = node.hears_of(second, &faulty, &[]);
        assert_eq!(now, "InternalIP=10.0.0.5 ExternalIP=192.0.2.1");
    }
    assert_eq!(node.warnings, 0);
    // Without any, the Node's stay as they are.
    let none = Instance {
        addresses: [].into(),
        ..faulty
    };
    assert!(unnamed(&node.node, &none).is_empty());
    assert_eq!(node.hears_of(0, &none, &[]), "");
}

/// A kubelet may write any address until the cloud has been asked.
#[test]
fn a_node_that_is_not_initialised_keeps_nothing() {
    let mut node = Doubted::with(ALL);
    node.node.taints = registered("n1").taints;
    assert_eq!(node.hears(0, "Hostname=h"), "Hostname=h");
    assert!(node.doubt == AddressDoubt::default() && node.warnings == 0);
}
