//! The facts about a provider's cloud that the suite cannot make up: one YAML file.

use std::{collections::BTreeMap, net::Ipv4Addr, path::Path, time::Duration};

use anyhow::Context as _;
use ipnet::{IpNet, Ipv4Net};
use jiff::SignedDuration;
use outrigger_api::v1::{CallContext, HandshakeResponse};
use serde::Deserialize;
use uuid::Uuid;

/// The whole file. A key that is not known is refused; all may be left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Inputs {
    /// How the provider is started. Without it the suite cannot stop or kill it.
    pub provider: Process,
    /// The cluster that the suite pretends to be.
    pub cluster: Cluster,
    /// Machines of the cloud.
    pub instances: Instances,
    /// Services of type `LoadBalancer`.
    pub services: Services,
    /// Routes.
    pub routes: Routes,
    /// Volumes.
    pub volumes: Volumes,
    /// Texts that must never be seen, such as a token of the cloud.
    pub secrets: Vec<String>,
    /// How long the cloud may take.
    pub limits: Limits,
    /// Commands that act on the cloud behind the provider's back.
    pub commands: Commands,
    /// Choices of `explore`.
    pub explore: Explore,
}

/// The provider as a process of the suite.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Process {
    /// Program and arguments. `CLOUDPROVIDER_ENDPOINT` tells it where to listen.
    pub command: Vec<String>,
    /// Further variables of its environment.
    pub env: BTreeMap<String, String>,
}

/// The cluster of the calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Its UID, the tag of everything that the suite makes.
    pub uid: String,
    /// Its range of Pod CIDRs, in which the suite makes routes.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<IpNet>,
}

impl Cluster {
    /// The context of a new attempt.
    pub fn context(&self) -> CallContext {
        CallContext {
            request_id: Uuid::new_v4().to_string(),
            cluster_name: self.name.clone(),
            cluster_uid: self.uid.clone(),
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            name: "provider-conformance".to_owned(),
            uid: "c04f0c04-f04a-4ce0-8000-c04f04a2ce00".to_owned(),
            pod_cidrs: vec![IpNet::V4(Ipv4Net::new_assert(
                Ipv4Addr::new(10, 231, 0, 0),
                16,
            ))],
        }
    }
}

/// Machines that exist or do not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Instances {
    /// Running ones.
    pub existing: Vec<Machine>,
    /// A machine that is stopped and can be started.
    pub stopped: Option<Machine>,
    /// The name and ID of one that does not exist, and that the cloud could have.
    pub absent: Option<Machine>,
    /// An ID with a prefix of this provider that no machine of this cloud can have.
    #[serde(rename = "malformedProviderID")]
    pub malformed_provider_id: Option<String>,
    /// An ID of another provider.
    #[serde(rename = "foreignProviderID")]
    pub foreign_provider_id: Option<String>,
}

/// A machine as its Node names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Machine {
    /// Name of its Node.
    pub node_name: String,
    /// `spec.providerID`.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// `status.nodeInfo.systemUUID`, for clouds that find machines by it.
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,
    /// Labels of its Node.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its Node.
    pub annotations: BTreeMap<String, String>,
    /// The zone that a lookup must name.
    pub zone: Option<String>,
    /// The region that a lookup must name.
    pub region: Option<String>,
    /// The type that a lookup must name.
    pub instance_type: Option<String>,
}

/// Services that the suite makes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Services {
    /// Annotations that each of them needs.
    pub annotations: BTreeMap<String, String>,
    /// `spec.loadBalancerClass` of each of them.
    pub load_balancer_class: Option<String>,
    /// IP families that the cloud serves: one or two.
    pub ip_families: Vec<String>,
    /// Annotations that must be refused.
    pub refused_annotations: BTreeMap<String, String>,
    /// A protocol that must be refused.
    pub refused_protocol: Option<String>,
    /// A protocol beside TCP that is served.
    pub second_protocol: Option<String>,
    /// How many load balancers the account has room for; more are refused.
    pub limit: Option<usize>,
    /// An address that no load balancer has, and that a Service of the first IP family can ask for.
    pub requestable_address: Option<String>,
    /// The name of an address that is reserved in the cloud and not in use.
    pub reserved_address_name: Option<String>,
    /// Annotations of the vendor by which a load balancer is internal.
    pub internal_annotations: BTreeMap<String, String>,
}

