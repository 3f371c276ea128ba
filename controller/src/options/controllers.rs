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
    /// Pod CIDRs of each node; runs only where it is named.
    NodeIpam,
    /// Labels of volumes; runs only where it is named.
    VolumeLabels,
    /// Approval of serving certificates of kubelets; runs only where it is named.
    KubeletServing,
}

impl Controller {
    /// All that exist, in order of name.
    pub const ALL: [Self; 7] = [
        Self::CloudNode,
        Self::CloudNodeLifecycle,
        Self::KubeletServing,
        Self::NodeIpam,
        Self::NodeRoute,
        Self::VolumeLabels,
        Self::ServiceLb,
    ];

    /// The canonical name: in flags, logs and health checks.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// The name before the canonical ones; flags accept it, and metrics still use it.
    pub const fn alias(self) -> &'static str {
        self.names().1
    }

    /// Canonical name and alias.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::CloudNode => ("cloud-node-controller", "cloud-node"),
            Self::CloudNodeLifecycle => ("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
            Self::ServiceLb => ("service-lb-controller", "service"),
            Self::NodeRoute => ("node-route-controller", "route"),
            Self::NodeIpam => ("node-ipam-controller", "nodeipam"),
            Self::VolumeLabels => (
                "persistentvolume-labels-controller",
                "persistentvolume-labels",
            ),
            Self::KubeletServing => (
                "kubelet-serving-approving-controller",
                "kubelet-serving-approving",
            ),
        }
    }

    /// True if `*` does not turn it on: upstream has it no more, or never had it, or another program of the cluster may do
    /// the same.
    pub const fn runs_only_if_named(self) -> bool {
        matches!(
            self,
            Self::NodeIpam | Self::VolumeLabels | Self::KubeletServing
        )
    }

    /// The controller with this canonical name or alias.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|controller| name == controller.name() || name == controller.alias())
    }
}

/// The controllers that `--controllers` selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    enabled: Vec<Controller>,
}

impl Controllers {
    /// Evaluates the items of the flag.
    ///
    /// # Errors
    /// One sentence for each item that names no controller.
    pub fn evaluate(items: &[String]) -> Result<Self, Vec<String>> {
        let items = &items.iter().map(|item| in_full(item)).collect::<Vec<_>>();
        let on = evaluate(
            items,
            &Controller::ALL.map(Controller::names),
            "controllers",
        )?;
        let named: Vec<_> = items
            .iter()
            .filter_map(|item| Controller::of_name(item))
            .collect();
        let is_meant = |controller: &Controller| {
            !controller.runs_only_if_named() || named.contains(controller)
        };
        let all = Controller::ALL.into_iter().zip(on);
        let enabled = all.filter_map(|(controller, on)| on.then_some(controller));
        Ok(Self {
            enabled: enabled.filter(is_meant).collect(),
        })
    }

    /// The controller is to run.
    pub fn enabled(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }
}

/// The item with the canonical name, where that is the name in it and `-controller`, as of `node-ipam`.
fn in_full(item: &str) -> String {
    let in_full = format!("{item}-controller");
    let name = in_full.strip_prefix('-').unwrap_or(&in_full);
    let is_known = Controller::ALL
        .iter()
        .any(|controller| controller.name() == name);
    if is_known { in_full } else { item.to_owned() }
}

/// Upstream's rules, for controllers and webhooks: `name` is on, `-name` is off, the first item
/// that names one decides, `*` turns on what no item names, wherever it stands.
///
/// Returns one answer for each of `names`, which are pairs of canonical name and alias.
pub(super) fn evaluate(
    items: &[String],
    names: &[(&str, &str)],
    what: &str,
) -> Result<Vec<bool>, Vec<String>> {
    let item_name = |item: &str| item.strip_prefix('-').unwrap_or(item).to_owned();
    let unknown: Vec<String> = items
        .iter()
        .filter(|item| *item != "*")
        .map(|item| item_name(item))
        .filter(|item| {
            names
                .iter()
                .all(|(name, alias)| item != name && item != alias)
        })
        .map(|item| format!("{item:?} is not in the list of known {what}"))
        .collect();
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let everything = items.iter().any(|item| item == "*");
    let on = names.iter().map(|(name, alias)| {
        let mut items = items.iter();
        let first = items.find(|item| [*name, *alias].contains(&&*item_name(item)));
        first.map_or(everything, |item| !item.starts_with('-'))
    });
    Ok(on.collect())
}

#[cfg(test)]
mod tests;
