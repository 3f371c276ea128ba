//! Faults of lookups.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use outrigger_testbed::nodes::{Readiness, set_readiness};
use serde_json::json;
use tokio::time::sleep;
use tonic::Code;

use super::{
    rule::{Goal, SLOW_LOOKUP, SLOW_NODES},
    scene::Scene,
};

/// The Node that is never answered.
const HANGS: &str = "hangs";

/// Node that was shut down.
const SHUT_DOWN: &str = "base-00000";

/// Node whose instance has an ID in two spellings.
const SPELLED: &str = "base-00002";

/// An address that no machine has.
pub(super) const WRONG_ADDRESS: &str = "192.0.2.99";

/// How long lookups pause before the slow ones.
const GATHERED: Duration = Duration::from_secs(9);

/// Until the taint and a wait of some periods have been seen.
const SEEN: Duration = Duration::from_secs(4);

pub(super) async fn hang(scene: &Scene) {
    let hang = Effect::Hang { duration: None };
    let hang = Fault::on(Method::BatchGetInstances, hang);
    scene.inject(hang.for_node(HANGS.parse().unwrap())).await;
    scene.record.concern(None, |goal, name| {
        goal == Goal::Initialized && name == HANGS
    });
    let mates = (0..5).map(|number| format!("mate-{number}"));
    scene.register(mates.chain([HANGS.to_owned()])).await;
}

/// The provider spells IDs in another way, as if a region had become part of them. The Node follows its instance all the same.
pub(super) async fn spell(scene: &Scene) {
    let spelled = Effect::BadAnswer(BadAnswer::OtherSpelling);
    let spelled = Fault::on(Method::BatchGetInstances, spelled);
    scene
        .inject(spelled.for_node(SPELLED.parse().unwrap()))
        .await;
    scene.readdress(SPELLED, WRONG_ADDRESS).await;
}

pub(super) async fn slow_down(scene: &Scene) {
    scene
        .record
        .concern(None, |goal, _| goal == Goal::Addresses);
    let each = SLOW_LOOKUP;
    let slow = Effect::OneAfterTheOther { each };
    // A pause gathers them all for one call.
    limit(scene, GATHERED).await;
    scene.register(["first".to_owned()]).await;
    sleep(GATHERED / 3).await;
    scene
        .inject(Fault::on(Method::BatchGetInstances, slow))
        .await;
    let all = (0..SLOW_NODES).map(|number| format!("many-{number}"));
    scene.register(all).await;
}

/// The next lookup is answered with a pause of all lookups.
async fn limit(scene: &Scene, pause: Duration) {
    let limited = InjectedError::new(Code::ResourceExhausted);
    let limited = Effect::Error(limited.retry_after(pause));
    let once = Fault::on(Method::BatchGetInstances, limited).times(1);
    scene.inject(once).await;
}

pub(super) async fn pause(scene: &Scene) {
    limit(scene, Duration::from_mins(1)).await;
    // The longest pause of a provider is an hour: those who register now are not initialised before. A wrong address of a
    // Node stays as long, and its route leads to the address of the machine.
    scene
        .record
        .concern(Some(Duration::from_hours(1)), |goal, name| {
            matches!(goal, Goal::Initialized | Goal::Addresses)
                || (goal == Goal::Routes && name == SPELLED)
        });
    readiness(scene, Readiness::NotReady).await;
    let taint = json!({"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"});
    let taints = json!({"spec": {"taints": [taint]}});
    scene.change_node(SHUT_DOWN, taints).await;
    sleep(SEEN).await;
    readiness(scene, Readiness::Ready).await;
}

async fn readiness(scene: &Scene, readiness: Readiness) {
    scene.changed(SHUT_DOWN, &format!("is {readiness:?}"));
    let set = set_readiness(&scene.client, SHUT_DOWN, readiness, Timestamp::now());
    set.await.unwrap();
}
