//! `grpc.health.v1`, computed from the vendor's status at each question. It has no state of its own, so it cannot
//! contradict `GetStatus`.
//!
//! Probes of other tools, and the SDK's own, ask it. It serves while the provider is ready or degraded, and not while it
//! starts, is broken or drains.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_check_response::ServingStatus as Wire;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::core::Core;

/// How often a watch looks for a change.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Health of the whole (the empty name) and of each service in `served`.
pub(super) fn service(core: Arc<Core>, served: Vec<&'static str>) -> HealthServer<impl Health> {
    HealthServer::new(StatusHealth {
        core,
        served: served.into(),
    })
}

struct StatusHealth {
    core: Arc<Core>,
    served: Arc<[&'static str]>,
}

impl StatusHealth {
    fn serves(&self, service: &str) -> bool {
        service.is_empty() || self.served.contains(&service)
    }
}

#[tonic::async_trait]
impl Health for StatusHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if !self.serves(&service) {
            // The code that the health protocol prescribes.
            return Err(Status::not_found(format!(
                "service {service:?} is not served here"
            )));
        }
        Ok(Response::new(answer(self.core.health())))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let is_served = self.serves(&request.into_inner().service);
        let mut ticks = tokio::time::interval(WATCH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watch = Watch {
            core: Arc::clone(&self.core),
            is_served,
            ticks,
            last: None,
        };
        let changes = futures::stream::unfold(watch, async |mut watch| {
            let next = watch.next_change().await?;
            Some((Ok(next), watch))
        });
        Ok(Response::new(Box::pin(changes)))
    }
}

struct Watch {
    core: Arc<Core>,
    is_served: bool,
    ticks: tokio::time::Interval,
    last: Option<i32>,
}

impl Watch {
    /// The next answer that differs from the last. Ends with the drain, after the answer about it: an
    /// open watch would keep the connection.
    async fn next_change(&mut self) -> Option<HealthCheckResponse> {
        loop {
            let draining = self.core.running.draining();
            let next = if self.is_served {
                answer(self.core.health())
            } else {
                HealthCheckResponse {
                    status: Wire::ServiceUnknown.into(),
                }
            };
            if self.last.replace(next.status) != Some(next.status) {
                return Some(next);
            }
            if draining {
                return None;
            }
            tokio::select! {
                _ = self.ticks.tick() => {}
                () = self.core.running.drain_began() => {}
            }
        }
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: Wire::from(status).into(),
    }
}
