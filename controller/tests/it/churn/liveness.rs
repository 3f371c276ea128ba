//! The drill of liveness: every object reaches its desired state within a stated bound once the fault that concerns *it*
//! has ended, whatever goes on beside it.
//!
//! ```text
//!  seed ─► plan: some faults, of each area at most one
//!            ├─► flags of provider and controller, policies, proxies
//!            └─► faults: all begin, and go on side by side while users edit Services
//!  cluster, cloud ─► rules: bounds of each goal, all the time; and the invariants of the other drill
//!  then all faults end ─► the same bounds ─► agreement ─► all deleted ─► nothing left
//! ```
//!
//! The other drill ends each fault before the next one and lets the cloud fail at random, so that it asks only for
//! *some* call about an object that differs. Here the faults stay, each about objects of its own, and all others reach
//! their desired state in time.
//!
//! `OUTRIGGER_TEST_FAULTS=hanginglookup,onecall` names the faults instead of the seed.

mod api_server;
mod balancers;
mod fault;
mod lookups;
mod nodes;
mod plan;
mod policies;
mod rule;
mod scene;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use http::Method;
use ipnet::IpNet;
use outrigger_testbed::{
    dead_way::DeadWay,
    faults::{Fault as Failing, Rule},
    nodes::Machine,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    DEADLINE, OWN_CLASS, agreement::View, invariants::Invariants, journal::Journal, ledger::Ledger,
    make_namespace, number, pod_cidrs::PodCidrs,
};
use crate::{
    plane::USER,
    stage::{Setup, Stage},
    wait::until_within,
};
use fault::Fault;
use plan::Plan;
use rule::Liveness;
use scene::Scene;

/// Until all is made and agrees, before the first fault.
const SETTLED: Duration = Duration::from_mins(2);

/// Until a controller that starts has listed everything, on a busy machine.
const STARTS: Duration = Duration::from_secs(20);

/// How long a list of Nodes is on its way.
const LATE_LIST: Duration = Duration::from_secs(2);

fn setup(plan: &Plan, journal: &str) -> Setup {
    let mut mock = vec![
        "--synthesize-instances".to_owned(),
        "--latency=20ms".to_owned(),
        format!("--journal={journal}"),
        format!("--lb-class={OWN_CLASS}"),
        format!("--seed={}", plan.seed),
        "--routes".to_owned(),
    ];
    mock.extend(plan.mock_flags());
    let mock: Vec<_> = mock.iter().map(String::as_str).collect();
    let cluster_cidrs: Vec<_> = plan.cluster_cidrs().iter().map(IpNet::to_string).collect();
    let mut setup = Setup::mock(&mock)
        .machines(Machine::numbered("base-", plan.nodes))
        .flags(&[
            "--load-balancer-update-idle=200ms",
            "--load-balancer-update-ceiling=1s",
            "--load-balancer-shrink-hold=1s",
            "--node-monitor-period=1s",
            "--allocate-node-cidrs",
        ])
        .flag(&format!("--cluster-cidr={}", cluster_cidrs.join(",")));
    for flag in plan.controller_flags() {
        setup = setup.flag(&flag);
    }
    if plan.has(Fault::FewFiles) {
        setup = setup.files(fault::FEW_FILES);
    }
    setup
}

async fn drill(plan: Plan) {
    let journal = Arc::new(Journal::new(plan.seed, plan.to_string()));
    let ledger = Ledger::default();
    let files = tempfile::tempdir().unwrap();
    let log = files.path().join("journal");
    let backstage = setup(&plan, &log.display().to_string()).prepare().await;
    let way = DeadWay::start(&backstage.plane, USER, None).await.unwrap();
    let kubeconfig = if plan.has(Fault::DeadConnections) {
        way.kubeconfig()
    } else {
        backstage.proxy.kubeconfig()
    };
    if plan.has(Fault::Ghosts) {
        let late = Rule::new(Failing::LateAnswer(LATE_LIST)).method(Method::GET);
        let late = late
            .path_ends("/api/v1/nodes")
            .when(|list| !list.is_watch());
        backstage.proxy.inject(late);
        let no_streams = Rule::new(Failing::streams_no_objects()).streams();
        backstage
            .proxy
            .inject(no_streams.path_ends("/api/v1/nodes"));
    }
    let mut stage = backstage.start_with(&kubeconfig);
    let namespace = format!("liveness-{}", plan.seed);
    make_namespace(&stage, &namespace).await;

    let cluster_cidrs = plan.cluster_cidrs();
    let view = View::new(&stage, &namespace, &cluster_cidrs, &ledger).await;
    let mut pod_cidrs = PodCidrs::new(&stage.admin(), &cluster_cidrs);
    let invariants = Invariants::new(log, &ledger, pod_cidrs.owners());
    let scene = Scene::new(&stage, way, &view, &ledger, &journal, &plan);
    let mut liveness = Liveness::new(&scene, invariants);
    let over = CancellationToken::new();
    let acting = async {
        play(&mut stage, &scene, &plan).await;
        over.cancel();
    };
    tokio::join!(
        acting,
        liveness.watch(&over),
        pod_cidrs.watch(&journal, &over),
    );
    journal.note(&liveness.summary());
    println!("{}", journal.summary());
}

