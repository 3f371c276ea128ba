//! Acts of users, kubelets and machines, as data, on a cluster whose cloud is `provider-mock`.

mod clean;
mod cloud;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use outrigger_testbed::{
    Error, Result,
    nodes::{self, Machine, Readiness},
    services, wire,
};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::{clean::clean, cloud::Cloud};

/// Both upstream's controller and Outrigger's lead by a Lease of this name.
pub(crate) const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager";

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Something that happens in the cluster, or in its cloud.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Act {
    /// Nodes register.
    Join(Join),
    /// The kubelets of Nodes change what they report.
    Kubelets {
        nodes: Vec<String>,
        readiness: Readiness,
    },
    /// So many Services want a load balancer each: service-1 and so on.
    Serve(usize),
    /// A client changes an object: a strategic merge patch, or a list of JSON patches.
    Edit { object: Object, patch: Value },
    /// A client deletes an object.
    Delete(Object),
    /// The cloud changes, or begins to lie: the words after `provider-mock ctl`.
    Cloud(Vec<String>),
}

/// Nodes that register.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Join {
    nodes: Vec<String>,
    readiness: Option<Readiness>,
    provider_id: Option<String>,
    #[serde(default)]
    initialised: bool,
}

/// An object as `kubectl` names it: `service/NAME` or `node/NAME`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Object {
    name: String,
    path: String,
}

impl TryFrom<String> for Object {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or_default();
        let collection = match kind {
            "service" => SERVICES,
            "node" => "/api/v1/nodes",
            _ => return Err(format!("{text} is neither a service nor a node")),
        };
        let path = format!("{collection}/{name}");
        Ok(Self { name: text, path })
    }
}

impl Act {
    /// Returns the Nodes that have registered.
    pub(crate) async fn carry_out(&self, client: &Client, cloud: &Cloud) -> Result<Vec<Node>> {
        match self {
            Self::Join(join) => return join.carry_out(client).await,
            Self::Kubelets { nodes, readiness } => {
                for name in nodes {
                    report(client, name, *readiness).await?;
                }
            }
            Self::Serve(count) => {
                for number in 1..=*count {
                    let name = format!("service-{number}");
                    let service = services::balanced(&name, ("scripted", "true"));
                    wire::post(client, SERVICES, &service, &name).await?;
                }
            }
            Self::Edit { object, patch } => {
                wire::patch(client, &object.path, patch, &object.name).await?;
            }
            Self::Delete(object) => wire::delete(client, &object.path, &object.name).await?,
            Self::Cloud(words) => {
                cloud.control(words).await?;
            }
        }
        Ok(Vec::new())
    }
}

impl Join {
    async fn carry_out(&self, client: &Client) -> Result<Vec<Node>> {
        let mut registered = Vec::new();
        for name in &self.nodes {
            let mut machine = Machine::new(name);
            if let Some(readiness) = self.readiness {
                machine = machine.readiness(readiness);
            }
            if let Some(id) = &self.provider_id {
                machine = machine.provider_id(id);
            }
            if self.initialised {
                machine = machine.initialized();
            }
            registered.push(nodes::register(client, &machine).await?);
        }
        Ok(registered)
    }
}

/// A kubelet that is back registers its Node again where it was deleted; that Node is another one.
async fn report(client: &Client, name: &str, readiness: Readiness) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let node = nodes.get_metadata_opt(name).await;
    let node = node.map_err(Error::kube(format!("cannot read Node {name}")))?;
    if node.is_some() {
        return nodes::set_readiness(client, name, readiness, Timestamp::now()).await;
    }
    let machine = Machine::new(name).readiness(readiness);
    nodes::register(client, &machine).await.map(drop)
}
