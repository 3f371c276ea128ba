use std::time::Duration;

use outrigger_api::v1::{GetStatusResponse, Readiness};
use outrigger_provider_sdk::{Provider, ProviderInfo, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{Named, Rig, status};

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn serving_is_ready_or_degraded() {
    let named = Named::new();
    let rig = Rig::serve(Server::new(named.clone()));
    let mut client = HealthClient::new(rig.dial().await);
    for (readiness, expected) in [
        (Readiness::Starting, ServingStatus::NotServing),
        (Readiness::Ready, ServingStatus::Serving),
        (Readiness::Degraded, ServingStatus::Serving),
        (Readiness::Broken, ServingStatus::NotServing),
    ] {
        *named.status.lock() = status(readiness);
        for service in ["", "cloudprovider.v1.ProviderService"] {
            let answer = client.check(of(service)).await.unwrap().into_inner();
            assert_eq!(answer.status(), expected, "{readiness:?} {service:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_each_change_once_and_ends_with_the_server() {
    let named = Named::new();
    let mut rig = Rig::serve(Server::new(named.clone()));
    let mut client = HealthClient::new(rig.dial().await);
    let mut watch = client.watch(of("")).await.unwrap().into_inner();
    let next = async |watch: &mut tonic::Streaming<_>| {
        let message: Option<tonic_health::pb::HealthCheckResponse> =
            tokio::time::timeout(Duration::from_secs(5), watch.message())
                .await
                .unwrap()
                .unwrap();
        message.map(|answer| answer.status())
    };
    assert_eq!(next(&mut watch).await, Some(ServingStatus::Serving));
    *named.status.lock() = status(Readiness::Broken);
    assert_eq!(next(&mut watch).await, Some(ServingStatus::NotServing));
    *named.status.lock() = status(Readiness::Ready);
    assert_eq!(next(&mut watch).await, Some(ServingStatus::Serving));

    rig.stop.cancel();
    assert_eq!(next(&mut watch).await, Some(ServingStatus::NotServing));
    assert_eq!(next(&mut watch).await, None);
    rig.ended(Duration::from_secs(1)).await.unwrap();
}

struct Panics;

impl Provider for Panics {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("test", "1")
    }

    fn status(&self) -> GetStatusResponse {
        panic!("status of the test")
    }
}

#[tokio::test]
async fn a_status_that_panics_is_broken_and_the_connection_lives() {
    let rig = Rig::serve(Server::new(Panics));
    let mut client = HealthClient::new(rig.dial().await);
    for _ in 0..2 {
        let answer = client.check(of("")).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::NotServing);
    }
}
