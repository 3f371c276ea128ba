//! The rules that hold after every turn and at the end of a trace, with the sentences that ask for them.

use std::fmt;

use crate::{
    case::Clause,
    verdict::{Failure, Stop, Verdict},
};

/// One rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in reports.
    pub name: &'static str,
    /// A statement that is true of a provider that keeps it.
    pub title: &'static str,
    /// The sentence of the contract.
    pub clause: Clause,
}

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The rule.
    pub rule: &'static Rule,
    /// The turn after which it does not, from 1; none: at the end.
    pub turn: Option<usize>,
    /// The answer that the contract asks for, and that of the provider.
    pub failure: Failure,
}

macro_rules! rules {
    ($($rule:ident $title:literal, $file:literal $at:literal $text:literal;)+) => {
        impl Rule {
            /// Every rule.
            pub const ALL: &[&Self] = &[$(Self::$rule),+];
            $(
                #[doc = $title]
                pub const $rule: &Self = &Self {
                    name: stringify!($rule),
                    title: $title,
                    clause: Clause { file: $file, at: $at, text: $text },
                };
            )+
        }
    };
}

rules! {
    ENDED "each call ends as the desired state asks",
        "common.proto" "" "leaves a state from which the next call converges";
    GET "after Ensure, Get is READY with the same status",
        "load_balancers.proto" "GetLoadBalancer" "State of the load balancer now. Changes nothing.";
    LIST "a list has the load balancers that were asked for",
        "load_balancers.proto" "ListLoadBalancers" "Everything this cluster owns in the cloud, for drift and orphans;";
    ADDRESSES "the addresses stay when only ports or targets change",
        "load_balancers.proto" "EnsureLoadBalancer"
        "A change of ports or targets MUST NOT change the addresses: clients know them.";
    FRESH "a changed load balancer is as a new one with the same Service",
        "load_balancers.proto" "EnsureLoadBalancer"
        "Makes the load balancer, or changes it, to what the Service and its targets say.";
    ABSENT "a deleted load balancer is ABSENT",
        "load_balancers.proto" "DeleteLoadBalancer" "Removes the load balancer and every part of it.";
    LEFT "after the last deletion the cloud is as before",
        "load_balancers.proto" "DeleteLoadBalancer" "Removes the load balancer and every part of it.";
    PROCESS "the provider's process runs on",
        "common.proto" "" "a provider MUST survive a duplicate all the same:";
}

impl Rule {
    /// It does not hold.
    pub(super) fn broken(
        &'static self,
        expected: impl fmt::Display,
        actual: impl fmt::Display,
    ) -> Broken {
        self.failed(Failure {
            expected: expected.to_string(),
            actual: actual.to_string(),
        })
    }

    pub(super) const fn failed(&'static self, failure: Failure) -> Broken {
        Broken {
            rule: self,
            turn: None,
            failure,
        }
    }

    /// A verdict that decides whether it holds.
    pub(super) fn of<T>(&'static self, verdict: Verdict<T>) -> Result<T, Broken> {
        verdict.map_err(|stop| match stop {
            Stop::Failed(failure) => self.failed(failure),
            Stop::Skipped(reason) => self.broken("there is something to judge", reason),
        })
    }
}
