//! Load on a provider: many calls at once, how long they took, and whether its process grew meanwhile.

mod soak;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use outrigger_api::{
    Method, MethodRequest as _,
    v1::{
        BatchGetInstancesRequest, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest,
        GetStatusRequest, InstanceView, Node, SyncNodeSetRequest,
    },
};
pub use soak::Course;
use tokio::time::Instant;

use crate::{
    call_error::CallError,
    capability::Capability,
    case::Case,
    cases,
    run::{self, Settings},
    subject::{Subject, batch_size, upload},
    verdict::{Failure, Stop},
};

/// The amount of load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Nodes that are looked up and that are the targets, by turns of a batch.
    pub nodes: usize,
    /// Services whose load balancers are made and deleted; 0 without `--allow-mutations`.
    pub services: usize,
    /// Calls at one time.
    pub parallel: usize,
    /// The load is repeated for so long; once at least.
    pub duration: Duration,
}

/// Calls and the process that served them.
#[derive(Debug, Default)]
pub struct Stressed {
    /// How long the calls took.
    pub latencies: Latencies,
    /// Errors that break a rule of the contract.
    pub breaches: Vec<Breach>,
    /// How large the provider's process was, where the suite has started it.
    pub course: Course,
}

/// Errors that break one rule.
#[derive(Debug)]
pub struct Breach {
    /// The case that holds errors to the rule.
    pub case: Case,
    /// How many, of calls and of items.
    pub errors: usize,
    /// The first of them.
    pub first: Failure,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            case,
            errors,
            first,
        } = self;
        writeln!(
            f,
            "{:<7}  {}  {} ({errors} errors)",
            case.id, case.level, case.title
        )?;
        writeln!(f, "        first     {}", first.actual)?;
        writeln!(f, "        clause    {}", case.clause)
    }
}

impl fmt::Display for Stressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.latencies)?;
        for breach in &self.breaches {
            write!(f, "{breach}")?;
        }
        write!(f, "{}", self.course)
    }
}

/// How long the calls of each method took.
#[derive(Debug, Default)]
pub struct Latencies {
    methods: BTreeMap<&'static str, Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    took: Vec<Duration>,
    errors: BTreeMap<String, usize>,
}

impl Latencies {
    /// Calls that were answered with an error.
    pub fn errors(&self) -> usize {
        let methods = self.methods.values();
        methods.flat_map(|method| method.errors.values()).sum()
    }

    fn add(&mut self, (method, took, answered): Timed) {
        let method = self.methods.entry(method.name).or_default();
        method.took.push(took);
        if let Err(error) = answered {
            *method.errors.entry(error.to_string()).or_default() += 1;
        }
    }

    /// Makes calls, so many at one time, each with those that follow it.
    async fn measure<F>(&mut self, parallel: usize, calls: impl Iterator<Item = F>)
    where
        F: Future<Output: IntoIterator<Item = Timed>>,
    {
        let mut calls = stream::iter(calls).buffer_unordered(parallel);
        while let Some(timed) = calls.next().await {
            timed.into_iter().for_each(|one| self.add(one));
        }
    }
}

/// A call: its method, how long it took, and its error.
type Timed = (&'static Method, Duration, Result<(), CallError>);

async fn timed<T>(
    method: &'static Method,
    call: impl Future<Output = Result<T, CallError>>,
) -> Timed {
    let began = Instant::now();
    let answered = call.await;
    (method, began.elapsed(), answered.map(drop))
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:>7} {:>7} {:>10} {:>10} {:>10} {:>10}",
            "METHOD", "CALLS", "ERRORS", "P50", "P90", "P99", "LONGEST"
        )?;
        for (rpc, method) in &self.methods {
            let mut took = method.took.clone();
            took.sort_unstable();
            let at = |percent: usize| {
                let index = (took.len() * percent / 100).min(took.len().saturating_sub(1));
                let took = took.get(index).copied().unwrap_or_default();
                format!("{:.1} ms", took.as_secs_f64() * 1e3)
            };
            let errors: usize = method.errors.values().sum();
            writeln!(
                f,
                "{rpc:<24} {:>7} {errors:>7} {:>10} {:>10} {:>10} {:>10}",
                took.len(),
                at(50),
                at(90),
                at(99),
                at(100)
            )?;
        }
        for method in self.methods.values() {
            for (error, count) in &method.errors {
                writeln!(f, "{count} times {error}")?;
            }
        }
        Ok(())
    }
}

