//! Sweeps of the mock's cloud, and of providers whose lists are not to be believed.

mod faults;

use std::{collections::BTreeMap, sync::Arc};

use outrigger_api::v1;
use outrigger_provider::{
    Options, ProviderMetrics,
    fixture::{Fake, Pipe, Reply, Step, handshake},
};
use outrigger_provider_mock::{
    Cloud, ProviderOptions, ServedLoadBalancers, ServedRoutes,
    faults::{Effect, Fault, InjectedError, Method},
    load_balancers::{AddressMode, LoadBalancer, ServiceTag},
    routes::{Route, RouteTarget},
};
use prometheus_client::registry::Registry;
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::*;
use crate::fixture::{Fixture, Setup, cloud};

const GONE: &str = "0b5bf7b5-gone";
const OTHER: &str = "51b6ea0c-alive";

fn rig(provider: ProviderOptions) -> Fixture {
    let cloud = cloud(|config| config.load_balancers.deprovisioning = Duration::from_secs(40));
    processes(cloud, provider)
}

/// A command and its provider.
fn processes(cloud: Cloud, provider: ProviderOptions) -> Fixture {
    Fixture::new(Setup {
        cloud,
        provider,
        ..Setup::default()
    })
}

fn with_routes() -> ProviderOptions {
    ProviderOptions {
        routes: Some(ServedRoutes::default()),
        ..ProviderOptions::default()
    }
}

/// Puts a load balancer for the Service `shop/NAME` into the cloud.
fn balance(rig: &Fixture, cluster: &str, name: &str, edit: impl FnOnce(&mut LoadBalancer)) {
    let now = Timestamp::UNIX_EPOCH;
    let mut balancer = LoadBalancer {
        id: format!("lb-{cluster}-{name}"),
        name: name.to_owned(),
        cluster: cluster.to_owned(),
        service: Some(ServiceTag {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            // The key of a Service is unique in one cluster only.
            uid: format!("uid-{name}"),
        }),
        address_mode: AddressMode::Ip,
        addresses: Vec::new(),
        ports: Vec::new(),
        source_ranges: Vec::new(),
        health_check_node_port: 0,
        targets: Arc::default(),
        options: BTreeMap::new(),
        protected: false,
        created_at: now,
        ready_at: now,
        gone_at: None,
    };
    edit(&mut balancer);
    rig.cloud.add_load_balancer(balancer).unwrap();
}

fn route(rig: &Fixture, cluster: &str, third: u8) {
    let route = Route {
        name: format!("route-{third}"),
        cluster: Some(cluster.to_owned()),
        destination: format!("10.0.{third}.0/24").parse().unwrap(),
        target: RouteTarget {
            node: format!("n-{third}"),
            ..RouteTarget::default()
        },
        blackhole: false,
        created_at: Timestamp::UNIX_EPOCH,
    };
    rig.cloud.edit_routes(|table| table.insert(route)).unwrap();
}

/// Ids and names of all that the cloud has.
fn left(rig: &Fixture) -> Vec<String> {
    let balancers = rig.cloud.load_balancers().into_iter();
    let balancers = balancers.map(|balancer| balancer.id.clone());
    let routes = rig.cloud.routes().into_iter();
    balancers
        .chain(routes.map(|route| route.name.clone()))
        .collect()
}

const HOUR: Duration = Duration::from_hours(1);

async fn sweep(rig: &Fixture) -> Swept {
    sweep_by(rig.provider.clone(), HOUR).await
}

async fn sweep_by(provider: Provider, time: Duration) -> Swept {
    let sweep = Sweep::begin(provider, GONE).await.unwrap();
    let stop = async {
        sleep(time).await;
        "the time was up".to_owned()
    };
    sweep.run(stop).await
}

/// Why nothing is listed.
async fn refusal_to_list(provider: Provider) -> String {
    let begun = Sweep::begin(provider, GONE).await;
    begun.unwrap().list().await.unwrap_err()
}

