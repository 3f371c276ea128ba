//! Maintenance that the cloud announces.

use outrigger_provider_mock::{
    cloud::Preference,
    faults::{Effect, Fault, InjectedError, Method},
    instances::Maintenance,
};
use serde_json::Value;
use tokio::time::sleep;

use super::{PERIOD, refresh::fleet};
use crate::fixture::Fixture;

const TAINT: &str = "outrigger.dev/maintenance-planned";

/// Maintenance that begins in so many hours.
fn starts_in(hours: i64, reason: &str) -> Maintenance {
    Maintenance {
        starts_at: Some(jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours)),
        reason: reason.to_owned(),
        ..Maintenance::default()
    }
}

/// The answers from now on have this maintenance.
fn announce(fixture: &Fixture, maintenance: Option<&Maintenance>) {
    let machine = fixture
        .cloud
        .announce_maintenance("n1", maintenance.cloned());
    assert!(machine.is_some());
}

fn condition(fixture: &Fixture) -> Option<Value> {
    let live = fixture.live("n1");
    let conditions = live["status"]["conditions"].as_array()?.iter();
    let mut planned = conditions.filter(|condition| condition["type"] == "MaintenancePlanned");
    planned.next().cloned()
}

fn is_tainted(fixture: &Fixture) -> bool {
    let taints = fixture.live("n1")["spec"]["taints"].to_string();
    taints.contains(TAINT)
}

#[tokio::test(start_paused = true)]
async fn maintenance_is_on_the_node_as_long_as_the_cloud_announces_it() {
    for preference in [Preference::List, Preference::Batch] {
        let fixture = fleet(3, preference).await;
        sleep(PERIOD).await;
        let before = fixture.api_writes().len();
        announce(&fixture, Some(&starts_in(20, "new\nhost")));
        sleep(PERIOD * 2).await;
        let planned = condition(&fixture).unwrap();
        assert_eq!(planned["status"], "True");
        let message = planned["message"].as_str().unwrap();
        assert!(message.ends_with(": new\\nhost"), "{message}");
        assert!(!is_tainted(&fixture));
        // It is put forward.
        let soon = starts_in(0, "new host");
        announce(&fixture, Some(&soon));
        sleep(PERIOD * 3).await;
        assert!(is_tainted(&fixture));
        assert_ne!(condition(&fixture).unwrap()["message"], message);

        // A cloud that fails says nothing of it.
        let down = InjectedError::new(tonic::Code::Internal).with_reason("CLOUD_ERROR");
        for method in [Method::BatchGetInstances, Method::ListInstances] {
            fixture
                .cloud
                .inject(Fault::on(method, Effect::Error(down.clone())));
        }
        sleep(PERIOD * 4).await;
        assert!(condition(&fixture).is_some() && is_tainted(&fixture));
        fixture.cloud.clear_faults();

        // A single answer without it is not believed.
        for (maintenance, periods) in [(None, 1), (Some(&soon), 2)] {
            announce(&fixture, maintenance);
            sleep(PERIOD * periods).await;
            assert!(condition(&fixture).is_some() && is_tainted(&fixture));
        }
        announce(&fixture, None);
        sleep(PERIOD * 4).await;
        assert_eq!((condition(&fixture), is_tainted(&fixture)), (None, false));
        let mut writes = fixture.api_writes().split_off(before);
        let events = writes.extract_if(.., |write| write.starts_with("POST"));
        let mut events: Vec<_> = events.collect();
        events.sort();
        assert_eq!(
            events,
            [
                "POST MaintenanceOver",
                "POST MaintenancePlanned",
                "POST MaintenancePlanned"
            ]
        );
        assert_eq!(writes.len(), 5, "{preference:?}: {writes:?}");
    }
}
