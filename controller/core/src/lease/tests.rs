use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::*;

const ME: &str = "me";
const OTHER: &str = "other";

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

/// The time in a record.
fn micros(time: Timestamp) -> Box<str> {
    format!("{time:.6}").into()
}

fn held(holder: &str, renewed: i64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        duration_seconds: Some(15),
        acquired: Some(micros(wall(-100))),
        renewed: Some(micros(wall(renewed))),
        transitions: 7,
        rest: Map::from_iter([("strategy".to_owned(), Value::from("s"))]),
    }
}

/// One replica, its clock and what it knows.
struct Replica {
    start: Instant,
    now: Instant,
    observed: ObservedLease,
    renewed: Option<Instant>,
    contends_at: Option<Instant>,
    not_before: Instant,
    renew_early: bool,
}

impl Replica {
    fn new() -> Self {
        let start = start();
        Self {
            start,
            now: start,
            observed: ObservedLease::default(),
            renewed: None,
            contends_at: Some(start),
            not_before: start,
            renew_early: false,
        }
    }

    /// A replica that leads since second 0.
    fn leader() -> Self {
        let mut this = Self::new();
        this.reads(Some(held(ME, 0)));
        this.renewed = Some(this.now);
        this
    }

    fn at(&mut self, seconds: u64) -> &mut Self {
        self.now = self.start + secs(seconds);
        self
    }

    fn reads(&mut self, answer: Option<LeaseRecord>) -> &mut Self {
        self.observed.answered(self.now, self.now, answer);
        self
    }

