//! A trace: changes of a cluster one after the other, in words for people.

use std::{collections::BTreeSet, fmt};

/// Turns in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace(pub Vec<Turn>);

/// Steps whose calls go out together, each about another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn(pub Vec<Step>);

/// One change of the desired state, and the way its first call is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The change.
    pub change: Change,
    /// The fault in its call.
    pub fault: Option<Fault>,
}

/// One change of the desired state. It means the same after any other one, so that a trace stays one without some of its turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The Service of this letter has these fields from now on; it is made if it is not there.
    Service(char, Spec),
    /// The type of the Service is `ClusterIP` from now on.
    ClusterIp(char),
    /// The Service is deleted. Made again, it has another UID.
    Delete(char),
    /// All targets from now on.
    Nodes(Vec<Target>),
}

/// The fields of a Service with a load balancer, as far as they are not those of a plain one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// `spec.ports`; empty: TCP/80 alone.
    pub ports: Vec<Port>,
    /// The node port of the health check, with the external traffic policy `Local`; none: `Cluster`.
    pub local: Option<i32>,
    /// The seconds of the session affinity `ClientIP`; none: no affinity.
    pub affinity: Option<i64>,
    /// `spec.ipFamilies`; empty: the first family of the inputs.
    pub families: Vec<String>,
    /// Source ranges.
    pub ranges: Vec<String>,
    /// The number of a set in `explore.annotations` of the inputs, from 1, or a portable option; empty: none of them.
    pub annotations: String,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the names of Kubernetes")]
pub struct Port {
    /// TCP, UDP, …
    pub protocol: String,
    /// Port of the load balancer.
    pub port: i32,
    /// Port on each node.
    pub node_port: i32,
}

/// A Node that load balancers send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The Node of a machine of the inputs.
    pub node: String,
    /// It has another address than its machine.
    pub is_moved: bool,
}

/// A fault in the first call of a step. Times are milliseconds after the call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut; then the call is repeated until it has ended.
    Cut(u64),
    /// The deadline is so short, and the call is not repeated; the next step follows.
    Deadline(u64),
    /// The provider is killed and started again; then all that has not ended is repeated.
    Kill(u64),
    /// The call is made twice at the same time, on two connections; then it is repeated.
    Twice,
    /// One call, whatever its answer; the next step follows.
    Once,
}

/// The words of fields, changes and faults that `explore.without` of the inputs may name.
pub const WORDS: &str = "type ports policy affinity families ranges annotations delete nodes together cut deadline \
                         kill twice once";

impl Trace {
    /// The [`WORDS`] that it has.
    pub fn words(&self) -> BTreeSet<&'static str> {
        let text = self.to_string().replace('&', "together");
        let texts: BTreeSet<_> = text.split([' ', '!', ';', ':', '=']).collect();
        let words = WORDS.split(' ');
        words.filter(|word| texts.contains(word)).collect()
    }
}

impl Turn {
    /// A change alone, without a fault.
    pub(super) fn of(change: Change) -> Self {
        let fault = None;
        Self(vec![Step { change, fault }])
    }
}

impl Change {
    /// The Service of its calls: steps about one Service, or about none, are never made together.
    pub(super) const fn key(&self) -> Option<char> {
        match self {
            Self::Service(name, _) | Self::ClusterIp(name) | Self::Delete(name) => Some(*name),
            Self::Nodes(_) => None,
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.0, "; "))
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.0, " & "))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.change.fmt(f)?;
        match self.fault {
            None => Ok(()),
            Some(Fault::Cut(time)) => write!(f, " !cut={time}"),
            Some(Fault::Deadline(time)) => write!(f, " !deadline={time}"),
            Some(Fault::Kill(time)) => write!(f, " !kill={time}"),
            Some(Fault::Twice) => f.write_str(" !twice"),
            Some(Fault::Once) => f.write_str(" !once"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name, spec) => write!(f, "{name}: {spec}"),
            Self::ClusterIp(name) => write!(f, "{name}: type=ClusterIP"),
            Self::Delete(name) => write!(f, "{name}: delete"),
            Self::Nodes(targets) if targets.is_empty() => f.write_str("nodes: none"),
            Self::Nodes(targets) => write!(f, "nodes: {}", joined(targets, " ")),
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Vec::new();
        let mut field = |name: &str, value: String| {
            if !value.is_empty() {
                fields.push(format!("{name}={value}"));
            }
        };
        field("ports", joined(&self.ports, ","));
        let policy = self.local.map(|port| format!("Local:{port}"));
        field("policy", policy.unwrap_or_default());
        let affinity = self.affinity.map(|time| format!("ClientIP:{time}"));
        field("affinity", affinity.unwrap_or_default());
        field("families", self.families.join(","));
        field("ranges", self.ranges.join(","));
        field("annotations", self.annotations.clone());
        match &*fields {
            [] => f.write_str("make"),
            fields => f.write_str(&fields.join(" ")),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.protocol, self.port, self.node_port)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = if self.is_moved { "/moved" } else { "" };
        write!(f, "{}{moved}", self.node)
    }
}

fn joined<T: fmt::Display>(parts: &[T], by: &str) -> String {
    let parts: Vec<_> = parts.iter().map(T::to_string).collect();
    parts.join(by)
}
