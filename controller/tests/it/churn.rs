//! Disruptions in a churn of Services and Nodes: cloud and cluster never break an invariant
//! meanwhile, and agree exactly in the end.
//!
//! ```text
//!  seed ─► plan ─┬─► people, one for each Service, and node churn ─► API server
//!                └─► killer and meddler: kill -9, SIGTERM, SIGSTOP, other declarations …
//!  provider ─► journal of its calls ─► invariants, all the time
//!  API server ─► watch of Nodes ─► no Pod CIDR twice, all the time
//!  then all is as it was and nothing is edited ─► agreement ─► all deleted ─► nothing left
//! ```
//!
//! Meanwhile the cloud takes its time, fails, and loses replies. Everything random follows from
//! `OUTRIGGER_TEST_SEED`: what is done, in which order, after which pauses. How far each process got
//! by then does not, so that a seed that failed may have to run several times to fail again.
//! `OUTRIGGER_TEST_FAULTS=kills,stops` limits a drill to some families of disruptions.
//!
//! Odd seeds elect leaders, with a standby and a Lease as short as is allowed, and their cluster is dual-stack. Even
//! ones lose answers of the API server too.
//!
//! `many` runs `OUTRIGGER_TEST_SEEDS` seeds, several at a time.

mod agreement;
mod curves;
mod disrupt;
mod disruption;
mod invariants;
mod journal;
mod killer;
mod ledger;
mod liveness;
mod meddler;
mod node_churn;
mod person;
mod plan;
mod pod_cidrs;
mod route_changes;
mod routes;
mod silence;

use std::{env, panic::AssertUnwindSafe, path::Path, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::join_all, stream};
use http::Method;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};
use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    caller::Port,
    plane::USER,
    stage::{Setup, Stage},
    wait::until_within,
};
use agreement::View;
use curves::Curves;
use disruption::Family;
use invariants::Invariants;
use journal::Journal;
use killer::Crew;
use ledger::Ledger;
use person::Person;
use plan::Plan;
use pod_cidrs::PodCidrs;
use silence::Watch;

/// The class that the mock serves beside Services without one.
const OWN_CLASS: &str = "mock.example/lb";

/// A class that the mock does not serve, except for a while.
const OTHER_CLASS: &str = "other.example/lb";

/// The last time that Go writes, and that few others read.
const LAST_TIME: &str = "9999-12-31T23:59:59Z";

/// Another client's finalizer, which its owner removes once ours is gone.
const HELD: &str = "drill.example/held";

/// A failure shortly before the end is retried after 5, 10, 20 … at most 300 s.
const DEADLINE: Duration = Duration::from_mins(6);

/// That of the environment, or of CI.
fn seed_of(number_in_ci: u64) -> u64 {
    number("OUTRIGGER_TEST_SEED").map_or(number_in_ci, |first| first + number_in_ci - 1)
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap())
}

/// The plan of this seed, unless the environment says otherwise.
fn plan(seed: u64) -> Plan {
    let families = env::var("OUTRIGGER_TEST_FAULTS").ok();
    let families = families.filter(|names| !names.is_empty()).map(|names| {
        let names = names.split(',').map(|name| name.parse().unwrap());
        names.collect()
    });
    Plan {
        seed,
        disruptions: number("OUTRIGGER_TEST_DISRUPTIONS").unwrap_or(5) as usize,
        services: number("OUTRIGGER_TEST_SERVICES").unwrap_or(12) as usize,
        nodes: number("OUTRIGGER_TEST_NODES").unwrap_or(6) as usize,
        families: families.unwrap_or_else(|| Family::ALL.to_vec()),
        lasts: None,
        slower: 1,
    }
}

