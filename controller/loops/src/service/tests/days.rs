//! Days of Services that come and go, with Nodes that do and a provider that is away now and then.

use super::*;
use crate::fixture::{days_and_hours, each_costs_as_much};

#[tokio::test(start_paused = true)]
async fn each_day_of_services_costs_as_much_as_the_day_before() {
    let mut setup = Setup::default();
    setup.settings.drift_period = Some(Duration::from_hours(6));
    let rig = with_services(10, setup).await;
    let ((count, hours), mut days) = (days_and_hours(), Vec::new());
    for day in 0..count {
        for hour in 0..hours {
            let (name, joined) = (format!("day-{day}-{hour}"), format!("joined-{day}-{hour}"));
            let key = format!("shop/{name}");
            rig.cluster.create_service(service(&name));
            rig.ready(&key).await;
            rig.join(&joined);
            secs(15 * 60).await;
            rig.leave(&joined);
            secs(15 * 60).await;
            rig.wire.cut();
            secs(60).await;
            rig.wire.mend();
            secs(14 * 60).await;
            rig.cluster.delete_service(&key);
            rig.until("its end", |rig| rig.cluster.service(&key).is_none())
                .await;
            secs(15 * 60).await;
        }
        rig.lease.forget_log();
        days.push(rig.day());
    }
    each_costs_as_much(&days);
}
