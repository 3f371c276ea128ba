//! Load balancers of a correct mock.

use std::time::Duration;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::node_sets_service_client::NodeSetsServiceClient;
use outrigger_api::v1::update_load_balancer_nodes_response::Outcome;
use outrigger_api::v1::{
    DeleteLoadBalancerRequest, DeleteLoadBalancerResponse, EnsureLoadBalancerRequest,
    EnsureLoadBalancerResponse, GetLoadBalancerRequest, GetLoadBalancerResponse, InlineNodes,
    ListLoadBalancersRequest, LoadBalancerDisposition as Wire, LoadBalancerStatus, NodeAddress,
    NodeSetBegin, NodeSetChunk, NodeSetCommit, NodeSetRef, NodeTargets, OwnedLoadBalancer,
    PlanLoadBalancerRequest, PlanOperation, PlannedChange, Service, ServicePort,
    SyncNodeSetRequest, UpdateLoadBalancerNodesRequest, UpdateLoadBalancerNodesResponse,
    node_targets, sync_node_set_request::Part,
};
use outrigger_provider_mock::cloud::Clock;
use outrigger_provider_mock::load_balancers::{LoadBalancer, LoadBalancerRules};
use outrigger_provider_mock::{Cloud, CloudConfig, ProviderOptions, ServedLoadBalancers};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::harness::{Mock, context, node, reason};

/// A mock and what a controller asks of it about load balancers.
pub(crate) struct Balanced {
    pub(crate) mock: Mock,
    client: LoadBalancersServiceClient<Channel>,
    node_sets: NodeSetsServiceClient<Channel>,
}

pub(crate) fn service(name: &str) -> Service {
    Service {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        r#type: "LoadBalancer".into(),
        ports: vec![port("TCP", 80, 30_080)],
        ..Service::default()
    }
}

fn port(protocol: &str, port: i32, node_port: i32) -> ServicePort {
    ServicePort {
        protocol: protocol.into(),
        port,
        node_port,
        ..ServicePort::default()
    }
}

fn annotated(name: &str, key: &str, value: &str) -> Service {
    Service {
        annotations: [(format!("mock.example/{key}"), value.to_owned())].into(),
        ..service(name)
    }
}

fn inline(names: &[&str]) -> NodeTargets {
    let nodes = names.iter().map(|name| node(name)).collect();
    NodeTargets {
        targets: Some(node_targets::Targets::Inline(InlineNodes { nodes })),
    }
}

impl Balanced {
    pub(crate) async fn start(change: impl FnOnce(&mut LoadBalancerRules)) -> Self {
        Self::serving(change, ServedLoadBalancers::default()).await
    }

    async fn serving(
        change: impl FnOnce(&mut LoadBalancerRules),
        served: ServedLoadBalancers,
    ) -> Self {
        let mut config = CloudConfig::new().unwrap();
        config.clock = Clock::tokio();
        change(&mut config.load_balancers);
        let options = ProviderOptions {
            load_balancers: Some(served),
            ..ProviderOptions::default()
        };
        Self::over(Cloud::new(config), options).await
    }

    async fn over(cloud: Cloud, options: ProviderOptions) -> Self {
        let mock = Mock::over(cloud, options).await;
        Self {
            client: LoadBalancersServiceClient::new(mock.channel.clone()),
            node_sets: NodeSetsServiceClient::new(mock.channel.clone()),
            mock,
        }
    }

    pub(crate) async fn get(&self, service: Service) -> Result<GetLoadBalancerResponse, Status> {
        let request = GetLoadBalancerRequest {
            context: Some(context()),
            service: Some(service),
        };
        let answer = self.client.clone().get_load_balancer(request).await?;
        Ok(answer.into_inner())
    }

    pub(crate) async fn ensure(
        &self,
        service: Service,
        targets: NodeTargets,
    ) -> Result<EnsureLoadBalancerResponse, Status> {
        let request = EnsureLoadBalancerRequest {
            context: Some(context()),
            service: Some(service),
            targets: Some(targets),
        };
        let answer = self.client.clone().ensure_load_balancer(request).await?;
        Ok(answer.into_inner())
    }

    /// Ensures a Service with two targets.
    pub(crate) async fn make(&self, name: &str) -> Result<EnsureLoadBalancerResponse, Status> {
        self.ensure(service(name), inline(&["n-1", "n-2"])).await
    }

