//! Answers that no provider should send and every caller must survive.

use std::fmt;
use std::str::FromStr;

use outrigger_api::v1::{
    AbsenceCertainty, Instance, InstanceAbsent, InstanceNotManaged, InstanceResult, NodeAddress,
    instance_result::Outcome,
};
use serde::{Deserialize, Serialize};

use super::Method;

/// Defects of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadAnswer {
    /// Each instance found has the same provider ID.
    DuplicateProviderId,
    /// Each instance found has an `InternalIP` that is no IP address; so has each load balancer.
    MalformedAddress,
    /// The message is larger than the caller accepts.
    OversizedReply,
    /// Each instance found has an id, a zone and an address beyond the limits of the contract, each volume a
    /// label.
    OversizedStrings,
    /// A node, Service, route or volume that was asked about has no result; a listed route is left out.
    MissingResult,
    /// A node, Service, route or volume has two results, or is listed twice.
    DuplicateResult,
    /// Each instance or volume found has a zone that is no label value, and a label of Kubernetes' own.
    BadLabel,
    /// Each instance found has the provider ID of another provider.
    WrongPrefix,
    /// Each instance found has its provider ID in another spelling of the same machine, which is legal.
    OtherSpelling,
    /// Each instance found has no provider ID.
    EmptyProviderId,
    /// Each instance found is absent for sure, by an observation of an hour ago.
    StaleAbsence,
    /// Each instance found is absent, with neither certainty nor age.
    UncertainAbsence,
    /// Each node, Service or volume is answered as managed by another provider.
    NotManaged,
    /// Each result has no outcome, an answer has nothing at all; a list is cut off before its end.
    Empty,
    /// A load balancer has no disposition.
    MissingDisposition,
    /// A load balancer is ready and has no status.
    MissingStatus,
    /// A load balancer or volume that exists is absent.
    FalseAbsence,
    /// A load balancer is in progress, to be asked for again in a thousand hours.
    FarRetry,
    /// A load balancer is in progress and has an empty status.
    InProgressWithoutStatus,
    /// There is a result for a Service, a route or a volume that was not asked about.
    ForeignResult,
    /// The destination of a route, or a Pod CIDR of an instance, is none: a result is then for no route
    /// that was asked about.
    MalformedCidr,
}

