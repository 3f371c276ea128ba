//! Where the provider is, who it must be, and what may be written for it.

use outrigger_core::effects::GrantedPrefixes;

use super::{Findings, text};
use crate::options::{config::ProviderSettings, flag::Setting, table::Flags};

/// The numbers of `--provider-user`.
///
/// # Errors
/// A sentence about another text.
pub(crate) fn provider_users(flag: &Setting<Vec<String>>) -> Result<Vec<u32>, String> {
    let users = flag.iter().map(|user| {
        let number = user.trim().parse();
        number.map_err(|_| format!("{flag}: {user:?} is no number of a user, such as 10002"))
    });
    users.collect()
}

pub(super) fn provider(flags: &Flags, f: &mut Findings) -> ProviderSettings {
    let flag = &flags.provider_effect_prefixes;
    let prefixes = flag.iter().map(|prefix| prefix.trim().to_owned());
    let effect_prefixes =
        GrantedPrefixes::new(prefixes).map_err(|error| format!("{flag}: {error}"));
    let mut name = text(&flags.cloud_provider);
    if name.as_deref() == Some("external") {
        f.warnings.push(
            "--cloud-provider=external is for the kubelet; any provider is accepted. Set the \
             provider's own name, or leave the flag out"
                .into(),
        );
        name = None;
    }
    ProviderSettings {
        endpoint: flags.provider_endpoint.value.clone(),
        name,
        allow_untagged_cloud: flags.allow_untagged_cloud.value,
        effect_prefixes: f.valid(effect_prefixes),
        users: f.valid(provider_users(&flags.provider_user)),
    }
}