    pub(crate) async fn update(
        &self,
        names: &[&str],
        nodes: &[&str],
    ) -> Result<Vec<UpdateLoadBalancerNodesResponse>, Status> {
        let request = UpdateLoadBalancerNodesRequest {
            context: Some(context()),
            services: names.iter().map(|name| service(name)).collect(),
            targets: Some(inline(nodes)),
        };
        let mut client = self.client.clone();
        let mut stream = client
            .update_load_balancer_nodes(request)
            .await?
            .into_inner();
        let mut results = Vec::new();
        while let Some(result) = stream.message().await? {
            results.push(result);
        }
        results.sort_by_key(|result| result.service.as_ref().map(|service| service.name.clone()));
        Ok(results)
    }

    pub(crate) async fn delete(
        &self,
        service: Service,
    ) -> Result<DeleteLoadBalancerResponse, Status> {
        let request = DeleteLoadBalancerRequest {
            context: Some(context()),
            service: Some(service),
        };
        let answer = self.client.clone().delete_load_balancer(request).await?;
        Ok(answer.into_inner())
    }

    pub(crate) async fn list(&self) -> Result<(Vec<OwnedLoadBalancer>, bool), Status> {
        let request = ListLoadBalancersRequest {
            context: Some(context()),
        };
        let mut client = self.client.clone();
        let mut stream = client.list_load_balancers(request).await?.into_inner();
        let (mut listed, mut complete) = (Vec::new(), false);
        while let Some(message) = stream.message().await? {
            listed.extend(message.load_balancers);
            complete = message.complete;
        }
        Ok((listed, complete))
    }

    async fn plan(&self, service: Service, nodes: &[&str]) -> Vec<PlannedChange> {
        let request = PlanLoadBalancerRequest {
            context: Some(context()),
            operation: PlanOperation::Ensure.into(),
            service: Some(service),
            targets: Some(inline(nodes)),
        };
        let answer = self.client.clone().plan_load_balancer(request).await;
        answer.unwrap().into_inner().changes
    }

    fn held(&self, name: &str) -> LoadBalancer {
        let held = self.mock.cloud.load_balancer(&format!("uid-{name}"));
        LoadBalancer::clone(&held.expect("it is not there"))
    }

    fn targets(&self, name: &str) -> Vec<String> {
        let held = self.held(name);
        held.targets
            .iter()
            .map(|one| one.node.to_string())
            .collect()
    }
}

fn ips(status: Option<&LoadBalancerStatus>) -> Vec<&str> {
    let ingress = status.expect("no status").ingress.iter();
    ingress.map(|one| one.ip.as_str()).collect()
}