/// Routes that the suite makes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Routes {
    /// The cloud has one table without marks: a list shows routes of other clusters too.
    pub whole_table: bool,
    /// How many routes the table has room for; more are refused.
    pub limit: Option<usize>,
}

/// Volumes that exist or do not.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Volumes {
    /// Ones that exist.
    pub existing: Vec<Volume>,
    /// A volume that does not exist, and that the cloud could have.
    pub absent: Option<Volume>,
    /// A volume whose handle no volume of this cloud can have.
    pub malformed: Option<Volume>,
    /// One of another account or project.
    pub foreign: Option<Volume>,
    /// A volume that was made a moment ago, and that the cloud may not show yet.
    pub young: Option<Volume>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Volume {
    /// `spec.csi.driver`.
    pub driver: String,
    /// `spec.csi.volumeHandle`.
    pub handle: String,
    /// `spec.csi.volumeAttributes`.
    pub attributes: BTreeMap<String, String>,
    /// Labels that a lookup must give.
    pub labels: BTreeMap<String, String>,
}

/// How long the cloud may take, as `90s` or `10m`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// From the start of the provider to its first answer.
    pub start: SignedDuration,
    /// Until a load balancer is READY.
    pub ready: SignedDuration,
    /// Until a load balancer is ABSENT.
    pub gone: SignedDuration,
    /// How late a list of the cloud may show what was made or deleted.
    pub late: SignedDuration,
    /// How long a connection is idle before it is used again.
    pub idle: SignedDuration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: SignedDuration::from_secs(10),
            ready: SignedDuration::from_mins(10),
            gone: SignedDuration::from_mins(10),
            late: SignedDuration::from_secs(3),
            idle: SignedDuration::from_secs(10),
        }
    }
}

/// Programs with their arguments, run with `CLOUDPROVIDER_ENDPOINT`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Commands {
    /// Makes every call to the cloud fail.
    pub cloud_off: Vec<String>,
    /// Makes every call to the cloud wait for its answer.
    pub cloud_hangs: Vec<String>,
    /// Makes the rate limit of the cloud refuse all calls, or all but a few.
    pub cloud_limited: Vec<String>,
    /// Makes the cloud refuse the provider's credentials.
    pub credentials_off: Vec<String>,
    /// Undoes each of these.
    pub cloud_on: Vec<String>,
    /// With a destination CIDR as its last argument: the route to it leads nowhere from now on.
    pub blackhole: Vec<String>,
    /// Prints how many changes the cloud has had so far: one number.
    pub cloud_changes: Vec<String>,
    /// Prints how many calls the cloud has had so far, changes or not: one number.
    pub cloud_calls: Vec<String>,
    /// Prints the resources of the cloud, as text or JSON: without times, and IDs by chance.
    pub cloud_state: Vec<String>,
}

/// The choices of `explore` beyond those of the other keys.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Explore {
    /// Sets of annotations that a Service may have besides `services.annotations`.
    pub annotations: Vec<BTreeMap<String, String>>,
    /// Words of steps that no trace has, such as `kill`.
    pub without: Vec<String>,
}

impl Inputs {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not as described: the message names file and line.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let at = || format!("the inputs {}", path.display());
        let text = std::fs::read_to_string(path).with_context(at)?;
        serde_saphyr::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(at)
    }

    /// Holds the inputs against the declarations of the provider.
    ///
    /// # Errors
    ///
    /// A sentence with the key that does not fit.
    pub fn check(&self, handshake: &HandshakeResponse) -> Result<(), String> {
        let declared = handshake.capabilities.clone().unwrap_or_default();
        let Some(offered) = declared.load_balancers else {
            return Ok(());
        };
        match &self.services.load_balancer_class {
            Some(class) if !offered.classes.contains(class) => Err(format!(
                "services.loadBalancerClass is {class:?}, but the provider declares {:?}; name one of \
                 them, or leave the key out",
                offered.classes
            )),
            _ => Ok(()),
        }
    }
}

/// A limit as the standard library has it; a negative one is none.
pub(crate) fn limit(duration: SignedDuration) -> Duration {
    duration.try_into().unwrap_or_default()
}
