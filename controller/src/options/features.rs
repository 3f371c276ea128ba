//! `--feature-gates`: any gate is accepted, since operators set one list for all components of a cluster.

use std::{fmt, str::FromStr};

use super::values::GoBool;

/// The switch of the gates below that are beta and on, as upstream.
const ALL_BETA: &str = "AllBeta";

/// A gate that decides something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Webhooks that `--webhooks` names are served (W-2).
    CloudControllerManagerWebhook,
    /// `/flagz` is served.
    ComponentFlagz,
    /// `/statusz` is served.
    ComponentStatusz,
    /// `--requestheader-uid-headers` may be set.
    RemoteRequestHeaderUid,
}

impl Feature {
    const ALL: [Self; 4] = [
        Self::CloudControllerManagerWebhook,
        Self::ComponentFlagz,
        Self::ComponentStatusz,
        Self::RemoteRequestHeaderUid,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::CloudControllerManagerWebhook => "CloudControllerManagerWebhook",
            Self::ComponentFlagz => "ComponentFlagz",
            Self::ComponentStatusz => "ComponentStatusz",
            Self::RemoteRequestHeaderUid => "RemoteRequestHeaderUID",
        }
    }
}

/// The pairs of the flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(Vec<(String, bool)>);

impl FeatureGates {
    /// Whether the gate is open. The last mention of a gate counts, and before `AllBeta`. That of webhooks is
    /// alpha upstream, and closed; here `--webhooks` alone is enough to open it.
    pub fn enabled(&self, gate: Feature) -> bool {
        let last = |name: &str| self.0.iter().rfind(|(named, _)| named == name);
        let is_alpha = gate == Feature::CloudControllerManagerWebhook;
        let mention = last(gate.name()).or_else(|| last(ALL_BETA).filter(|_| !is_alpha));
        mention.is_none_or(|(_, on)| *on)
    }

    /// One warning that names all gates that decide nothing here.
    pub(super) fn warning(&self) -> Option<String> {
        let decides =
            |name: &str| name == ALL_BETA || Feature::ALL.iter().any(|gate| gate.name() == name);
        let names = self.0.iter().map(|(name, _)| name.as_str());
        let idle: Vec<&str> = names.filter(|name| !decides(name)).collect();
        (!idle.is_empty())
            .then(|| format!("feature gates without effect here: {}", idle.join(", ")))
    }
}

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |pair: &str| {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("missing bool value for {pair}; write {pair}=true"))?;
            let (name, value) = (name.trim(), value.trim());
            let GoBool(on) = value
                .parse()
                .map_err(|error| format!("invalid value of {name}={value}: {error}"))?;
            Ok((name.to_owned(), on))
        };
        let pairs = text.split(',').map(str::trim);
        pairs
            .filter(|text| !text.is_empty())
            .map(pair)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, on)| format!("{name}={on}"))
            .collect();
        f.write_str(&pairs.join(","))
    }
}

#[cfg(test)]
mod tests;
