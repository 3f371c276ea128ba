//! Rules: a fault, and the requests that it hits.
//!
//! A rule that has met as many requests as it may acts no more and stays; [`Injected`] says how many those were.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use parking_lot::Mutex;

use super::record::Recorded;

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// With a proper end, as when the API server's time limit of a watch is reached.
    Clean,
    /// In the middle, as when a load balancer in between loses the connection.
    Abrupt,
    /// With an ERROR event of status 410, as when history is compacted: only a list helps.
    Expired,
}

/// The fault of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The API server is not asked; this status is the answer.
    Status {
        /// The HTTP status and the code in the body.
        code: u16,
        /// The reason in the body, such as `Conflict`.
        reason: &'static str,
        /// The message in the body.
        message: String,
        /// Seconds, as header and in the body's details.
        retry_after: Option<u32>,
    },
    /// The watch is opened, passes this many events and ends.
    CutWatch {
        /// Events before the end.
        after: usize,
        /// How it ends.
        cut: Cut,
    },
    /// The request is passed on after this time.
    Delay(Duration),
    /// The request is accepted and never answered.
    Silence,
    /// The connection is closed without an answer; the API server is not asked.
    Disconnect,
    /// The request is passed on, its effect happens, and the connection is closed without
    /// an answer.
    LoseAnswer,
}

impl Fault {
    /// 410: the resource version of a list or watch is too old.
    pub fn expired() -> Self {
        Self::status(
            410,
            "Expired",
            "The resourceVersion for the provided watch is too old.",
        )
    }

    /// 409 on a write.
    pub fn conflict() -> Self {
        let message = "Operation cannot be fulfilled: the object has been modified; please \
                       apply your changes to the latest version and try again";
        Self::status(409, "Conflict", message)
    }

    /// 429 with `Retry-After`, in seconds.
    pub fn too_many_requests(retry_after: u32) -> Self {
        Self::Status {
            code: 429,
            reason: "TooManyRequests",
            message: "too many requests, please try again later".to_owned(),
            retry_after: Some(retry_after),
        }
    }

    /// 500.
    pub fn internal_error() -> Self {
        Self::status(
            500,
            "InternalError",
            "Internal error occurred: etcdserver: no leader",
        )
    }

    /// 503.
    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::status(503, "ServiceUnavailable", message)
    }

    /// Any other status, without `Retry-After`.
    pub fn status(code: u16, reason: &'static str, message: &str) -> Self {
        Self::Status {
            code,
            reason,
            message: message.to_owned(),
            retry_after: None,
        }
    }
}

type Condition = Arc<dyn Fn(&Recorded) -> bool + Send + Sync>;

/// A fault and the requests that it meets: all of them, unless narrowed down.
#[derive(Clone)]
pub struct Rule {
    fault: Fault,
    conditions: Vec<Condition>,
    skip: usize,
    times: Option<usize>,
    chance: Option<(f64, u64)>,
}

impl Rule {
    /// A rule for every request; with a fault of watches, for every watch.
    pub fn new(fault: Fault) -> Self {
        let of_watches = matches!(fault, Fault::CutWatch { .. });
        let rule = Self {
            fault,
            conditions: Vec::new(),
            skip: 0,
            times: None,
            chance: None,
        };
        if of_watches { rule.watches() } else { rule }
    }

    /// Only requests with this method.
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        self.when(move |request| request.method == method)
    }

    /// Only requests that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        self.when(Recorded::is_write)
    }

    /// Only watches.
    #[must_use]
    pub fn watches(self) -> Self {
        self.when(Recorded::is_watch)
    }

    /// Only requests whose path contains `part`, for example `/nodes`.
    #[must_use]
    pub fn path_contains(self, part: impl Into<String>) -> Self {
        let part = part.into();
        self.when(move |request| request.path.contains(&part))
    }

    /// Only requests whose path ends in `part`, for example `/status`.
    #[must_use]
    pub fn path_ends(self, part: impl Into<String>) -> Self {
        let part = part.into();
        self.when(move |request| request.path.ends_with(&part))
    }

    /// Only requests that meet `condition`; of several conditions all.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&Recorded) -> bool + Send + Sync + 'static) -> Self {
        self.conditions.push(Arc::new(condition));
        self
    }

    /// Lets the first `count` matching requests pass.
    #[must_use]
    pub fn skip(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// Acts on `count` requests, then no more.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.times = Some(count);
        self
    }

    /// Acts on a share of the matching requests, between 0 and 1. The same seed chooses
    /// the same ones, counted in the order of their arrival.
    #[must_use]
    pub fn chance(mut self, share: f64, seed: u64) -> Self {
        self.chance = Some((share, seed));
        self
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("fault", &self.fault)
            .field("skip", &self.skip)
            .field("times", &self.times)
            .field("chance", &self.chance)
            .finish_non_exhaustive()
    }
}

