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

    /// Its names in flags: the canonical one, the beginning of that before `-controller`, and the alias.
    fn spellings(self) -> [&'static str; 3] {
        let name = self.name();
        let short = name.strip_suffix("-controller").unwrap_or(name);
        [name, short, self.alias()]
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
    /// An item that names no controller.
    pub fn evaluate(items: &[String]) -> Result<Self, String> {
        let spellings = Controller::ALL.map(Controller::spellings);
        let on = evaluate(items, &spellings, "controllers")?;
        let is_named = |controller: &Controller| {
            let spellings = controller.spellings();
            items.iter().any(|item| spellings.contains(&&**item))
        };
        let all = Controller::ALL.into_iter().zip(on);
        let enabled = all.filter_map(|(controller, on)| on.then_some(controller));
        Ok(Self {
            enabled: enabled
                .filter(|controller| !controller.runs_only_if_named() || is_named(controller))
                .collect(),
        })
    }

    /// The controller is to run.
    pub fn enabled(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }
}

/// Upstream's rules, for controllers and webhooks: `name` is on, `-name` is off, the first item
/// that names one decides, `*` turns on what no item names, wherever it stands.
///
/// Returns one answer for each of `names`, each with all its spellings.
pub(super) fn evaluate<const N: usize>(
    items: &[String],
    names: &[[&str; N]],
    what: &str,
) -> Result<Vec<bool>, String> {
    let name = |item: &String| item.strip_prefix('-').unwrap_or(item).to_owned();
    let mut named = items.iter().filter(|item| *item != "*").map(name);
    if let Some(item) = named.find(|item| !names.iter().flatten().any(|name| name == item)) {
        return Err(format!("{item:?} is not in the list of known {what}"));
    }
    let everything = items.iter().any(|item| item == "*");
    let on = names.iter().map(|spellings| {
        let mut items = items.iter();
        let first = items.find(|item| spellings.contains(&&*name(item)));
        first.map_or(everything, |item| !item.starts_with('-'))
    });
    Ok(on.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Vec<String> {
        match text {
            "" => Vec::new(),
            _ => text.split(',').map(Into::into).collect(),
        }
    }

    fn check(flag: &str, expected: &str) {
        let got = match Controllers::evaluate(&items(flag)) {
            Ok(controllers) => Controller::ALL
                .into_iter()
                .filter(|controller| controllers.enabled(*controller))
                .map(Controller::alias)
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(got, expected, "--controllers={flag}");
    }

    const ALL: &str = "cloud-node cloud-node-lifecycle route service";

    #[test]
    fn cli_20_21_canonical_names_and_aliases() {
        for controller in Controller::ALL {
            check(controller.name(), controller.alias());
            check(controller.alias(), controller.alias());
        }
        check(
            "service-loadbalancer",
            r#"error: "service-loadbalancer" is not in the list of known controllers"#,
        );
    }

    #[test]
    fn a_name_needs_no_controller_at_its_end() {
        for controller in Controller::ALL {
            let name = controller.name().trim_end_matches("-controller");
            check(name, controller.alias());
            check(&format!("-{name},{}", controller.name()), "");
        }
    }

    /// Another program may allocate, labels are legacy, and approvals need a right that the others do without.
    #[test]
    fn star_does_not_enable_what_an_operator_has_to_ask_for() {
        for (name, all) in [
            (
                "nodeipam",
                "cloud-node cloud-node-lifecycle nodeipam route service",
            ),
            (
                "persistentvolume-labels",
                "cloud-node cloud-node-lifecycle route persistentvolume-labels service",
            ),
            (
                "kubelet-serving-approving",
                "cloud-node cloud-node-lifecycle kubelet-serving-approving route service",
            ),
        ] {
            check(&format!("*,{name}"), all);
            check(&format!("{name},*"), all);
            check(&format!("*,-{name}"), ALL);
        }
    }

    #[test]
    fn cli_22_star_enables_and_minus_disables() {
        check("*", ALL);
        check("*,-service", "cloud-node cloud-node-lifecycle route");
        check("cloud-node,route", "cloud-node route");
    }

    #[test]
    fn cli_23_aliases_are_translated_with_and_without_the_minus() {
        check("*,-service,-route", "cloud-node cloud-node-lifecycle");
        check("-service,service-lb-controller", "");
        check("service-lb-controller,-service", "service");
    }

    #[test]
    fn cli_24_the_first_item_wins_and_the_star_may_stand_anywhere() {
        check("service,-service", "service");
        check("-service,service", "");
        check("-service,*", "cloud-node cloud-node-lifecycle route");
        check(
            "*,-service,service",
            "cloud-node cloud-node-lifecycle route",
        );
    }

    #[test]
    fn cli_25_without_a_star_the_rest_is_off() {
        check("", "");
        check("-service", "");
        check("-service,route", "route");
    }

    #[test]
    fn cli_26_unknown_names_are_errors_without_the_minus() {
        check(
            "foo",
            r#"error: "foo" is not in the list of known controllers"#,
        );
        check(
            "-foo",
            r#"error: "foo" is not in the list of known controllers"#,
        );
        check(
            "-*",
            r#"error: "*" is not in the list of known controllers"#,
        );
    }

    #[test]
    fn cli_70_webhooks_follow_the_same_rules() {
        let webhooks = |flag: &str| evaluate::<1>(&items(flag), &[], "webhooks");
        assert_eq!(webhooks("*"), Ok(vec![]));
        assert_eq!(
            webhooks("foo"),
            Err(r#""foo" is not in the list of known webhooks"#.into())
        );
    }
}
