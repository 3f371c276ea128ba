//! Steps of a check with a controller and a provider: how long each took, and what it waits for.
//!
//! [`crate::provider_check`] and the lab implement [`Checked`] for the processes that they run and get its waits: each ends
//! when the cluster has the state, when a process has ended by itself, or after the time limit, with the last state and
//! both logs.

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use tokio::time::{Instant, sleep};

use crate::{
    Error, Result,
    nodes::{UNINITIALIZED_TAINT, is_tainted},
    services,
};

/// A step that passed.
#[derive(Debug, Clone)]
pub struct Passed {
    /// The step, as a sentence.
    pub step: String,
    /// Its time.
    pub took: Duration,
    /// An administrator's kubeconfig of the cluster.
    pub kubeconfig: PathBuf,
}

/// Reports each step as it passes.
pub struct Steps<F> {
    /// An administrator's kubeconfig of the cluster.
    pub kubeconfig: PathBuf,
    started: Instant,
    passed: F,
}

impl<F: FnMut(Passed)> Steps<F> {
    /// The first step begins now.
    pub fn new(passed: F) -> Self {
        Self {
            kubeconfig: PathBuf::new(),
            started: Instant::now(),
            passed,
        }
    }

    /// A step has passed; the next one begins.
    pub fn done(&mut self, step: &str) {
        (self.passed)(Passed {
            step: step.to_owned(),
            took: self.started.elapsed(),
            kubeconfig: self.kubeconfig.clone(),
        });
        self.started = Instant::now();
    }
}

/// A cluster with a controller and a provider, which waits for its states while the processes that are to bring them
/// about run.
#[expect(async_fn_in_trait, reason = "a check runs on one task")]
pub trait Checked {
    /// Time limit of each step.
    fn timeout(&self) -> Duration;

    /// A client that may do everything.
    fn client(&self) -> &Client;

    /// Fails if a process has ended that is to run.
    fn processes_run(&mut self) -> Result<()>;

    /// The ends of the logs of controller and provider.
    fn log_ends(&self) -> (String, String);

    /// Waits until `lacks` finds nothing.
    async fn until(
        &mut self,
        step: &str,
        mut lacks: impl AsyncFnMut() -> Result<Option<String>>,
    ) -> Result<()> {
        const EVERY: Duration = Duration::from_millis(50);
        let end = Instant::now() + self.timeout();
        loop {
            self.processes_run()?;
            let Some(observed) = lacks().await? else {
                return Ok(());
            };
            if Instant::now() > end {
                return Err(self.unfulfilled(step, observed));
            }
            sleep(EVERY).await;
        }
    }

    /// The error of a `step` that was not reached: `observed` is the last state.
    fn unfulfilled(&self, step: &str, observed: String) -> Error {
        let (controller, provider) = self.log_ends();
        Error::Unfulfilled {
            step: step.to_owned(),
            timeout: self.timeout(),
            observed,
            controller,
            provider,
        }
    }

    /// Waits until `lacks` finds nothing in a Node. `step` is the rest of a sentence about it.
    async fn node(
        &mut self,
        name: &str,
        step: &str,
        lacks: impl Fn(&Node) -> Option<String>,
    ) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().clone());
        let probe = async || {
            let node = nodes.get_opt(name).await;
            let node = node.map_err(Error::kube(format!("cannot read Node {name}")))?;
            let absent = || Some("it is not registered".to_owned());
            Ok(node.map_or_else(absent, |node| lacks(&node)))
        };
        self.until(&format!("Node {name} {step}"), probe).await
    }

    /// Waits until a Node has no taint and a provider ID.
    async fn initialised(&mut self, name: &str) -> Result<()> {
        self.node(name, "is initialised", |node| {
            if is_tainted(node) {
                return Some(format!("it has the taint {UNINITIALIZED_TAINT}"));
            }
            let id = node.spec.as_ref()?.provider_id.as_ref();
            id.is_none().then(|| "it has no spec.providerID".to_owned())
        })
        .await
    }

    /// The Services of the check.
    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client().clone(), "default")
    }

    /// Makes a Service and returns it once it is served.
    async fn serve(&mut self, name: &str) -> Result<Service> {
        let service = services::balanced(name, ("outrigger.dev/testbed", "check"));
        self.serve_as(name, &service).await
    }

    /// Makes this Service of that name and returns it once it is served.
    async fn serve_as(&mut self, name: &str, service: &Service) -> Result<Service> {
        let services = self.services();
        let created = services.create(&PostParams::default(), service).await;
        created.map_err(Error::kube(format!("cannot create the Service {name}")))?;
        let probe = async || {
            let service = service_named(&services, name).await?;
            let state = || {
                let conditions = services::conditions(&service).iter();
                let conditions = conditions.map(|one| {
                    let (kind, status) = (&one.type_, &one.status);
                    format!("{kind}={status} ({}: {})", one.reason, one.message)
                });
                conditions.collect::<Vec<_>>().join(", ")
            };
            Ok((!services::is_served(&service)).then(state))
        };
        self.until(&format!("the Service {name} is served"), probe)
            .await?;
        service_named(&services, name).await
    }

    /// Deletes a Service and waits until it is gone.
    async fn withdraw(&mut self, name: &str) -> Result<()> {
        let services = self.services();
        let deleted = services.delete(name, &DeleteParams::default()).await;
        deleted.map_err(Error::kube(format!("cannot delete the Service {name}")))?;
        let probe = async || {
            let left = services.get_metadata_opt(name).await;
            let left = left.map_err(Error::kube(format!("cannot read the Service {name}")))?;
            Ok(left.map(|left| format!("finalizers {:?}", left.metadata.finalizers)))
        };
        self.until(&format!("the deleted Service {name} is gone"), probe)
            .await
    }
}

/// The Service as the API server has it.
pub async fn service_named(services: &Api<Service>, name: &str) -> Result<Service> {
    let service = services.get(name).await;
    service.map_err(Error::kube(format!("cannot read the Service {name}")))
}
