//! A route table in a cloud, and how its provider lists it.

use crate::{
    cidr::Cidr,
    fixture::{addresses, cidr, raw_route},
    node::NodeAddress,
    route::{ObservedRoute, RawRoute, WantedRoute},
};

#[derive(Default)]
pub(super) struct Cloud {
    routes: Vec<CloudRoute>,
    names: u32,
}

/// A route as the cloud knows it.
struct CloudRoute {
    name: String,
    destination: Cidr,
    node_name: String,
    provider_id: String,
    node_addresses: Vec<NodeAddress>,
    is_blackhole: bool,
}

pub(super) enum Request {
    Create(WantedRoute),
    Delete(ObservedRoute),
}

impl Request {
    pub(super) fn destination(&self) -> Cidr {
        match self {
            Self::Create(desired) => desired.destination,
            Self::Delete(route) => route.destination(),
        }
    }
}

/// Provider ID and address.
pub(super) fn machine(name: &str) -> (String, String) {
    let number = name.trim_start_matches('m');
    (format!("cloud://{name}"), format!("192.168.0.{number}"))
}

impl CloudRoute {
    /// The route as the provider lists it: by name, provider ID or next hop of the target, or by several.
    fn shown(&self, style: u8) -> ObservedRoute {
        let has = |styles: &[u8], text: &str| {
            let shown = Some(text).filter(|_| styles.contains(&style));
            shown.unwrap_or_default().to_owned()
        };
        let machine = self.provider_id.trim_start_matches("cloud://");
        let raw = RawRoute {
            name: self.name.clone(),
            node_name: has(&[0, 3, 4, 5], &self.node_name),
            provider_id: has(&[1, 3], &self.provider_id),
            next_hop_ip: has(&[2, 5], &self::machine(machine).1),
            node_addresses: self.node_addresses.clone(),
            compares_addresses: style == 4,
            is_blackhole: self.is_blackhole,
            ..raw_route(&self.destination.to_string(), "")
        };
        raw.check().unwrap()
    }
}

impl Cloud {
    pub(super) fn list(&self, style: u8) -> Vec<ObservedRoute> {
        self.routes.iter().map(|route| route.shown(style)).collect()
    }

    /// Deletes the route to this Node, or makes one to some machine.
    pub(super) fn other_client(
        &mut self,
        node: &str,
        destination: &str,
        machine: u8,
        is_blackhole: bool,
    ) {
        let destination = cidr(destination);
        let before = self.routes.len();
        self.routes
            .retain(|route| route.destination != destination || route.node_name != node);
        if self.routes.len() == before {
            let (provider_id, address) = self::machine(&format!("m{machine}"));
            self.names += 1;
            self.routes.push(CloudRoute {
                name: format!("other-{}", self.names),
                destination,
                node_name: node.to_owned(),
                provider_id,
                node_addresses: addresses(&format!("InternalIP={address}")).into(),
                is_blackhole,
            });
        }
    }

    /// An error: another route with this destination is there.
    pub(super) fn carry_out(&mut self, request: &Request, style: u8) -> Result<(), ()> {
        let desired = match request {
            Request::Delete(route) => {
                let raw = route.raw();
                let is_meant = |other: &CloudRoute| match &*raw.name {
                    "" => {
                        other.destination == route.destination()
                            && other.node_name == raw.node_name
                            && other.provider_id == raw.provider_id
                    }
                    name => other.name == name,
                };
                self.routes.retain(|other| !is_meant(other));
                return Ok(());
            }
            Request::Create(desired) => desired,
        };
        let is_wanted = |route: &CloudRoute| {
            *route.node_name == *desired.node_name
                && *route.provider_id == *desired.provider_id
                && (*route.node_addresses == *desired.node_addresses || style != 4)
                && !route.is_blackhole
        };
        let there = self.routes.iter();
        let there = there.filter(|route| route.destination == desired.destination);
        let there: Vec<_> = there.collect();
        if there.iter().any(|route| is_wanted(route)) {
            return Ok(());
        }
        if !there.is_empty() {
            return Err(());
        }
        self.names += 1;
        self.routes.push(CloudRoute {
            name: format!("ours-{}", self.names),
            destination: desired.destination,
            node_name: desired.node_name.to_string(),
            provider_id: desired.provider_id.to_string(),
            node_addresses: desired.node_addresses.to_vec(),
            is_blackhole: false,
        });
        Ok(())
    }
}
