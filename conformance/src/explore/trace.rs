//! A trace: transitions one after the other, in words that are written on a command line and read back.

use std::{collections::BTreeSet, fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The turns of a trace, in their order.
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

/// One change of the desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The Service has these fields from now on; it is made if it is not there.
    Service(Name, Vec<Field>),
    /// The Service is deleted. Made again, it has another UID and the fields of a new one.
    Delete(Name),
    /// All targets from now on.
    Nodes(Vec<Target>),
    /// The route leads to this Node, which may be no machine of the inputs.
    Route(usize, String),
    /// The route is deleted.
    NoRoute(usize),
    /// The cloud lets the route lead nowhere: `commands.blackhole`.
    Blackhole(usize),
    /// The provider is killed and started again, between calls.
    Restart,
    /// Nothing happens for so many milliseconds.
    Wait(u64),
}

/// The letter of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub char);

/// One field of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// The type is `LoadBalancer`, or else `ClusterIP`.
    Balanced(bool),
    /// `spec.ports`.
    Ports(Vec<Port>),
    /// The health check's node port, with the external traffic policy `Local`; none: `Cluster`.
    Local(Option<i32>),
    /// The seconds of the session affinity `ClientIP`; none: no affinity.
    Affinity(Option<i64>),
    /// `spec.ipFamilies`.
    Families(Vec<String>),
    /// Source ranges.
    Ranges(Vec<String>),
    /// The number of a set of annotations in `explore.annotations` of the inputs, from 1; 0: none of them.
    Annotations(usize),
    /// `spec.loadBalancerClass`. Kubernetes keeps it while the type is `LoadBalancer`.
    Class(String),
}

/// A port of a Service: `[NAME=]PROTOCOL/PORT:NODEPORT[>TARGETPORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the names of Kubernetes")]
pub struct Port {
    /// Its name; none: made of protocol and port.
    pub name: Option<String>,
    /// TCP, UDP, …
    pub protocol: String,
    /// Port of the load balancer.
    pub port: i32,
    /// Port on each node.
    pub node_port: i32,
    /// Port of the Pods; none: 8080.
    pub target_port: Option<String>,
}

/// A Node that load balancers send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The Node of a machine of the inputs.
    pub node: String,
    /// Its difference from its machine.
    pub mark: Option<Mark>,
}

/// A difference of a Node from its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It has another address.
    Moved,
    /// It has no provider ID yet.
    New,
    /// It has the provider ID of the next machine, as a machine that was made again under the name.
    Replaced,
}

/// A fault in the first call of a step. Times are milliseconds after the call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is cut; then the call is repeated until it has ended.
    Cut(u64),
    /// The deadline is so short; then the call is repeated.
    Deadline(u64),
    /// The provider is killed and started again; then the call is repeated.
    Kill(u64),
    /// The call is made twice at the same time, on two connections; then it is repeated.
    Twice,
    /// The call is made again after its end.
    Again,
    /// One call, whatever its answer; the next step follows.
    Once,
    /// The call is cancelled and not repeated; the next step follows.
    Drop(u64),
}

/// The words of fields, changes and faults that `explore.without` of the inputs may name.
pub const WORDS: [&str; 22] = [
    "type",
    "ports",
    "policy",
    "affinity",
    "families",
    "ranges",
    "annotations",
    "class",
    "delete",
    "nodes",
    "route",
    "blackhole",
    "restart",
    "wait",
    "together",
    "cut",
    "deadline",
    "kill",
    "twice",
    "again",
    "once",
    "drop",
];

const TARGET_PORT: &str = "8080";

impl Trace {
    /// The [`WORDS`] that it has.
    pub fn words(&self) -> BTreeSet<&'static str> {
        let text = self.to_string().replace('&', "together");
        let texts = text.split([' ', '!', ';', ':']);
        let texts: BTreeSet<_> = texts.filter_map(|one| one.split('=').next()).collect();
        { WORDS }
            .into_iter()
            .filter(|word| texts.contains(word))
            .collect()
    }
}

impl Change {
    /// The object of its calls: steps about one object are never made together.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Service(name, _) | Self::Delete(name) => name.to_string(),
            Self::Route(number, _) | Self::NoRoute(number) | Self::Blackhole(number) => {
                format!("route {number}")
            }
            Self::Nodes(_) | Self::Restart | Self::Wait(_) => String::new(),
        }
    }
}

impl Port {
    /// A port with the usual name and target port.
    pub fn new(protocol: &str, port: i32, node_port: i32) -> Self {
        Self {
            name: None,
            protocol: protocol.to_owned(),
            port,
            node_port,
            target_port: None,
        }
    }

