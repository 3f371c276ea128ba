//! Options that mean the same in every cloud, as far as the kernel has them.

use std::fmt;

use outrigger_provider_sdk::{
    Error,
    v1::{
        HealthCheckCapability, HealthCheckProtocol, LoadBalancerOptionsCapability,
        LoadBalancerScheme as Scheme, Service,
    },
};

/// A check is part of a comment in nftables, of at most 127 bytes.
const PATH_BYTES: usize = 100;

/// How a target is asked for its health.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The port of the target.
    pub port: u16,
    /// The path of `GET`; `None`: a connection is enough.
    pub path: Option<String>,
}

impl Check {
    /// The question that kube-proxy answers on this port.
    pub fn of_kube_proxy(port: u16) -> Self {
        Self {
            port,
            path: Some("/healthz".to_owned()),
        }
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (port, path) = match text.split_once(' ') {
            Some((port, path)) => (port, Some(path.to_owned())),
            None => (text, None),
        };
        let port = port.parse().ok()?;
        Some(Self { port, path })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} {path}", self.port),
            None => write!(f, "{}", self.port),
        }
    }
}

/// The options that are served. A load balancer can be internal where it is known which links are the machines'.
pub fn served(has_internal_links: bool) -> LoadBalancerOptionsCapability {
    let schemes = [Scheme::InternetFacing, Scheme::Internal];
    let schemes = schemes.map(i32::from).into_iter();
    LoadBalancerOptionsCapability {
        schemes: schemes.take(1 + usize::from(has_internal_links)).collect(),
        max_requested_addresses: 2,
        health_check: Some(HealthCheckCapability {
            protocols: [HealthCheckProtocol::Tcp, HealthCheckProtocol::Http]
                .map(i32::from)
                .into(),
            ..HealthCheckCapability::default()
        }),
        ..LoadBalancerOptionsCapability::default()
    }
}

/// Returns whether the Service asks for an internal load balancer.
pub fn is_internal(service: &Service) -> bool {
    let options = service.load_balancer_options.as_ref();
    options.is_some_and(|options| options.scheme() == Scheme::Internal)
}

/// The health check that the user of a Service asks for.
///
/// # Errors
///
/// Its path does not fit into nftables.
pub fn check(service: &Service) -> Result<Option<Check>, Error> {
    let options = service.load_balancer_options.iter();
    let mut checks = options.flat_map(|options| &options.health_check);
    let Some(check) = checks.find(|check| !check.implied) else {
        return Ok(None);
    };
    let port = u16::try_from(check.port)
        .map_err(|_| Error::invalid_request(format!("there is no port {}", check.port)))?;
    let has_path = check.protocol() != HealthCheckProtocol::Tcp;
    if check.path.len() > PATH_BYTES || check.path.contains('"') {
        return Err(Error::unsupported_feature(format!(
            "the path of a health check has at most {PATH_BYTES} bytes and no quotation mark here: {}",
            check.path
        )));
    }
    let path = has_path.then(|| check.path.clone());
    Ok(Some(Check { port, path }))
}

#[cfg(test)]
mod tests;
