//! Days of a fleet whose Nodes come and go.

use std::time::Duration;

use outrigger_provider_mock::cloud::Preference;
use tokio::time::sleep;

use super::refresh::fleet;
use crate::fixture::{days_and_hours, each_costs_as_much};
use outrigger_kubernetes::fixture::node;

#[tokio::test(start_paused = true)]
async fn each_day_of_a_fleet_costs_as_much_as_the_day_before() {
    let fixture = fleet(100, Preference::List).await;
    let ((count, hours), mut days) = (days_and_hours(), Vec::new());
    for day in 0..count {
        for hour in 0..hours {
            let name = format!("day-{day}-{hour}");
            fixture.register(node(&name));
            fixture.initialized(&name).await;
            sleep(Duration::from_mins(40)).await;
            fixture.vanish(&name);
            fixture.cloud.delete(&name);
            sleep(Duration::from_mins(20)).await;
        }
        days.push(fixture.day());
    }
    each_costs_as_much(&days);
}
