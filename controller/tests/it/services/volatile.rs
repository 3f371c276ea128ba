//! A provider whose load balancers are lost with its process.

use std::time::Duration;

use super::{ENSURE, MADE, quick};
use crate::{
    cluster::services::load_balancer,
    look::{services::addresses_of, uid},
    stage::Stage,
    wait::{holds, until},
};

impl Stage {
    /// Waits until the cloud has as many load balancers.
    async fn has_load_balancers(&self, count: usize) {
        until(&format!("{count} load balancers"), async || {
            let owners = self.mock.owners().await;
            holds(owners.len() == count, || format!("{owners:?}"))
        })
        .await;
    }
}

#[tokio::test]
async fn load_balancers_that_went_with_the_provider_come_back_as_they_were() {
    // Fourteen addresses: a Service that is made meanwhile would get one that another one holds.
    let mut stage = quick(&["--lb-volatile", "--lb-pool=192.0.2.0/28"])
        .start()
        .await;
    stage.serve_many(9).await;
    let mut before = Vec::new();
    for n in 0..9 {
        let service = stage.settled_service(&format!("s-{n}")).await;
        stage.only_events(&service, &MADE).await;
        before.push(service);
    }
    stage.proxy.take_requests();
    stage.mock.kill().await;
    stage.restart_mock().await;
    stage.serve(load_balancer("late")).await;
    stage.has_load_balancers(10).await;
    for service in &before {
        let balancer = stage.mock.load_balancer(uid(service)).await.unwrap();
        let held: Vec<_> = balancer
            .addresses
            .iter()
            .map(|ip| format!("{ip} VIP"))
            .collect();
        assert_eq!(held, addresses_of(service));
        assert_eq!(balancer.targets.len(), 2);
        stage.only_events(service, &MADE).await;
    }
    let late = stage.settled_service("late").await;
    assert!(
        !before
            .iter()
            .any(|service| addresses_of(service) == addresses_of(&late))
    );
    stage.silent(Duration::from_millis(500)).await;
    for n in 0..9 {
        assert_eq!(stage.patches_of(&format!("s-{n}")), [0; 0]);
    }
    // The controller does not know what became of the provider while it was away.
    let calls = stage.mock.calls(ENSURE).await;
    stage.proxy.take_requests();
    stage.restart_controller().await;
    stage.mock.was_called(ENSURE, calls + 10).await;
    stage.silent(Duration::from_millis(500)).await;
    assert_eq!(stage.mock.calls(ENSURE).await, calls + 10);
    for service in before.iter().chain([&late]) {
        stage.only_events(service, &MADE).await;
        let name = service.metadata.name.as_deref().unwrap();
        assert_eq!(stage.patches_of(name), [0; 0]);
    }
}