fn setup(plan: &Plan, dir: &Path) -> Setup {
    let file = |flag: &str, name: &str| format!("{flag}={}", dir.join(name).display());
    let routes = plan.route_flags();
    let seed = format!("--seed={}", plan.seed);
    let mock = [
        "--synthesize-instances",
        "--latency=20ms",
        "--jitter=0.5",
        "--lb-deprovisioning=150ms",
        "--lb-effects",
        "--state-sync",
        "--state-interval=5ms",
        &file("--state", "cloud.json"),
        &file("--journal", "journal"),
        &format!("--lb-class={OWN_CLASS}"),
        &seed,
    ];
    let mock: Vec<_> = mock
        .into_iter()
        .chain(routes.iter().map(String::as_str))
        .collect();
    let cluster_cidrs: Vec<_> = plan.cluster_cidrs().iter().map(IpNet::to_string).collect();
    let setup = Setup::mock(&mock)
        .machines(Machine::numbered("base-", plan.nodes))
        .flags(&[
            "--load-balancer-update-idle=200ms",
            "--load-balancer-update-ceiling=1s",
            "--load-balancer-shrink-hold=1s",
            "--node-monitor-period=1s",
            "--route-reconciliation-period=10s",
            "--allocate-node-cidrs",
            "--provider-effect-prefixes=status.mock.example/",
            &format!("--cluster-cidr={}", cluster_cidrs.join(",")),
        ])
        .flag(&format!("--concurrent-service-syncs={}", plan.workers()));
    if !plan.elects() {
        return setup;
    }
    setup.flags(&[
        "--leader-elect=true",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=400ms",
    ])
}

async fn drill(plan: Plan) {
    Box::pin(run(plan, None)).await;
}

/// A drill. With a port, the controller serves its metrics there, and what they show may not grow.
async fn run(plan: Plan, port: Option<&Port>) {
    let journal = Arc::new(Journal::new(plan.seed, plan.to_string()));
    let ledger = Ledger::default();
    let files = tempfile::tempdir().unwrap();
    let mut setup = setup(&plan, files.path());
    if let Some(port) = port {
        setup = setup.scraped_at(port).flag("-v=0");
    }
    let backstage = setup.prepare().await;
    let mut stage = if plan.elects() {
        let kubeconfig = backstage.plane.kubeconfig(USER, None).unwrap();
        backstage.start_with(&kubeconfig)
    } else {
        for path in ["/services/", "/nodes/"] {
            let lost = Rule::new(Fault::LoseAnswer)
                .method(Method::PATCH)
                .path_contains(path);
            backstage.proxy.inject(lost.chance(0.05, plan.seed));
        }
        backstage.start()
    };
    let namespace = format!("drill-{}", plan.seed);
    make_namespace(&stage, &namespace).await;
    drop(ledger.disturb());

    let (edited, over) = (CancellationToken::new(), CancellationToken::new());
    let client = stage.admin();
    let cluster_cidrs = plan.cluster_cidrs();
    let view = View::new(&stage, &namespace, &cluster_cidrs, &ledger).await;
    let mut pod_cidrs = PodCidrs::new(&client, &cluster_cidrs);
    let log = files.path().join("journal");
    let invariants = Invariants::new(log, &ledger, pod_cidrs.owners());
    let workers = plan.workers();
    let mut curves = port.map(|port| Curves::new(port, &stage.dir().join("controller.log")));
    let mut watching = Watch::new(&view, &ledger, &journal, invariants, workers);
    let (api_server, is_there) = watch::channel(true);
    let people = (0..plan.services).map(|number| {
        let person = Person::new(&client, &namespace, number, &journal, &ledger, &is_there);
        person.live(plan.acts(number), edited.clone())
    });
    let people = join_all(people.collect::<Vec<_>>());
    let nodes = node_churn::NodeChurn::new(&client, &journal, &ledger);
    let nodes = nodes.live(plan.moves(), edited.clone());
    let mut crew = Crew::new(
        &mut stage,
        plan.elects(),
        (&view, &ledger),
        &journal,
        api_server,
        &edited,
    );
    let acting = async {
        let disrupting = crew.disrupt(plan.disruptions(), plan.lasts);
        let (people, (), ()) = tokio::join!(people, nodes, disrupting);
        let done: usize = people.iter().map(|person| person.done).sum();
        assert!(
            done >= plan.services,
            "only {done} changes were made: no churn"
        );
        finish(&mut crew, &people, &view, &journal).await;
        journal.note(&format!("nothing is left of {done} changes"));
        over.cancel();
    };
    tokio::join!(
        acting,
        watching.run(&over),
        pod_cidrs.watch(&journal, &over),
        async {
            if let Some(curves) = &mut curves {
                curves.record(&edited).await;
            }
        }
    );
    journal.note(&format!("{}; {}", pod_cidrs.summary(), watching.summary()));
    println!("{}", journal.summary());
    if let Some(curves) = curves {
        curves.judge();
    }
}

