//! `--feature-gates`: any gate is accepted, since operators set one list for all components of a cluster.

use serde_json::Value;

use super::flag_type::FlagType;

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeatureGates(Vec<(String, bool)>);

impl FeatureGates {
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

impl FlagType for FeatureGates {
    const NAME: &str = "mapStringBool";
    const SEPARATOR: Option<char> = Some(',');

    fn read(text: &str) -> Result<Self, String> {
        let pair = |pair: &str| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("missing bool value for {pair}; write {pair}=true"))?;
            let (name, value) = (name.trim(), value.trim());
            let on = bool::read(value)
                .map_err(|error| format!("invalid value of {name}={value}: {error}"))?;
            Ok((name.to_owned(), on))
        };
        let pairs = text.split(',').map(str::trim);
        let pairs = pairs.filter(|text| !text.is_empty()).map(pair);
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn show(&self) -> Value {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, on)| format!("{name}={on}"))
            .collect();
        pairs.join(",").into()
    }
}

#[cfg(test)]
mod tests;
