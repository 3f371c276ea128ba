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
    disruption::Declaration,
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
        Declaration::WithoutDefaultClass => "--lb-without-default-class".to_owned(),
        Declaration::WithOtherClass => format!("--lb-class={OTHER_CLASS}"),
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

/// The provider answers calls of a method as a program without it does.
pub(super) async fn lack(crew: &mut Crew<'_>, method: Method, time: Duration) {
    let disturbance = crew.ledger.disturb();
    let error = InjectedError {
        message: Some("the drill wants it".to_owned()),
        ..InjectedError::new(Code::Unimplemented).without_reason()
    };
    let fault = Fault::on(method, Effect::Error(error));
    crew.stage.mock.inject(fault).await;
    if method == Method::Handshake {
        close_connections(crew).await;
    }
    crew.pass(time).await;
    calm_down(crew).await;
    // On the same connection a handshake that was refused is repeated after a minute, and some methods that are
    // UNIMPLEMENTED are not called again: only another program would serve them.
    close_connections(crew).await;
    drop(disturbance);
}

async fn close_connections(crew: &Crew<'_>) {
    let control = Client::new(crew.stage.dir().join("provider.sock.ctl"));
    let close = CloseConnections { hold: None };
    control.ask(CLOSE_CONNECTIONS, &close).await.unwrap();
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
