use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::*;

mod leading;
mod simulation;

const ME: &str = "me";
const OTHER: &str = "other";
/// A process that is proven to be dead.
const DEAD: &str = "dead";

/// Where the tests' monotonic clocks begin.
#[expect(
    clippy::disallowed_methods,
    reason = "a start for a clock that the tests move"
)]
fn start() -> Instant {
    Instant::now()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn held(holder: &str, renewed: i64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        duration_seconds: Some(15),
        acquired: Some(wall(-100)),
        renewed: Some(wall(renewed)),
        renewed_text: None,
        transitions: 7,
    }
}

/// One replica, its clock and what it knows.
struct Replica {
    start: Instant,
    now: Instant,
    observed: ObservedLease,
    lease_term: Option<LeaseTerm>,
    candidacy: Candidacy,
    not_before: Instant,
    renew_early: bool,
}

impl Replica {
    fn new() -> Self {
        let start = start();
        let mut candidacy = Candidacy::default();
        candidacy.allow(start, true);
        Self {
            start,
            now: start,
            observed: ObservedLease::default(),
            lease_term: None,
            candidacy,
            not_before: start,
            renew_early: false,
        }
    }

    /// A replica that leads with version 10 since second 0.
    fn leader() -> Self {
        let mut this = Self::new();
        this.reads(Some((held(ME, 0), "10")));
        this.lease_term = LeaseTerm::begin(this.now, this.now, &held(ME, 0), &Durations::DEFAULT);
        this
    }

    fn at(&mut self, seconds: u64) -> &mut Self {
        self.now = self.start + secs(seconds);
        self
    }

    fn reads(&mut self, answer: Option<(LeaseRecord, &str)>) -> &mut Self {
        self.observed.answered(self.now, self.now, answer);
        self
    }

    fn watches(&mut self, record: Option<LeaseRecord>, version: &str) -> bool {
        self.observed.watched(self.now, record, version)
    }

    fn decides(&self) -> Decision {
        let own = ReplicaState {
            identity: ME,
            predecessors: &[DEAD.to_owned()],
            durations: &Durations::DEFAULT,
            lease_term: self.lease_term,
            contends_at: self.candidacy.contends_at(),
            not_before: self.not_before,
            renew_early: self.renew_early,
        };
        decide(self.now, wall(50), &self.observed, &own)
    }

    fn until(&self, seconds: u64) -> Decision {
        Decision::Wait(Some(self.start + secs(seconds)))
    }
}

fn claim(transitions: i32) -> LeaseRecord {
    LeaseRecord {
        holder: ME.to_owned(),
        duration_seconds: Some(15),
        acquired: Some(wall(50)),
        renewed: Some(wall(50)),
        renewed_text: None,
        transitions,
    }
}

#[test]
fn durations_must_fit_together() {
    let check = |lease: f64, renew: f64, retry: f64| {
        let [lease, renew, retry] = [lease, renew, retry].map(Duration::from_secs_f64);
        Durations::new(lease, renew, retry).map_err(ToOwned::to_owned)
    };
    let err = |text: &str| Err(text.to_owned());
    assert_eq!(check(15.0, 10.0, 2.0), Ok(Durations::DEFAULT));
    assert_eq!(
        check(10.0, 10.0, 2.0),
        err("leaseDuration must be greater than renewDeadline")
    );
    assert_eq!(
        check(0.0, 0.0, 0.0),
        err("leaseDuration must be greater than renewDeadline")
    );
    let jitter = "renewDeadline must be greater than retryPeriod*JitterFactor";
    assert_eq!(check(15.0, 2.4, 2.0), err(jitter));
    assert_eq!(check(15.0, 0.0, 0.0), err(jitter));
    assert_eq!(check(15.0, 10.0, 1e18), err(jitter));
    assert_eq!(
        check(15.0, 10.0, 0.0),
        err("retryPeriod must be greater than zero")
    );
    assert_eq!(
        check(3e9, 10.0, 2.0),
        err("leaseDuration must be at most 2147483647 seconds")
    );
}

