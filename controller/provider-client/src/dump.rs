//! The provider as the controller sees it at the moment, for people.

use std::fmt::Write;

use outrigger_api::v1;
use tokio::time::Instant;

use super::{
    HandshakeResult, ProviderHealth, ProviderState, Session, Shared,
    admission::{CLASSES, class_label},
};

/// State, session, the status that the provider reports, and pauses; a few lines of text.
pub(super) fn dump(shared: &Shared) -> String {
    let mut lines = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut lines, shared);
    lines
}

fn write(lines: &mut String, shared: &Shared) -> std::fmt::Result {
    let now = Instant::now();
    let state = shared.state.borrow().clone();
    writeln!(lines, "state: {state}")?;
    if let ProviderState::Down { since, .. } = state {
        writeln!(lines, "down_for: {:.3}s", (now - since).as_secs_f64())?;
    }
    writeln!(
        lines,
        "asked as: {}",
        if *shared.standby.borrow() {
            "standby"
        } else {
            "leader"
        }
    )?;
    match &*shared.session.borrow() {
        Some(session) => write_session(lines, session)?,
        None => writeln!(lines, "session: none")?,
    }
    write_health(lines, &shared.health.borrow())?;
    for class in CLASSES {
        if let Some(until) = shared.admission.paused_until(class) {
            let left = (until - now).as_secs_f64();
            writeln!(lines, "paused: {} for {left:.3}s", class_label(class))?;
        }
    }
    Ok(())
}

fn write_session(lines: &mut String, session: &Session) -> std::fmt::Result {
    let HandshakeResult {
        generation,
        name,
        version,
        minor,
        boot_id,
        instances,
        load_balancers,
        routes,
        volumes,
        max_send_bytes,
        ..
    } = &**session;
    writeln!(
        lines,
        "session: generation={generation} name={name:?} version={version:?} minor={minor} \
         boot_id={boot_id:?} max_send_bytes={max_send_bytes}"
    )?;
    if let Some(instances) = instances {
        writeln!(
            lines,
            "instances: max_batch_size={} list={} prefixes={:?} visibility_delay={:?}",
            instances.max_batch_size,
            session.declares::<v1::ListInstancesRequest>(),
            instances.prefixes,
            instances.visibility_delay
        )?;
    }
    if let Some(load_balancers) = load_balancers {
        let capability = &load_balancers.capability;
        writeln!(
            lines,
            "load_balancers: list={} plan={} max_in_flight={} classes={:?} default_class={} \
             configuration_revision={:?} target_label_keys={:?}",
            session.declares::<v1::ListLoadBalancersRequest>(),
            session.declares::<v1::PlanLoadBalancerRequest>(),
            load_balancers.max_in_flight,
            capability.classes,
            !capability.without_default_class,
            capability.configuration_revision,
            capability.targets.label_keys
        )?;
    }
    if let Some(volumes) = volumes {
        writeln!(
            lines,
            "volumes: csi_drivers={:?} source_kinds={:?} max_in_flight={}",
            volumes.served.csi_drivers, volumes.served.kinds, volumes.max_in_flight
        )?;
    }
    writeln!(
        lines,
        "serves: instances={} load_balancers={} routes={} volumes={} node_sets={} effects={}",
        instances.is_some(),
        load_balancers.is_some(),
        routes.is_some(),
        volumes.is_some(),
        session.has_node_sets(),
        session.declares_effects()
    )?;
    match session.grants_missing() {
        Some(missing) => writeln!(lines, "effects: {missing}"),
        None => Ok(()),
    }
}

fn write_health(lines: &mut String, health: &ProviderHealth) -> std::fmt::Result {
    for part in &health.dependencies {
        write!(lines, "dependency: {:?} ready={}", part.name, part.ready)?;
        if let Some(last) = part.last_success {
            write!(lines, " last_success={last}")?;
        }
        writeln!(lines, " message={:?}", part.message)?;
    }
    for quota in &health.quotas {
        writeln!(
            lines,
            "quota: {:?} remaining={} limit={}",
            quota.name, quota.remaining, quota.limit
        )?;
    }
    Ok(())
}
