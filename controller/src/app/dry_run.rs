//! `--plan`: prints what the service-lb loop would do, and ends. Writes nothing, neither to the API
//! server nor to the cloud; may run beside a controller that works.
//!
//! RBAC: `list`, `watch` on `services` and `nodes`; `get` on the Lease and on the namespace `kube-system`.

use std::{sync::Arc, time::Duration};

use outrigger_api::v1::PlanLoadBalancerRequest;
use outrigger_core::{
    node::NodeView,
    service::{ServiceView, plan::EnsureCause},
    targets::{ANNOTATION_TARGETS, Inheritance, Revision, TargetLabels, TargetPool, TargetsRecord},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{Fatal, process::Process};
use crate::{
    command::new_table,
    options::{Config, config::OutputForm},
};
use outrigger_kube::{
    api::Api,
    cluster,
    store::{Store, View},
    watch::{self, Health, Sight},
};
use outrigger_loops::service::dry_run::{Action, Planned, plan};
use outrigger_provider::{PlannedChange, Provider};

/// How long the API server and the provider may take until they are ready.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) async fn run(
    process: &Process<'_>,
    provider: &Provider,
    output: OutputForm,
) -> Result<(), Fatal> {
    let gathered = tokio::time::timeout(PATIENCE, Box::pin(gather(process, provider))).await;
    let (services, nodes) = gathered.map_err(|_elapsed| {
        Fatal::Setup(format!(
            "cannot plan: the API server or the provider was not ready within {} s; the provider is \
             {}",
            PATIENCE.as_secs(),
            *provider.state().borrow()
        ))
    })?;
    let session = provider.session();
    let Some(declared) = session.as_ref().and_then(|s| s.load_balancers.as_ref()) else {
        return Err(Fatal::Setup(
            "cannot plan: the provider does not serve load balancers".to_owned(),
        ));
    };
    if session
        .as_ref()
        .is_some_and(|s| !s.declares::<PlanLoadBalancerRequest>())
    {
        warn!(
            "the provider cannot plan its changes of the cloud; showing what it would be \
             asked for"
        );
    }
    let now = jiff::Timestamp::now();
    let labels = TargetLabels {
        rules: declared.capability.targets.clone(),
        has_selectors: services.all().iter().any(|service| service.selects()),
    };
    let pool = TargetPool::among(nodes.all(), labels);
    let inheritance = inheritance(&process.informers, process.config, pool.revision()).await;
    let capability = &declared.capability;
    let planned = plan(
        provider,
        capability,
        services.all(),
        &pool,
        inheritance,
        now,
    );
    let planned = planned.await;
    print(&planned, pool.all().nodes().len(), output);
    match planned.iter().filter(|entry| entry.error.is_some()).count() {
        0 => Ok(()),
        failed => Err(Fatal::Setup(format!(
            "{failed} of {} Services cannot be planned; see above",
            planned.len()
        ))),
    }
}

/// Both stores, filled once, and a provider that serves. Only the provider's declarations say which annotations are read.
async fn gather(
    process: &Process<'_>,
    provider: &Provider,
) -> (Arc<Store<ServiceView>>, Arc<Store<NodeView>>) {
    let (services, nodes) = (Arc::<Store<_>>::default(), Arc::<Store<_>>::default());
    provider.wait_until_serving().await;
    if let Some(session) = provider.session() {
        nodes.keep_annotations(&session.annotations_of_nodes());
        if let Some(read) = session.annotations_of_services() {
            services.keep_annotations(&read);
        }
    }
    tokio::join!(fill(process, &services), fill(process, &nodes));
    (services, nodes)
}

async fn fill<V: View>(process: &Process<'_>, store: &Arc<Store<V>>) {
    let watching = watch::run(
        process.informers.clone(),
        Arc::clone(store),
        Health::new(V::RESOURCE, &Sight::default()),
        process.metrics.watch.clone(),
        CancellationToken::new(),
    );
    tokio::select! {
        () = watching => {}
        () = store.synced() => {}
    }
}

/// The knowledge of the next term about load balancers, by the Lease. Without one, all count as in sync.
async fn inheritance(api: &Api, config: &Config, current: &Revision) -> Inheritance {
    let Some(election) = &config.election else {
        return Inheritance::InSync;
    };
    match cluster::lease(api, &election.path()).await {
        Ok(lease) => {
            let value = lease.annotations.get(ANNOTATION_TARGETS);
            match value.and_then(|value| TargetsRecord::parse(value)) {
                Some(record) => record.inheritance(lease.record.transitions, current),
                None => Inheritance::Nothing,
            }
        }
        // No replica has led yet.
        Err(error) if error.is_not_found() => Inheritance::InSync,
        Err(error) => {
            warn!(%error, "Lease cannot be read, so that new targets are not shown");
            Inheritance::InSync
        }
    }
}

fn print(planned: &[Planned], nodes: usize, output: OutputForm) {
    match output {
        OutputForm::Json => println!("{:#}", as_json(planned, nodes)),
        OutputForm::Table => println!("{}", as_table(planned, nodes)),
    }
}

fn as_json(planned: &[Planned], nodes: usize) -> serde_json::Value {
    let change = |change: &PlannedChange| {
        json!({
            "action": change.action,
            "resourceType": change.resource_type,
            "resourceId": change.resource_id,
            "summary": change.summary,
        })
    };
    let service = |entry: &Planned| {
        let changes = entry.changes.as_ref();
        json!({
            "service": &*entry.service,
            "action": entry.action.as_str(),
            "cause": entry.action.cause().map(EnsureCause::as_str),
            "changes": changes.map(|changes| changes.iter().map(change).collect::<Vec<_>>()),
            "error": entry.error,
        })
    };
    let services: Vec<_> = planned.iter().map(service).collect();
    json!({"targets": nodes, "services": services})
}

fn as_table(planned: &[Planned], nodes: usize) -> String {
    let mut table = new_table(["SERVICE", "ACTION", "CAUSE", "CHANGE"]);
    let is_kept = |entry: &&Planned| entry.action == Action::Keep && entry.error.is_none();
    let (kept, others): (Vec<_>, Vec<_>) = planned.iter().partition(is_kept);
    for entry in &others {
        let cause = entry.action.cause().map_or("", |cause| cause.as_str());
        let changes = entry.changes.iter().flatten().map(|change| {
            let (action, kind) = (change.action, &change.resource_type);
            format!("{action} {kind}: {}", change.summary)
        });
        let error = entry.error.iter();
        let error = error.map(|error| format!("cannot be planned: {error}"));
        let lines: Vec<_> = changes.chain(error).collect();
        table.add_row([
            &entry.service,
            entry.action.as_str(),
            cause,
            &lines.join("\n"),
        ]);
    }
    let (kept, others) = (kept.len(), others.len());
    let sum = format!("load balancers: {kept} stay as they are, {others} do not; targets: {nodes}");
    if others == 0 {
        return sum;
    }
    format!("{}\n\n{sum}", table.trim_fmt())
}