#[test]
fn derived_durations() {
    let durations = |lease, renew| {
        Durations::new(
            Duration::from_millis(lease),
            Duration::from_millis(renew),
            secs(1),
        )
        .unwrap()
    };
    assert_eq!(Durations::DEFAULT.renew_deadline(), secs(10));
    assert_eq!(Durations::DEFAULT.request_timeout(), secs(5));
    // Four fifths of the time between the end of one leader and the begin of the next.
    assert_eq!(Durations::DEFAULT.write_limit(), secs(4));
    assert_eq!(durations(3000, 1500).request_timeout(), secs(1));
    assert_eq!(Durations::DEFAULT.retry(0.0), secs(2));
    assert_eq!(Durations::DEFAULT.retry(0.5), Duration::from_millis(3200));
    // Others must not wait for less than our renew deadline.
    assert_eq!(durations(15_500, 15_200).written_seconds(), 16);
    assert_eq!(durations(15_000, 10_000).written_seconds(), 15);
}

#[test]
fn nothing_is_decided_before_the_lease_was_read() {
    assert_eq!(Replica::new().decides(), Decision::Read);
}

#[test]
fn a_lease_that_never_was_is_made() {
    let mut replica = Replica::new();
    replica.reads(None);
    assert_eq!(replica.decides(), Decision::Create(claim(0)));
}

#[test]
fn a_free_lease_is_taken_at_once() {
    let mut replica = Replica::new();
    replica.reads(Some((held("", 0), "10")));
    assert_eq!(replica.decides(), Decision::Update(claim(8)));

    // The holder releases it before our eyes: no further look is needed.
    let mut replica = Replica::new();
    replica.reads(Some((held(OTHER, 0), "10")));
    assert_eq!(replica.decides(), replica.until(15));
    assert!(
        replica
            .at(1)
            .watches(Some(held(OTHER, 0).released(wall(1))), "11")
    );
    assert_eq!(replica.decides(), Decision::Update(claim(8)));
}

#[test]
fn the_lease_of_a_dead_process_is_taken_as_it_stands() {
    let mut replica = Replica::new();
    replica.reads(Some((held(DEAD, 0), "10")));
    assert_eq!(replica.decides(), Decision::Update(claim(8)));
    // It may be behind what is there: the API server says so, and another one holds it.
    replica.observed.invalidate();
    assert_eq!(replica.decides(), Decision::Read);
    replica.reads(Some((held(OTHER, 0), "11")));
    assert_eq!(replica.decides(), replica.until(15));
}

/// Another process may have claimed it since, and not know that it is deleted.
#[test]
fn a_deleted_lease_is_not_that_of_a_dead_process() {
    let mut replica = Replica::new();
    let now = replica.now;
    replica.candidacy.allow(now, false);
    replica.reads(Some((held(DEAD, 0), "10")));
    assert!(replica.watches(None, "12"));
    replica.candidacy.allow(now, true);
    assert_eq!(replica.decides(), replica.until(15));
}

#[test]
fn a_held_lease_is_taken_when_it_has_stood_too_long() {
    let mut replica = Replica::new();
    // The holder's clock is years ahead: it does not matter.
    replica.reads(Some((held(OTHER, 100_000_000), "10")));
    assert_eq!(replica.at(14).decides(), replica.until(15));
    assert!(replica.watches(Some(held(OTHER, 100_000_002)), "11"));
    assert_eq!(replica.at(28).decides(), replica.until(29));
    // A look at the end, in case the watch has gone deaf.
    assert_eq!(replica.at(29).decides(), Decision::Confirm);
    replica.reads(Some((held(OTHER, 100_000_004), "12")));
    assert_eq!(replica.decides(), replica.until(44));
    assert_eq!(replica.at(44).decides(), Decision::Confirm);
    replica.reads(Some((held(OTHER, 100_000_004), "12")));
    assert_eq!(replica.decides(), Decision::Update(claim(8)));
}

#[test]
fn the_written_duration_counts() {
    for (written, free) in [(Some(40), 40), (Some(1), 1), (None, 15), (Some(-3), 15)] {
        let mut replica = Replica::new();
        let record = LeaseRecord {
            duration_seconds: written,
            ..held(OTHER, 0)
        };
        replica.reads(Some((record, "10")));
        assert_eq!(replica.decides(), replica.until(free), "{written:?}");
    }
}

