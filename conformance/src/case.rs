//! The description of one case: its id, level and clause, the inputs that it takes, and its body.

use std::fmt;

use clap::ValueEnum as _;
use futures::future::LocalBoxFuture;
use outrigger_api::{METHODS, Method, v1::HandshakeResponse};

use crate::{client::CallError, subject::Subject, verdict::Verdict};

/// The check of a case. It runs with a timeout, and a panic of it is a failure.
pub type Body = fn(&Subject) -> LocalBoxFuture<'_, Verdict>;

/// A rule that every error keeps, whichever call it came from.
pub type ErrorRule = fn(&CallError) -> Verdict;

/// One thing that the contract asks of a provider, and the check of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique and stable: reports, waivers and documents name it.
    pub id: &'static str,
    /// The behaviour, as a statement that is true of a provider that passes.
    pub title: &'static str,
    /// How binding it is.
    pub level: Level,
    /// The part of the contract without which it says nothing.
    pub capability: Capability,
    /// It makes, changes or deletes something in the cloud: `--allow-mutations`.
    pub mutates: bool,
    /// The sentence of the contract that asks for it.
    pub clause: Clause,
    /// Without one of these it cannot run.
    pub needs: Vec<Input>,
    /// Every error of a run is held to it, also where the case is not selected.
    pub of_errors: Option<ErrorRule>,
    /// The check.
    pub body: Body,
}

/// How binding a case is, in the words of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// A provider that fails it breaks the contract.
    Must,
    /// A provider that fails it works, with a disadvantage that the case names.
    Should,
    /// Reported, never a failure.
    Info,
}

/// A part of the contract that a provider declares at handshake.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum, serde::Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// The transport and `ProviderService`: every provider.
    Core,
    /// `Capabilities.instances`.
    Instances,
    /// `InstancesCapability.list`.
    InstancesList,
    /// `Capabilities.load_balancers`.
    LoadBalancers,
    /// `LoadBalancersCapability.list`.
    LoadBalancersList,
    /// `LoadBalancersCapability.plan`.
    LoadBalancersPlan,
    /// `LoadBalancersCapability.volatile`.
    LoadBalancersVolatile,
    /// `Capabilities.node_sets`.
    NodeSets,
    /// `NodeSetsCapability.deltas`.
    NodeSetsDeltas,
    /// `Capabilities.routes`.
    Routes,
    /// `Capabilities.volumes`.
    Volumes,
}

/// Where the contract says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Clause {
    /// File below `proto/cloudprovider/v1/`, such as `instances.proto`.
    pub file: &'static str,
    /// The message, RPC, field or enum value that the sentence stands at; empty: the head of the file.
    pub at: &'static str,
    /// The sentence, as the comments have it.
    pub text: &'static str,
}

/// A fact that the suite cannot make up: a key of the inputs file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Input {
    /// `instances.existing`: at least one.
    ExistingInstance,
    /// `instances.existing`: at least two.
    TwoExistingInstances,
    /// `instances.stopped`.
    StoppedInstance,
    /// `instances.absent`.
    AbsentInstance,
    /// `instances.malformedProviderID`.
    MalformedProviderId,
    /// `services.refusedAnnotations`.
    RefusedAnnotations,
    /// `services.refusedAnnotations` or `services.refusedProtocol`.
    RefusedService,
    /// `services.refusedProtocol`.
    RefusedProtocol,
    /// `services.secondProtocol`.
    SecondProtocol,
    /// `services.ipFamilies`: two.
    BothIpFamilies,
    /// `cluster.podCIDRs`: of both IP families.
    BothPodCidrFamilies,
    /// `services.limit`.
    LoadBalancerLimit,
    /// `routes.limit`.
    RouteLimit,
    /// `volumes.existing`.
    ExistingVolume,
    /// `volumes.absent`.
    AbsentVolume,
    /// `volumes.malformed`.
    MalformedVolume,
    /// `volumes.foreign`.
    ForeignVolume,
    /// `volumes.young`.
    YoungVolume,
    /// `secrets`.
    Secrets,
    /// `provider.command`: the provider is a process of the suite, which can stop and kill it.
    Process,
    /// `commands.cloudOff` and `commands.cloudOn`.
    CloudSwitch,
    /// `commands.cloudHangs` and `commands.cloudOn`.
    HangSwitch,
    /// `commands.cloudLimited` and `commands.cloudOn`.
    RateLimitSwitch,
    /// `commands.credentialsOff` and `commands.cloudOn`.
    CredentialsSwitch,
    /// `commands.blackhole`.
    Blackhole,
    /// `commands.cloudChanges`.
    CloudChanges,
    /// `commands.cloudCalls`.
    CloudCalls,
}

/// A case that a provider MUST pass.
pub fn must(id: &'static str, title: &'static str) -> Builder {
    Builder::new(id, title, Level::Must)
}

/// A case that a provider SHOULD pass.
pub fn should(id: &'static str, title: &'static str) -> Builder {
    Builder::new(id, title, Level::Should)
}

/// A case whose outcome is only reported.
pub fn info(id: &'static str, title: &'static str) -> Builder {
    Builder::new(id, title, Level::Info)
}

/// A case that is being described; [`Builder::check`] completes it.
#[must_use = "a case is complete with its check"]
pub struct Builder(Case);

impl Builder {
    fn new(id: &'static str, title: &'static str, level: Level) -> Self {
        Self(Case {
            id,
            title,
            level,
            capability: Capability::Core,
            mutates: false,
            clause: Clause {
                file: "",
                at: "",
                text: "",
            },
            needs: Vec::new(),
            of_errors: None,
            body: |_| Box::pin(async { Ok(()) }),
        })
    }

