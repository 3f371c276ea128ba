//! Several controllers on one cluster, each with a provider and a way to the API server of its own.

use std::{fs, path::PathBuf};

use http::Method;
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{Api, api::PostParams};
use outrigger_testbed::{
    faults::{FaultProxy, Recorded},
    nodes::Machine,
};
use serde_json::json;

use crate::{
    caller::Port,
    cluster::{Cluster, SYSTEM},
    controller::Controller,
    look::{answered, written},
    mock::{Mock, instance},
    plane::USER,
    stage::{Backstage, tell_if_panicking},
};

/// The Lease that replicas contend for.
pub(crate) const LEASE: &str = "cloud-controller-manager";

/// A controller that is one of several, as it runs in a Pod: with leader election, with an HTTPS
/// server, and known by a token.
pub(crate) struct Replica {
    pub(crate) controller: Controller,
    pub(crate) mock: Mock,
    pub(crate) proxy: FaultProxy,
    pub(crate) port: Port,
    dir: PathBuf,
}

/// How a replica is started.
pub(crate) struct Part<'a> {
    cluster: &'a Backstage,
    name: &'a str,
    user: Option<&'a str>,
    provider: bool,
    api_server: bool,
    flags: Vec<String>,
}

impl Backstage {
    /// Starts a replica with the flags of the setup, and a mock without instances.
    pub(crate) async fn replica(&self, name: &str) -> Replica {
        self.part(name).start().await
    }

    /// For a replica that is not like the others.
    pub(crate) fn part<'a>(&'a self, name: &'a str) -> Part<'a> {
        Part {
            cluster: self,
            name,
            user: None,
            provider: true,
            api_server: true,
            flags: Vec::new(),
        }
    }
}

impl<'a> Part<'a> {
    /// Its provider is not there yet.
    pub(crate) fn without_provider(mut self) -> Self {
        self.provider = false;
        self
    }

    /// Its way to the API server is not open yet.
    pub(crate) fn without_api_server(mut self) -> Self {
        self.api_server = false;
        self
    }

    /// Known by this name instead of a token's.
    pub(crate) fn user(mut self, user: &'a str) -> Self {
        self.user = Some(user);
        self
    }

    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub(crate) async fn start(self) -> Replica {
        let cluster = self.cluster;
        let dir = cluster.dir().join(self.name);
        fs::create_dir(&dir).unwrap();
        let user = self.user.unwrap_or(USER);
        let proxy = FaultProxy::start_as(&cluster.plane, user, None).await;
        let proxy = proxy.unwrap();
        if !self.api_server {
            proxy.refuse_connections().await;
        }
        let mut kubeconfig = proxy.kubeconfig();
        if self.user.is_none() {
            kubeconfig = dir.join("kubeconfig");
            let token = cluster.token(SYSTEM, LEASE).await;
            fs::write(&kubeconfig, with_token(&proxy.url(), &token)).unwrap();
        }
        let kubeconfig = kubeconfig.display();
        let port = Port::reserve();
        let mut args = vec![
            format!("--kubeconfig={kubeconfig}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
            format!("--provider-endpoint={}", Mock::endpoint(&dir)),
            "-v=4".to_owned(),
        ];
        args.extend(port.flags());
        args.extend_from_slice(cluster.flags());
        args.extend(self.flags);
        let mut mock = Mock::new(&dir);
        if self.provider {
            mock.start(&[]).await;
        }
        Replica {
            controller: Controller::start(&args, &dir.join("controller.log")),
            mock,
            proxy,
            port,
            dir,
        }
    }
}

fn with_token(server: &str, token: &str) -> String {
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pod",
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "clusters": [{"name": "pod", "cluster": {"server": server}}],
        "users": [{"name": "pod", "user": {"token": token}}],
    });
    file.to_string()
}

impl Cluster {
    /// Makes an account in the namespace `default`, and returns a token of it.
    pub(crate) async fn account(&self, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), "default");
        let account = json!({"metadata": {"name": name}});
        let account = serde_json::from_value(account).unwrap();
        let made = accounts.create(&PostParams::default(), &account).await;
        made.unwrap();
        self.token("default", name).await
    }

    /// A token of an account, as `kubectl create token` gives it.
    pub(crate) async fn token(&self, namespace: &str, account: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let request = TokenRequest::default();
        let parameters = PostParams::default();
        let token = accounts.create_token_request(account, &parameters, &request);
        token.await.unwrap().status.unwrap().token
    }
}

impl Replica {
    /// Waits until it has become the leader.
    pub(crate) async fn leads(&mut self) {
        self.controller
            .says(&["successfully acquired lease", LEASE])
            .await;
    }

    /// Waits until it stands by and could lead.
    pub(crate) async fn follows(&mut self, leader: &mut Self) {
        let holder = leader.identity().await;
        self.controller
            .says(&["new leader elected", LEASE, &holder])
            .await;
        self.controller.says(&["provider ready"]).await;
    }

    /// The identity that it writes into the Lease.
    pub(crate) async fn identity(&mut self) -> String {
        let line = self
            .controller
            .says(&["attempting to acquire leader lease", LEASE])
            .await;
        let (_, identity) = line.split_once("identity=").unwrap();
        identity.split('"').nth(1).unwrap().to_owned()
    }

    /// Registers a node that only this one's cloud has, so that no other can initialise it.
    pub(crate) async fn own_node(&self, cluster: &Cluster, name: &str) {
        self.mock.create(instance(name)).await;
        cluster.register(&Machine::new(name)).await;
    }

    /// Its writes about a node.
    pub(crate) fn writes_of(&self, name: &str) -> Vec<String> {
        let requests = self.proxy.requests();
        let writes = requests.iter().filter(|request| request.is_write());
        let mut writes: Vec<_> = writes.map(written).collect();
        writes.retain(|write| write.split(['/', ' ']).any(|part| part == name));
        writes
    }

    /// Nothing that it asked for was forbidden.
    pub(crate) fn was_allowed_everything(&self) {
        let requests = self.proxy.requests();
        let forbidden = requests.iter().filter(|request| answered(request, 403));
        let forbidden: Vec<_> = forbidden
            .map(|request| format!("{} {}", request.method, request.path))
            .collect();
        assert!(forbidden.is_empty(), "{forbidden:?}");
    }

    /// Its accepted requests about the Lease `name`, except reads.
    pub(crate) fn claims(&self, name: &str) -> Vec<Recorded> {
        let mut requests = self.proxy.requests();
        requests.retain(|request| {
            let of_lease = request.path.ends_with(&format!("/leases/{name}"))
                || (request.path.ends_with("/leases")
                    && request.json()["metadata"]["name"] == name);
            of_lease
                && request.method != Method::GET
                && (answered(request, 200) || answered(request, 201))
        });
        requests
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        tell_if_panicking(&self.dir, &self.proxy);
    }
}