/// A clock that is far ahead must not keep the lease for ever, and its holder is seen to live.
#[test]
fn a_renewal_beyond_all_times_counts_by_its_change() {
    let odd = |text: &str| LeaseRecord {
        renewed: Some(Timestamp::MAX),
        renewed_text: Some(text.into()),
        ..held(OTHER, 0)
    };
    let mut replica = Replica::new();
    replica.reads(Some((odd("9999-12-31T23:59:58.000000Z"), "10")));
    assert_eq!(replica.decides(), replica.until(15));
    assert!(
        replica
            .at(10)
            .watches(Some(odd("9999-12-31T23:59:59.000000Z")), "11")
    );
    assert_eq!(replica.decides(), replica.until(25));
    assert_eq!(replica.at(25).decides(), Decision::Confirm);
}

/// Annotating the Lease is no sign of life.
#[test]
fn only_a_change_of_the_record_counts() {
    let mut replica = Replica::new();
    replica.reads(Some((held(OTHER, 0), "10")));
    assert!(replica.at(10).watches(Some(held(OTHER, 0)), "11"));
    assert_eq!(replica.decides(), replica.until(15));
}

#[test]
fn late_watch_events_do_not_count() {
    let mut replica = Replica::leader();
    assert!(!replica.watches(Some(held(OTHER, 0)), "9"));
    assert!(!replica.watches(None, "8"));
    assert!(!replica.watches(Some(held(OTHER, 0)), "10"));
    assert_eq!(replica.decides(), replica.until(2));
    // Versions that cannot be compared lead to a read.
    assert!(!replica.watches(Some(held(OTHER, 0)), "opaque"));
    assert_eq!(replica.decides(), Decision::Read);
}

#[test]
fn the_holder_is_that_of_an_object_that_exists() {
    let mut replica = Replica::new();
    let shows = |replica: &Replica| {
        let holder = replica.observed.holder().map(ToOwned::to_owned);
        (holder, replica.observed.must_read())
    };
    assert_eq!(shows(&replica), (None, true));
    replica.reads(Some((held("", 0), "10")));
    assert_eq!(shows(&replica), (None, false));
    replica.reads(Some((held(OTHER, 0), "11")));
    assert_eq!(shows(&replica), (Some(OTHER.to_owned()), false));
    replica.observed.invalidate();
    assert_eq!(shows(&replica), (Some(OTHER.to_owned()), true));
    replica.reads(None);
    assert_eq!(shows(&replica), (None, false));
}

/// A release that the watch delivers before an answer is not undone by it.
#[test]
fn answers_that_a_watch_has_overtaken_do_not_count() {
    let released = || Some(held(OTHER, 0).released(wall(1)));
    let (sent, answer) = (start(), Some((held(OTHER, 0), "10")));
    for known in [None, answer.clone()] {
        let mut replica = Replica::new();
        let sent = replica.now;
        if known.is_some() {
            replica.reads(known);
        }
        assert!(replica.at(1).watches(released(), "11"));
        assert!(!replica.observed.answered(sent, replica.now, answer.clone()));
        assert!(!replica.observed.answered(sent, replica.now, None));
        assert_eq!(replica.decides(), Decision::Update(claim(8)));
        // A later, newer or incomparable answer is believed.
        let sent = replica.at(2).now;
        assert!(replica.observed.answered(sent, replica.now, answer.clone()));
        assert_eq!(replica.decides(), replica.until(17));
    }
    let mut replica = Replica::new();
    assert!(replica.watches(released(), "11"));
    for version in ["11", "12", "opaque"] {
        let answer = Some((held(OTHER, 0), version));
        assert!(replica.observed.answered(sent, replica.now, answer));
    }
}

/// Right after its start: the holder may not know yet.
#[test]
fn a_deletion_that_is_observed_first_frees_nothing_at_once() {
    let mut replica = Replica::new();
    assert!(replica.watches(None, "12"));
    assert_eq!(replica.decides(), replica.until(15));
    replica.at(1).reads(None);
    assert_eq!(replica.decides(), replica.until(15));
}

