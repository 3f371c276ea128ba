//! Where the API server is, and how it may be used.

use std::time::Duration;

use clap::Args;
use outrigger_core::go_duration;
use outrigger_kube::client::{Budget, Source};

use super::given;
use crate::server::settings::{GivenPath, given_path};

#[derive(Args)]
#[command(next_help_heading = "API server")]
pub(super) struct ApiServerFlags {
    /// Burst of requests to the API server, for each client; 0: the default.
    #[arg(long, default_value = "2000")]
    pub(super) kube_api_burst: u32,
    /// Requests per second to the API server, for each client; 0: the default; negative: no limit.
    #[arg(long, default_value = "1000", value_parser = rate)]
    pub(super) kube_api_qps: f32,
    /// Kubeconfig with address and credentials for the API server; empty: the Pod's service account.
    #[arg(long, default_value = "", value_parser = given_path)]
    pub(super) kubeconfig: GivenPath,
    /// URL of the API server; overrides that of the kubeconfig.
    #[arg(long, default_value = "")]
    master: String,
    /// Minimum resync period: stores hand all objects to their event handlers again after a random time
    /// between this and twice this.
    #[arg(long, default_value = "12h0m0s", value_parser = go_duration::parse)]
    pub(super) min_resync_period: Duration,
}

fn rate(text: &str) -> Result<f32, &'static str> {
    let rate = text.parse().ok().filter(|rate: &f32| rate.is_finite());
    rate.ok_or("it must be a number")
}

impl ApiServerFlags {
    pub(super) fn source(&self) -> Source {
        Source {
            kubeconfig: self.kubeconfig.clone(),
            master: given(&self.master),
        }
    }

    /// 0 stands for the default, as in client-go.
    pub(super) fn budget(&self) -> Budget {
        Budget {
            qps: match self.kube_api_qps {
                0.0 => 1_000.0,
                qps => qps,
            },
            burst: match self.kube_api_burst {
                0 => 2_000,
                burst => burst,
            },
        }
    }
}
