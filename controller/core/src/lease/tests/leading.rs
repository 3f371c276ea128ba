//! The leader: renewals, and the ends of its term.

use super::*;

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
