//! Changes what the provider says and whether it can be reached, and what the controller may do.

use std::time::Duration;

use outrigger_provider_mock::{
    control::{Client, CloseConnections, operations::CLOSE_CONNECTIONS},
    faults::{Effect, Fault, InjectedError, Method},
};
use rustix::process::Signal;
use tonic::Code;

use super::{
    OTHER_CLASS, OWN_CLASS,
    disruption::{Declaration, Wrong},
    killer::{self, Crew},
};
use crate::rights::{ALWAYS, Rights};

/// The flags of a mock that declares something else.
pub(super) fn declaring(usual: &[String], declaration: Declaration) -> Vec<String> {
    let class = format!("--lb-class={OWN_CLASS}");
    let mut flags = usual.to_vec();
    let more = match declaration {
        Declaration::WithoutClass => {
            flags.retain(|flag| *flag != class);
            return flags;
        }
        Declaration::WithoutRoutes => {
            flags.retain(|flag| !flag.starts_with("--route"));
            return flags;
        }
        Declaration::WithoutDefaultClass => "--lb-without-default-class".to_owned(),
        Declaration::WithOtherClass => format!("--lb-class={OTHER_CLASS}"),
        Declaration::WithoutLoadBalancers => {
            // Flags about load balancers make no difference then.
            "--without-load-balancers".to_owned()
        }
        Declaration::WithoutNodeSets => "--without-node-sets".to_owned(),
        Declaration::OneServicePerUpdate => "--lb-max-services-per-update=1".to_owned(),
        Declaration::OneNodePerLookup => "--max-batch-size=1".to_owned(),
        Declaration::OneRoutePerBatch => "--route-max-batch-size=1".to_owned(),
        Declaration::OtherAnnotations => "--service-annotation-prefix=other.example/".to_owned(),
    };
    flags.push(more);
    flags
}

/// The provider restarts and declares something else for a while.
pub(super) async fn declare(crew: &mut Crew<'_>, declaration: Declaration, time: Duration) {
    let disturbance = crew.ledger.disturb();
    if declaration == Declaration::WithOtherClass {
        crew.ledger.declare_other_class();
    }
    let usual = crew.provider_flags();
    restart_provider(crew, &declaring(&usual, declaration)).await;
    crew.pass(time).await;
    restart_provider(crew, &usual).await;
    drop(disturbance);
}

/// Each Service is ensured again at low priority, while an Ensure takes long and people edit on.
pub(super) async fn reconfigure(crew: &mut Crew<'_>, takes: Duration) {
    let disturbance = crew.ledger.disturb();
    crew.revision += 1;
    let flags = crew.provider_flags();
    restart_provider(crew, &flags).await;
    let slow = Effect::Hang {
        duration: Some(takes),
    };
    let slow = Fault::on(Method::EnsureLoadBalancer, slow);
    crew.stage.mock.inject(slow).await;
    drop(disturbance);
    crew.pass(2 * takes).await;
    calm_down(crew).await;
}

/// The records of all Services are lost and the controller starts again, as if another controller had made
/// their load balancers. A controller that observes the loss takes it for an edit. Each Service is ensured again at
/// low priority, while an Ensure takes long and operators go on with their edits.
pub(super) async fn forget(crew: &mut Crew<'_>, takes: Duration) {
    let disturbance = crew.ledger.disturb();
    crew.kill_leader().await;
    // An update that fails is followed by an Ensure that waits for nothing.
    crew.stage.mock.clear().await;
    let slow = Effect::Hang {
        duration: Some(takes),
    };
    let slow = Fault::on(Method::EnsureLoadBalancer, slow);
    crew.stage.mock.inject(slow).await;
    crew.view.forget_records().await;
    crew.stage.start_controller();
    drop(disturbance);
    crew.pass(2 * takes).await;
    calm_down(crew).await;
}

async fn restart_provider(crew: &mut Crew<'_>, flags: &[String]) {
    crew.stage.mock.kill().await;
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    crew.stage.start_mock(&flags).await;
    killer::make_trouble(crew.stage).await;
}

