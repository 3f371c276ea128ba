//! Bad answers about one object: an instance, a load balancer, a route, a volume.

use outrigger_api::v1::{
    AbsenceCertainty, Absent, CreateRouteResponse, DeleteRouteResponse, GetVolumeResponse,
    Instance, LoadBalancerAnswer, LoadBalancerDisposition as D, LoadBalancerIngress,
    LoadBalancerStatus, NodeAddress, NotManaged, OwnedLoadBalancer, Route, get_volume_response,
    instance_result,
};
use prost_types::Duration;

use super::BadAnswer;

/// A destination that no route has.
const NO_CIDR: &str = "pods/24";

/// An address that no machine has.
const NO_IP: &str = "999.0.2.1/33";

const ZONE: &str = "topology.kubernetes.io/zone";

/// Something about one object that an answer can be wrong about.
pub(super) trait Spoil {
    /// Makes it so; what it cannot be stays as it is.
    fn spoil(&mut self, bad: BadAnswer);
}

fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

fn injected() -> String {
    "injected with provider-mock ctl answers".to_owned()
}

fn not_managed() -> NotManaged {
    NotManaged { reason: injected() }
}

/// An absence that is certain, of so long ago.
fn absent(age: Option<Duration>) -> Absent {
    Absent {
        certainty: AbsenceCertainty::Confirmed.into(),
        age,
        reason: injected(),
    }
}

fn address(kind: &str, address: &str) -> NodeAddress {
    NodeAddress {
        r#type: kind.to_owned(),
        address: address.to_owned(),
    }
}

/// A zone that is no label value, and a label of Kubernetes' own.
fn bad_label(labels: &mut std::collections::HashMap<String, String>) {
    let role = "node-role.kubernetes.io/control-plane".to_owned();
    labels.insert(role, String::new());
}

impl Spoil for instance_result::Outcome {
    fn spoil(&mut self, bad: BadAnswer) {
        match (bad, &mut *self) {
            (BadAnswer::NotManaged, _) => *self = Self::NotManaged(not_managed()),
            (BadAnswer::StaleAbsence, Self::Found(_)) => {
                *self = Self::Absent(absent(Some(seconds(3600))));
            }
            (BadAnswer::UncertainAbsence, Self::Found(_)) => {
                *self = Self::Absent(Absent::default());
            }
            (BadAnswer::FalseAbsence, Self::Found(_) | Self::NotManaged(_)) => {
                *self = Self::Absent(absent(None));
            }
            (_, Self::Found(instance)) => instance.spoil(bad),
            _ => {}
        }
    }
}

impl Spoil for Instance {
    fn spoil(&mut self, bad: BadAnswer) {
        let id = &mut self.provider_id;
        let scheme = id.split("://").next().unwrap_or_default().to_owned();
        match bad {
            BadAnswer::DuplicateProviderId => *id = format!("{scheme}://i-the-same-for-all"),
            BadAnswer::WrongPrefix => *id = id.replacen(&scheme, "another-cloud", 1),
            BadAnswer::OtherSpelling => *id = id.replacen("://", "://zone-a/", 1),
            BadAnswer::EmptyProviderId => id.clear(),
            BadAnswer::MalformedAddress => self.addresses.insert(0, address("InternalIP", NO_IP)),
            BadAnswer::HostnamesOnly => self.addresses.retain(|one| one.r#type == "Hostname"),
            BadAnswer::OversizedStrings => {
                *id = format!("{scheme}://{}", "i".repeat(2_000));
                self.zone = "z".repeat(2_000);
                let hostname = address("Hostname", &"h".repeat(2_000));
                self.addresses.push(hostname);
            }
            BadAnswer::MalformedCidr => self.pod_cidrs = vec![NO_CIDR.to_owned()],
            BadAnswer::BadLabel => {
                "no label value!".clone_into(&mut self.zone);
                bad_label(&mut self.additional_labels);
            }
            _ => {}
        }
    }
}

impl Spoil for LoadBalancerAnswer {
    fn spoil(&mut self, bad: BadAnswer) {
        match bad {
            BadAnswer::MissingDisposition => self.set_disposition(D::Unspecified),
            BadAnswer::NotManaged => self.set_disposition(D::NotManaged),
            BadAnswer::FalseAbsence => self.set_disposition(D::Absent),
            BadAnswer::MissingStatus => {
                self.set_disposition(D::Ready);
                self.status = None;
            }
            BadAnswer::FarRetry => {
                self.set_disposition(D::InProgress);
                self.retry_after = Some(seconds(3_600_000));
            }
            BadAnswer::InProgressWithoutStatus => {
                self.set_disposition(D::InProgress);
                self.status = Some(LoadBalancerStatus::default());
                self.retry_after = Some(seconds(5));
            }
            BadAnswer::MalformedAddress => self.status.get_or_insert_default().spoil(bad),
            BadAnswer::OversizedStrings => {
                self.status.get_or_insert_default().spoil(bad);
                self.message = "m".repeat(100_000);
            }
            _ => {}
        }
    }
}

impl Spoil for LoadBalancerStatus {
    fn spoil(&mut self, bad: BadAnswer) {
        let mut ingress = LoadBalancerIngress::default();
        if bad == BadAnswer::MalformedAddress {
            NO_IP.clone_into(&mut ingress.ip);
        } else {
            ingress.hostname = "h".repeat(2_000);
        }
        self.ingress.insert(0, ingress);
    }
}

impl Spoil for OwnedLoadBalancer {
    fn spoil(&mut self, bad: BadAnswer) {
        self.status.get_or_insert_default().spoil(bad);
    }
}

impl Spoil for CreateRouteResponse {
    fn spoil(&mut self, bad: BadAnswer) {
        self.found.iter_mut().for_each(|route| route.spoil(bad));
    }
}

impl Spoil for DeleteRouteResponse {
    fn spoil(&mut self, _: BadAnswer) {
        if let Some(absent) = &mut self.absent {
            absent.reason = "m".repeat(100_000);
        }
    }
}

impl Spoil for Route {
    fn spoil(&mut self, bad: BadAnswer) {
        match bad {
            BadAnswer::MalformedCidr => NO_CIDR.clone_into(&mut self.destination_cidr),
            BadAnswer::MalformedAddress => {
                NO_IP.clone_into(&mut self.next_hop_ip);
                self.node_addresses.push(address("InternalIP", NO_IP));
            }
            BadAnswer::OversizedStrings => {
                self.name = "r".repeat(2_000);
                self.node_name = "n".repeat(2_000);
            }
            _ => {}
        }
    }
}

impl Spoil for GetVolumeResponse {
    fn spoil(&mut self, bad: BadAnswer) {
        use get_volume_response::Outcome;
        if bad == BadAnswer::NotManaged {
            self.outcome = Some(Outcome::NotManaged(not_managed()));
            return;
        }
        let Some(Outcome::Found(topology)) = &mut self.outcome else {
            return;
        };
        match bad {
            BadAnswer::FalseAbsence => self.outcome = Some(Outcome::Absent(absent(None))),
            BadAnswer::BadLabel => {
                let zone = "no label value!".to_owned();
                topology.labels.insert(ZONE.to_owned(), zone);
                bad_label(&mut topology.labels);
            }
            BadAnswer::OversizedStrings => {
                topology.labels.insert(ZONE.to_owned(), "z".repeat(2_000));
            }
            _ => {}
        }
    }
}
