//! Where the provider is, who it must be, and what may be written for it.

use outrigger_core::effects::GrantedPrefixes;

use super::Findings;
use crate::options::{
    command_line::CommandLine,
    config::ProviderSettings,
    flags::{GenericFlags, ProviderFlags},
};
use outrigger_provider_client::Endpoint;

pub(super) fn check(
    flags: &ProviderFlags,
    generic: &GenericFlags,
    line: &CommandLine,
    f: &mut Findings,
) -> Option<ProviderSettings> {
    let place = line.place("provider-endpoint");
    let endpoint = flags
        .provider_endpoint
        .parse::<Endpoint>()
        .map_err(|error| {
            f.errors
                .push(format!("invalid argument for {place}: {error}"));
        });
    let prefixes = flags.provider_effect_prefixes.0.iter();
    let effect_prefixes = GrantedPrefixes::new(prefixes.map(|prefix| prefix.trim().to_owned()));
    let effect_prefixes =
        f.valid(effect_prefixes.map_err(|error| format!("--provider-effect-prefixes: {error}")));
    let mut users = Vec::new();
    for user in &flags.provider_user.0 {
        match user.trim().parse() {
            Ok(user) => users.push(user),
            Err(_) => f.errors.push(format!(
                "--provider-user: {user:?} is no number of a user, such as 10002"
            )),
        }
    }
    let endpoint = endpoint.ok()?;
    let mut name = Some(generic.cloud_provider.clone()).filter(|name| !name.is_empty());
    if name.as_deref() == Some("external") {
        f.warnings.push(
            "--cloud-provider=external is for the kubelet; any provider is accepted. Set the \
             provider's own name, or leave the flag out"
                .into(),
        );
        name = None;
    }
    Some(ProviderSettings {
        endpoint,
        name,
        allow_untagged_cloud: generic.allow_untagged_cloud.0,
        effect_prefixes,
        users,
    })
}
