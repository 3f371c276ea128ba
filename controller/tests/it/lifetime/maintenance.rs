//! Maintenance that the cloud announces.

use outrigger_provider_mock::control::AnnounceMaintenance;

use super::{fleet, quick};
use crate::{
    look::{reason, taints},
    stage::Stage,
    wait::{holds, until},
};

const NAME: &str = "n-00001";
const TAINT: &str = "outrigger.dev/maintenance-planned=AnnouncedByCloud:PreferNoSchedule";

async fn shows(stage: &Stage, expected: Option<&str>, is_tainted: bool) {
    until(
        &format!("{expected:?}, tainted: {is_tainted}"),
        async || {
            let node = stage.node(NAME).await;
            let conditions = node
                .status
                .iter()
                .flat_map(|status| &status.conditions)
                .flatten();
            let mut planned =
                conditions.filter(|condition| condition.type_ == "MaintenancePlanned");
            let condition = planned.next();
            let message = condition.and_then(|condition| condition.message.as_deref());
            let tainted = taints(&node).contains(&TAINT.to_owned());
            holds(message == expected && tainted == is_tainted, || {
                format!("{condition:?} {tainted}")
            })
        },
    )
    .await;
}

#[tokio::test]
async fn maintenance_becomes_a_condition_an_event_and_a_taint_until_it_is_over() {
    let setup = quick()
        .flag("--node-status-update-frequency=1s")
        .flag("--maintenance-condition")
        .flag("--maintenance-taint-before=1h");
    let stage = fleet(setup, 3).await;
    let mut announced = AnnounceMaintenance {
        targets: vec![NAME.to_owned()],
        starts_at: Some("2126-12-01T02:00:00Z".parse().unwrap()),
        reason: "new host".to_owned(),
        over: false,
    };
    stage.mock.announce(announced.clone()).await;
    let words =
        "the cloud has announced maintenance of the machine from 2126-12-01T02:00:00Z on: new host";
    shows(&stage, Some(words), false).await;
    announced.starts_at = Some("2026-01-01T02:00:00Z".parse().unwrap());
    stage.mock.announce(announced.clone()).await;
    let words =
        "the cloud has announced maintenance of the machine from 2026-01-01T02:00:00Z on: new host";
    shows(&stage, Some(words), true).await;
    announced.over = true;
    stage.mock.announce(announced).await;
    shows(&stage, None, false).await;
    let node = stage.node(NAME).await;
    for expected in ["MaintenancePlanned", "MaintenanceOver"] {
        until(&format!("event {expected}"), async || {
            let events = stage.events_of(&node).await;
            holds(events.iter().any(|event| reason(event) == expected), || {
                format!("{events:?}")
            })
        })
        .await;
    }
}
