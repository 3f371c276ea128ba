//! The leader: renewals, and the ends of its term.

use super::*;

#[test]
fn a_leader_renews_every_retry_period() {
    let mut replica = Replica::leader();
    assert_eq!(replica.at(1).decides(), replica.until(2));
    let renewal = LeaseRecord {
        renewed: Some(wall(50)),
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
fn a_leader_stops_at_the_renew_deadline() {
    let mut replica = Replica::leader();
    assert!(matches!(replica.at(9).decides(), Decision::Update(_)));
    assert_eq!(
        replica.at(10).decides(),
        Decision::Lost(Lost::RenewDeadline)
    );
    // An acknowledgement that comes afterwards does not revive it.
    let (sent, now) = (replica.start + secs(8), replica.now);
    let mut lease_term = replica.lease_term.unwrap();
    assert!(!lease_term.extend(sent, now, &Durations::DEFAULT));
    assert_eq!(replica.decides(), Decision::Lost(Lost::RenewDeadline));
}

/// The deadline counts from when the request was sent: the record may be as old as that.
#[test]
fn a_lease_term_counts_from_the_sending() {
    let start = start();
    let at = |seconds| start + secs(seconds);
    let begin = |sent, now| LeaseTerm::begin(at(sent), at(now), &held(ME, 0), &Durations::DEFAULT);
    let mut lease_term = begin(0, 4).unwrap();
    assert_eq!(lease_term.deadline(&Durations::DEFAULT), at(10));
    assert!(lease_term.extend(at(6), at(9), &Durations::DEFAULT));
    assert_eq!(lease_term.deadline(&Durations::DEFAULT), at(16));
    assert_eq!(lease_term.epoch(), 7);
    assert_eq!(begin(0, 10), None);
}

#[test]
fn a_leader_stops_when_another_replica_may_lead() {
    for (record, lost) in [
        (held(OTHER, 0), Lost::Taken(OTHER.to_owned())),
        (held("", 0), Lost::Cleared),
    ] {
        let mut replica = Replica::leader();
        // Also while a request that failed is not repeated yet.
        replica.not_before = replica.start + secs(1);
        assert!(replica.watches(Some(record.clone()), "11"));
        assert_eq!(replica.decides(), Decision::Lost(lost.clone()));

        let mut replica = Replica::leader();
        replica.observed.invalidate();
        assert_eq!(replica.decides(), Decision::Read);
        replica.reads(Some((record, "11")));
        assert_eq!(replica.decides(), Decision::Lost(lost));
    }
}

/// `kubectl delete lease` lets no second replica lead.
#[test]
fn a_deleted_lease_is_made_again_by_its_holder() {
    let mut leader = Replica::leader();
    assert!(leader.at(1).watches(None, "11"));
    let again = LeaseRecord {
        renewed: Some(wall(50)),
        ..held(ME, 0)
    };
    assert_eq!(leader.decides(), Decision::Create(again));

    for found in [held(OTHER, 0), held("", 0)] {
        let mut standby = Replica::new();
        let now = standby.now;
        standby.candidacy.allow(now, false);
        standby.reads(Some((found, "10")));
        assert!(standby.at(20).watches(None, "11"));
        standby.candidacy.allow(now, true);
        assert_eq!(standby.decides(), standby.until(35));
        assert_eq!(standby.at(35).decides(), Decision::Confirm);
        assert_eq!(standby.reads(None).decides(), Decision::Create(claim(0)));
    }
}

/// Others see that the holder lives by the change of `renewTime`.
#[test]
fn a_renewal_changes_the_record_even_if_the_clock_stands_still() {
    let before = held(ME, 50);
    let after = LeaseRecord::claimed(ME, &Durations::DEFAULT, wall(50), Some(&before));
    assert_eq!(after.renewed, Some(wall(50) + Duration::from_micros(1)));
    assert_eq!(after.acquired, before.acquired);
    let nanos = wall(50) + Duration::from_nanos(1_999);
    let after = LeaseRecord::claimed(ME, &Durations::DEFAULT, nanos, None);
    assert_eq!(after.renewed, Some(wall(50) + Duration::from_micros(1)));
}