/// The fates of all objects by their owner.
fn fates(swept: &Swept) -> Vec<(String, &Fate)> {
    let fates = swept.objects.iter();
    fates.map(|(object, fate)| (object.owner(), fate)).collect()
}

fn refusal(method: Method, code: Code, reason: &str) -> Fault {
    let error = InjectedError::new(code).with_reason(reason);
    Fault::on(method, Effect::Error(error))
}

#[tokio::test(start_paused = true)]
async fn all_of_the_cluster_goes_and_nothing_of_another() {
    let rig = rig(with_routes());
    for name in ["web", "api", "db"] {
        balance(&rig, GONE, name, |_| {});
        balance(&rig, OTHER, name, |_| {});
    }
    for third in 1..=3 {
        route(&rig, GONE, third);
        route(&rig, OTHER, 100 + third);
    }
    let others: Vec<_> = left(&rig)
        .into_iter()
        .filter(|name| name.contains(OTHER) || name.starts_with("route-10"))
        .collect();
    assert_eq!(others.len(), 6);
    let began = Instant::now();
    let swept = sweep(&rig).await;
    assert!(swept.is_clean(), "{swept:?}");
    assert_eq!(swept.objects.len(), 6);
    assert_eq!(left(&rig), others);
    // Each was asked about again while the cloud worked on it.
    assert!(began.elapsed() >= Duration::from_secs(40));
    assert!(began.elapsed() < Duration::from_mins(2));
    let swept = sweep(&rig).await;
    assert!(swept.is_clean() && swept.objects.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_list_deletes_nothing() {
    let rig = rig(with_routes());
    balance(&rig, GONE, "web", |_| {});
    route(&rig, GONE, 1);
    let before = left(&rig);
    let begun = Sweep::begin(rig.provider.clone(), GONE).await;
    let listed = begun.unwrap().list().await.unwrap();
    let shown: Vec<_> = listed.iter().map(|it| (it.kind(), it.owner())).collect();
    assert_eq!(
        shown,
        [
            ("load-balancer", "shop/web".to_owned()),
            ("route", "n-1".to_owned())
        ]
    );
    assert_eq!(left(&rig), before);
}

#[tokio::test(start_paused = true)]
async fn what_stays_is_said_and_not_waited_for() {
    let rig = rig(ProviderOptions::default());
    balance(&rig, GONE, "kept", |balancer| balancer.protected = true);
    balance(&rig, GONE, "nameless", |balancer| balancer.service = None);
    balance(&rig, GONE, "keyless", |balancer| {
        balancer.service.as_mut().unwrap().uid.clear();
    });
    balance(&rig, GONE, "wrong", |_| {});
    balance(&rig, GONE, "web", |_| {});
    let wrong = refusal(
        Method::DeleteLoadBalancer,
        Code::InvalidArgument,
        "INVALID_REQUEST",
    );
    rig.cloud.inject(wrong.for_service("shop/wrong"));
    let began = Instant::now();
    let swept = sweep(&rig).await;
    assert!(began.elapsed() < Duration::from_mins(5));
    assert!(!swept.is_clean());
    assert_eq!(swept.unfinished, None);
    let fates: BTreeMap<_, _> = fates(&swept).into_iter().collect();
    assert_eq!(fates["shop/web"], &Fate::Deleted);
    // An entry without a UID would be a deletion by an empty key.
    for owner in ["", "shop/keyless", "shop/wrong", "shop/kept"] {
        assert!(matches!(fates[owner], Fate::Kept(_)), "{fates:?}");
    }
    assert_eq!(rig.cloud.load_balancers().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn trouble_of_the_cloud_delays_one_object_and_ends_in_time() {
    let rig = rig(ProviderOptions::default());
    for name in ["web", "stuck", "late"] {
        balance(&rig, GONE, name, |_| {});
    }
    let method = Method::DeleteLoadBalancer;
    let late = refusal(method, Code::Internal, "CLOUD_ERROR").for_service("shop/late");
    rig.cloud.inject(late.times(3));
    let stuck = refusal(method, Code::FailedPrecondition, "DEPENDENCY_NOT_READY");
    rig.cloud.inject(stuck.for_service("shop/stuck"));
    let began = Instant::now();
    let swept = sweep_by(rig.provider.clone(), Duration::from_mins(10)).await;
    assert!(began.elapsed() <= Duration::from_mins(11));
    let fates: BTreeMap<_, _> = fates(&swept).into_iter().collect();
    assert_eq!(fates["shop/web"], &Fate::Deleted);
    assert_eq!(fates["shop/late"], &Fate::Deleted);
    let Fate::Begun(why) = fates["shop/stuck"] else {
        panic!("{fates:?}");
    };
    assert!(why.contains("DEPENDENCY_NOT_READY"), "{why}");
    assert_eq!(swept.unfinished.as_deref(), Some("the time was up"));
}

#[tokio::test(start_paused = true)]
async fn routes_without_a_mark_of_their_cluster_are_not_deleted_by() {
    let rig = rig(ProviderOptions {
        routes: Some(ServedRoutes {
            whole_table: true,
            ..ServedRoutes::default()
        }),
        ..ProviderOptions::default()
    });
    balance(&rig, GONE, "web", |_| {});
    route(&rig, OTHER, 1);
    let before = left(&rig);
    let error = refusal_to_list(rig.provider.clone()).await;
    assert!(error.contains("does not tell clusters apart"), "{error}");
    assert_eq!(left(&rig), before);
}

/// A load balancer in a list.
fn owned(name: &str) -> v1::OwnedLoadBalancer {
    v1::OwnedLoadBalancer {
        identity: Some(v1::LoadBalancerIdentity {
            id: format!("lb-{name}"),
            name: name.to_owned(),
        }),
        service: Some(v1::ServiceRef {
            uid: format!("uid-{name}"),
            ..v1::ServiceRef::default()
        }),
        status: None,
    }
}

/// A provider that lists `names`, by its own rules.
fn scripted(
    list: bool,
    script: impl Fn(&str) -> Vec<&'static str> + Send + Sync + 'static,
    tasks: &mut JoinSet<()>,
) -> (Arc<Fake>, Provider) {
    let fake = Fake::new();
    fake.handshake.on(move |_| {
        let mut answer = handshake();
        let offered = answer.capabilities.get_or_insert_default();
        offered.load_balancers = Some(v1::LoadBalancersCapability {
            list,
            ..v1::LoadBalancersCapability::default()
        });
        Reply::Say(answer)
    });
    fake.balancers.list_by(move |request| {
        let cluster = request.context.as_ref().unwrap();
        vec![Step::Say(v1::ListLoadBalancersResponse {
            items: script(&cluster.cluster_uid)
                .into_iter()
                .map(owned)
                .collect(),
            complete: true,
        })]
    });
    let options = Options {
        controller_name: "test".into(),
        controller_version: "0".into(),
        cluster_uid: GONE.to_owned(),
        ..Options::default()
    };
    let metrics = ProviderMetrics::register(&mut Registry::default());
    let pipe = Box::new(Pipe(Arc::clone(&fake)));
    let (provider, run) = Provider::new(options, pipe, metrics, CancellationToken::new());
    tasks.spawn(run);
    (fake, provider)
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_lists_is_refused_by_name() {
    let mut tasks = JoinSet::new();
    let (fake, provider) = scripted(false, |_| Vec::new(), &mut tasks);
    let refused = Sweep::begin(provider, GONE).await;
    let error = refused.err().unwrap();
    assert!(error.contains("provider fake cannot list"), "{error}");
    assert_eq!(fake.balancers.delete.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_not_there_is_waited_for_and_named() {
    let mut tasks = JoinSet::new();
    let (fake, provider) = scripted(true, |_| Vec::new(), &mut tasks);
    fake.kill();
    let refused = Sweep::begin(provider, GONE).await;
    let error = refused.err().unwrap();
    assert!(error.contains("no answer in time"), "{error}");
}