/// Puts load on the provider.
///
/// # Errors
///
/// The provider cannot be reached, or does not answer at all.
pub async fn stress(settings: Settings, load: Load) -> Result<Stressed, String> {
    let suite = Arc::new(run::prepare(&settings).await?);
    let subject = Subject::of(&suite, "stress")
        .await
        .map_err(|stop| stop.to_string())?;
    let mut stressed = Stressed::default();
    let repeated = repeat(&subject, load, &mut stressed.latencies);
    tokio::select! {
        ended = repeated => ended.map_err(|stop: Stop| stop.to_string())?,
        () = stressed.course.watch(&subject, load.duration) => {}
    }
    stressed.breaches = breaches(&subject);
    Ok(stressed)
}

/// The rules of errors that the run has seen broken.
fn breaches(subject: &Subject) -> Vec<Breach> {
    let observations = subject.observations();
    let of_case = |case: Case| {
        let mut failures = observations.breaches(case.of_errors?);
        let first = failures.next()?;
        let errors = 1 + failures.count();
        Some(Breach {
            case,
            errors,
            first,
        })
    };
    cases::all().into_iter().filter_map(of_case).collect()
}

async fn repeat(subject: &Subject, load: Load, latencies: &mut Latencies) -> Result<(), Stop> {
    let started = Instant::now();
    loop {
        // Each round has its own connection, as after a restart of a controller.
        let subject = &subject.connect().await?;
        once(subject, load, latencies).await?;
        if started.elapsed() >= load.duration {
            return Ok(());
        }
    }
}

async fn once(subject: &Subject, load: Load, latencies: &mut Latencies) -> Result<(), Stop> {
    if subject.declares(Capability::Instances) {
        look_up(subject, load, latencies).await;
    }
    if subject.declares(Capability::NodeSets) {
        let upload = upload(&subject.client.context(), "stress", &[&nodes(load.nodes)]);
        let sync = subject.client.sync_node_set(stream::iter(upload));
        latencies.add(timed(SyncNodeSetRequest::METHOD, sync).await);
    }
    if load.services > 0 && subject.declares(Capability::LoadBalancers) {
        balance(subject, load, latencies).await?;
    }
    Ok(())
}

fn nodes(count: usize) -> Vec<Node> {
    let node = |index| Node {
        name: format!("conformance-stress-{index}"),
        uid: format!("uid-{index}"),
        ready: "True".to_owned(),
        ..Node::default()
    };
    (0..count).map(node).collect()
}

/// Looks all nodes up, and asks for the status meanwhile.
async fn look_up(subject: &Subject, load: Load, latencies: &mut Latencies) {
    let size = batch_size(subject.instances().max_batch_size);
    let nodes = nodes(load.nodes);
    let calls = nodes.chunks(size).map(|batch| {
        let request = BatchGetInstancesRequest {
            items: batch.to_vec(),
            view: InstanceView::State.into(),
            ..BatchGetInstancesRequest::default()
        };
        async {
            let looked_up = timed(
                BatchGetInstancesRequest::METHOD,
                subject.client.results(request),
            );
            let looked_up = looked_up.await;
            let status = subject.client.call(GetStatusRequest {});
            [looked_up, timed(GetStatusRequest::METHOD, status).await]
        }
    });
    latencies.measure(load.parallel, calls).await;
}

/// Makes a load balancer for each Service, and deletes all of them.
async fn balance(subject: &Subject, load: Load, latencies: &mut Latencies) -> Result<(), Stop> {
    let targets = subject.targets(&subject.target_nodes()).await?;
    let services: Vec<_> = (0..load.services).map(|_| subject.service()).collect();
    let ensured = services.iter().map(|service| {
        let ensure = subject.ensure_once(service, targets.clone());
        async { [timed(EnsureLoadBalancerRequest::METHOD, ensure).await] }
    });
    latencies.measure(load.parallel, ensured).await;
    let deleted = services.iter().map(|service| async move {
        let delete = subject.delete_once(service);
        [timed(DeleteLoadBalancerRequest::METHOD, delete).await]
    });
    latencies.measure(load.parallel, deleted).await;
    // Some deletions may have been IN_PROGRESS.
    subject.clean_up().await
}
