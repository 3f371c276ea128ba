//! `check`: whether the controller manager would work here, before it runs. It writes nothing and takes no Lease.

mod rights;
mod rows;

use std::{process::ExitCode, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::SelfSubjectRulesReview;
use outrigger_core::{node::NodeView, repairs::pod_cidr_writer, text};
use outrigger_kube::{api::Api, cluster, decode::Item, error::ApiError, store::View};
use outrigger_provider::{DownCause, ProviderState, Session};
use outrigger_runtime::telemetry::Repeats;
use serde_json::json;
use tokio::time::timeout;

use self::rows::{CheckResult, ClusterFound, Found, Row, Served, judge};
use super::{connect, new_table, run_to_end};
use crate::{
    app::{Surroundings, provider_options},
    options::{self, Config, config::OutputForm},
};

const ABOUT: &str = "Checks whether the controller manager would work with these flags and credentials, and writes \
                     nothing. Exit code 0: no check failed; 1: some did; 2: the flags cannot be read.";

/// How long an answer of the API server, or the provider until it serves, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the process if the flags, which are those of the controller manager, cannot be read.
pub(super) fn run() -> Result<ExitCode, String> {
    let parsed = options::parse_check_from_env(ABOUT);
    let (config, output) = parsed.unwrap_or_else(|error| error.exit());
    let rows = judge(&run_to_end(find(&config))?);
    let shown = match output {
        OutputForm::Json => {
            serde_json::to_string_pretty(&rows).map_err(|error| error.to_string())?
        }
        OutputForm::Table => as_table(&rows),
    };
    println!("{shown}");
    let is_failed = rows.iter().any(|row| row.result == CheckResult::Failed);
    Ok(ExitCode::from(u8::from(is_failed)))
}

async fn find(config: &Config) -> Found<'_> {
    let cluster = find_cluster(config).await;
    let facts = cluster.as_ref().map(|cluster| cluster.facts.clone());
    let options = provider_options(config, &facts.unwrap_or_default());
    let provider = connect(options, Surroundings::socket(config));
    let mut state = provider.state();
    let is_final = |state: &ProviderState| {
        let may_start = matches!(state.cause(), None | Some(DownCause::Disconnected));
        state.serves() || !may_start
    };
    let _ = timeout(PATIENCE, state.wait_for(is_final)).await;
    let state = state.borrow().clone();
    Found {
        config,
        now: Timestamp::now(),
        cluster,
        provider: state,
        served: provider.session().map(|session| served(&session)),
    }
}

/// RBAC: that of the loops.
async fn find_cluster(config: &Config) -> Result<ClusterFound, String> {
    let api_server = config.kube.load().map_err(|error| error.to_string())?;
    let api = super::api(api_server, "check").await?.limited(PATIENCE);
    ask(config, &api).await.map_err(|error| error.to_string())
}

async fn ask(config: &Config, api: &Api) -> Result<ClusterFound, ApiError> {
    let facts = cluster::query(api, &Repeats::default()).await?;
    let election = config.election.as_ref();
    let namespace = election.map_or("kube-system", |election| &election.namespace);
    let review = json!({"spec": {"namespace": namespace}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review: SelfSubjectRulesReview = api.create(reviews, &review).await?;
    let lease = match election {
        Some(election) => cluster::lease(api, &election.path()).await.ok(),
        None => None,
    };
    let mut nodes = Vec::<NodeView>::new();
    let each = |node| {
        if let Item::Decoded(node) = node {
            nodes.push(node);
        }
    };
    let listed = api.list(NodeView::RESOURCE.path, None, each).await;
    let allocated = nodes.iter().filter(|node| !node.pod_cidrs.is_empty());
    let youngest = allocated.max_by_key(|node| node.created);
    let entries = match youngest.filter(|_| config.ipam.is_some()) {
        Some(node) => api.managed_fields(&node.path()).await?,
        None => Vec::new(),
    };
    Ok(ClusterFound {
        facts,
        rights: review.status.unwrap_or_default(),
        lease,
        nodes: listed.is_ok().then_some(nodes),
        pod_cidr_writer: pod_cidr_writer(&entries).map(str::to_owned),
    })
}

fn served(session: &Session) -> Served {
    let (name, version) = (&session.name, &session.version);
    let served = session.capabilities().into_iter();
    let served = served.filter_map(|(name, is_served)| is_served.then_some(name));
    let served = served.collect::<Vec<_>>().join(", ");
    let instances = session.instances.as_ref();
    Served {
        summary: format!("{name} {version}: {served}"),
        prefixes: instances.map(|instances| instances.prefixes.clone()),
        without_provider_id: instances.is_some_and(|instances| instances.without_provider_id),
        serves_routes: session.routes.is_some(),
    }
}

/// Each check on a line, and its remedy below it.
fn as_table(rows: &[Row]) -> String {
    let mut table = new_table(["CHECK", "RESULT", "FOUND"]);
    for row in rows {
        let remedy = row.remedy.map(|remedy| format!("\n→ {remedy}"));
        let message = text::message(&row.message) + &remedy.unwrap_or_default();
        table.add_row([row.check, &format!("{:?}", row.result), &message]);
    }
    table.trim_fmt()
}
