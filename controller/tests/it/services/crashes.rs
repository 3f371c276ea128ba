//! Ends at every point between the cloud and the API server, and answers that are lost there: what
//! is left converges, with one load balancer for each Service and none for others.

use futures::future::{join, join_all};
use http::Method;
use k8s_openapi::api::core::v1::Service;
use outrigger_provider_mock::{faults::Effect, load_balancers::LoadBalancer};
use outrigger_testbed::faults::{Fault, Injected, Rule};
use serde_json::json;

use super::{DELETE, ENSURE, FINALIZER, MADE, quick};
use crate::{
    cluster::services::{annotation, load_balancer},
    look::{
        services::{addresses_of, annotation_of, finalizers},
        uid,
    },
    mock::load_balancers::about,
    stage::Stage,
    wait::{holds, until},
};

/// The fault of the patch of a Service after the first `skip`.
fn patch_of(stage: &Stage, name: &str, skip: usize, fault: Fault) -> Injected {
    let rule = Rule::new(fault)
        .method(Method::PATCH)
        .path_contains(format!("/services/{name}"));
    stage.proxy.inject(rule.skip(skip).times(1))
}

async fn met(fault: &Injected) {
    until("the fault meets its request", async || {
        holds(fault.hits() == 1, || "not yet".to_owned())
    })
    .await;
}

impl Stage {
    async fn restart_by_kill(&mut self) {
        self.kill_controller().await;
        self.start_controller();
    }

    /// This Service has one load balancer, and knows its address.
    async fn agrees(&self, name: &str) {
        let service = self.settled_service(name).await;
        let made = self.mock.load_balancers().await;
        let tagged = |made: &&LoadBalancer| made.service.as_ref().unwrap().name == name;
        let made: Vec<_> = made.iter().filter(tagged).collect();
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(made[0].service.as_ref().unwrap().uid, uid(&service));
        assert_eq!(
            addresses_of(&service),
            [format!("{} VIP", made[0].addresses[0])]
        );
    }

    async fn agrees_on_nothing(&self, service: &Service) {
        self.service_is_gone(service.metadata.name.as_deref().unwrap())
            .await;
        let made = self.mock.load_balancer(uid(service)).await;
        assert_eq!(made, None);
    }
}

#[tokio::test]
async fn killed_before_the_finalizer_is_there() {
    let mut stage = quick(&[]).start().await;
    let held = patch_of(&stage, "web", 0, Fault::Silence);
    stage.create_service(load_balancer("web")).await;
    met(&held).await;
    // Nothing is asked for before it is there.
    assert_eq!(stage.mock.calls(ENSURE).await, 0);
    stage.restart_by_kill().await;
    stage.agrees("web").await;
}

#[tokio::test]
async fn killed_while_the_load_balancer_is_made() {
    let mut stage = quick(&[]).start().await;
    let slow = Effect::Hang { duration: None };
    stage.mock.inject(about(ENSURE, "web", slow).times(1)).await;
    stage.create_service(load_balancer("web")).await;
    stage.mock.faults_are_used_up().await;
    stage.restart_by_kill().await;
    stage.mock.clear().await;
    stage.agrees("web").await;
}

#[tokio::test]
async fn killed_between_the_cloud_and_the_address() {
    let mut stage = quick(&[]).start().await;
    let held = patch_of(&stage, "web", 1, Fault::Silence);
    stage.create_service(load_balancer("web")).await;
    met(&held).await;
    assert_eq!(stage.mock.owners().await.len(), 1);
    stage.restart_by_kill().await;
    stage.agrees("web").await;
}

/// A change that was carried out, or not, taken back while no controller ran: the record is not
/// believed.
#[tokio::test]
async fn killed_between_a_change_and_its_record_and_the_change_taken_back() {
    let mut stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let held = patch_of(&stage, "web", 1, Fault::Silence);
    let port =
        |port| json!({"spec": {"ports": [{"name": "http", "protocol": "TCP", "port": port}]}});
    stage.change_service("web", port(81)).await;
    met(&held).await;
    stage.kill_controller().await;
    stage.change_service("web", port(80)).await;
    stage.start_controller();
    stage.sees_ports(uid(&service), &[80]).await;
    stage.agrees("web").await;
}