#[test]
fn an_own_record_is_used_or_given_back() {
    let mut replica = Replica::new();
    replica.reads(Some((held(ME, 0), "10")));
    let again = LeaseRecord {
        acquired: Some(wall(-100)),
        ..claim(7)
    };
    assert_eq!(replica.decides(), Decision::Update(again));
    let now = replica.now;
    replica.candidacy.allow(now, false);
    let released = LeaseRecord {
        holder: String::new(),
        duration_seconds: Some(1),
        acquired: Some(wall(50)),
        renewed: Some(wall(50)),
        renewed_text: None,
        transitions: 7,
    };
    assert_eq!(replica.decides(), Decision::Release(released));
}

#[test]
fn a_replica_that_may_not_contend_only_looks() {
    for found in [
        None,
        Some((held("", 0), "10")),
        Some((held(OTHER, 0), "10")),
    ] {
        let mut replica = Replica::new();
        let now = replica.now;
        replica.candidacy.allow(now, false);
        assert_eq!(replica.decides(), Decision::Read);
        assert_eq!(replica.reads(found).at(100).decides(), Decision::Wait(None));
    }
}

#[test]
fn a_free_lease_is_left_to_others_for_as_long_as_it_was_given_up() {
    let mut replica = Replica::new();
    let now = replica.now;
    replica.candidacy.give_up(now, secs(6), secs(30));
    replica.reads(Some((held("", 0), "10")));
    assert_eq!(replica.at(5).decides(), replica.until(6));
    assert_eq!(replica.at(6).decides(), Decision::Update(claim(8)));
}

#[test]
fn after_giving_up_to_another_it_holds_off_until_it_was_able_long_enough() {
    let start = start();
    let at = |seconds| start + secs(seconds);
    let mut candidacy = Candidacy::default();
    assert_eq!(candidacy.contends_at(), None);
    candidacy.allow(at(0), true);
    assert_eq!(candidacy.contends_at(), Some(at(0)));
    candidacy.allow(at(100), false);
    candidacy.give_up(at(160), secs(6), secs(30));
    candidacy.observe_rival();
    assert_eq!(candidacy.contends_at(), None);
    candidacy.allow(at(200), true);
    candidacy.allow(at(210), true);
    assert_eq!(candidacy.contends_at(), Some(at(230)));
    // A break before the end starts it over.
    candidacy.allow(at(229), false);
    candidacy.allow(at(300), true);
    assert_eq!(candidacy.contends_at(), Some(at(330)));
    // A break after the end does not.
    candidacy.allow(at(331), false);
    candidacy.allow(at(400), true);
    assert_eq!(candidacy.contends_at(), Some(at(400)));
    // Given up while able to do the work.
    candidacy.give_up(at(500), secs(6), secs(30));
    candidacy.observe_rival();
    assert_eq!(candidacy.contends_at(), Some(at(530)));
}

#[test]
fn after_giving_up_to_no_other_it_contends_once_it_is_able() {
    let start = start();
    let at = |seconds| start + secs(seconds);
    let mut candidacy = Candidacy::default();
    candidacy.observe_rival();
    candidacy.allow(at(0), true);
    assert_eq!(candidacy.contends_at(), Some(at(0)));
    // Able to do the work all the while: the others have their chance.
    candidacy.give_up(at(100), secs(6), secs(30));
    assert_eq!(candidacy.contends_at(), Some(at(106)));
    candidacy.allow(at(101), false);
    candidacy.allow(at(103), true);
    assert_eq!(candidacy.contends_at(), Some(at(106)));
    candidacy.allow(at(104), false);
    candidacy.allow(at(200), true);
    assert_eq!(candidacy.contends_at(), Some(at(200)));
}

#[test]
fn only_a_process_that_was_killed_leaves_writes_behind_for_as_long_as_they_may_take() {
    let begun = start() + secs(100);
    let quiet_after = |killed: Option<u64>| {
        let killed = killed.map(|ago| begun.checked_sub(secs(ago)).unwrap());
        Durations::DEFAULT.quiet_at(begun, killed) - begun
    };
    for (killed, quiet) in [
        (None, 0),
        (Some(0), 4),
        (Some(1), 3),
        (Some(4), 0),
        (Some(100), 0),
    ] {
        assert_eq!(quiet_after(killed), secs(quiet), "{killed:?}");
    }
}