/// All that happens, in order.
async fn play(stage: &mut Stage, scene: &Scene, plan: &Plan) {
    scene.record.begin(STARTS);
    for number in 0..plan.services {
        scene.create_service(&format!("web-{number}")).await;
    }
    until_within("all is made", SETTLED, async || scene.view.agrees().await).await;
    scene.journal.note("all is made; the faults begin");
    let acted = async {
        let end = Instant::now() + plan.lasts();
        let edits = scene.edit_all_the_time(plan);
        let faults = join_all(plan.faults.iter().map(|fault| fault.play(scene)));
        let acts = async {
            faults.await;
            edits.await;
        };
        // A fault that sleeps on has done its part.
        let _ = tokio::time::timeout_at(end, acts).await;
        tokio::time::sleep_until(end).await;
    };
    tokio::select! {
        () = acted => {}
        () = keep_alive(stage, scene) => {}
    }
    end(stage, scene, plan).await;
    until_within("cloud and cluster agree", DEADLINE, async || {
        scene.view.agrees().await
    })
    .await;
    scene.journal.note("cloud and cluster agree");
    scene.delete_services().await;
    until_within("nothing is left", DEADLINE, async || {
        scene.view.nothing_left().await
    })
    .await;
    scene.journal.note("nothing is left");
}

/// Starts a controller again that has lost its Lease, as a kubelet does.
async fn keep_alive(stage: &mut Stage, scene: &Scene) {
    loop {
        if stage.controller.has_ended() {
            scene.journal.note("the controller has ended by itself");
            stage.start_controller();
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Ends all faults, and judges what each has left in the log and at the API server.
async fn end(stage: &Stage, scene: &Scene, plan: &Plan) {
    scene.journal.note("the faults end");
    stage.mock.clear().await;
    for fault in &plan.faults {
        fault.end(stage, scene).await;
    }
    stage.proxy.clear_rules();
    scene.record.release_all();
}

/// The fixed drills of CI. They run side by side.
#[tokio::test]
async fn lookups_calls_spellings_and_policies() {
    use Fault::{HangingLookup, NodePolicy, OneCall, SpelledInstance, SpelledRoutes};
    let faults = vec![
        HangingLookup,
        SpelledInstance,
        OneCall,
        SpelledRoutes,
        NodePolicy,
    ];
    Box::pin(drill(Plan::of(1, faults))).await;
}

#[tokio::test]
async fn slow_lookups_statuses_and_blackholes() {
    use Fault::{EmptyBlackhole, EmptyInProgress, SlowLookups};
    let faults = vec![SlowLookups, EmptyInProgress, EmptyBlackhole];
    Box::pin(drill(Plan::of(2, faults))).await;
}

#[tokio::test]
async fn pauses_and_dead_connections() {
    use Fault::{DeadConnections, PausedLookups};
    let faults = vec![PausedLookups, DeadConnections];
    Box::pin(drill(Plan::of(3, faults))).await;
}

/// The seed of `OUTRIGGER_TEST_SEED`.
#[tokio::test]
async fn one() {
    let Some(seed) = number("OUTRIGGER_TEST_SEED") else {
        return;
    };
    Box::pin(drill(Plan::random(seed))).await;
}

/// `OUTRIGGER_TEST_SEEDS` seeds; see [`super::many`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many() {
    super::many_of(|seed| Box::pin(drill(Plan::random(seed)))).await;
}
