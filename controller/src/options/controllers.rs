//! `--controllers`: which loops run, by upstream's names, aliases and rules of precedence.

/// One of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Controller {
    /// Initialises nodes and keeps them fresh.
    CloudNode,
    /// Taints stopped nodes, removes gone ones.
    CloudNodeLifecycle,
    /// Load balancers of Services.
    ServiceLb,
    /// Routes to the Pods of each node.
    NodeRoute,
    /// Pod CIDRs of each node.
    NodeIpam,
    /// Labels of volumes; runs only where it is named.
    VolumeLabels,
}

impl Controller {
    /// All that exist, in order of name.
    pub const ALL: [Self; 6] = [
        Self::CloudNode,
        Self::CloudNodeLifecycle,
        Self::NodeIpam,
        Self::NodeRoute,
        Self::VolumeLabels,
        Self::ServiceLb,
    ];

    /// The canonical name: in flags, logs and health checks.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CloudNode => "cloud-node-controller",
            Self::CloudNodeLifecycle => "cloud-node-lifecycle-controller",
            Self::ServiceLb => "service-lb-controller",
            Self::NodeRoute => "node-route-controller",
            Self::NodeIpam => "node-ipam-controller",
            Self::VolumeLabels => "persistentvolume-labels-controller",
        }
    }

    /// The name before the canonical ones; flags accept it, and metrics still use it.
    pub const fn alias(self) -> &'static str {
        match self {
            Self::CloudNode => "cloud-node",
            Self::CloudNodeLifecycle => "cloud-node-lifecycle",
            Self::ServiceLb => "service",
            Self::NodeRoute => "route",
            Self::NodeIpam => "nodeipam",
            Self::VolumeLabels => "persistentvolume-labels",
        }
    }
}

/// The controllers that `--controllers` selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    enabled: Vec<Controller>,
    named: Vec<Controller>,
}

impl Controllers {
    /// Evaluates the items of the flag.
    ///
    /// # Errors
    /// One sentence for each item that names no controller.
    pub fn evaluate(items: &[String]) -> Result<Self, Vec<String>> {
        let known = Controller::ALL.map(|controller| (controller.name(), controller.alias()));
        let on = evaluate(items, &known, "controllers")?;
        let is_named = |controller: &Controller| {
            let mut items = items.iter();
            items.any(|item| item == controller.name() || item == controller.alias())
        };
        // `*` does not turn on what upstream has no more.
        let is_meant = |controller: &Controller| {
            *controller != Controller::VolumeLabels || is_named(controller)
        };
        let enabled = Controller::ALL
            .into_iter()
            .zip(on)
            .filter_map(|(controller, on)| on.then_some(controller))
            .filter(is_meant)
            .collect();
        let named = Controller::ALL.into_iter().filter(is_named).collect();
        Ok(Self { enabled, named })
    }

    /// Whether the flag names it, rather than turning on everything.
    pub fn names(&self, controller: Controller) -> bool {
        self.named.contains(&controller)
    }

    /// Whether it is to run.
    pub fn enabled(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }
}

/// Upstream's rules, for controllers and webhooks: `name` is on, `-name` is off, the first item
/// that names one decides, `*` turns on what no item names, wherever it stands.
///
/// Returns one answer for each of `known`, which are pairs of canonical name and alias.
pub(super) fn evaluate(
    items: &[String],
    known: &[(&str, &str)],
    what: &str,
) -> Result<Vec<bool>, Vec<String>> {
    let unknown: Vec<String> = items
        .iter()
        .filter(|item| *item != "*")
        .map(|item| item.strip_prefix('-').unwrap_or(item))
        .filter(|name| known.iter().all(|(a, b)| name != a && name != b))
        .map(|name| format!("{name:?} is not in the list of known {what}"))
        .collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let everything = items.iter().any(|item| item == "*");
    let on = known.iter().map(|(name, alias)| {
        let verdict = items.iter().find_map(|item| {
            let (named, on) = match item.strip_prefix('-') {
                Some(named) => (named, false),
                None => (item.as_str(), true),
            };
            (named == *name || named == *alias).then_some(on)
        });
        verdict.unwrap_or(everything)
    });
    Ok(on.collect())
}

#[cfg(test)]
mod tests;
