//! `outrigger-lab traffic`: connections through a load balancer to Pods of several machines, while a machine leaves.

mod connections;

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use outrigger_testbed::{
    Error, Options, Passed, Result,
    check::{Checked, Steps, service_named},
    process::{log_end, output},
    services::{addresses, is_served},
    signals::Signals,
    wire,
};
use serde_json::json;
use tokio::process::Command;

use self::connections::{Connections, answer};
use crate::{cli::Show, images, programs, real_cluster::RealCluster, real_node::RealNode, say};

const MACHINES: usize = 3;
/// The machine that leaves.
const LEAVES: &str = "machine-3";
const SERVICE: &str = "web";
const IMAGE_PREFIX: &str = "registry.k8s.io/e2e-test-images/";
const IMAGE_VERSION: &str = "2.63.0";
const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The cluster, and what its steps wait with.
struct Stage {
    cluster: RealCluster,
    client: Client,
    timeout: Duration,
}

/// Shows all steps, and stays until a signal unless it is to end then.
pub(crate) async fn run(show: Show) -> Result<()> {
    // First: it fails fast, and a build is long.
    RealCluster::possible()?;
    let mut signals = Signals::install()?;
    let played = async {
        programs::build().await?;
        let prefix = ["--prefix", IMAGE_PREFIX];
        let [image] = images::build(&prefix, IMAGE_VERSION, ["agnhost"]).await?;
        let mut steps = Steps::new(|Passed { step, took, .. }: Passed| {
            say(&format!("{:>5.1} s  {step}", took.as_secs_f64()));
        });
        let cluster = RealCluster::start(MACHINES, Options::default(), &[]).await?;
        RealNode::import_on(cluster.nodes(), &image).await?;
        let mut stage = Stage {
            client: cluster.plane().client()?,
            cluster,
            timeout: show.timeout,
        };
        stage.play(&mut steps).await?;
        Ok::<_, Error>(stage)
    };
    let stage = tokio::select! {
        played = Box::pin(played) => played?,
        () = signals.next() => return Ok(()),
    };
    if !show.once {
        let kubeconfig = stage.cluster.plane().admin_kubeconfig()?;
        say(&format!("\nexport KUBECONFIG={}", kubeconfig.display()));
        say("kubectl get pods,nodes,services --output wide");
        say("Ctrl-C ends it");
        signals.next().await;
    }
    Ok(())
}

impl Stage {
    async fn play<F: FnMut(Passed)>(&mut self, steps: &mut Steps<F>) -> Result<()> {
        for number in 1..=MACHINES {
            self.node(&format!("machine-{number}"), "is ready", lacks_ready)
                .await?;
        }
        steps
            .done("three kubelets have Nodes, which are initialised and have Pod CIDRs and routes");
        self.deploy().await?;
        let address = self.serve_pods().await?;
        steps.done(&format!(
            "a Deployment has a Pod on each, and its Service the address {address}"
        ));
        let mut pods = BTreeSet::new();
        self.until("three Pods answer", async || {
            pods.extend(answer(&address).await);
            Ok((pods.len() < MACHINES).then(|| format!("{pods:?} answered")))
        })
        .await?;
        let pods: Vec<_> = pods.into_iter().collect();
        let pods = pods.join(", ");
        steps.done(&format!("`curl http://{address}` is answered by {pods}"));

        let nodes: Api<Node> = Api::all(self.client.clone());
        let read = async || {
            let node = nodes.get_opt(LEAVES).await;
            node.map_err(Error::kube(format!("cannot read Node {LEAVES}")))
        };
        let spec = read().await?.and_then(|node| node.spec);
        let pod_cidr = spec.and_then(|spec| spec.pod_cidr).unwrap_or_default();
        let router = self.cluster.router();
        self.until(&format!("there is a route to {pod_cidr}"), async || {
            let routes = routes(&router).await?;
            Ok((!routes.contains(&pod_cidr)).then_some(routes))
        })
        .await?;
        let connections = Connections::to(address);
        self.cluster.power_off(LEAVES).await?;
        // So many in a row do not come about by chance while one of three targets is dead.
        self.until("connections are answered again", async || {
            let row = connections.answered_in_a_row();
            let (lost, _) = connections.lost_of_all();
            Ok((lost == 0 || row < 60).then(|| format!("{lost} were lost, then {row} answered")))
        })
        .await?;
        let (lost, all) = connections.lost_of_all();
        steps.done(&format!(
            "{LEAVES} is turned off, and its target goes: {lost} of {all} connections were lost, then all are answered"
        ));
        self.node(LEAVES, "has the taint of a stopped machine", |node| {
            let taints = node.spec.as_ref()?.taints.as_deref().unwrap_or_default();
            let is_tainted = taints.iter().any(|taint| taint.key == SHUTDOWN_TAINT);
            (!is_tainted).then(|| format!("its taints are {taints:?}"))
        })
        .await?;
        steps.done(&format!("its Node has the taint {SHUTDOWN_TAINT}"));
        self.cluster.delete(LEAVES).await?;
        self.until(&format!("Node {LEAVES} is gone"), async || {
            Ok(read().await?.map(|_| "it is there".to_owned()))
        })
        .await?;
        self.until(&format!("the route to {pod_cidr} is gone"), async || {
            let routes = routes(&router).await?;
            Ok(routes.contains(&pod_cidr).then_some(routes))
        })
        .await?;
        let (lost_in_all, all) = connections.lost_of_all();
        let since = lost_in_all - lost;
        steps.done(&format!(
            "{LEAVES} is deleted from the cloud: its Node and the route {pod_cidr} are gone, and {since} of {all} \
             connections were lost since"
        ));
        Ok(())
    }

