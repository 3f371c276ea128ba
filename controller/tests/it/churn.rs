//! `kill -9` of controller, provider and API server in a churn of Services, and cloud and cluster
//! agree exactly in the end.
//!
//! ```text
//!  seed ─► plan ─┬─► people, one for each Service and one for the nodes ─► API server
//!                └─► killer ─► kill -9, and some time later start again
//!  then all is alive and nobody changes anything ─► agreement ─► all deleted ─► nothing left
//! ```
//!
//! Meanwhile the cloud takes its time, fails, and loses replies. Everything random follows from
//! `OUTRIGGER_TEST_SEED`: what is done, in which order, after which pauses. How far each process got
//! by then does not, so that a seed that failed may have to run several times to fail again.
//!
//! Odd seeds elect leaders, with a Lease as short as is allowed. Even ones lose answers of the API
//! server too.

mod agreement;
mod journal;
mod killer;
mod landlord;
mod person;
mod plan;

use std::{env, sync::Arc, time::Duration};

use futures::future::join_all;
use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::PostParams};
use outrigger_testbed::{
    faults::{Fault, Rule},
    nodes::Machine,
};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    plane::USER,
    stage::{Setup, Stage},
    wait::until_within,
};
use journal::Journal;
use plan::Plan;

/// The class that the mock serves beside Services without one.
const OWN_CLASS: &str = "mock.example/lb";

/// Somebody else's finalizer, which its owner takes away once ours is gone.
const HELD: &str = "drill.example/held";

/// Nodes that are there from the start.
const NODES: usize = 6;

/// What failed shortly before the end is tried again after 5, 10, 20 … at most 300 s.
const DEADLINE: Duration = Duration::from_mins(6);

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap())
}

/// The plan of this seed, unless the environment says otherwise.
fn plan(seed: u64) -> Plan {
    Plan {
        seed: number("OUTRIGGER_TEST_SEED").map_or(seed, |first| first + seed - 1),
        kills: number("OUTRIGGER_TEST_KILLS").unwrap_or(4) as usize,
        services: number("OUTRIGGER_TEST_SERVICES").unwrap_or(12) as usize,
    }
}

fn setup(plan: &Plan, state: &str) -> Setup {
    let (seed, class) = (
        format!("--seed={}", plan.seed),
        format!("--lb-class={OWN_CLASS}"),
    );
    let mock = [
        "--synthesize-instances",
        "--latency=20ms",
        "--jitter=0.5",
        "--lb-deprovisioning=150ms",
        "--lb-effects",
        "--state-sync",
        "--state-interval=5ms",
        state,
        &class,
        &seed,
    ];
    let setup = Setup::mock(&mock)
        .machines(Machine::numbered("base-", NODES))
        .flags(&[
            "--load-balancer-update-idle=200ms",
            "--load-balancer-update-ceiling=1s",
            "--load-balancer-shrink-hold=1s",
        ]);
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

async fn drill(seed: u64) {
    let plan = plan(seed);
    let journal = Arc::new(Journal::new(&plan));
    let files = tempfile::tempdir().unwrap();
    let state = format!("--state={}", files.path().join("cloud.json").display());
    let backstage = setup(&plan, &state).prepare().await;
    let mut stage = if plan.elects() {
        let kubeconfig = backstage.plane.kubeconfig(USER, None).unwrap();
        backstage.start_with(&kubeconfig)
    } else {
        let lost = Rule::new(Fault::LoseAnswer)
            .method(Method::PATCH)
            .path_contains("/services/");
        backstage.proxy.inject(lost.chance(0.05, plan.seed));
        backstage.start()
    };
    let namespace = format!("drill-{}", plan.seed);
    make_namespace(&stage, &namespace).await;

    let over = CancellationToken::new();
    let client = stage.admin();
    let (api_server, is_there) = watch::channel(true);
    let people = (0..plan.services).map(|number| {
        let person = person::Person::new(&client, &namespace, number, &journal, &is_there);
        person.live(plan.acts(number), over.clone())
    });
    let people = join_all(people.collect::<Vec<_>>());
    let landlord = landlord::Landlord::new(&client, &journal);
    let nodes = landlord.live(plan.moves(), over.clone());
    let killing = async {
        killer::kill(&mut stage, &plan, &journal, &api_server).await;
        over.cancel();
    };
    let (people, (), ()) = tokio::join!(people, nodes, killing);
    let done: usize = people.iter().map(|person| person.done).sum();
    assert!(
        done >= plan.services,
        "only {done} changes were made: no churn"
    );

    journal.note("the churn is over");
    stage.mock.clear().await;
    stage.proxy.clear_rules();
    until_within("cloud and cluster agree", DEADLINE, async || {
        killer::keep_alive(&mut stage, &journal);
        join_all(people.iter().map(person::Person::let_go)).await;
        agreement::check(&stage, &namespace).await
    })
    .await;
    journal.note("cloud and cluster agree");
    join_all(people.iter().map(person::Person::leave)).await;
    until_within("nothing is left", DEADLINE, async || {
        killer::keep_alive(&mut stage, &journal);
        join_all(people.iter().map(person::Person::let_go)).await;
        agreement::nothing_left(&stage, &namespace).await
    })
    .await;
    journal.note(&format!("nothing is left of {done} changes"));
    println!("{}", journal.summary());
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
    drill(1).await;
}

#[tokio::test]
async fn two() {
    drill(2).await;
}

#[tokio::test]
async fn three() {
    drill(3).await;
}
