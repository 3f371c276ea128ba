//! Validation of a provider's answers about load balancers: a [`LoadBalancerAnswer`], or an error.
//!
//! The provider client calls [`RawAnswer::check`] with the call that was sent, since not every disposition answers every
//! call. Nothing reaches the API server unless it is legal there (see [`crate::node::answer`]), and a refusal is an error
//! of that one Service: never is it read as absence.

use std::{net::IpAddr, time::Duration};

use super::{Ingress, PortStatus};
use crate::{
    effects::Effects,
    error_class::{DELETION_WAIT, KEY_WAIT},
    fault::{Fault, few, legal},
    forbidden_addresses::ForbiddenAddresses,
    syntax::{self, Complaint},
    text,
};

/// Entries of one status.
pub const MAX_INGRESS: usize = 64;
/// Ports of one entry.
pub const MAX_PORTS: usize = 128;
/// Bytes of one status.
pub const MAX_STATUS: usize = 32 << 10;

/// Bytes of a port in a status, beside its protocol and error.
const PORT_BYTES: usize = 24;

const RETRY_DEFAULT: Duration = Duration::from_secs(10);

/// The call that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalancerCall {
    /// `GetLoadBalancer`.
    Get,
    /// `EnsureLoadBalancer`.
    Ensure,
    /// `UpdateLoadBalancerNodes`.
    Update,
    /// `DeleteLoadBalancer`.
    Delete,
}

impl LoadBalancerCall {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "GetLoadBalancer",
            Self::Ensure => "EnsureLoadBalancer",
            Self::Update => "UpdateLoadBalancerNodes",
            Self::Delete => "DeleteLoadBalancer",
        }
    }
}

/// State of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// In the desired state.
    Ready,
    /// Accepted; to be asked again.
    InProgress,
    /// Another controller's (S-34).
    NotManaged,
    /// No part of it is left.
    Absent,
    /// Kept on purpose, by a delete.
    Retained,
    /// It exists, but an ensure would change it.
    Differs,
}

impl Disposition {
    /// Its name in snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::InProgress => "in_progress",
            Self::NotManaged => "not_managed",
            Self::Absent => "absent",
            Self::Retained => "retained",
            Self::Differs => "differs",
        }
    }

    fn answers(self, call: LoadBalancerCall) -> bool {
        match self {
            Self::InProgress | Self::NotManaged => true,
            Self::Ready => call != LoadBalancerCall::Delete,
            Self::Absent => call != LoadBalancerCall::Ensure,
            Self::Retained => call == LoadBalancerCall::Delete,
            Self::Differs => call == LoadBalancerCall::Get,
        }
    }
}

/// An answer as it arrives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawAnswer {
    /// The disposition; `None` if it is unspecified, or a value of a later contract.
    pub disposition: Option<Disposition>,
    /// `status.ingress`, if there is a status.
    pub ingress: Option<Vec<Ingress>>,
    /// See [`LoadBalancerAnswer::address_elsewhere`].
    pub address_elsewhere: bool,
    /// See [`LoadBalancerAnswer::retry_after`].
    pub retry_after: Option<Duration>,
    /// See [`LoadBalancerAnswer::reason`].
    pub reason: String,
    /// See [`LoadBalancerAnswer::message`].
    pub message: String,
}

/// An answer that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancerAnswer {
    /// A disposition that the call can have.
    pub disposition: Disposition,
    /// The whole status of the load balancer, never empty; none leaves the Service's as it is.
    pub ingress: Option<Box<[Ingress]>>,
    /// There is no address, and it is not the provider's to say: another program writes the Service's status, or nothing does.
    pub address_elsewhere: bool,
    /// When to ask again, with `InProgress`: within [`KEY_WAIT`], of a deletion [`DELETION_WAIT`].
    pub retry_after: Duration,
    /// The reason of the Service's condition, CamelCase; may be empty.
    pub reason: Box<str>,
    /// The message of the Service's condition; may be empty.
    pub message: Box<str>,
    /// To be written for the provider; none until those of the answer are added.
    pub effects: Effects,
}

impl RawAnswer {
    /// The answer to `call`, if every part of it is legal.
    pub fn check(
        self,
        call: LoadBalancerCall,
        forbidden: &ForbiddenAddresses,
    ) -> Result<LoadBalancerAnswer, Fault> {
        let disposition = self
            .disposition
            .filter(|disposition| disposition.answers(call))
            .ok_or_else(|| unexpected(call, self.disposition))?;
        // The zero value of a status changes nothing.
        let mut ingress = self.ingress.filter(|ingress| !ingress.is_empty());
        let address_elsewhere = self.address_elsewhere && ingress.is_none();
        if call == LoadBalancerCall::Ensure
            && disposition == Disposition::Ready
            && ingress.is_none()
            && !address_elsewhere
        {
            return Err(Fault::new(
                "the provider answered EnsureLoadBalancer with READY and without an address in \
                 status.ingress; as long as there is none, the answer is IN_PROGRESS, or it is another program's \
                 (address_elsewhere)",
            ));
        }
        if !self.reason.is_empty() {
            legal("reason", &self.reason, syntax::reason)?;
        }
        if let Some(ingress) = &mut ingress {
            few("status.ingress", ingress.len(), MAX_INGRESS)?;
            for (at, entry) in ingress.iter_mut().enumerate() {
                check_entry(at, entry, forbidden)?;
            }
            check_size(ingress)?;
        }
        let retry_after = self.retry_after.unwrap_or(RETRY_DEFAULT);
        Ok(LoadBalancerAnswer {
            disposition,
            ingress: ingress.map(Into::into),
            address_elsewhere,
            retry_after: match call {
                LoadBalancerCall::Delete => DELETION_WAIT.clamp(retry_after),
                LoadBalancerCall::Get | LoadBalancerCall::Ensure | LoadBalancerCall::Update => {
                    KEY_WAIT.clamp(retry_after)
                }
            },
            reason: self.reason.into(),
            message: text::message(&self.message).into(),
            effects: Effects::default(),
        })
    }
}

