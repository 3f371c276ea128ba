//! `--feature-gates`: the gates of upstream's cloud-controller-manager and what they do here.

use std::{fmt, str::FromStr};

use super::values::GoBool;

/// A gate that decides something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gate {
    /// `/flagz` is served.
    ComponentFlagz,
    /// `/statusz` is served.
    ComponentStatusz,
    /// `--requestheader-uid-headers` may be given.
    RemoteRequestHeaderUid,
}

/// How far a feature has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for.
    Alpha,
    /// On, mostly.
    Beta,
}

/// A gate that upstream's cloud-controller-manager knows and that matters to it.
#[derive(Debug)]
pub struct Known {
    /// As in the flag.
    pub name: &'static str,
    /// As in upstream 1.37.
    pub stage: Stage,
    /// As in upstream 1.37.
    pub default: bool,
    /// What it switches here, or why nothing.
    pub effect: Effect,
}

/// What a gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is asked for.
    Decides(Gate),
    /// It switches all others of a stage.
    All(Stage),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// The gates that matter to a cloud-controller-manager, by name.
pub const KNOWN: [Known; 14] = [
    known("AllAlpha", Stage::Alpha, false, Effect::All(Stage::Alpha)),
    known("AllBeta", Stage::Beta, false, Effect::All(Stage::Beta)),
    known(
        "CloudControllerManagerWatchBasedRoutesReconciliation",
        Stage::Alpha,
        false,
        Effect::Nothing("routes are always reconciled on changes"),
    ),
    known(
        "CloudControllerManagerWebhook",
        Stage::Alpha,
        false,
        Effect::Nothing("there is no webhook to serve"),
    ),
    known(
        "ComponentFlagz",
        Stage::Beta,
        true,
        Effect::Decides(Gate::ComponentFlagz),
    ),
    known(
        "ComponentStatusz",
        Stage::Beta,
        true,
        Effect::Decides(Gate::ComponentStatusz),
    ),
    known(
        "ContextualLogging",
        Stage::Beta,
        true,
        Effect::Nothing("log lines always have their context"),
    ),
    known(
        "ControllerManagerReleaseLeaderElectionLockOnExit",
        Stage::Alpha,
        false,
        Effect::Nothing("the lease is always released on exit"),
    ),
    known(
        "CoordinatedLeaderElection",
        Stage::Beta,
        false,
        Effect::Nothing("upstream's cloud-controller-manager does not use it either"),
    ),
    known(
        "LoggingAlphaOptions",
        Stage::Alpha,
        false,
        Effect::Nothing("--log-text-split-stream works without it"),
    ),
    known(
        "LoggingBetaOptions",
        Stage::Beta,
        true,
        Effect::Nothing("--vmodule and --logging-format=json work without it"),
    ),
    known(
        "NativeHistograms",
        Stage::Beta,
        true,
        Effect::Nothing("metrics are served as text, which has no such form"),
    ),
    known(
        "RemoteRequestHeaderUID",
        Stage::Beta,
        true,
        Effect::Decides(Gate::RemoteRequestHeaderUid),
    ),
    known(
        "UnauthenticatedHTTP2DOSMitigation",
        Stage::Beta,
        true,
        Effect::Nothing("the HTTP/2 library bounds streams and resets for all callers"),
    ),
];

const fn known(name: &'static str, stage: Stage, default: bool, effect: Effect) -> Known {
    Known {
        name,
        stage,
        default,
        effect,
    }
}

/// Gates that upstream's binary takes only because it links other components, one a line. People
/// give one list to all components of a cluster.
const ELSEWHERE: &str = include_str!("features/elsewhere.txt");

fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The pairs of the flag, each with a name that exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs(Vec<(String, bool)>);

impl FromStr for Pairs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for pair in text
            .split(',')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("missing bool value for {pair}; write {pair}=true"))?;
            let (name, value) = (name.trim(), value.trim());
            let GoBool(on) = value
                .parse()
                .map_err(|error| format!("invalid value of {name}={value}: {error}"))?;
            if find(name).is_none() && !ELSEWHERE.lines().any(|line| line == name) {
                return Err(format!("unrecognized feature gate: {name}"));
            }
            pairs.push((name.to_owned(), on));
        }
        Ok(Self(pairs))
    }
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, on)| format!("{name}={on}"))
            .collect();
        f.write_str(&pairs.join(","))
    }
}

/// What `--feature-gates` comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: Vec<Gate>,
}

impl FeatureGates {
    /// Whether the gate is open.
    pub fn enabled(&self, gate: Gate) -> bool {
        self.enabled.contains(&gate)
    }

    /// Evaluates the flag. A gate that is named goes before the bulk switches, the last mention
    /// of one before the others. Also returns a warning for each gate that changes nothing.
    pub(super) fn evaluate(pairs: &Pairs) -> (Self, Vec<String>) {
        let last = |name: &str| {
            let mention = pairs.0.iter().rfind(|(named, _)| named == name);
            mention.map(|(_, on)| *on)
        };
        let bulk = |stage: Stage| match stage {
            Stage::Alpha => last("AllAlpha"),
            Stage::Beta => last("AllBeta"),
        };
        let mut enabled = Vec::new();
        for known in &KNOWN {
            let on = last(known.name)
                .or_else(|| bulk(known.stage))
                .unwrap_or(known.default);
            if let (true, Effect::Decides(gate)) = (on, known.effect) {
                enabled.push(gate);
            }
        }
        let mut warnings: Vec<String> = Vec::new();
        let mut elsewhere: Vec<&str> = Vec::new();
        for (name, _) in &pairs.0 {
            match find(name).map(|known| known.effect) {
                Some(Effect::Nothing(why)) => {
                    warnings.push(format!("feature gate {name} has no effect here: {why}"));
                }
                Some(_) => {}
                None => elsewhere.push(name),
            }
        }
        if !elsewhere.is_empty() {
            warnings.push(format!(
                "feature gates of other components have no effect here: {}",
                elsewhere.join(", ")
            ));
        }
        warnings.dedup();
        (Self { enabled }, warnings)
    }
}

#[cfg(test)]
mod tests;
