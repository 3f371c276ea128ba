//! Where the provider is, who it must be, and what may be written for it.

use clap::Args;
use outrigger_core::effects::GrantedPrefixes;
use outrigger_provider::Endpoint;

use super::{config::ProviderSettings, given, items};

/// In the volume that both containers of the Pod have.
pub(crate) const DEFAULT_ENDPOINT: &str = "unix:///run/outrigger/provider.sock";

#[derive(Args)]
#[command(next_help_heading = "Provider")]
pub(super) struct ProviderFlags {
    /// Run although the provider has no cluster ID, and change the cloud although the cluster's UID
    /// is not known. Two clusters in one account may then change each other's resources. Deprecated, as by upstream.
    #[arg(long)]
    pub(super) allow_untagged_cloud: bool,
    /// Name that the provider must report; empty: any.
    #[arg(long, default_value = "")]
    pub(super) cloud_provider: String,
    /// Prefixes of annotations and condition types that may be written to Nodes and Services for the
    /// provider, such as vendor.example/; those that it does not declare itself are not written either.
    /// Domains of Kubernetes and of this controller cannot be granted.
    #[arg(long, value_delimiter = ',')]
    provider_effect_prefixes: Vec<String>,
    /// Address of the cloud provider's Unix socket, unix:///PATH. CLOUDPROVIDER_ENDPOINT in the
    /// environment sets it for the controller and the provider.
    #[arg(long, default_value = DEFAULT_ENDPOINT)]
    provider_endpoint: Endpoint,
    /// Numbers of the users that the process behind --provider-endpoint may be one of; without it any. A
    /// connection to a process of another user is given up before anything is sent.
    #[arg(long, value_delimiter = ',')]
    provider_user: Vec<u32>,
}

impl ProviderFlags {
    pub(super) fn settings(&self, warnings: &mut Vec<String>) -> Result<ProviderSettings, String> {
        if self.allow_untagged_cloud {
            warnings.push(
                "--allow-untagged-cloud is deprecated: a cluster ID will be required on cloud instances"
                    .to_owned(),
            );
        }
        let mut name = given(&self.cloud_provider);
        if self.cloud_provider == "external" {
            warnings.push(
                "--cloud-provider=external is for the kubelet; any provider is accepted. Set the \
                 provider's own name, or leave the flag out"
                    .to_owned(),
            );
            name = None;
        }
        let effect_prefixes = GrantedPrefixes::new(items(&self.provider_effect_prefixes));
        Ok(ProviderSettings {
            endpoint: self.provider_endpoint.clone(),
            name,
            allow_untagged_cloud: self.allow_untagged_cloud,
            effect_prefixes: effect_prefixes
                .map_err(|error| format!("--provider-effect-prefixes: {error}"))?,
            users: self.provider_user.clone(),
        })
    }
}