/// LBS-01, LBS-02, LBS-03, LBS-12.
#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_made_once_and_goes_once() {
    let lb = Balanced::start(|_| {}).await;
    assert_eq!(
        lb.get(service("web")).await.unwrap().disposition(),
        Wire::Absent
    );
    let first = lb.make("web").await.unwrap();
    assert_eq!(first.disposition(), Wire::Ready);
    let ip = ips(first.status.as_ref())[0].to_owned();
    assert!(ip.starts_with("198.1"), "{ip}");
    for _ in 0..2 {
        assert_eq!(lb.make("web").await.unwrap(), first);
    }
    let seen = lb.get(service("web")).await.unwrap();
    assert_eq!(
        (seen.disposition(), seen.status),
        (Wire::Ready, first.status)
    );
    assert_eq!(lb.mock.cloud.load_balancers().len(), 1);
    let counters = lb.mock.cloud.counters();
    let served = |operation: &str| {
        counters
            .cloud
            .get(operation)
            .map_or(0, |count| count.served)
    };
    assert_eq!(
        (served("CreateLoadBalancer"), served("ModifyLoadBalancer")),
        (1, 0)
    );
    assert_eq!(
        (
            served("SetTargets"),
            counters.calls("EnsureLoadBalancer", "OK")
        ),
        (0, 3)
    );
    for _ in 0..2 {
        assert_eq!(
            lb.delete(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert!(lb.mock.cloud.load_balancers().is_empty());
    }
}

/// LBS-06 and LBS-19: what is planned is what is done.
#[tokio::test(start_paused = true)]
async fn changes_are_planned_then_made_and_the_address_stays() {
    let lb = Balanced::start(|_| {}).await;
    let planned = lb.plan(service("web"), &["n-1", "n-2"]).await;
    assert_eq!((planned.len(), planned[0].action), (1, 1));
    let before = lb.make("web").await.unwrap().status;
    assert!(lb.plan(service("web"), &["n-1", "n-2"]).await.is_empty());
    let wanted = Service {
        ports: vec![port("UDP", 53, 30_053), port("TCP", 443, 30_443)],
        load_balancer_source_ranges: vec!["10.0.0.0/8".into()],
        external_traffic_policy: "Local".into(),
        health_check_node_port: 30_999,
        ..service("web")
    };
    let planned = lb.plan(wanted.clone(), &["n-2"]).await;
    let summaries: Vec<_> = planned
        .iter()
        .map(|change| change.summary.as_str())
        .collect();
    assert_eq!(
        summaries,
        [
            "listener UDP/53:30053 would be added",
            "listener TCP/443:30443 would be added",
            "listener TCP/80:30080 would be removed",
            "its source ranges would be changed",
            "its health check would be changed",
            "the targets would be changed, 2 to 1"
        ]
    );
    assert_eq!(lb.targets("web"), ["n-1", "n-2"], "a plan changed it");
    let after = lb.ensure(wanted.clone(), inline(&["n-2"])).await.unwrap();
    assert_eq!(after.status, before);
    let held = lb.held("web");
    assert_eq!(held.ports.len(), 2);
    assert_eq!(held.health_check_node_port, 30_999);
    assert_eq!(lb.targets("web"), ["n-2"]);
    assert!(lb.plan(wanted, &["n-2"]).await.is_empty());
}

/// LBS-07.
#[tokio::test(start_paused = true)]
async fn what_the_cloud_cannot_serve_is_refused_and_nothing_is_made() {
    let lb = Balanced::start(|rules| {
        rules.mixed_protocols = false;
        rules.pools.truncate(1);
    })
    .await;
    let with_ports = |ports| Service {
        ports,
        ..service("web")
    };
    for (service, says, why) in [
        (
            with_ports(vec![port("SCTP", 1, 1)]),
            "wants SCTP",
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            with_ports(vec![port("TCP", 1, 1), port("UDP", 1, 2)]),
            "several protocols",
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            Service {
                ip_families: vec!["IPv6".into()],
                ..service("web")
            },
            "no pool",
            "UNSUPPORTED_PROTOCOL",
        ),
        (
            Service {
                load_balancer_ip: "192.0.2.1".into(),
                ..service("web")
            },
            "loadBalancerIP \"192.0.2.1\"",
            "INVALID_ANNOTATION",
        ),
        (
            annotated("web", "address-mode", "pigeon"),
            "use ip, vip, proxy",
            "INVALID_ANNOTATION",
        ),
        (
            annotated("web", "provisioning-time", "soon"),
            "provisioning-time",
            "INVALID_ANNOTATION",
        ),
        (
            annotated("web", "deletion-protection", "yes"),
            "neither true",
            "INVALID_ANNOTATION",
        ),
    ] {
        let refused = lb.ensure(service, inline(&[])).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(reason(&refused).as_deref(), Some(why), "{refused}");
        assert!(refused.message().contains(says), "{says:?}: {refused}");
    }
    assert!(lb.mock.cloud.load_balancers().is_empty());
}

/// LBS-10.
#[tokio::test(start_paused = true)]
async fn addresses_come_in_the_wanted_families_and_modes() {
    let lb = Balanced::start(|_| {}).await;
    let dual = Service {
        ip_families: vec!["IPv6".into(), "IPv4".into()],
        ..service("dual")
    };
    let status = lb.ensure(dual, inline(&[])).await.unwrap().status;
    let found = ips(status.as_ref());
    assert!(
        found[0].starts_with("2001:db8:1b:") && found[1].starts_with("198.1"),
        "{found:?}"
    );
    for (mode, ip_mode) in [("ip", None), ("vip", Some("VIP")), ("proxy", Some("Proxy"))] {
        let made = lb
            .ensure(annotated(mode, "address-mode", mode), inline(&[]))
            .await
            .unwrap();
        assert_eq!(made.status.unwrap().ingress[0].ip_mode.as_deref(), ip_mode);
    }
    let named = annotated("web", "address-mode", "hostname");
    let made = lb.ensure(named, inline(&[])).await.unwrap().status.unwrap();
    assert!(
        made.ingress[0].hostname.ends_with(".lb.mock.example") && made.ingress[0].ip.is_empty()
    );
    let wish = Service {
        load_balancer_ip: "198.18.7.7".into(),
        ..service("wish")
    };
    let made = lb.ensure(wish.clone(), inline(&[])).await.unwrap();
    assert_eq!(ips(made.status.as_ref()), ["198.18.7.7"]);
    let second = Service {
        uid: "another".into(),
        ..wish
    };
    let refused = lb.ensure(second, inline(&[])).await.unwrap_err();
    assert_eq!(reason(&refused).as_deref(), Some("CONFLICTING_RESOURCE"));
}

/// LBS-02, LBS-12 and LBS-20, through `IN_PROGRESS`.
#[tokio::test(start_paused = true)]
async fn a_slow_cloud_is_in_progress_until_it_is_done() {
    for early in [false, true] {
        let lb = Balanced::start(|rules| {
            rules.provisioning = Duration::from_secs(30);
            rules.deprovisioning = Duration::from_secs(20);
            rules.early_addresses = early;
        })
        .await;
        let made = lb.make("web").await.unwrap();
        assert_eq!(
            (made.disposition(), made.reason.as_str()),
            (Wire::InProgress, "Provisioning")
        );
        assert_eq!(made.status.is_some(), early);
        let wait = made.retry_after.unwrap().seconds as u64;
        assert!((29..=30).contains(&wait), "{wait}");
        assert_eq!(
            lb.get(service("web")).await.unwrap().disposition(),
            Wire::InProgress
        );
        tokio::time::sleep(Duration::from_secs(wait + 1)).await;
        let made = lb.make("web").await.unwrap();
        assert_eq!(
            (made.disposition(), ips(made.status.as_ref()).len()),
            (Wire::Ready, 1)
        );

        let going = lb.delete(service("web")).await.unwrap();
        assert_eq!(going.disposition(), Wire::InProgress);
        let again = lb.make("web").await.unwrap();
        assert_eq!(
            (again.disposition(), again.reason.as_str()),
            (Wire::InProgress, "Deleting")
        );
        tokio::time::sleep(Duration::from_secs(21)).await;
        assert_eq!(
            lb.get(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert_eq!(
            lb.delete(service("web")).await.unwrap().disposition(),
            Wire::Absent
        );
        assert!(lb.mock.cloud.load_balancers().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn quota_and_pool_are_used_up_and_freed() {
    for (change, says) in [
        (
            (|rules| rules.quota = Some(2)) as fn(&mut LoadBalancerRules),
            "quota",
        ),
        (
            |rules| rules.pools = vec!["192.0.2.0/30".parse().unwrap()],
            "no address left",
        ),
    ] {
        let lb = Balanced::start(change).await;
        lb.make("a").await.unwrap();
        lb.make("b").await.unwrap();
        let full = lb.make("c").await.unwrap_err();
        assert_eq!(reason(&full).as_deref(), Some("QUOTA_EXCEEDED"));
        assert!(full.message().contains(says), "{full}");
        lb.make("a").await.unwrap();
        lb.delete(service("a")).await.unwrap();
        lb.make("c").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_protected_load_balancer_is_retained() {
    let lb = Balanced::start(|_| {}).await;
    let protected = annotated("web", "deletion-protection", "true");
    lb.ensure(protected.clone(), inline(&[])).await.unwrap();
    for _ in 0..2 {
        let kept = lb.delete(protected.clone()).await.unwrap();
        assert_eq!(
            (kept.disposition(), kept.reason.as_str()),
            (Wire::Retained, "DeletionProtected")
        );
    }
    lb.make("web").await.unwrap();
    assert_eq!(
        lb.delete(service("web")).await.unwrap().disposition(),
        Wire::Absent
    );
}

/// LBS-11.
#[tokio::test(start_paused = true)]
async fn classes_and_an_annotation_decide_who_is_managed() {
    let served = ServedLoadBalancers {
        classes: vec!["mock.example/a".into()],
        without_default_class: true,
        ..ServedLoadBalancers::default()
    };
    let lb = Balanced::serving(|_| {}, served).await;
    let offered = lb
        .mock
        .handshake
        .capabilities
        .clone()
        .unwrap()
        .load_balancers
        .unwrap();
    assert!(offered.without_default_class && offered.list && offered.plan);
    let of_class = |class: Option<&str>| Service {
        load_balancer_class: class.map(Into::into),
        ..service("web")
    };
    for class in [None, Some("other/b")] {
        let answer = lb.ensure(of_class(class), inline(&[])).await.unwrap();
        assert_eq!(answer.disposition(), Wire::NotManaged);
    }
    let foreign = Service {
        load_balancer_class: Some("mock.example/a".into()),
        ..annotated("web", "not-managed", "true")
    };
    assert_eq!(
        lb.get(foreign.clone()).await.unwrap().disposition(),
        Wire::NotManaged
    );
    let answer = lb.ensure(foreign.clone(), inline(&[])).await.unwrap();
    assert_eq!(answer.disposition(), Wire::NotManaged);
    assert_eq!(
        lb.delete(foreign).await.unwrap().disposition(),
        Wire::NotManaged
    );
    assert!(lb.mock.cloud.load_balancers().is_empty());
    let answer = lb
        .ensure(of_class(Some("mock.example/a")), inline(&[]))
        .await
        .unwrap();
    assert_eq!(answer.disposition(), Wire::Ready);
}

/// LBS-15, LBS-16, LBS-17.
#[tokio::test(start_paused = true)]
async fn targets_follow_an_update_and_nothing_is_made_by_it() {
    let lb = Balanced::start(|_| {}).await;
    lb.make("a").await.unwrap();
    lb.make("b").await.unwrap();
    for nodes in [&["n-1", "n-2", "n-3"][..], &["n-2"], &["n-8", "n-9"], &[]] {
        let results = lb.update(&["a", "b", "none"], nodes).await.unwrap();
        let dispositions: Vec<_> = results
            .into_iter()
            .map(|result| match result.outcome.unwrap() {
                Outcome::Updated(updated) => updated.disposition(),
                Outcome::Error(status) => panic!("{status:?}"),
            })
            .collect();
        assert_eq!(dispositions, [Wire::Ready, Wire::Ready, Wire::Absent]);
        assert_eq!(lb.targets("a"), nodes);
        assert_eq!(lb.targets("b"), nodes);
    }
    assert_eq!(lb.mock.cloud.load_balancers().len(), 2);
    assert_eq!(
        lb.mock.cloud.counters().items["UpdateLoadBalancerNodes"],
        12
    );
}

/// LBS-18, and orphans.
#[tokio::test(start_paused = true)]
async fn a_list_shows_this_cluster_only_and_a_lost_tag_is_told() {
    let mut config = CloudConfig::new().unwrap();
    config.page_size = 2.try_into().unwrap();
    let lb = Balanced::over(Cloud::new(config), ProviderOptions::default()).await;
    for name in ["a", "b", "c", "d"] {
        lb.make(name).await.unwrap();
    }
    lb.mock
        .cloud
        .add_load_balancer(LoadBalancer {
            id: "lb-foreign".into(),
            cluster: "another".into(),
            addresses: Vec::new(),
            ..lb.held("a")
        })
        .unwrap();
    lb.mock
        .cloud
        .edit_load_balancer(LoadBalancer {
            service: None,
            ..lb.held("b")
        })
        .unwrap();
    let (listed, complete) = lb.list().await.unwrap();
    assert!(complete);
    let tags = listed.iter().map(|one| one.service.as_ref());
    let mut names: Vec<_> = tags
        .map(|tag| tag.map_or("-", |tag| tag.name.as_str()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["-", "a", "c", "d"]);
    // Without its tag it cannot be found: the Service gets another one.
    assert_eq!(
        lb.get(service("b")).await.unwrap().disposition(),
        Wire::Absent
    );
}

/// LBS-14.
#[tokio::test(start_paused = true)]
async fn a_service_that_was_made_again_has_a_load_balancer_of_its_own() {
    let lb = Balanced::start(|_| {}).await;
    let old = lb.make("web").await.unwrap();
    let again = Service {
        uid: "uid-again".into(),
        ..service("web")
    };
    let new = lb.ensure(again.clone(), inline(&[])).await.unwrap();
    assert_ne!(old.identity, new.identity);
    assert_ne!(old.status, new.status);
    lb.delete(service("web")).await.unwrap();
    assert_eq!(lb.get(again).await.unwrap().disposition(), Wire::Ready);
}

#[tokio::test(start_paused = true)]
async fn drift_is_seen_and_repaired() {
    let lb = Balanced::start(|_| {}).await;
    let made = lb.make("web").await.unwrap();
    let drifted = LoadBalancer {
        ports: Vec::new(),
        ..lb.held("web")
    };
    lb.mock.cloud.edit_load_balancer(drifted).unwrap();
    let seen = lb.get(service("web")).await.unwrap();
    assert_eq!(
        (seen.disposition(), seen.reason.as_str()),
        (Wire::InProgress, "NotAsWanted")
    );
    assert_eq!(lb.make("web").await.unwrap().disposition(), Wire::Ready);
    assert_eq!(lb.held("web").ports.len(), 1);
    let id = lb.held("web").id;
    lb.mock.cloud.remove_load_balancer(&id).unwrap();
    assert_eq!(
        lb.get(service("web")).await.unwrap().disposition(),
        Wire::Absent
    );
    // The address follows from the key.
    assert_eq!(lb.make("web").await.unwrap().status, made.status);
}

/// The nodes travel once; load balancers with equal targets keep them once.
#[tokio::test(start_paused = true)]
async fn targets_come_from_a_node_set_too() {
    let lb = Balanced::start(|_| {}).await;
    assert!(
        lb.mock
            .handshake
            .capabilities
            .as_ref()
            .unwrap()
            .node_sets
            .is_some()
    );
    let by_ref = || NodeTargets {
        targets: Some(node_targets::Targets::Ref(NodeSetRef {
            set_id: "all".into(),
            revision: "r1".into(),
        })),
    };
    let unknown = lb.ensure(service("a"), by_ref()).await.unwrap_err();
    assert_eq!(reason(&unknown).as_deref(), Some("NODE_SET_UNKNOWN"));
    let mut first = node("n-1");
    for (kind, address) in [("Hostname", "n-1"), ("InternalIP", "10.0.0.4")] {
        first.addresses.push(NodeAddress {
            r#type: kind.into(),
            address: address.into(),
        });
    }
    let parts = [
        Part::Begin(NodeSetBegin {
            context: Some(context()),
            set_id: "all".into(),
            base_revision: String::new(),
            revision: "r1".into(),
            node_count: 1,
        }),
        Part::Chunk(NodeSetChunk {
            upserts: vec![first],
            removals: Vec::new(),
        }),
        Part::Commit(NodeSetCommit { change_count: 1 }),
    ]
    .map(|part| SyncNodeSetRequest { part: Some(part) });
    let mut sets = lb.node_sets.clone();
    sets.sync_node_set(futures::stream::iter(parts))
        .await
        .unwrap();
    for name in ["a", "b"] {
        lb.ensure(service(name), by_ref()).await.unwrap();
    }
    let (a, b) = (lb.held("a"), lb.held("b"));
    assert_eq!(a.targets[0].address.as_deref(), Some("10.0.0.4"));
    assert!(
        std::sync::Arc::ptr_eq(&a.targets, &b.targets),
        "they are kept twice"
    );
    assert_eq!(lb.mock.cloud.counters().calls("SyncNodeSet", "OK"), 1);
}

#[tokio::test(start_paused = true)]
async fn effects_come_only_where_they_were_asked_for() {
    let plain = Balanced::start(|_| {}).await;
    assert!(plain.make("web").await.unwrap().effects.is_none());
    assert!(
        plain
            .mock
            .handshake
            .capabilities
            .as_ref()
            .unwrap()
            .effects
            .is_none()
    );
    let served = ServedLoadBalancers {
        effects: true,
        ..ServedLoadBalancers::default()
    };
    let lb = Balanced::serving(|_| {}, served).await;
    let declared = lb
        .mock
        .handshake
        .capabilities
        .clone()
        .unwrap()
        .effects
        .unwrap();
    let prefix = &declared.service_annotation_prefixes[0];
    for events in [1, 0] {
        let effects = lb.make("web").await.unwrap().effects.unwrap();
        assert_eq!(effects.events.len(), events);
        assert!(
            effects
                .set_annotations
                .keys()
                .all(|key| key.starts_with(prefix))
        );
        assert!(effects.conditions[0].r#type.starts_with(prefix));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mock_may_offer_no_load_balancers_or_no_node_sets() {
    let over = async |options| {
        let cloud = Cloud::new(CloudConfig::new().unwrap());
        Balanced::over(cloud, options).await
    };
    let none = over(ProviderOptions {
        load_balancers: None,
        ..ProviderOptions::default()
    })
    .await;
    let offered = none.mock.handshake.capabilities.clone().unwrap();
    assert!(offered.load_balancers.is_none() && offered.node_sets.is_none());
    let refused = none.make("web").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    let inline_only = over(ProviderOptions {
        without_node_sets: true,
        ..ProviderOptions::default()
    })
    .await;
    let offered = inline_only.mock.handshake.capabilities.clone().unwrap();
    assert!(offered.load_balancers.is_some() && offered.node_sets.is_none());
    assert_eq!(
        inline_only.make("web").await.unwrap().disposition(),
        Wire::Ready
    );
}
