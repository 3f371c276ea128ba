//! `--feature-gates`: any gate is accepted, since operators set one list for all components of a cluster.

use super::{items, switch};

/// The switch of the gates below that are beta and on, as upstream.
const ALL_BETA: &str = "AllBeta";

/// Webhooks that `--webhooks` names are served (W-2).
pub(super) const WEBHOOK: &str = "CloudControllerManagerWebhook";

/// `/flagz` is served.
pub(super) const FLAGZ: &str = "ComponentFlagz";

/// `/statusz` is served.
pub(super) const STATUSZ: &str = "ComponentStatusz";

/// The gates that decide something here.
const GATES: [&str; 4] = [ALL_BETA, WEBHOOK, FLAGZ, STATUSZ];

/// The pairs of the flag.
#[derive(Debug)]
pub(super) struct FeatureGates(Vec<(String, bool)>);

impl FeatureGates {
    /// # Errors
    /// An item that is no `Name=true` or `Name=false`.
    pub(super) fn new(list: &[String]) -> Result<Self, String> {
        let pair = |item: String| {
            let (name, value) = item.split_once('=').unwrap_or((&item, ""));
            let on = switch(value.trim());
            let on = on.map_err(|error| format!("--feature-gates: {item:?}: {error}"))?;
            Ok((name.trim().to_owned(), on))
        };
        items(list)
            .into_iter()
            .map(pair)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The gate is open. The last mention of a gate counts, and before `AllBeta`. That of webhooks is
    /// alpha upstream, and closed; here `--webhooks` alone is enough to open it.
    pub(super) fn enabled(&self, gate: &str) -> bool {
        let last = |name: &str| self.0.iter().rfind(|(named, _)| named == name);
        let mention = last(gate).or_else(|| last(ALL_BETA).filter(|_| gate != WEBHOOK));
        mention.is_none_or(|(_, on)| *on)
    }

    /// One warning that names all gates that decide nothing here.
    pub(super) fn warning(&self) -> Option<String> {
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let idle: Vec<&str> = names.filter(|name| !GATES.contains(name)).collect();
        (!idle.is_empty())
            .then(|| format!("feature gates without effect here: {}", idle.join(", ")))
    }
}

#[cfg(test)]
mod tests;