/// A rule at work. Dropping the handle leaves it at work.
#[derive(Debug, Clone)]
pub struct Injected {
    hits: Arc<AtomicUsize>,
}

impl Injected {
    /// How many requests it has met.
    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Vec<Active>>);

#[derive(Debug)]
struct Active {
    rule: Rule,
    random: fastrand::Rng,
    handle: Injected,
}

impl Rules {
    pub(super) fn inject(&self, rule: Rule) -> Injected {
        let handle = Injected {
            hits: Arc::default(),
        };
        self.0.lock().push(Active {
            random: fastrand::Rng::with_seed(rule.chance.map_or(0, |(_, seed)| seed)),
            handle: handle.clone(),
            rule,
        });
        handle
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// The fault for a request, counted as a hit.
    pub(super) fn fault_for(&self, request: &Recorded) -> Option<Fault> {
        let mut rules = self.0.lock();
        rules
            .iter_mut()
            .find_map(|active| active.fault_for(request))
    }
}

impl Active {
    fn fault_for(&mut self, request: &Recorded) -> Option<Fault> {
        let rule = &mut self.rule;
        let spent = rule.times.is_some_and(|times| self.handle.hits() >= times);
        if spent || !rule.conditions.iter().all(|condition| condition(request)) {
            return None;
        }
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        if rule
            .chance
            .is_some_and(|(share, _)| self.random.f64() >= share)
        {
            return None;
        }
        self.handle.hits.fetch_add(1, Ordering::AcqRel);
        Some(rule.fault.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(rule: Rule, requests: &[Recorded]) -> Vec<usize> {
        let rules = Rules::default();
        rules.inject(rule);
        (0..requests.len())
            .filter(|&i| rules.fault_for(&requests[i]).is_some())
            .collect()
    }

    fn requests() -> Vec<Recorded> {
        ["/api/v1/nodes", "/api/v1/nodes/a", "/api/v1/nodes/a/status"]
            .into_iter()
            .flat_map(|path| [Method::GET, Method::PATCH].map(|method| (method, path)))
            .map(|(method, path)| Recorded::example(method, path, ""))
            .collect()
    }

    #[test]
    fn a_rule_meets_what_it_is_narrowed_to() {
        let rule = || Rule::new(Fault::conflict());
        for (rule, expected) in [
            (rule(), vec![0, 1, 2, 3, 4, 5]),
            (rule().writes(), vec![1, 3, 5]),
            (
                rule().method(Method::GET).path_contains("nodes/a"),
                vec![2, 4],
            ),
            (rule().path_ends("/status").writes(), vec![5]),
            (rule().skip(1).times(2), vec![1, 2]),
            (rule().when(|request| request.path.len() < 14), vec![0, 1]),
            (rule().chance(0.0, 7), vec![]),
            (rule().chance(1.0, 7), vec![0, 1, 2, 3, 4, 5]),
            (rule().watches(), vec![]),
        ] {
            let name = format!("{rule:?}");
            assert_eq!(hits(rule, &requests()), expected, "{name}");
        }
    }

    #[test]
    fn a_seed_chooses_the_same_requests_again() {
        let chosen = || {
            let requests: Vec<_> = std::iter::repeat_with(requests)
                .take(50)
                .flatten()
                .collect();
            hits(Rule::new(Fault::Silence).chance(0.3, 42), &requests)
        };
        assert_eq!(chosen(), chosen());
        assert!((60..120).contains(&chosen().len()), "{}", chosen().len());
    }
}