    /// Makes a Deployment with a Pod on each machine.
    async fn deploy(&self) -> Result<()> {
        let labels = json!({"app": SERVICE});
        let spread = json!({
            "labelSelector": {"matchLabels": labels},
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
        });
        let container = json!({
            "name": SERVICE,
            "image": format!("{IMAGE_PREFIX}agnhost:{IMAGE_VERSION}"),
            "args": ["serve-hostname"],
            "readinessProbe": {"httpGet": {"port": 9376}, "periodSeconds": 1},
        });
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": SERVICE},
            "spec": {
                "replicas": MACHINES,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "topologySpreadConstraints": [spread]},
                },
            },
        });
        let path = "/apis/apps/v1/namespaces/default/deployments";
        let made = wire::post(&self.client, path, &deployment, "the Deployment web").await;
        made.map(drop)
    }

    /// Makes the Service of the Deployment and returns its address.
    async fn serve_pods(&mut self) -> Result<String> {
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE},
            "spec": {
                "type": "LoadBalancer",
                // kube-proxy of another machine would send connections to the Pod of one that is off, until its Node is
                // not ready; the load balancer sees within seconds which machine does not answer.
                "externalTrafficPolicy": "Local",
                "selector": {"app": SERVICE},
                "ports": [{"port": 80, "targetPort": 9376}],
            },
        });
        let path = "/api/v1/namespaces/default/services";
        wire::post(&self.client, path, &service, "the Service web").await?;
        let services = self.services();
        self.until("the Service web has an address", async || {
            let service = service_named(&services, SERVICE).await?;
            Ok((!is_served(&service)).then(|| format!("its status is {:?}", service.status)))
        })
        .await?;
        let service = service_named(&services, SERVICE).await?;
        Ok(addresses(&service)
            .first()
            .copied()
            .unwrap_or_default()
            .to_owned())
    }
}

impl Checked for Stage {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn client(&self) -> &Client {
        &self.client
    }

    fn processes_run(&mut self) -> Result<()> {
        self.cluster.check()
    }

    fn log_ends(&self) -> (String, String) {
        let [controller, provider] = self.cluster.logs();
        (log_end(&controller), log_end(&provider))
    }
}

/// The reason why Pods cannot run on a Node.
fn lacks_ready(node: &Node) -> Option<String> {
    let conditions = node
        .status
        .as_ref()?
        .conditions
        .as_deref()
        .unwrap_or_default();
    let is_ready = conditions
        .iter()
        .any(|one| one.type_ == "Ready" && one.status == "True");
    (!is_ready).then(|| format!("its conditions are {conditions:?}"))
}

/// All tables of a router.
async fn routes(router: &str) -> Result<String> {
    let mut ip = Command::new("ip");
    ip.args(["-n", router, "route", "show", "table", "all"]);
    output("ip", &mut ip, || "list the router's routes".to_owned()).await
}