/// Waits until cloud and cluster agree, deletes all Services, and waits until nothing is left.
async fn finish(crew: &mut Crew<'_>, people: &[Person], view: &View, journal: &Journal) {
    journal.note("the churn is over");
    crew.stage.mock.clear().await;
    crew.stage.proxy.clear_rules();
    until_within("cloud and cluster agree", DEADLINE, async || {
        crew.keep_alive();
        join_all(people.iter().map(Person::unblock)).await;
        view.agrees().await
    })
    .await;
    journal.note("cloud and cluster agree");
    join_all(people.iter().map(Person::leave)).await;
    until_within("nothing is left", DEADLINE, async || {
        crew.keep_alive();
        join_all(people.iter().map(Person::unblock)).await;
        view.nothing_left().await
    })
    .await;
}

async fn make_namespace(stage: &Stage, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(stage.admin());
    match namespaces.create(&PostParams::default(), &namespace).await {
        // A control plane that the same seed has used before.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => drop(made.unwrap()),
    }
}

#[tokio::test]
async fn one() {
    Box::pin(drill(plan(seed_of(1)))).await;
}

#[tokio::test]
async fn two() {
    Box::pin(drill(plan(seed_of(2)))).await;
}

#[tokio::test]
async fn three() {
    Box::pin(drill(plan(seed_of(3)))).await;
}

#[tokio::test]
async fn four() {
    Box::pin(drill(plan(seed_of(4)))).await;
}

/// One controller for `OUTRIGGER_TEST_MINUTES`, through all disruptions that leave its process alone: its
/// memory, descriptors, calls and log lines do not grow. A tenth as many changes a second as in other drills.
#[tokio::test]
async fn soak() {
    let minutes = number("OUTRIGGER_TEST_MINUTES");
    let mut plan = plan(1);
    // An even one: no standby, which would take the Lease from a controller whose provider is frozen.
    plan.seed = number("OUTRIGGER_TEST_SEED").unwrap_or(2);
    let ends_it = |family: &Family| {
        matches!(
            family,
            Family::Kills | Family::Stops | Family::Configuration
        )
    };
    plan.families.retain(|family| !ends_it(family));
    if let Some(minutes) = minutes {
        plan.lasts = Some(Duration::from_mins(minutes));
        plan.slower = 10;
    }
    Box::pin(run(plan, Some(&Port::reserve()))).await;
}

/// `OUTRIGGER_TEST_SEEDS` seeds, with a line for each; `OUTRIGGER_TEST_PLANES` at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many() {
    many_of(|seed| Box::pin(drill(plan(seed)))).await;
}

/// `OUTRIGGER_TEST_SEEDS` seeds of a drill.
async fn many_of<D: Future<Output = ()>>(drill: impl Fn(u64) -> D) {
    let count = number("OUTRIGGER_TEST_SEEDS").unwrap_or_default();
    let first = number("OUTRIGGER_TEST_SEED").unwrap_or(1);
    let drill = &drill;
    let drills = (first..first + count).map(|seed| async move {
        let started = Instant::now();
        let ended = AssertUnwindSafe(drill(seed)).catch_unwind().await;
        let took = started.elapsed().as_secs();
        let well = ended.is_ok();
        println!(
            "seed {seed}: {} after {took} s",
            if well { "well" } else { "FAILED" }
        );
        (seed, well)
    });
    let at_a_time = number("OUTRIGGER_TEST_PLANES").unwrap_or(4) as usize;
    let ended: Vec<_> = stream::iter(drills)
        .buffer_unordered(at_a_time)
        .collect()
        .await;
    let failed = ended.into_iter().filter(|(_, well)| !well);
    let failed: Vec<_> = failed.map(|(seed, _)| seed).collect();
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}
