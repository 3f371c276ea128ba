use outrigger_api::v1;

use crate::Service;
use crate::setters::setters;

/// Which Services are served, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadBalancersCapability {
    /// [`list_load_balancers`](crate::LoadBalancers::list_load_balancers) is implemented.
    pub list: bool,
    /// [`plan_load_balancer`](crate::LoadBalancers::plan_load_balancer) is implemented.
    pub plan: bool,
    /// Values of `spec.loadBalancerClass` that are served besides Services without a class. At most
    /// 64.
    pub classes: Vec<String>,
    /// Services without a class are not served, only those in [`classes`](Self::classes).
    pub without_default_class: bool,
    /// Load balancers that are changed at one time, by ensures, updates and deletions together; 0
    /// leaves it to the controller (16 calls). The server keeps to it too: beyond the end of a call whose
    /// caller went away, and within an update. 1 for code that was written for one at a time.
    pub max_in_flight: u32,
    /// Services in one update, 1 to 200. Default 100.
    pub max_services_per_update: u32,
    /// At most 64 bytes: names how a Service is turned into cloud resources. The controller ensures
    /// each load balancer again, slowly, when it changes. Equal over restarts of one binary with one
    /// configuration. If the load balancers are lost with the process, it names the process, by a UUID that is made at its start.
    /// Empty: upgrades never ensure again.
    pub configuration_revision: String,
    /// Keys of Node labels that a target is made of: a change of one of them leads to an update. At most 64.
    /// [`Node::labels`](crate::Node::labels) has all labels in any case.
    pub target_label_keys: Vec<String>,
    /// Services of one update that are worked on at a time, at most
    /// [`max_in_flight`](Self::max_in_flight). Not sent. Default 8; 0 is 1.
    pub concurrency: usize,
}

impl Default for LoadBalancersCapability {
    fn default() -> Self {
        Self {
            list: false,
            plan: false,
            classes: Vec::new(),
            without_default_class: false,
            max_in_flight: 0,
            max_services_per_update: 100,
            configuration_revision: String::new(),
            target_label_keys: Vec::new(),
            concurrency: 8,
        }
    }
}

impl LoadBalancersCapability {
    /// Returns whether Services of this one's class are served.
    pub(crate) fn serves(&self, service: &Service) -> bool {
        match &service.load_balancer_class {
            None => !self.without_default_class,
            Some(class) => self.classes.contains(class),
        }
    }

    pub(crate) fn to_wire(&self) -> v1::LoadBalancersCapability {
        v1::LoadBalancersCapability {
            list: self.list,
            plan: self.plan,
            classes: self.classes.clone(),
            without_default_class: self.without_default_class,
            max_in_flight: self.max_in_flight,
            max_services_per_update: self.max_services_per_update,
            configuration_revision: self.configuration_revision.clone(),
            target_label_keys: self.target_label_keys.clone(),
        }
    }
}

setters! { LoadBalancersCapability {
    with_classes => classes: Vec<String>,
    with_configuration_revision => configuration_revision: String,
    with_target_label_keys => target_label_keys: Vec<String>,
} }

setters! { plain LoadBalancersCapability {
    with_list => list: bool,
    with_plan => plan: bool,
    with_no_default_class => without_default_class: bool,
    with_max_in_flight => max_in_flight: u32,
    with_max_services_per_update => max_services_per_update: u32,
    with_concurrency => concurrency: usize,
} }