    fn decides(&self) -> Decision {
        let own = ReplicaState {
            identity: ME,
            durations: &Durations::DEFAULT,
            renewed: self.renewed,
            contends_at: self.contends_at,
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
        acquired: Some(micros(wall(50))),
        renewed: Some(micros(wall(50))),
        transitions,
        rest: held("", 0).rest,
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
    let made = LeaseRecord {
        rest: Map::new(),
        ..claim(0)
    };
    assert_eq!(replica.decides(), Decision::Create(made));
}

#[test]
fn a_free_lease_is_taken_at_once() {
    let mut replica = Replica::new();
    replica.reads(Some(held("", 0)));
    assert_eq!(replica.decides(), Decision::Update(claim(8)));

    // The holder releases it.
    let mut replica = Replica::new();
    replica.reads(Some(held(OTHER, 0)));
    assert_eq!(replica.decides(), replica.until(15));
    replica.observed.invalidate();
    assert_eq!(replica.at(1).decides(), Decision::Read);
    replica.reads(Some(held(OTHER, 0).released(wall(1))));
    assert_eq!(replica.decides(), Decision::Update(claim(8)));
}

#[test]
fn a_held_lease_is_taken_when_it_has_stood_too_long() {
    let mut replica = Replica::new();
    // The holder's clock is years ahead: it does not matter.
    replica.reads(Some(held(OTHER, 100_000_000)));
    assert_eq!(replica.at(14).decides(), replica.until(15));
    replica.reads(Some(held(OTHER, 100_000_002)));
    assert_eq!(replica.at(28).decides(), replica.until(29));
    // A look at the end: the last one may be a renewal ago.
    assert_eq!(replica.at(29).decides(), Decision::Read);
    replica.reads(Some(held(OTHER, 100_000_004)));
    assert_eq!(replica.decides(), replica.until(44));
    assert_eq!(replica.at(44).decides(), Decision::Read);
    replica.reads(Some(held(OTHER, 100_000_004)));
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
        replica.reads(Some(record));
        assert_eq!(replica.decides(), replica.until(free), "{written:?}");
    }
}

/// A clock that is far ahead must not keep the lease for ever, and its holder is seen to live.
#[test]
fn a_renewal_beyond_all_times_counts_by_its_change() {
    let odd = |text: &str| LeaseRecord {
        renewed: Some(text.into()),
        ..held(OTHER, 0)
    };
    let mut replica = Replica::new();
    replica.reads(Some(odd("10000-01-01T00:00:00.000000Z")));
    assert_eq!(replica.decides(), replica.until(15));
    replica
        .at(10)
        .reads(Some(odd("10000-01-01T00:00:02.000000Z")));
    assert_eq!(replica.decides(), replica.until(25));
    assert_eq!(replica.at(25).decides(), Decision::Read);
}

#[test]
fn the_holder_is_that_of_an_object_that_exists() {
    let mut replica = Replica::new();
    let shows = |replica: &Replica| {
        let holder = replica.observed.holder().map(ToOwned::to_owned);
        (holder, replica.observed.must_read())
    };
    assert_eq!(shows(&replica), (None, true));
    replica.reads(Some(held("", 0)));
    assert_eq!(shows(&replica), (None, false));
    replica.reads(Some(held(OTHER, 0)));
    assert_eq!(shows(&replica), (Some(OTHER.to_owned()), false));
    replica.observed.invalidate();
    assert_eq!(shows(&replica), (Some(OTHER.to_owned()), true));
    replica.reads(None);
    assert_eq!(shows(&replica), (None, false));
}

/// A claim whose answer got lost, or the lease of a process before this one that was killed.
#[test]
fn an_own_record_is_used_at_once() {
    let mut replica = Replica::new();
    replica.reads(Some(held(ME, 0)));
    let again = LeaseRecord {
        acquired: Some(micros(wall(-100))),
        ..claim(7)
    };
    assert_eq!(replica.decides(), Decision::Update(again));
    replica.contends_at = None;
    assert_eq!(replica.decides(), Decision::Wait(None));
    // It may be behind what is there.
    replica.contends_at = Some(replica.now);
    replica.observed.invalidate();
    assert_eq!(replica.decides(), Decision::Read);
    // A deleted one may have been claimed by another since.
    replica.reads(None);
    assert_eq!(replica.decides(), replica.until(15));
}

#[test]
fn a_released_lease_is_free_and_keeps_what_the_election_does_not_know() {
    let released = LeaseRecord {
        holder: String::new(),
        duration_seconds: Some(1),
        ..claim(7)
    };
    assert_eq!(held(ME, 0).released(wall(50)), released);
}

#[test]
fn a_replica_that_may_not_contend_only_looks() {
    for found in [None, Some(held("", 0)), Some(held(OTHER, 0))] {
        let mut replica = Replica::new();
        replica.contends_at = None;
        assert_eq!(replica.decides(), Decision::Read);
        assert_eq!(replica.reads(found).at(100).decides(), Decision::Wait(None));
    }
}

#[test]
fn a_free_lease_is_left_to_others_until_this_replica_contends() {
    let mut replica = Replica::new();
    replica.contends_at = Some(replica.now + secs(6));
    replica.reads(Some(held("", 0)));
    assert_eq!(replica.at(5).decides(), replica.until(6));
    assert_eq!(replica.at(6).decides(), Decision::Update(claim(8)));
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

#[test]
fn a_leader_renews_every_retry_period() {
    let mut replica = Replica::leader();
    assert_eq!(replica.at(1).decides(), replica.until(2));
    let renewal = LeaseRecord {
        renewed: Some(micros(wall(50))),
        ..held(ME, 0)
    };
    assert_eq!(replica.at(2).decides(), Decision::Update(renewal));
    // After a failure: not before the next period, but no later than the deadline.
    replica.not_before = replica.start + secs(4);
    assert_eq!(replica.at(3).decides(), replica.until(4));
    replica.not_before = replica.start + secs(12);
    assert_eq!(replica.decides(), replica.until(10));
}

#[test]
fn a_leader_with_news_renews_at_once() {
    let mut replica = Replica::leader();
    replica.renew_early = true;
    assert!(matches!(replica.at(1).decides(), Decision::Update(_)));
    replica.not_before = replica.start + secs(3);
    assert_eq!(replica.decides(), replica.until(3));
}

#[test]
fn a_lease_seems_held_for_its_duration_if_it_has_a_holder() {
    let record = held(OTHER, 0);
    assert!(record.seems_held(wall(14)));
    assert!(!record.seems_held(wall(15)));
    assert!(!held("", 0).seems_held(wall(14)));
}

#[test]
fn a_leader_stops_at_the_renew_deadline() {
    let mut replica = Replica::leader();
    assert!(matches!(replica.at(9).decides(), Decision::Update(_)));
    assert_eq!(
        replica.at(10).decides(),
        Decision::Lost(Lost::RenewDeadline)
    );
    // Counted from when the renewal was sent: the record may be as old as that.
    replica.renewed = Some(replica.start + secs(6));
    assert!(matches!(replica.at(15).decides(), Decision::Update(_)));
    assert_eq!(
        replica.at(16).decides(),
        Decision::Lost(Lost::RenewDeadline)
    );
}

#[test]
fn a_leader_stops_when_another_replica_may_lead() {
    for (record, lost) in [
        (held(OTHER, 0), Lost::Taken(OTHER.to_owned())),
        (held("", 0), Lost::Cleared),
    ] {
        let mut replica = Replica::leader();
        replica.observed.invalidate();
        assert_eq!(replica.decides(), Decision::Read);
        replica.reads(Some(record));
        // Also while a request that failed is not repeated yet, and while it has to be read again.
        replica.not_before = replica.start + secs(1);
        assert_eq!(replica.decides(), Decision::Lost(lost.clone()));
        replica.observed.invalidate();
        assert_eq!(replica.decides(), Decision::Lost(lost));
    }
}

/// `kubectl delete lease` lets no second replica lead.
#[test]
fn a_deleted_lease_is_made_again_by_its_holder() {
    let mut leader = Replica::leader();
    leader.at(1).reads(None);
    let again = LeaseRecord {
        renewed: Some(micros(wall(50))),
        ..held(ME, 0)
    };
    assert_eq!(leader.decides(), Decision::Create(again));

    for found in [held(OTHER, 0), held("", 0)] {
        let mut standby = Replica::new();
        standby.contends_at = None;
        standby.reads(Some(found));
        standby.at(20).reads(None);
        standby.contends_at = Some(standby.now);
        assert_eq!(standby.decides(), standby.until(35));
        assert_eq!(standby.at(35).decides(), Decision::Read);
        standby.reads(None);
        assert!(matches!(standby.decides(), Decision::Create(claim) if claim.transitions == 0));
    }
}

/// Others see that the holder lives by the change of `renewTime`.
#[test]
fn a_renewal_changes_the_record_even_if_the_clock_stands_still() {
    let before = held(ME, 50);
    let after = before.claimed(ME, &Durations::DEFAULT, wall(50), false);
    let later = micros(wall(50) + Duration::from_micros(1));
    assert_eq!(after.renewed.as_deref(), Some(&*later));
    assert_eq!(after.acquired, before.acquired);
    let nanos = wall(50) + Duration::from_nanos(1_999);
    let after = LeaseRecord::default().claimed(ME, &Durations::DEFAULT, nanos, true);
    assert_eq!(after.renewed.as_deref(), Some(&*later));
}