/// Takes the faults of a disruption away; the usual ones stay.
async fn calm_down(crew: &mut Crew<'_>) {
    crew.stage.mock.clear().await;
    killer::make_trouble(crew.stage).await;
}

/// The provider's process stands still. Nothing of it is lost.
pub(super) async fn freeze(crew: &mut Crew<'_>, time: Duration) {
    crew.end_of_last().await;
    let disturbance = crew.ledger.disturb();
    crew.stage.mock.signal(Signal::STOP);
    crew.pass(time.mul_f64(0.9)).await;
    crew.view.exclude_a_node().await;
    crew.pass(time.mul_f64(0.1)).await;
    crew.stage.mock.signal(Signal::CONT);
    drop(disturbance);
}

/// The connections break; the provider's process lives on.
pub(super) async fn disconnect(crew: &mut Crew<'_>, time: Duration) {
    crew.end_of_last().await;
    let disturbance = crew.ledger.disturb();
    let control = Client::new(crew.stage.dir().join("provider.sock.ctl"));
    let close = CloseConnections { hold: Some(time) };
    control.ask(CLOSE_CONNECTIONS, &close).await.unwrap();
    crew.pass(time / 2).await;
    crew.view.exclude_a_node().await;
    crew.pass(time / 2).await;
    drop(disturbance);
}

pub(super) async fn answer(crew: &mut Crew<'_>, wrong: Wrong, time: Duration) {
    let disturbance = crew.ledger.disturb();
    let error = |code| InjectedError {
        message: Some("the drill wants it".to_owned()),
        ..InjectedError::new(code).without_reason()
    };
    let (method, effect) = match wrong {
        Wrong::Unimplemented(method) => (method, Effect::Error(error(Code::Unimplemented))),
        Wrong::UnknownReason(method) => {
            let error = error(Code::FailedPrecondition).with_reason("MOON_TOO_FULL");
            (method, Effect::Error(error))
        }
        Wrong::Overloaded(method) => {
            let error = error(Code::ResourceExhausted).with_reason("OVERLOADED");
            (method, Effect::Error(error))
        }
        Wrong::Bad(method, bad) => (method, Effect::BadAnswer(bad)),
    };
    crew.stage.mock.inject(Fault::on(method, effect)).await;
    let is_handshake = method == Method::Handshake;
    if is_handshake {
        close_connections(crew).await;
    }
    crew.pass(time).await;
    calm_down(crew).await;
    // On the same connection a handshake that was refused is repeated after a minute, and some methods
    // that are UNIMPLEMENTED are not called again: only another program would serve them.
    if is_handshake || matches!(wrong, Wrong::Unimplemented(_)) {
        close_connections(crew).await;
    }
    drop(disturbance);
}

async fn close_connections(crew: &Crew<'_>) {
    let control = Client::new(crew.stage.dir().join("provider.sock.ctl"));
    let close = CloseConnections { hold: None };
    control.ask(CLOSE_CONNECTIONS, &close).await.unwrap();
}

/// Calls fail, with a time to call again that makes no sense.
pub(super) async fn retry(crew: &mut Crew<'_>, method: Method, after: Duration) {
    // OPERATION_IN_PROGRESS is about one Service, and its time to call again is heeded.
    let error = InjectedError::new(Code::Aborted).retry_after(after);
    let mut fault = Fault::on(method, Effect::Error(error));
    if method == Method::EnsureLoadBalancer {
        // This Service is edited all the time. The faults of many would delay each other.
        let namespace = &crew.view.namespace;
        fault = fault.for_service(&format!("{namespace}/web-0"));
    }
    crew.stage.mock.inject(fault).await;
    // As long as calls are counted.
    crew.pass(Duration::from_secs(10)).await;
    calm_down(crew).await;
}

/// RBAC forbids a resource, and allows it again.
pub(super) async fn revoke(crew: &mut Crew<'_>, resource: &str, time: Duration) {
    let disturbance = crew.ledger.disturb();
    let rights = Rights::documented(ALWAYS).without(resource);
    rights.grant(&crew.stage.plane).await;
    crew.pass(time).await;
    Rights::documented(ALWAYS).grant(&crew.stage.plane).await;
    drop(disturbance);
}