impl BadAnswer {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::DuplicateProviderId,
        Self::MalformedAddress,
        Self::OversizedReply,
        Self::OversizedStrings,
        Self::MissingResult,
        Self::DuplicateResult,
        Self::BadLabel,
        Self::WrongPrefix,
        Self::OtherSpelling,
        Self::EmptyProviderId,
        Self::StaleAbsence,
        Self::UncertainAbsence,
        Self::NotManaged,
        Self::Empty,
        Self::MissingDisposition,
        Self::MissingStatus,
        Self::FalseAbsence,
        Self::FarRetry,
        Self::InProgressWithoutStatus,
        Self::ForeignResult,
        Self::MalformedCidr,
    ];

    /// As on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateProviderId => "duplicate-provider-id",
            Self::MalformedAddress => "malformed-address",
            Self::OversizedReply => "oversized-reply",
            Self::OversizedStrings => "oversized-strings",
            Self::MissingResult => "missing-result",
            Self::DuplicateResult => "duplicate-result",
            Self::BadLabel => "bad-label",
            Self::WrongPrefix => "wrong-prefix",
            Self::OtherSpelling => "other-spelling",
            Self::EmptyProviderId => "empty-provider-id",
            Self::StaleAbsence => "stale-absence",
            Self::UncertainAbsence => "uncertain-absence",
            Self::NotManaged => "not-managed",
            Self::Empty => "empty",
            Self::MissingDisposition => "missing-disposition",
            Self::MissingStatus => "missing-status",
            Self::FalseAbsence => "false-absence",
            Self::FarRetry => "far-retry",
            Self::InProgressWithoutStatus => "in-progress-without-status",
            Self::ForeignResult => "foreign-result",
            Self::MalformedCidr => "malformed-cidr",
        }
    }

    /// Whether answers of a method can be so.
    pub(crate) fn fits(self, method: Method) -> bool {
        use Method::{
            BatchGetInstances, DeleteLoadBalancer, EnsureLoadBalancer, GetLoadBalancer,
            ListInstances, ListLoadBalancers, ListRoutes, PlanLoadBalancer,
            UpdateLoadBalancerNodes,
        };
        let instances = matches!(method, BatchGetInstances | ListInstances);
        let routes = method.is_about_routes();
        let volumes = method.is_about_volumes();
        let described = {
            let none = matches!(method, DeleteLoadBalancer | PlanLoadBalancer);
            instances || (method.is_about_services() && !none)
        };
        match self {
            Self::OversizedReply => instances || routes || volumes || method.is_about_services(),
            Self::Empty => {
                let services = method.is_about_services() && method != PlanLoadBalancer;
                instances || routes || volumes || services
            }
            Self::MalformedAddress => described || method == ListRoutes,
            Self::OversizedStrings => described || routes || volumes,
            Self::MissingResult | Self::DuplicateResult => {
                let services = matches!(method, UpdateLoadBalancerNodes | ListLoadBalancers);
                instances || routes || volumes || services
            }
            Self::MalformedCidr => instances || routes,
            Self::NotManaged => instances || volumes || method.is_about_one_service(),
            Self::BadLabel => instances || volumes,
            Self::DuplicateProviderId
            | Self::WrongPrefix
            | Self::OtherSpelling
            | Self::EmptyProviderId
            | Self::StaleAbsence
            | Self::UncertainAbsence => instances,
            Self::MissingDisposition => method.is_about_one_service(),
            Self::MissingStatus | Self::InProgressWithoutStatus => {
                matches!(method, GetLoadBalancer | EnsureLoadBalancer)
            }
            Self::FalseAbsence => {
                volumes || matches!(method, GetLoadBalancer | UpdateLoadBalancerNodes)
            }
            Self::FarRetry => method.is_about_one_service() && method != GetLoadBalancer,
            Self::ForeignResult => {
                method == UpdateLoadBalancerNodes || volumes || (routes && method != ListRoutes)
            }
        }
    }

    /// Spoils the results of a batch.
    pub(crate) fn spoil_results(
        self,
        results: &mut Vec<InstanceResult>,
        concerns: impl Fn(&str) -> bool,
    ) {
        match self {
            Self::MissingResult => results.retain(|result| !concerns(&result.node_name)),
            Self::DuplicateResult => {
                let twins: Vec<_> = results
                    .iter()
                    .filter(|result| concerns(&result.node_name))
                    .cloned()
                    .collect();
                results.extend(twins);
            }
            _ => {
                for result in results
                    .iter_mut()
                    .filter(|result| concerns(&result.node_name))
                {
                    self.spoil_outcome(&mut result.outcome);
                }
            }
        }
    }

    fn spoil_outcome(self, outcome: &mut Option<Outcome>) {
        match (self, outcome) {
            (Self::NotManaged, outcome) => {
                *outcome = Some(Outcome::NotManaged(InstanceNotManaged {
                    reason: "injected with provider-mock ctl answers".to_owned(),
                }));
            }
            (Self::Empty, outcome) => *outcome = None,
            (Self::StaleAbsence, outcome @ Some(Outcome::Found(_))) => {
                *outcome = Some(Outcome::Absent(InstanceAbsent {
                    certainty: AbsenceCertainty::Confirmed.into(),
                    age: Some(prost_types::Duration {
                        seconds: 3600,
                        nanos: 0,
                    }),
                }));
            }
            (Self::UncertainAbsence, outcome @ Some(Outcome::Found(_))) => {
                *outcome = Some(Outcome::Absent(InstanceAbsent::default()));
            }
            (_, Some(Outcome::Found(instance))) => self.spoil_instance(instance),
            _ => {}
        }
    }

    /// Spoils a part of a list.
    pub(crate) fn spoil_list(
        self,
        instances: &mut Vec<Instance>,
        complete: &mut bool,
        concerns: impl Fn(&str) -> bool,
    ) {
        match self {
            Self::MissingResult
            | Self::StaleAbsence
            | Self::UncertainAbsence
            | Self::NotManaged => {
                instances.retain(|instance| !concerns(&instance.node_name));
            }
            Self::DuplicateResult => {
                let twins: Vec<_> = instances
                    .iter()
                    .filter(|one| concerns(&one.node_name))
                    .cloned()
                    .collect();
                instances.extend(twins);
            }
            Self::Empty => {
                instances.clear();
                *complete = false;
            }
            _ => instances
                .iter_mut()
                .filter(|instance| concerns(&instance.node_name))
                .for_each(|instance| self.spoil_instance(instance)),
        }
    }

    fn spoil_instance(self, instance: &mut Instance) {
        let scheme = instance
            .provider_id
            .split("://")
            .next()
            .unwrap_or_default()
            .to_owned();
        match self {
            Self::DuplicateProviderId => {
                instance.provider_id = format!("{scheme}://i-the-same-for-all");
            }
            Self::WrongPrefix => {
                instance.provider_id = instance.provider_id.replacen(&scheme, "another-cloud", 1);
            }
            Self::OtherSpelling => {
                instance.provider_id = instance.provider_id.replacen("://", "://zone-a/", 1);
            }
            Self::EmptyProviderId => instance.provider_id.clear(),
            Self::MalformedAddress => {
                instance.addresses.insert(0, internal_ip("999.0.2.1/33"));
            }
            Self::OversizedStrings => {
                instance.provider_id = format!("{scheme}://{}", "i".repeat(2_000));
                instance.zone = "z".repeat(2_000);
                instance.addresses.push(NodeAddress {
                    r#type: "Hostname".to_owned(),
                    address: "h".repeat(2_000),
                });
            }
            Self::MalformedCidr => instance.pod_cidrs = vec!["pods/24".to_owned()],
            Self::BadLabel => {
                "no label value!".clone_into(&mut instance.zone);
                instance.additional_labels.insert(
                    "node-role.kubernetes.io/control-plane".to_owned(),
                    String::new(),
                );
            }
            _ => {}
        }
    }
}

fn internal_ip(address: &str) -> NodeAddress {
    NodeAddress {
        r#type: "InternalIP".to_owned(),
        address: address.to_owned(),
    }
}

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for BadAnswer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|bad| bad.as_str() == text)
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::as_str).join(", ");
                format!("{text:?} is no bad answer; use one of {known}")
            })
    }
}