    /// The port as Kubernetes has it.
    pub(super) fn of_service(&self) -> outrigger_api::v1::ServicePort {
        let mut port = crate::subject::port(&self.protocol, self.port, self.node_port);
        if let Some(name) = &self.name {
            port.name.clone_from(name);
        }
        let target = self.target_port.as_deref().unwrap_or(TARGET_PORT);
        target.clone_into(&mut port.target_port);
        port
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        joined(f, &self.0, "; ")
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        joined(f, &self.0, " & ")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.change.fmt(f)?;
        match self.fault {
            Some(fault) => write!(f, " !{fault}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(name, fields) if fields.is_empty() => write!(f, "{name}: make"),
            Self::Service(name, fields) => {
                write!(f, "{name}: ")?;
                joined(f, fields, " ")
            }
            Self::Delete(name) => write!(f, "{name}: delete"),
            Self::Nodes(targets) if targets.is_empty() => f.write_str("nodes: none"),
            Self::Nodes(targets) => {
                f.write_str("nodes: ")?;
                joined(f, targets, " ")
            }
            Self::Route(number, node) => write!(f, "route {number}: {node}"),
            Self::NoRoute(number) => write!(f, "route {number}: delete"),
            Self::Blackhole(number) => write!(f, "route {number}: blackhole"),
            Self::Restart => f.write_str("provider: restart"),
            Self::Wait(time) => write!(f, "wait: {time}"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balanced(true) => f.write_str("type=LoadBalancer"),
            Self::Balanced(false) => f.write_str("type=ClusterIP"),
            Self::Ports(ports) => {
                f.write_str("ports=")?;
                joined(f, ports, ",")
            }
            Self::Local(Some(port)) => write!(f, "policy=Local:{port}"),
            Self::Local(None) => f.write_str("policy=Cluster"),
            Self::Affinity(Some(seconds)) => write!(f, "affinity=ClientIP:{seconds}"),
            Self::Affinity(None) => f.write_str("affinity=None"),
            Self::Families(families) => write!(f, "families={}", families.join(",")),
            Self::Ranges(ranges) => write!(f, "ranges={}", ranges.join(",")),
            Self::Annotations(number) => write!(f, "annotations={number}"),
            Self::Class(class) => write!(f, "class={class}"),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}/{}:{}", self.protocol, self.port, self.node_port)?;
        match &self.target_port {
            Some(target) => write!(f, ">{target}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.node)?;
        f.write_str(match self.mark {
            None => "",
            Some(Mark::Moved) => "/moved",
            Some(Mark::New) => "/new",
            Some(Mark::Replaced) => "/replaced",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(time) => write!(f, "cut={time}"),
            Self::Deadline(time) => write!(f, "deadline={time}"),
            Self::Kill(time) => write!(f, "kill={time}"),
            Self::Twice => f.write_str("twice"),
            Self::Again => f.write_str("again"),
            Self::Once => f.write_str("once"),
            Self::Drop(time) => write!(f, "drop={time}"),
        }
    }
}

fn joined<T: fmt::Display>(f: &mut fmt::Formatter<'_>, parts: &[T], by: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if index == 0 { "" } else { by })?;
    }
    Ok(())
}

impl FromStr for Trace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let turns = text.split(['\n', ';']).map(str::trim);
        let turns = turns.filter(|turn| !turn.is_empty());
        let turns: Vec<Turn> = turns.map(str::parse).collect::<Result<_, _>>()?;
        if turns.is_empty() {
            return Err("a trace has one step at least".to_owned());
        }
        Ok(Self(turns))
    }
}

impl FromStr for Turn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let steps: Vec<Step> = text
            .split(" & ")
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let keys: Vec<_> = steps.iter().map(|step| step.change.key()).collect();
        let is_twice = |key: &String| keys.iter().filter(|other| *other == key).count() > 1;
        let is_alone = |key: &String| key.is_empty() && keys.len() > 1;
        match keys.iter().find(|key| is_twice(key) || is_alone(key)) {
            Some(_) => Err(format!(
                "{text:?}: only steps about different Services and routes can be made together"
            )),
            None => Ok(Self(steps)),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (change, fault) = match text.split_once(" !") {
            Some((change, fault)) => (change, Some(fault.trim().parse()?)),
            None => (text, None),
        };
        Ok(Self {
            change: change.trim().parse()?,
            fault,
        })
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no step: write `a: FIELD=VALUE …`, `a: delete`, `nodes: NODE …`, \
                 `route 0: NODE`, `provider: restart` or `wait: MILLISECONDS`"
            )
        };
        let (key, rest) = text.split_once(": ").ok_or_else(wrong)?;
        let rest = rest.trim();
        let route = key.strip_prefix("route ").and_then(|n| n.parse().ok());
        let mut letters = key.chars();
        match (key, rest, route, letters.next(), letters.next()) {
            ("nodes", "none", ..) => Ok(Self::Nodes(Vec::new())),
            ("nodes", ..) => {
                let targets = rest.split_whitespace().map(str::parse);
                targets.collect::<Result<_, _>>().map(Self::Nodes)
            }
            ("provider", "restart", ..) => Ok(Self::Restart),
            ("wait", ..) => rest.parse().map(Self::Wait).map_err(|_| wrong()),
            (_, "delete", Some(number), ..) => Ok(Self::NoRoute(number)),
            (_, "blackhole", Some(number), ..) => Ok(Self::Blackhole(number)),
            (_, _, Some(number), ..) => Ok(Self::Route(number, rest.to_owned())),
            (_, _, None, Some(letter), None) if letter.is_ascii_lowercase() => {
                let name = Name(letter);
                match rest {
                    "delete" => Ok(Self::Delete(name)),
                    "make" => Ok(Self::Service(name, Vec::new())),
                    _ => {
                        let fields = rest.split_whitespace().map(str::parse);
                        let fields = fields.collect::<Result<_, _>>()?;
                        Ok(Self::Service(name, fields))
                    }
                }
            }
            _ => Err(wrong()),
        }
    }
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no field of a Service");
        let (field, value) = text.split_once('=').ok_or_else(wrong)?;
        let words = || value.split(',').filter(|word| !word.is_empty());
        let texts = || words().map(str::to_owned).collect();
        match (field, value.split_once(':')) {
            ("type", _) if value == "LoadBalancer" => Ok(Self::Balanced(true)),
            ("type", _) if value == "ClusterIP" => Ok(Self::Balanced(false)),
            ("ports", _) => {
                let ports: Vec<_> = words().map(str::parse).collect::<Result<_, _>>()?;
                if ports.is_empty() {
                    return Err("a Service has one port at least".to_owned());
                }
                Ok(Self::Ports(ports))
            }
            ("policy", None) if value == "Cluster" => Ok(Self::Local(None)),
            ("policy", Some(("Local", port))) => {
                let port = port.parse().map_err(|_| wrong())?;
                Ok(Self::Local(Some(port)))
            }
            ("affinity", None) if value == "None" => Ok(Self::Affinity(None)),
            ("affinity", Some(("ClientIP", seconds))) => {
                let seconds = seconds.parse().map_err(|_| wrong())?;
                Ok(Self::Affinity(Some(seconds)))
            }
            ("families", _) => Ok(Self::Families(texts())),
            ("ranges", _) => Ok(Self::Ranges(texts())),
            ("annotations", _) => value.parse().map(Self::Annotations).map_err(|_| wrong()),
            ("class", _) => Ok(Self::Class(value.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no port: write PROTOCOL/PORT:NODEPORT, as TCP/80:30080");
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) => (Some(name.to_owned()), rest),
            None => (None, text),
        };
        let (rest, target_port) = match rest.split_once('>') {
            Some((rest, target)) => (rest, Some(target.to_owned())),
            None => (rest, None),
        };
        let (protocol, numbers) = rest.split_once('/').ok_or_else(wrong)?;
        let (port, node_port) = numbers.split_once(':').ok_or_else(wrong)?;
        Ok(Self {
            name,
            protocol: protocol.to_owned(),
            port: port.parse().map_err(|_| wrong())?,
            node_port: node_port.parse().map_err(|_| wrong())?,
            target_port,
        })
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node, mark) = match text.split_once('/') {
            None => (text, None),
            Some((node, "moved")) => (node, Some(Mark::Moved)),
            Some((node, "new")) => (node, Some(Mark::New)),
            Some((node, "replaced")) => (node, Some(Mark::Replaced)),
            Some((_, mark)) => return Err(format!("{mark:?} is none of moved, new, replaced")),
        };
        Ok(Self {
            node: node.to_owned(),
            mark,
        })
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
        match text.split_once('=') {
            Some(("cut", after)) => Ok(Self::Cut(time(after)?)),
            Some(("deadline", after)) => Ok(Self::Deadline(time(after)?)),
            Some(("kill", after)) => Ok(Self::Kill(time(after)?)),
            Some(("drop", after)) => Ok(Self::Drop(time(after)?)),
            None if text == "twice" => Ok(Self::Twice),
            None if text == "again" => Ok(Self::Again),
            None if text == "once" => Ok(Self::Once),
            _ => Err(format!(
                "{text:?} is no fault: write cut=5, deadline=5, kill=5, drop=5, twice, again or once"
            )),
        }
    }
}

impl Serialize for Trace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}

impl<'de> Deserialize<'de> for Trace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let turns = Vec::<String>::deserialize(deserializer)?;
        turns.join("\n").parse().map_err(serde::de::Error::custom)
    }
}
