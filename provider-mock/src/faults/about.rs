//! The object that a message is about, and the faults that concern it.

use outrigger_api::v1;

use super::{Fault, Method, Objects};
use crate::cidr::Cidr;
use crate::instances::NodeName;
use crate::journal::ServiceName;
use crate::volumes::handle_in;

/// The object that an item, a result or an entry of a list is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    node: Option<String>,
    pub(crate) service: Option<ServiceName>,
    /// The destination of a route, without host bits.
    pub(crate) route: Option<Cidr>,
    /// The handle of a volume.
    volume: Option<String>,
}

/// A message about one object.
pub(super) trait Named {
    fn about(&self) -> About;
}

impl Named for v1::Node {
    fn about(&self) -> About {
        About::node(&self.name)
    }
}

impl Named for v1::Instance {
    fn about(&self) -> About {
        About::node(&self.node_name)
    }
}

impl Named for v1::Service {
    fn about(&self) -> About {
        About::service(&self.namespace, &self.name, &self.uid)
    }
}

impl Named for v1::OwnedLoadBalancer {
    fn about(&self) -> About {
        let service = self.service.as_ref();
        service.map_or_else(About::default, |service| {
            About::service(&service.namespace, &service.name, &service.uid)
        })
    }
}

impl Named for v1::Route {
    fn about(&self) -> About {
        About {
            route: self.destination_cidr.parse().ok().map(Cidr::network),
            ..About::node(&self.node_name)
        }
    }
}

impl Named for v1::Volume {
    fn about(&self) -> About {
        let source = self
            .source
            .as_ref()
            .and_then(|source| source.source.as_ref());
        About {
            volume: source.map(handle_in),
            ..About::default()
        }
    }
}

impl About {
    fn node(name: &str) -> Self {
        Self {
            node: Some(name.to_owned()),
            ..Self::default()
        }
    }

    fn service(namespace: &str, name: &str, uid: &str) -> Self {
        let name = format!("{namespace}/{name}");
        let uid = uid.to_owned();
        Self {
            service: Some(ServiceName { name, uid }),
            ..Self::default()
        }
    }
}

impl Fault {
    pub(super) fn is_about(&self, about: &About) -> bool {
        let node = self.node.as_ref().map(NodeName::as_str);
        let service = self.service.as_ref().is_none_or(|selector| {
            let service = about.service.as_ref();
            service.is_some_and(|tag| tag.name == *selector || tag.uid == *selector)
        });
        let route = self.route.map(Cidr::network);
        (node.is_none() || about.node.as_deref() == node)
            && service
            && (route.is_none() || about.route == route)
            && (self.volume.is_none() || about.volume == self.volume)
    }

    /// True if it is about a whole call. A batch as a whole is not about one Service.
    pub(super) fn is_about_call(&self, method: Method, objects: &Objects) -> bool {
        if objects.is_empty() {
            return self.is_about(&About::default());
        }
        let of_one = self.service.is_none() || !method.is_batch();
        of_one && objects.iter().any(|(_, about)| self.is_about(about))
    }
}