/// No disposition, or one that this call cannot have.
fn unexpected(call: LoadBalancerCall, disposition: Option<Disposition>) -> Fault {
    let name = disposition.map_or("unspecified or unknown", Disposition::as_str);
    Fault::new(format!(
        "the provider answered {} with disposition {}, which is no answer to this call",
        call.name(),
        name.to_ascii_uppercase(),
    ))
}

/// The checks of the API server on a Service's status, which refuses all of it for one bad entry
/// (S-38), and addresses that no load balancer has. The address of `entry` is canonical then.
fn check_entry(
    at: usize,
    entry: &mut Ingress,
    forbidden: &ForbiddenAddresses,
) -> Result<(), Fault> {
    if entry.ip.is_empty() && entry.hostname.is_empty() {
        return Err(Fault::new(format!(
            "the provider's status.ingress[{at}] has neither ip nor hostname"
        )));
    }
    if !entry.ip.is_empty() {
        let ip = legal(format_args!("status.ingress[{at}].ip"), &entry.ip, |ip| {
            let ip: IpAddr = ip.parse().map_err(|_| "is no IP address")?;
            forbidden.check_ip(ip)?;
            Ok(ip)
        })?;
        // Since 1.36 the API server refuses an address of IPv4 in the form of IPv6.
        entry.ip = ip.to_canonical().to_string().into();
    }
    if !entry.hostname.is_empty() {
        legal(
            format_args!("status.ingress[{at}].hostname"),
            &entry.hostname,
            |name| check_hostname(name, forbidden),
        )?;
    }
    if let Some(mode) = &entry.ip_mode {
        legal(
            format_args!("status.ingress[{at}].ip_mode"),
            mode,
            |mode| match mode {
                _ if entry.ip.is_empty() => Err("stands where there is no ip"),
                "VIP" | "Proxy" => Ok(()),
                _ => Err("is neither VIP nor Proxy"),
            },
        )?;
    }
    few(
        format_args!("status.ingress[{at}].ports"),
        entry.ports.len(),
        MAX_PORTS,
    )?;
    for (place, port) in entry.ports.iter().enumerate() {
        check_port(at, place, port)?;
    }
    Ok(())
}

/// Checks that `name` may be a host name in a Service's status.
pub(super) fn check_hostname(name: &str, forbidden: &ForbiddenAddresses) -> Result<(), Complaint> {
    if name.parse::<IpAddr>().is_ok() {
        return Err("is an IP address");
    }
    syntax::subdomain(name)?;
    forbidden.check_name(name)
}

/// Ports repeat in each entry, so that entries and ports alone bound too little.
fn check_size(ingress: &[Ingress]) -> Result<(), Fault> {
    let port = |port: &PortStatus| {
        let error = port.error.as_deref().unwrap_or_default();
        PORT_BYTES + port.protocol.len() + error.len()
    };
    let entry = |entry: &Ingress| {
        let ports: usize = entry.ports.iter().map(port).sum();
        entry.ip.len() + entry.hostname.len() + ports
    };
    let bytes: usize = ingress.iter().map(entry).sum();
    if bytes > MAX_STATUS {
        return Err(Fault::new(format!(
            "the provider's status.ingress has {bytes} bytes, more than {MAX_STATUS}: fewer entries, or ports \
             only where they have an error"
        )));
    }
    Ok(())
}

fn check_port(at: usize, place: usize, status: &PortStatus) -> Result<(), Fault> {
    let port = status.port;
    if !(1..=65_535).contains(&port) {
        return Err(Fault::new(format!(
            "the provider's status.ingress[{at}].ports has port {port}, which is not in 1-65535"
        )));
    }
    legal(
        format_args!("status.ingress[{at}].ports[{place}].protocol"),
        &status.protocol,
        |protocol| match protocol {
            "TCP" | "UDP" | "SCTP" => Ok(()),
            _ => Err("is none of TCP, UDP and SCTP"),
        },
    )?;
    if let Some(error) = &status.error {
        // A qualified name, as a label's key is.
        legal(
            format_args!("status.ingress[{at}].ports[{place}].error"),
            error,
            syntax::label_key,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
