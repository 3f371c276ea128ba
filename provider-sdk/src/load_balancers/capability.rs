use outrigger_api::v1;

use crate::Service;
use crate::setters::setters;

/// Which Services are served, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// is 16. The server keeps to it too, beyond the end of a call whose caller went away. 1 for code that was
    /// written for one at a time.
    pub max_in_flight: u32,
    /// At most 64 bytes: names how a Service is turned into cloud resources. The controller ensures
    /// each load balancer again, slowly, when it changes. Equal over restarts of one binary with one
    /// configuration. If the load balancers are lost with the process, it names the process, by a UUID that is made at its start.
    /// Empty: upgrades never ensure again.
    pub configuration_revision: String,
    /// Keys of Node labels that a target is made of: a change of one of them leads to an update. At most 64.
    /// [`Node::labels`](crate::Node::labels) has all labels in any case.
    pub target_label_keys: Vec<String>,
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
} }
