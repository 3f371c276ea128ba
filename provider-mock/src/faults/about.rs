//! The object that a message is about, and the faults that concern it.

use outrigger_api::v1;
use prost_reflect::{DynamicMessage, ReflectMessage as _};

use super::{Fault, Method, Objects};
use crate::cidr::Cidr;
use crate::instances::NodeName;
use crate::journal::ServiceName;
use crate::message::{text, values};
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

impl About {
    /// The object of a message that is about one.
    pub(super) fn of(message: &DynamicMessage) -> Self {
        let text = |path: &str| {
            let mut hits = Vec::new();
            values(message, path, &mut hits);
            hits.first().map(text).unwrap_or_default()
        };
        match message.descriptor().name() {
            "Node" => Self::node(&text("name")),
            "Instance" => Self::node(&text("node_name")),
            "Service" => Self::service(&text("namespace"), &text("name"), &text("uid")),
            "OwnedLoadBalancer" if message.has_field_by_name("service") => Self::service(
                &text("service.namespace"),
                &text("service.name"),
                &text("service.uid"),
            ),
            "Route" => Self {
                route: text("destination_cidr").parse().ok().map(Cidr::network),
                ..Self::node(&text("node_name"))
            },
            "Volume" => {
                let volume: v1::Volume = message.transcode_to().unwrap_or_default();
                let source = volume.source.and_then(|source| source.source);
                Self {
                    volume: source.as_ref().map(|source| handle_in(source).to_owned()),
                    ..Self::default()
                }
            }
            _ => Self::default(),
        }
    }

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
