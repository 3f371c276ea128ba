//! Load balancer calls, seen from the other end of the wire.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use outrigger_provider_sdk::api::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_provider_sdk::api::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, EnsureLoadBalancerResponse,
    GetLoadBalancerRequest, InlineNodes, ListLoadBalancersRequest, LoadBalancerDisposition as Wire,
    NodeTargets, PlanLoadBalancerRequest, UpdateLoadBalancerNodesRequest,
    UpdateLoadBalancerNodesResponse, node_targets, update_load_balancer_nodes_response::Outcome,
};
use outrigger_provider_sdk::{
    Answer, ChangeAction, Context, Deleted, Effects, Ensured, Error, Ingress, LoadBalancer,
    LoadBalancerSink, LoadBalancers, LoadBalancersCapability, Observed, OwnedLoadBalancer,
    PlanOperation, PlannedChange, ServeError, Server, Service, ServiceName, Targets, Updated,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use crate::harness::{Named, Rig, context, handshake, node, reason};

/// Load balancers with as many targets as they were given; the name of a Service says what it does.
#[derive(Clone, Default)]
struct Balancers {
    capability: LoadBalancersCapability,
    made: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    steps: Option<mpsc::UnboundedSender<&'static str>>,
    second: Arc<Notify>,
}

fn load_balancer(uid: &str) -> LoadBalancer {
    LoadBalancer {
        id: format!("lb-{uid}"),
        name: uid.to_owned(),
        ingress: vec![Ingress::ip([192, 0, 2, 7].into())],
    }
}

impl Balancers {
    fn with(capability: LoadBalancersCapability) -> Self {
        Self {
            capability,
            ..Self::default()
        }
    }

    fn set(&self, uid: &str, targets: &Targets) {
        let names = targets.iter().map(|node| node.name.clone()).collect();
        self.made.lock().insert(uid.to_owned(), names);
    }

    async fn behave(&self, ctx: &Context, service: &Service) -> Result<(), Error> {
        match service.name.as_str() {
            "panics" => panic!("secret of the vendor"),
            "limited" => Err(Error::rate_limited(Duration::from_secs(9))),
            "refused" => Err(
                Error::invalid_annotation("no such thing").with_effects(Effects {
                    remove_annotations: vec!["x.test/y".to_owned()],
                    ..Effects::default()
                }),
            ),
            "slow" => {
                sleep(Duration::from_secs(5)).await;
                Ok(())
            }
            "two-steps" => {
                let steps = self.steps.as_ref().unwrap();
                steps.send("created").unwrap();
                ctx.cancelled().await;
                assert!(ctx.check().is_err());
                self.second.notified().await;
                sleep(Duration::from_secs(1)).await;
                steps.send("tagged").unwrap();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl LoadBalancers for Balancers {
    fn capability(&self) -> LoadBalancersCapability {
        self.capability.clone()
    }

    async fn get_load_balancer(
        &self,
        _: &Context,
        service: &Service,
    ) -> Result<Answer<Observed>, Error> {
        let made = self.made.lock().contains_key(&service.uid);
        Ok(if made {
            Observed::Ready(load_balancer(&service.uid)).into()
        } else {
            Observed::Absent.into()
        })
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        self.behave(ctx, service).await?;
        self.set(&service.uid, targets);
        Ok(Ensured::Ready(load_balancer(&service.uid)).into())
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        self.behave(ctx, service).await?;
        if !self.made.lock().contains_key(&service.uid) {
            return Ok(Updated::Absent.into());
        }
        self.set(&service.uid, targets);
        Ok(Updated::Ready { ingress: None }.into())
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        self.behave(ctx, service).await?;
        self.made.lock().remove(&service.uid);
        Ok(Deleted::Absent.into())
    }

    async fn list_load_balancers(
        &self,
        _: &Context,
        load_balancers: &mut LoadBalancerSink,
    ) -> Result<(), Error> {
        let made: Vec<_> = self.made.lock().keys().cloned().collect();
        for uid in made {
            let owned = OwnedLoadBalancer {
                load_balancer: load_balancer(&uid),
                service: Some(ServiceName {
                    uid,
                    ..ServiceName::default()
                }),
            };
            load_balancers.send(owned).await?;
        }
        Ok(())
    }

    async fn plan_load_balancer(
        &self,
        _: &Context,
        service: &Service,
        operation: &PlanOperation,
    ) -> Result<Vec<PlannedChange>, Error> {
        let (action, summary) = match operation {
            PlanOperation::Ensure(targets) => {
                (ChangeAction::Create, format!("{} targets", targets.len()))
            }
            PlanOperation::Delete => (ChangeAction::Delete, String::new()),
        };
        Ok(vec![PlannedChange {
            action,
            resource_type: "load-balancer".to_owned(),
            resource_id: service.uid.clone(),
            summary,
        }])
    }
}

fn serve(balancers: &Balancers) -> Rig {
    Rig::serve(Server::new(Named::new()).load_balancers(balancers.clone()))
}

async fn client(rig: &Rig) -> LoadBalancersServiceClient<Channel> {
    let channel = rig.dial().await;
    handshake(channel.clone(), 1, 1).await.unwrap();
    LoadBalancersServiceClient::new(channel)
}

fn service(name: &str) -> Service {
    Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ..Service::default()
    }
}

fn inline(names: &[&str]) -> NodeTargets {
    let nodes = names.iter().map(|name| node(*name)).collect();
    let targets = Some(node_targets::Targets::Inline(InlineNodes { nodes }));
    NodeTargets { targets }
}

fn ensure(service: Service, targets: impl Into<Option<NodeTargets>>) -> EnsureLoadBalancerRequest {
    EnsureLoadBalancerRequest {
        context: Some(context("req-1")),
        service: Some(service),
        targets: targets.into(),
    }
}

async fn ensured(
    client: &mut LoadBalancersServiceClient<Channel>,
    name: &str,
) -> Result<EnsureLoadBalancerResponse, Status> {
    let request = ensure(service(name), inline(&["n-1"]));
    Ok(client.ensure_load_balancer(request).await?.into_inner())
}

async fn updated(
    client: &mut LoadBalancersServiceClient<Channel>,
    names: &[&str],
) -> Result<Vec<(String, Outcome)>, Status> {
    let request = UpdateLoadBalancerNodesRequest {
        context: Some(context("req-1")),
        services: names.iter().map(|name| service(name)).collect(),
        targets: Some(inline(&["n-1", "n-2"])),
    };
    let mut stream = client
        .update_load_balancer_nodes(request)
        .await?
        .into_inner();
    let mut results = Vec::new();
    while let Some(UpdateLoadBalancerNodesResponse { service, outcome }) = stream.message().await? {
        results.push((service.unwrap().name, outcome.unwrap()));
    }
    Ok(results)
}

/// LBS-01, LBS-02, LBS-12.
#[tokio::test]
async fn a_load_balancer_is_made_seen_planned_listed_and_deleted() {
    let balancers = Balancers::with(LoadBalancersCapability {
        list: true,
        plan: true,
        ..Default::default()
    });
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    let get = || GetLoadBalancerRequest {
        context: Some(context("r")),
        service: Some(service("web")),
    };
    let seen = client.get_load_balancer(get()).await.unwrap().into_inner();
    assert_eq!(seen.disposition(), Wire::Absent);
    let plan = PlanLoadBalancerRequest {
        context: Some(context("r")),
        operation: 1,
        service: Some(service("web")),
        targets: Some(inline(&["n-1", "n-2"])),
    };
    let planned = client
        .plan_load_balancer(plan.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(planned.changes[0].summary, "2 targets");
    let nothing = PlanLoadBalancerRequest {
        operation: 0,
        ..plan
    };
    let refused = client.plan_load_balancer(nothing).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_REQUEST");

    let made = ensured(&mut client, "web").await.unwrap();
    assert_eq!(made.disposition(), Wire::Ready);
    assert_eq!(made.status.unwrap().ingress[0].ip, "192.0.2.7");
    let seen = client.get_load_balancer(get()).await.unwrap().into_inner();
    assert_eq!(seen.disposition(), Wire::Ready);
    let list = ListLoadBalancersRequest {
        context: Some(context("r")),
    };
    let mut stream = client.list_load_balancers(list).await.unwrap().into_inner();
    let message = stream.message().await.unwrap().unwrap();
    assert!(message.complete);
    assert_eq!(
        message.load_balancers[0].service.as_ref().unwrap().uid,
        "uid-web"
    );

    for _ in 0..2 {
        let delete = DeleteLoadBalancerRequest {
            context: Some(context("r")),
            service: Some(service("web")),
        };
        let gone = client
            .delete_load_balancer(delete)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(gone.disposition(), Wire::Absent);
    }
    assert!(balancers.made.lock().is_empty());
}

#[tokio::test]
async fn requests_that_break_the_contract_never_reach_a_handler() {
    let balancers = Balancers::with(LoadBalancersCapability {
        max_services_per_update: 2,
        ..Default::default()
    });
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    let nameless = Service {
        uid: String::new(),
        ..service("a")
    };
    for (request, says) in [
        (
            EnsureLoadBalancerRequest {
                context: None,
                ..ensure(service("a"), inline(&[]))
            },
            "no context",
        ),
        (
            EnsureLoadBalancerRequest {
                service: None,
                ..ensure(service("a"), inline(&[]))
            },
            "no service",
        ),
        (ensure(nameless, inline(&[])), "a UID of 0 bytes"),
        (ensure(service("a"), None), "no targets"),
        (
            ensure(service("a"), Some(NodeTargets::default())),
            "no targets",
        ),
        (
            ensure(service("a"), inline(&["n", "n"])),
            "nodes[1] is \"n\"",
        ),
    ] {
        let refused = client.ensure_load_balancer(request).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_REQUEST", "{refused}");
        assert!(refused.message().contains(says), "{says:?}: {refused}");
    }
    for (names, says) in [
        (&[][..], "0 services; send 1 to 2"),
        (&["a", "b", "c"], "3 services; send 1 to 2"),
        (&["a", "a"], "services[1] has the UID \"uid-a\""),
    ] {
        let refused = updated(&mut client, names).await.unwrap_err();
        assert!(refused.message().contains(says), "{says:?}: {refused}");
    }
    let list = ListLoadBalancersRequest {
        context: Some(context("r")),
    };
    let refused = client.list_load_balancers(list).await.unwrap_err();
    assert_eq!(reason(&refused), "CAPABILITY_DISABLED");
    assert!(balancers.made.lock().is_empty());
}

/// LBS-16, LBS-17.
#[tokio::test(start_paused = true)]
async fn each_service_of_an_update_has_its_own_result_as_soon_as_it_is_there() {
    let balancers = Balancers::default();
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    ensured(&mut client, "web").await.unwrap();
    let names = ["slow", "panics", "refused", "web"];
    let results = updated(&mut client, &names).await.unwrap();
    assert_eq!(results.last().unwrap().0, "slow", "somebody waited for it");
    let results: HashMap<_, _> = results.into_iter().collect();
    assert_eq!(results.len(), 4);
    let disposition = |name: &str| match &results[name] {
        Outcome::Updated(updated) => updated.disposition(),
        Outcome::Error(status) => panic!("{name}: {status:?}"),
    };
    assert_eq!(
        (disposition("web"), disposition("slow")),
        (Wire::Ready, Wire::Absent)
    );
    let error = |name: &str| match &results[name] {
        Outcome::Error(status) => status.clone(),
        Outcome::Updated(_) => panic!("{name} did not fail"),
    };
    let panicked = error("panics");
    assert_eq!(panicked.code, Code::Internal as i32);
    assert!(!panicked.message.contains("secret"));
    let refused = error("refused");
    assert_eq!(refused.code, Code::InvalidArgument as i32);
    let urls: Vec<_> = refused
        .details
        .iter()
        .map(|any| any.type_url.as_str())
        .collect();
    assert!(
        urls[1].ends_with("cloudprovider.v1.KubernetesEffects"),
        "{urls:?}"
    );
    assert_eq!(balancers.made.lock()["uid-web"], ["n-1", "n-2"]);
}

#[tokio::test]
async fn a_cloud_that_says_slow_down_is_asked_no_further() {
    let balancers = Balancers::with(LoadBalancersCapability {
        concurrency: 1,
        ..Default::default()
    });
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    ensured(&mut client, "web").await.unwrap();
    let results = updated(&mut client, &["limited", "web"]).await.unwrap();
    assert_eq!(results.len(), 2);
    assert!(
        results
            .iter()
            .all(|(_, outcome)| matches!(outcome, Outcome::Error(_)))
    );
    assert_eq!(balancers.made.lock()["uid-web"], ["n-1"]);
}

/// LBS-11.
#[tokio::test]
async fn a_foreign_class_is_not_managed_and_touches_nothing() {
    let balancers = Balancers::with(LoadBalancersCapability {
        classes: vec!["test/a".to_owned()],
        ..Default::default()
    });
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    for (class, wanted) in [("test/a", Wire::Ready), ("other/b", Wire::NotManaged)] {
        let service = Service {
            load_balancer_class: Some(class.to_owned()),
            ..service(if class == "test/a" { "ours" } else { "theirs" })
        };
        let request = ensure(service, inline(&[]));
        let answer = client
            .ensure_load_balancer(request)
            .await
            .unwrap()
            .into_inner();
        assert_eq!(answer.disposition(), wanted, "{class}");
    }
    assert_eq!(balancers.made.lock().len(), 1);
}

/// LBS-05.
#[tokio::test(start_paused = true)]
async fn one_service_is_worked_on_by_one_call_at_a_time() {
    let rig = serve(&Balancers::default());
    let (mut first, mut second, mut other) =
        (client(&rig).await, client(&rig).await, client(&rig).await);
    let started = Instant::now();
    let (a, b, c) = tokio::join!(
        ensured(&mut first, "slow"),
        ensured(&mut second, "slow"),
        ensured(&mut other, "web"),
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(started.elapsed().as_secs(), 10, "they ran at the same time");
}

/// A handler that outlives its caller still holds its key.
#[tokio::test(start_paused = true)]
async fn the_next_call_waits_for_a_handler_whose_caller_went_away() {
    let (steps, mut seen) = mpsc::unbounded_channel();
    let balancers = Balancers {
        steps: Some(steps),
        ..Balancers::default()
    };
    let rig = serve(&balancers);
    let mut client = client(&rig).await;
    tokio::select! {
        ended = ensured(&mut client, "two-steps") => panic!("{ended:?}"),
        step = seen.recv() => assert_eq!(step, Some("created")),
    }
    let mut delete = Request::new(DeleteLoadBalancerRequest {
        context: Some(context("r")),
        service: Some(Service {
            name: "web".to_owned(),
            ..service("two-steps")
        }),
    });
    delete.set_timeout(Duration::from_mins(1));
    let early = client.delete_load_balancer(delete).await.unwrap_err();
    assert_eq!(reason(&early), "OPERATION_IN_PROGRESS");
    balancers.second.notify_one();
    let step = timeout(Duration::from_secs(5), seen.recv()).await;
    assert_eq!(step.expect("the handler was dropped"), Some("tagged"));
}

#[tokio::test]
async fn what_the_controller_would_refuse_is_refused_at_the_start() {
    for (capability, says) in [
        (
            LoadBalancersCapability {
                max_services_per_update: 201,
                ..Default::default()
            },
            "use 1 to 200",
        ),
        (
            LoadBalancersCapability {
                without_default_class: true,
                ..Default::default()
            },
            "no Service at all",
        ),
        (
            LoadBalancersCapability {
                classes: vec![String::new()],
                ..Default::default()
            },
            "one is empty",
        ),
        (
            LoadBalancersCapability {
                configuration_revision: "r".repeat(65),
                ..Default::default()
            },
            "has 65 bytes",
        ),
    ] {
        let mut rig = serve(&Balancers::with(capability));
        let ended = rig.ended(Duration::from_secs(5)).await;
        let Err(ServeError::Provider(text)) = ended else {
            panic!("it serves")
        };
        assert!(text.contains(says), "{text}");
    }
}