    /// It belongs to this capability; [`Capability::Core`] if not called.
    pub const fn of(mut self, capability: Capability) -> Self {
        self.0.capability = capability;
        self
    }

    /// It changes the cloud.
    pub const fn mutates(mut self) -> Self {
        self.0.mutates = true;
        self
    }

    /// The sentence `text` in the comment of `at` in `file`.
    pub const fn clause(
        mut self,
        file: &'static str,
        at: &'static str,
        text: &'static str,
    ) -> Self {
        self.0.clause = Clause { file, at, text };
        self
    }

    /// It cannot run without this input. May be repeated.
    pub fn needs(mut self, input: Input) -> Self {
        self.0.needs.push(input);
        self
    }

    /// Every error of each run is held to this rule.
    pub const fn of_errors(mut self, rule: ErrorRule) -> Self {
        self.0.of_errors = Some(rule);
        self
    }

    /// The case, with its check.
    pub fn check(mut self, body: Body) -> Case {
        self.0.body = body;
        self.0
    }
}

impl Level {
    /// `MUST`, `SHOULD` or `INFO`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Info => "INFO",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Capability {
    /// The part that a method belongs to.
    pub fn of(method: &Method) -> Self {
        let mut all = Self::value_variants().iter().copied();
        let is_of = |one: &Self| one.declared_by() == method.declared_by;
        all.find(is_of).unwrap_or(Self::Core)
    }

    /// Whether a run of this capability alone has the cases of `other`.
    pub const fn includes(self, other: Self) -> bool {
        let of_load_balancers = matches!(
            other,
            Self::LoadBalancersList | Self::LoadBalancersPlan | Self::LoadBalancersVolatile
        );
        self as u8 == other as u8
            || matches!(
                (self, other),
                (Self::Instances, Self::InstancesList) | (Self::NodeSets, Self::NodeSetsDeltas)
            )
            || matches!(self, Self::LoadBalancers) && of_load_balancers
    }

    /// The field of the handshake that declares it, as the table of methods names it.
    pub const fn declared_by(self) -> &'static str {
        match self {
            Self::Core => "every provider",
            Self::Instances => "Capabilities.instances",
            Self::InstancesList => "InstancesCapability.list",
            Self::LoadBalancers => "Capabilities.load_balancers",
            Self::LoadBalancersList => "LoadBalancersCapability.list",
            Self::LoadBalancersPlan => "LoadBalancersCapability.plan",
            Self::LoadBalancersVolatile => "LoadBalancersCapability.volatile",
            Self::NodeSets => "Capabilities.node_sets",
            Self::NodeSetsDeltas => "NodeSetsCapability.deltas",
            Self::Routes => "Capabilities.routes",
            Self::Volumes => "Capabilities.volumes",
        }
    }

    /// Whether a handshake declares it.
    pub fn is_declared(self, handshake: &HandshakeResponse) -> bool {
        let declared = handshake.capabilities.clone().unwrap_or_default();
        match self {
            Self::Core => true,
            Self::LoadBalancersVolatile => declared.load_balancers.is_some_and(|one| one.volatile),
            Self::NodeSetsDeltas => declared.node_sets.is_some_and(|one| one.deltas),
            _ => {
                let is_of = |method: &&Method| method.declared_by == self.declared_by();
                let method = METHODS.iter().find(is_of);
                method.is_some_and(|method| (method.is_declared)(&declared))
            }
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "" } else { ", " };
        write!(f, "{}{at}{}: {:?}", self.file, self.at, self.text)
    }
}

impl Input {
    /// The keys of the inputs file that give it.
    pub const fn keys(self) -> &'static str {
        match self {
            Self::ExistingInstance => "instances.existing",
            Self::TwoExistingInstances => "instances.existing (two)",
            Self::StoppedInstance => "instances.stopped",
            Self::AbsentInstance => "instances.absent",
            Self::MalformedProviderId => "instances.malformedProviderID",
            Self::RefusedAnnotations => "services.refusedAnnotations",
            Self::RefusedService => "services.refusedAnnotations or services.refusedProtocol",
            Self::RefusedProtocol => "services.refusedProtocol",
            Self::SecondProtocol => "services.secondProtocol",
            Self::BothIpFamilies => "services.ipFamilies (two)",
            Self::BothPodCidrFamilies => "cluster.podCIDRs (of both IP families)",
            Self::LoadBalancerLimit => "services.limit",
            Self::RouteLimit => "routes.limit",
            Self::ExistingVolume => "volumes.existing",
            Self::AbsentVolume => "volumes.absent",
            Self::MalformedVolume => "volumes.malformed",
            Self::ForeignVolume => "volumes.foreign",
            Self::YoungVolume => "volumes.young",
            Self::Secrets => "secrets",
            Self::Process => "provider.command",
            Self::CloudSwitch => "commands.cloudOff and commands.cloudOn",
            Self::HangSwitch => "commands.cloudHangs and commands.cloudOn",
            Self::RateLimitSwitch => "commands.cloudLimited and commands.cloudOn",
            Self::CredentialsSwitch => "commands.credentialsOff and commands.cloudOn",
            Self::Blackhole => "commands.blackhole",
            Self::CloudChanges => "commands.cloudChanges",
            Self::CloudCalls => "commands.cloudCalls",
        }
    }
}
