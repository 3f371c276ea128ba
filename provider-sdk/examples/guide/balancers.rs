//! The load balancers of the cloud, in memory: lost with the process, so that it is volatile.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use outrigger_provider_sdk::{
    Address, Answer, Context, Deleted, Ensured, Error, Ingress, IngressPoint, LoadBalancer,
    LoadBalancers, LoadBalancersCapability, Observed, Service, Targets, Updated,
};

#[derive(Clone, PartialEq)]
struct Spec {
    ports: Vec<String>,
    sources: Vec<String>,
    health_check: i32,
    targets: Vec<Address>,
}

struct Balancer {
    address: IpAddr,
    spec: Spec,
}

impl Balancer {
    fn described(&self) -> LoadBalancer {
        LoadBalancer::new(self.address.to_string()).with_ingress([Ingress::ip(self.address)])
    }
}

#[derive(Default)]
pub(crate) struct Balancers(Mutex<BTreeMap<String, Balancer>>);

impl Balancers {
    /// A call of the cloud's API: all load balancers, by their tag.
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Balancer>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LoadBalancers for Balancers {
    fn capability(&self) -> LoadBalancersCapability {
        LoadBalancersCapability::default().with_volatile(true)
    }

    async fn get_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        let tag = tag_of(ctx, service)?;
        self.with(|made| {
            let Some(balancer) = made.get(&tag) else {
                return Ok(Observed::Absent.into());
            };
            let targets = targets.map_or_else(|| balancer.spec.targets.clone(), addresses);
            if spec_of(service, targets)? == balancer.spec {
                return Ok(Observed::Ready(balancer.described()).into());
            }
            let differs = Answer::from(Observed::Differs(balancer.described()));
            Ok(differs.because(
                "NotAsWanted",
                "It was made for another spec or other targets",
            ))
        })
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        let tag = tag_of(ctx, service)?;
        let spec = spec_of(service, addresses(targets))?;
        // Before each change of the cloud: the caller may be gone.
        ctx.check()?;
        self.with(|made| {
            let address = match made.get(&tag) {
                Some(balancer) => balancer.address,
                None => free(made, service, ctx.held_addresses().unwrap_or_default())?,
            };
            let balancer = Balancer { address, spec };
            let described = balancer.described();
            made.insert(tag, balancer);
            Ok(Ensured::Ready(described).into())
        })
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        let tag = tag_of(ctx, service)?;
        ctx.check()?;
        let updated = self.with(|made| match made.get_mut(&tag) {
            None => Updated::Absent,
            Some(balancer) => {
                balancer.spec.targets = addresses(targets);
                Updated::ready(None)
            }
        });
        Ok(updated.into())
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        let tag = tag_of(ctx, service)?;
        ctx.check()?;
        self.with(|made| made.remove(&tag));
        Ok(Deleted::Absent.into())
    }
}

/// Written in the call that creates. It is all that finds the load balancer again.
fn tag_of(ctx: &Context, service: &Service) -> Result<String, Error> {
    match ctx.cluster().uid.as_str() {
        "" => Err(Error::invalid_request(
            "the call has no cluster_uid to tag with",
        )),
        cluster => Ok(format!("{cluster}/{}", service.uid)),
    }
}

/// The one translation of a Service, for Get and Ensure. An error is shown on the Service.
fn spec_of(service: &Service, targets: Vec<Address>) -> Result<Spec, Error> {
    let refuse = |text: &str| {
        Err(Error::unsupported_feature(format!(
            "this cloud has no {text}"
        )))
    };
    let wants_ipv6 = service
        .ip_families
        .first()
        .is_some_and(|family| family == "IPv6");
    if !service.load_balancer_ip.is_empty() {
        return refuse("choice of addresses");
    }
    if service.session_affinity == "ClientIP" {
        return refuse("session affinity");
    }
    if wants_ipv6 || service.ip_family_policy == "RequireDualStack" {
        return refuse("IPv6");
    }
    let mut ports = Vec::new();
    for port in &service.ports {
        let text = format!("{}/{}", port.protocol, port.port);
        if port.protocol != "TCP" {
            return Err(Error::unsupported_protocol(format!(
                "{text} cannot be served"
            )));
        }
        if port.node_port == 0 {
            return refuse("way to a port without a node port");
        }
        ports.push(format!("{text} to {}", port.node_port));
    }
    Ok(Spec {
        ports,
        sources: service.load_balancer_source_ranges.clone(),
        health_check: service.health_check_node_port,
        targets,
    })
}

fn addresses(targets: &Targets) -> Vec<Address> {
    let all = targets.iter().flat_map(|node| &node.addresses);
    let internal = all.filter(|address| matches!(address, Address::InternalIp(_)));
    internal.cloned().collect()
}

/// The address that the Service had with an earlier process if no other one has it, else any that is free;
/// none of `held`, which other Services have.
fn free(
    made: &BTreeMap<String, Balancer>,
    service: &Service,
    held: &[IpAddr],
) -> Result<IpAddr, Error> {
    let pool = || (1..=254).map(|last| IpAddr::from(Ipv4Addr::new(198, 51, 100, last)));
    let former = service
        .ingress
        .iter()
        .filter_map(|point| match point.point {
            IngressPoint::Ip { ip, .. } => pool().find(|address| *address == ip),
            _ => None,
        });
    let is_used = |ip: &IpAddr| held.contains(ip) || made.values().any(|one| one.address == *ip);
    let free = former.chain(pool()).find(|ip| !is_used(ip));
    free.ok_or_else(|| Error::quota_exceeded("no address of 198.51.100.0/24 is free"))
}
