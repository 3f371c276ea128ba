//! Asks on the control socket.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::load_balancers::{EditLoadBalancer, NewLoadBalancer, ShownLoadBalancers};
use super::messages::{
    ChangeCost, Changed, Cleared, CloseConnections, ClosedConnections, Failure, InjectFault,
    Listed, Status, Targets,
};
use super::routes::{EditRoutes, NewRoute, ShownRoutes};
use super::volumes::ShownVolumes;
use crate::cloud::Counts;
use crate::faults::Fault;
use crate::instances::InstanceSpec;
use crate::volumes::Volume;

/// Time limit of an answer; no request on this socket waits for anything.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens.
    #[error(
        "no provider-mock answers on {}: {source}; start provider-mock serve, or name its \
         --endpoint or --control-endpoint",
        path.display()
    )]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It does not answer.
    #[error("provider-mock on {} has not answered for 10s", path.display())]
    TimedOut {
        /// The socket.
        path: PathBuf,
    },
    /// The connection broke, or its end is no mock.
    #[error("the answer from {} was not understood: {reason}", path.display())]
    Garbled {
        /// The socket.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// It refused.
    #[error("{0}")]
    Refused(String),
}

/// A client of one mock.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// Of the mock that is controlled through this socket.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// How it is.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.ask(Method::GET, "/v1/status", &()).await
    }

    /// Lists the instances and load balancers.
    pub async fn list(&self) -> Result<Listed, ClientError> {
        self.ask(Method::GET, "/v1/instances", &()).await
    }

    /// Makes an instance.
    pub async fn create(&self, spec: &InstanceSpec) -> Result<Changed, ClientError> {
        self.ask(Method::POST, "/v1/instances", spec).await
    }

    /// Starts instances.
    pub async fn start(&self, targets: &Targets) -> Result<Changed, ClientError> {
        self.ask(Method::POST, "/v1/instances/start", targets).await
    }

    /// Stops instances.
    pub async fn stop(&self, targets: &Targets) -> Result<Changed, ClientError> {
        self.ask(Method::POST, "/v1/instances/stop", targets).await
    }

    /// Deletes instances.
    pub async fn delete(&self, targets: &Targets) -> Result<Changed, ClientError> {
        self.ask(Method::POST, "/v1/instances/delete", targets)
            .await
    }

    /// Which load balancers there are, without their targets.
    pub async fn load_balancers(&self) -> Result<ShownLoadBalancers, ClientError> {
        self.ask(Method::GET, "/v1/load-balancers", &()).await
    }

    /// Load balancers with their targets.
    pub async fn show_load_balancers(
        &self,
        targets: &Targets,
    ) -> Result<ShownLoadBalancers, ClientError> {
        self.ask(Method::POST, "/v1/load-balancers/show", targets)
            .await
    }

    /// Makes a load balancer that no Service asked for.
    pub async fn create_load_balancer(
        &self,
        new: &NewLoadBalancer,
    ) -> Result<ShownLoadBalancers, ClientError> {
        self.ask(Method::POST, "/v1/load-balancers", new).await
    }

    /// Changes a load balancer behind its provider's back.
    pub async fn edit_load_balancer(
        &self,
        edit: &EditLoadBalancer,
    ) -> Result<ShownLoadBalancers, ClientError> {
        self.ask(Method::POST, "/v1/load-balancers/edit", edit)
            .await
    }

    /// Deletes load balancers behind their provider's back.
    pub async fn delete_load_balancers(
        &self,
        targets: &Targets,
    ) -> Result<ShownLoadBalancers, ClientError> {
        self.ask(Method::POST, "/v1/load-balancers/delete", targets)
            .await
    }

    /// Which routes there are.
    pub async fn routes(&self) -> Result<ShownRoutes, ClientError> {
        self.ask(Method::GET, "/v1/routes", &()).await
    }

    /// Makes a route that no controller asked for.
    pub async fn add_route(&self, new: &NewRoute) -> Result<ShownRoutes, ClientError> {
        self.ask(Method::POST, "/v1/routes", new).await
    }

    /// Lets routes lead elsewhere behind their provider's back.
    pub async fn edit_routes(&self, edit: &EditRoutes) -> Result<ShownRoutes, ClientError> {
        self.ask(Method::POST, "/v1/routes/edit", edit).await
    }

    /// Removes routes behind their provider's back.
    pub async fn remove_routes(&self, targets: &Targets) -> Result<ShownRoutes, ClientError> {
        self.ask(Method::POST, "/v1/routes/remove", targets).await
    }

    /// Which volumes there are.
    pub async fn volumes(&self) -> Result<ShownVolumes, ClientError> {
        self.ask(Method::GET, "/v1/volumes", &()).await
    }

    /// Makes a volume, or changes the one with its handle.
    pub async fn set_volume(&self, volume: &Volume) -> Result<ShownVolumes, ClientError> {
        self.ask(Method::POST, "/v1/volumes", volume).await
    }

    /// Deletes volumes.
    pub async fn delete_volumes(&self, targets: &Targets) -> Result<ShownVolumes, ClientError> {
        self.ask(Method::POST, "/v1/volumes/delete", targets).await
    }

    /// Changes what a call to the cloud costs.
    pub async fn change_cost(&self, change: &ChangeCost) -> Result<ChangeCost, ClientError> {
        self.ask(Method::PUT, "/v1/cost", change).await
    }

    /// Sets a fault.
    pub async fn inject(&self, fault: &InjectFault) -> Result<Fault, ClientError> {
        self.ask(Method::POST, "/v1/faults", fault).await
    }

    /// Removes all faults.
    pub async fn clear(&self) -> Result<Cleared, ClientError> {
        self.ask(Method::DELETE, "/v1/faults", &()).await
    }

    /// The counters; with `reset` they begin again.
    pub async fn counters(&self, reset: bool) -> Result<Counts, ClientError> {
        let method = if reset { Method::DELETE } else { Method::GET };
        self.ask(method, "/v1/counters", &()).await
    }

    /// Closes every connection of callers; the mock lives on.
    pub async fn close_connections(
        &self,
        close: &CloseConnections,
    ) -> Result<ClosedConnections, ClientError> {
        self.ask(Method::POST, "/v1/connections/close", close).await
    }

    async fn ask<Q: Serialize + Sync, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &'static str,
        question: &Q,
    ) -> Result<A, ClientError> {
        let question = serde_json::to_vec(question).map_err(|error| self.garbled(&error))?;
        let asked = tokio::time::timeout(TIMEOUT, self.exchange(method, path, question)).await;
        let (status, body) = asked.map_err(|_| ClientError::TimedOut {
            path: self.path.clone(),
        })??;
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|error| self.garbled(&error));
        }
        match serde_json::from_slice::<Failure>(&body) {
            Ok(failure) => Err(ClientError::Refused(failure.error)),
            Err(_) => Err(self.garbled(&format!("HTTP status {status}"))),
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &'static str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let stream =
            UnixStream::connect(&self.path)
                .await
                .map_err(|source| ClientError::Unreachable {
                    path: self.path.clone(),
                    source,
                })?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::from(body))
            .map_err(|error| self.garbled(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.garbled(&error))?;
        let answer = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            // The sender ends with this block, and the connection with it.
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        let (answer, _) = tokio::join!(answer, connection);
        answer.map_err(|error: hyper::Error| self.garbled(&error))
    }

    fn garbled(&self, reason: &dyn std::fmt::Display) -> ClientError {
        ClientError::Garbled {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }
}