#[tokio::test]
async fn killed_while_the_load_balancer_is_deleted() {
    let mut stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let slow = Effect::Hang { duration: None };
    stage.mock.inject(about(DELETE, "web", slow).times(1)).await;
    stage.delete_service("web").await;
    stage.mock.faults_are_used_up().await;
    stage.restart_by_kill().await;
    stage.mock.clear().await;
    stage.agrees_on_nothing(&service).await;
}

#[tokio::test]
async fn killed_between_the_cloud_and_the_end_of_the_finalizer() {
    let mut stage = quick(&[]).start().await;
    let service = stage.serve(load_balancer("web")).await;
    let held = patch_of(&stage, "web", 0, Fault::Silence);
    stage.delete_service("web").await;
    met(&held).await;
    assert_eq!(stage.mock.owners().await, [""; 0]);
    stage.restart_by_kill().await;
    stage.agrees_on_nothing(&service).await;
    stage.event(&service, "DeletedLoadBalancer").await;
}

/// A call to the provider, or to the API server, succeeded or failed, and its answer is lost.
#[tokio::test]
async fn answers_that_are_lost() {
    let stage = quick(&[]).start().await;
    let faults = [
        (Fault::LoseAnswer, 0),
        (Fault::LoseAnswer, 1),
        (Fault::Disconnect, 0),
        (Fault::Disconnect, 1),
        (Fault::conflict(), 0),
        (Fault::conflict(), 1),
    ];
    let of_api_server = faults.into_iter().enumerate();
    let of_api_server = of_api_server.map(async |(round, (fault, skip))| {
        let name = format!("web-{round}");
        let lost = patch_of(&stage, &name, skip, fault);
        let service = stage.create_service(load_balancer(&name)).await;
        stage.agrees(&name).await;
        assert_eq!(lost.hits(), 1, "{name}");
        let lost = patch_of(&stage, &name, 0, Fault::LoseAnswer);
        stage.delete_service(&name).await;
        stage.agrees_on_nothing(&service).await;
        assert_eq!(lost.hits(), 1, "{name}");
        stage.event(&service, "DeletedLoadBalancer").await;
    });
    let of_provider = async {
        let lost = |method| about(method, "web", Effect::LoseReply).times(1);
        stage.mock.inject(lost(ENSURE)).await;
        let service = stage.create_service(load_balancer("web")).await;
        stage.event(&service, "SyncLoadBalancerFailed").await;
        let change = annotation("mock.example/note", "a");
        stage.change_service("web", change).await;
        stage.agrees("web").await;
        stage.mock.inject(lost(DELETE)).await;
        stage.delete_service("web").await;
        stage.agrees_on_nothing(&service).await;
    };
    join(join_all(of_api_server), of_provider).await;
    assert_eq!(stage.mock.load_balancers().await, []);
}

/// Others write Services too (S-46): what they write while we do stays.
#[tokio::test]
async fn concurrent_writes_of_others_are_not_lost() {
    let stage = quick(&[]).start().await;
    let held = std::time::Duration::from_secs(1);
    let held = patch_of(&stage, "web", 1, Fault::Delay(held));
    stage.create_service(load_balancer("web")).await;
    met(&held).await;
    let change = json!({"metadata": {
        "finalizers": [FINALIZER, "example.com/keep"],
        "annotations": {"outrigger.dev/note": "theirs"},
        "labels": {"example.com/team": "a"},
    }});
    stage.change_service("web", change).await;
    let status = json!({"status": {"conditions": [{
        "type": "example.com/Ready", "status": "True", "reason": "Yes", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let patch = kube::api::Patch::Strategic(status);
    let (services, parameters) = (stage.services(), kube::api::PatchParams::default());
    services
        .patch_status("web", &parameters, &patch)
        .await
        .unwrap();
    let service = stage.served("web").await;
    assert_eq!(finalizers(&service), [FINALIZER, "example.com/keep"]);
    assert_eq!(
        annotation_of(&service, "outrigger.dev/note"),
        Some("theirs")
    );
    let condition = crate::look::services::foreign_condition(&service, "example.com/Ready");
    assert_eq!(condition, ("True", "Yes"));
    stage.only_events(&service, &MADE).await;
}
