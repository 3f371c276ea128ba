//! `kill -9`, and whoever starts again what has ended, as kubelet does.

use std::time::Duration;

use outrigger_provider_mock::faults::{Effect, Fault, InjectedError, Method};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tonic::Code;

use super::{
    journal::Journal,
    plan::{Plan, Victim},
};
use crate::stage::Stage;

/// Kills as planned, and says whether there is an API server. In the end all are alive.
pub(super) async fn kill(
    stage: &mut Stage,
    plan: &Plan,
    journal: &Journal,
    api_server: &watch::Sender<bool>,
) {
    make_trouble(stage).await;
    for kill in plan.kills() {
        pass(kill.after, stage, journal).await;
        // Those of an hour would fill the memory.
        stage.proxy.take_requests();
        for (victim, _) in &kill.victims {
            journal.note(&format!("kill -9 {victim:?}"));
            match victim {
                Victim::Controller => stage.kill_controller().await,
                Victim::Provider => stage.mock.kill().await,
                Victim::ApiServer => {
                    stage.plane.kill_apiserver().await.unwrap();
                    api_server.send_replace(false);
                }
            }
        }
        let killed = Instant::now();
        for (victim, away) in kill.victims {
            sleep_until(killed + away).await;
            match victim {
                Victim::Controller => stage.start_controller(),
                Victim::Provider => {
                    stage.restart_mock().await;
                    make_trouble(stage).await;
                }
                Victim::ApiServer => {
                    stage.plane.start_apiserver().await.unwrap();
                    api_server.send_replace(true);
                }
            }
            journal.note(&format!("{victim:?} is back"));
        }
    }
    keep_alive(stage, journal);
}

/// What the provider's cloud does now and then, until it is killed.
async fn make_trouble(stage: &Stage) {
    let unavailable = || InjectedError::new(Code::Unavailable);
    let slow = Effect::Hang {
        duration: Some(Duration::from_millis(400)),
    };
    for (method, effect, rate) in [
        (
            Method::EnsureLoadBalancer,
            Effect::Error(unavailable()),
            0.04,
        ),
        (Method::EnsureLoadBalancer, Effect::LoseReply, 0.06),
        (Method::EnsureLoadBalancer, slow.clone(), 0.05),
        (
            Method::DeleteLoadBalancer,
            Effect::Error(unavailable()),
            0.04,
        ),
        (Method::DeleteLoadBalancer, Effect::LoseReply, 0.06),
        (
            Method::UpdateLoadBalancerNodes,
            Effect::ItemError(unavailable()),
            0.04,
        ),
        (Method::UpdateLoadBalancerNodes, Effect::LoseReply, 0.06),
        (Method::UpdateLoadBalancerNodes, slow, 0.1),
        (Method::SyncNodeSet, Effect::LoseReply, 0.1),
    ] {
        stage
            .mock
            .inject(Fault::on(method, effect).with_rate(rate))
            .await;
    }
}

/// Lets time pass, and starts a controller again that has ended by itself: one that has lost its
/// Lease does.
async fn pass(time: Duration, stage: &mut Stage, journal: &Journal) {
    const EVERY: Duration = Duration::from_millis(100);
    let end = Instant::now() + time;
    while Instant::now() < end {
        keep_alive(stage, journal);
        sleep(EVERY.min(end - Instant::now())).await;
    }
}

pub(super) fn keep_alive(stage: &mut Stage, journal: &Journal) {
    if stage.controller.has_ended() {
        journal.note("the controller has ended by itself");
        stage.start_controller();
    }
}
