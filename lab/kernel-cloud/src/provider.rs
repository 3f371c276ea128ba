//! The provider's identity, its health, and load balancers behind the contract.

mod instances;
mod load_balancers;
mod routes;

use std::sync::{Arc, Mutex, PoisonError};

use outrigger_provider_sdk::{Context, Error, Provider, ProviderInfo, Server, v1};

use crate::balancer::{Balancer, Options};
use crate::cloud::Cloud;
use crate::kernel::Failure;
use crate::load_balancer::PREFIX;
pub use routes::clean_up as clean_up_routes;

/// The kernel of this host, or a cloud of namespaces on it, as a provider.
#[derive(Clone, Debug)]
pub struct LinuxProvider {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    balancer: Balancer,
    /// The machines that are instances; without it none is served.
    cloud: Option<Cloud>,
    /// Why the kernel cannot be read, if it cannot.
    problem: Mutex<Option<String>>,
}

impl LinuxProvider {
    /// The provider of the network namespace in which the process is: that of the router of `cloud`, where there is one.
    pub fn new(options: Options, cloud: Option<Cloud>) -> Self {
        Self {
            inner: Arc::new(Inner {
                balancer: Balancer::new(options),
                cloud,
                problem: Mutex::new(None),
            }),
        }
    }

    /// A server of all that it has.
    pub fn server(&self) -> Server {
        let server = Server::new(self.clone())
            .load_balancers(self.clone())
            .routes(self.clone());
        if self.inner.cloud.is_some() {
            server.instances(self.clone())
        } else {
            server
        }
    }

    /// The load balancers.
    pub fn balancer(&self) -> &Balancer {
        &self.inner.balancer
    }

    /// Keeps the kernel in sync with the health of targets; never returns.
    pub async fn watch(&self) {
        let inner = &self.inner;
        let report = |ended: Result<(), &str>| {
            match ended {
                Ok(()) => tracing::info!("the kernel is in sync again"),
                Err(error) => tracing::warn!(error, "the kernel cannot be kept in sync"),
            }
            let mut problem = inner.problem.lock().unwrap_or_else(PoisonError::into_inner);
            *problem = ended.err().map(str::to_owned);
        };
        inner.balancer.watch(report).await;
    }
}

impl Provider for LinuxProvider {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            service_annotation_prefixes: vec![PREFIX.to_owned()],
            ..ProviderInfo::new("linux", env!("CARGO_PKG_VERSION"))
        }
    }

    fn status(&self) -> v1::GetStatusResponse {
        let problem = self.inner.problem.lock();
        let problem = problem.unwrap_or_else(PoisonError::into_inner);
        let degraded = v1::Readiness::Degraded.into();
        let kernel = problem.as_ref().map(|text| v1::DependencyStatus {
            name: "kernel".to_owned(),
            readiness: degraded,
            message: text.clone(),
            ..v1::DependencyStatus::default()
        });
        v1::GetStatusResponse {
            readiness: match kernel {
                None => v1::Readiness::Ready.into(),
                Some(_) => degraded,
            },
            dependencies: kernel.into_iter().collect(),
            ..v1::GetStatusResponse::default()
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure {
            Failure::Missing { .. } => Self::cloud_unavailable(text),
            Failure::Denied { .. } => Self::permission_missing(text),
            Failure::Failed { .. } => Self::cloud_error(text),
        }
    }
}

/// The result of `work`, unless the caller goes away before: for work that only reads.
async fn while_waited_for<T>(ctx: &Context, work: impl Future<Output = T>) -> Result<T, Error> {
    tokio::select! {
        () = ctx.cancelled() => Err(Error::cancelled()),
        done = work => Ok(done),
    }
}
