//! Mistakes that authors of providers make, each under a name: `serve --defect NAME`. Only the feature `defects` has them.
//!
//! The mock is a correct provider. A [`Defect`] stands in front of it and changes its requests, its answers, or
//! the way it listens; each names the cases of the conformance suite that must fail by it. So the suite is
//! tested: a mistake that no case catches is a case that is missing.

mod cancelled;
mod cloud;
mod errors;
mod handshake;
mod hook;
mod instances;
mod layer;
mod listening;
mod load_balancers;
mod node_sets;
mod resilience;
mod routes;
mod transitions;
mod transport;
mod upload;
mod volumes;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use futures::future::{FutureExt as _, ready};
use outrigger_api::v1::{
    BatchGetInstancesRequest, BatchGetInstancesResponse, CallContext, Capabilities, ErrorReason,
    HandshakeRequest, InstanceResult, Node, instance_result::Outcome,
};
use outrigger_api::{ListPage, MethodRequest, RpcStatus, code_of};
use outrigger_provider_sdk::Server;
use tokio::time::sleep;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::exchange::{Answer, Call};
use crate::faults::{BadAnswer, InjectedError, Method};
use cancelled::Cancelled;
use hook::{Around, Next, On};
use listening::Listening;

/// Environment variable that names the defect of `serve`.
pub const DEFECT_ENV: &str = "PROVIDER_MOCK_DEFECT";

/// Begins, among the cases of a defect, its [`Exploration`]: `explore=SEED:WORD,WORD`.
const EXPLORE: &str = "explore=";

/// A row for each defect: `name | cases or further cases | sentence`.
const MISTAKES: &str = include_str!("defects/mistakes.txt");

/// A mistake of a provider.
#[derive(Default)]
pub struct Defect {
    /// Its name.
    pub name: &'static str,
    /// The mistake, of a provider that has it: "The provider …".
    pub sentence: &'static str,
    /// The cases of the conformance suite that fail by it, and no other does.
    pub cases: Vec<&'static str>,
    /// The find of `provider-conformance explore`, for a mistake in a transition.
    pub explored: Option<Exploration>,
    /// Cases that may fail too: the moment at which they cut a call off decides.
    by_chance: Vec<&'static str>,
    hooks: Vec<(On, Around)>,
    listening: Listening,
}

/// The way to find a defect with `provider-conformance explore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exploration {
    /// A seed of which the trace finds it.
    pub seed: u64,
    /// The words of the smallest trace that finds it.
    pub words: BTreeSet<&'static str>,
}

impl Exploration {
    fn read(cell: &'static str) -> Option<Self> {
        let (seed, words) = cell.split_once(':')?;
        Some(Self {
            seed: seed.parse().ok()?,
            words: words.split(',').collect(),
        })
    }
}

/// All of them. Each has a state of its own, as of a process.
pub fn all() -> Vec<Defect> {
    let areas = [
        transport::defects(),
        handshake::defects(),
        errors::defects(),
        instances::defects(),
        load_balancers::defects(),
        node_sets::defects(),
        routes::defects(),
        volumes::defects(),
        resilience::defects(),
        transitions::defects(),
        cloud::defects(),
    ];
    areas.into_iter().flatten().map(Defect::described).collect()
}

/// The one of a name.
///
/// # Errors
///
/// There is none: the sentence names where they are listed.
pub fn named(name: &str) -> Result<Arc<Defect>, String> {
    let defect = all().into_iter().find(|one| one.name == name);
    let defect = defect.ok_or_else(|| {
        format!("the mock has no defect {name:?}; `provider-mock defects` lists them")
    })?;
    Ok(Arc::new(defect))
}

/// State of a defect, which lives as long as the process of a provider that has it.
fn kept<T>(state: T) -> &'static T {
    Box::leak(Box::new(state))
}

impl Defect {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// With the cells of its row.
    fn described(self) -> Self {
        let rows = MISTAKES.lines().filter(|line| !line.starts_with('#'));
        let mut rows = rows.map(|line| line.split(" | ").collect::<Vec<_>>());
        let row = rows.find(|row| row.first() == Some(&self.name));
        let Some([_, cases, sentence]) = row.as_deref() else {
            return self;
        };
        let (cases, by_chance) = cases.split_once(" or ").unwrap_or((cases, ""));
        let cases = cases.split_whitespace();
        let explored = cases.clone().find_map(|case| case.strip_prefix(EXPLORE));
        Self {
            sentence,
            explored: explored.and_then(Exploration::read),
            cases: cases.filter(|case| !case.starts_with(EXPLORE)).collect(),
            by_chance: by_chance.split_whitespace().collect(),
            ..self
        }
    }

    /// The methods that it changes: the areas of cases that it concerns.
    pub fn methods(&self) -> impl Iterator<Item = Method> {
        self.hooks.iter().filter_map(|(on, _)| match on {
            On::Method(method) => Some(*method),
            _ => None,
        })
    }

    /// True if a case that is none of [`cases`](Self::cases) may fail by it.
    pub fn may_fail(&self, case: &str) -> bool {
        // A call behind a defect begins once its request is whole, after the SIGTERM of RES-21.
        let upload = Method::SyncNodeSet.path;
        let holds_uploads = || self.hooks.iter().any(|(on, _)| on.is_about(upload));
        self.by_chance.contains(&case) || case == "RES-21" && holds_uploads()
    }

    /// Puts it between the callers and a provider: to the mistake a fault is one of the cloud.
    pub fn stand_before(self: &Arc<Self>, server: Server) -> Server {
        let defect = Arc::clone(self);
        server.wrap(move |mut routes| {
            let router = routes.axum_router_mut();
            *router = std::mem::take(router).layer(from_fn_with_state(defect, layer::serve));
            routes
        })
    }

    /// To be called before the socket is made.
    ///
    /// # Errors
    ///
    /// It does not take the socket that is there.
    pub fn begins(&self, socket: &Path) -> io::Result<()> {
        self.listening.begins(socket)
    }

    /// To be called once the socket is made.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn made(&self, socket: &Path) -> io::Result<()> {
        self.listening.made(socket)
    }

    /// To be called after the last call.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn ended(&self, socket: &Path) -> io::Result<()> {
        self.listening.ended(socket)
    }

    fn listening(self, listening: Listening) -> Self {
        Self { listening, ..self }
    }

    /// Does something with each call, the correct answer at reach.
    fn around<F>(mut self, on: On, around: impl Fn(Call, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let around: Around = Arc::new(move |call, next| Box::pin(around(call, next)));
        self.hooks.push((on, around));
        self
    }

    /// Does something with each call of a method.
    fn call<Q: MethodRequest, F>(
        self,
        around: impl Fn(Call, Next) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        self.around(On::of::<Q>(), around)
    }

    /// Does something with each answer.
    fn answered(
        self,
        on: On,
        change: impl Fn(&Call, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let change = Arc::new(change);
        self.around(on, move |call, next| {
            let change = Arc::clone(&change);
            async move {
                let answer = next.serve(call.clone()).await;
                change(&call, answer)
            }
        })
    }

    /// Something that happens when the caller of a method goes away; a moment passes before the call is served.
    fn cancelled<Q: MethodRequest>(
        self,
        moment: Duration,
        then: impl Fn(&Call) + Copy + Send + Sync + 'static,
    ) -> Self {
        self.call::<Q, _>(move |call, next| {
            let of_caller = call.clone();
            async move {
                let cancelled = Cancelled::new(move || then(&of_caller));
                sleep(moment).await;
                let answer = next.serve(call).await;
                cancelled.done();
                answer
            }
        })
    }

    /// Serves another request than the one that came.
    fn request<Q: MethodRequest>(self, change: impl Fn(&mut Q) + Send + Sync + 'static) -> Self {
        self.around(On::of::<Q>(), move |call, next| {
            let mut message = call.message();
            change(&mut message);
            next.serve(call.with(&message))
        })
    }

    /// Changes the context of requests.
    fn in_context<Q: MethodRequest>(
        self,
        change: impl Fn(&mut CallContext) + Send + Sync + 'static,
    ) -> Self {
        self.request::<Q>(move |request| {
            if let Some(Some(context)) = request.context_mut() {
                change(context);
            }
        })
    }

    /// Changes each message of the answer, as the request asks for it.
    fn answer<Q: MethodRequest>(
        self,
        change: impl Fn(&Q, &mut Q::Response) + Send + Sync + 'static,
    ) -> Self {
        self.answered(On::of::<Q>(), move |call, mut answer| {
            let request = call.message();
            answer.each(|message| change(&request, message));
            answer
        })
    }

    /// Changes the results of a lookup together.
    fn results(
        self,
        change: impl Fn(&BatchGetInstancesRequest, &mut Vec<InstanceResult>) + Send + Sync + 'static,
    ) -> Self {
        self.answer::<BatchGetInstancesRequest>(move |request, message| {
            change(request, &mut message.results);
        })
    }

    /// Changes the outcome for each Node of a lookup, as the request asks for it.
    fn outcomes(
        self,
        change: impl Fn(&BatchGetInstancesRequest, &Node, &mut Outcome) + Send + Sync + 'static,
    ) -> Self {
        self.results(move |request, results| {
            for result in results {
                let item = request.items.iter().find(|item| item.name == result.key);
                if let (Some(item), Some(outcome)) = (item, &mut result.outcome) {
                    change(request, item, outcome);
                }
            }
        })
    }

    /// Changes the entries of each part of a list.
    fn listed<L: MethodRequest<Response: ListPage>>(
        self,
        change: impl Fn(&mut Vec<EntryOf<L>>) + Send + Sync + 'static,
    ) -> Self {
        self.answer::<L>(move |_, page| {
            let (mut entries, complete) = std::mem::take(page).into_parts();
            change(&mut entries);
            *page = ListPage::page(entries, complete);
        })
    }

    /// Ends lists without `complete`.
    fn never_complete<L: MethodRequest<Response: ListPage>>(self) -> Self {
        self.answer::<L>(|_, page| {
            let (entries, _) = std::mem::take(page).into_parts();
            *page = ListPage::page(entries, false);
        })
    }

    /// Lists some entries twice, as long as they are there.
    fn twice<L: MethodRequest<Response: ListPage>>(
        self,
        is_double: impl Fn(&EntryOf<L>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.listed::<L>(move |entries| {
            let doubles = entries.iter().filter(|one| is_double(one));
            entries.extend(doubles.cloned().collect::<Vec<_>>());
        })
    }

    /// Answers a lookup with an outcome for each Node, where the whole call fails since the cloud does.
    fn while_the_cloud_fails(self, outcome: fn() -> Outcome) -> Self {
        self.answered(On::of::<BatchGetInstancesRequest>(), move |call, answer| {
            if answer.code() != Code::Unavailable {
                return answer;
            }
            let request: BatchGetInstancesRequest = call.message();
            let keys = request.items.into_iter().map(|item| item.name);
            let results = keys.map(|key| InstanceResult::new(key, outcome()));
            let results = results.collect();
            Answer::ok(&BatchGetInstancesResponse { results })
        })
    }

    /// Answers a call with an error, unserved.
    fn refuses_call(
        self,
        on: On,
        refusal: impl Fn(&Call) -> Option<Status> + Send + Sync + 'static,
    ) -> Self {
        self.around(on, move |call, next| match refusal(&call) {
            Some(status) => ready(Answer::failed(status)).boxed(),
            None => next.serve(call),
        })
    }

    /// Answers a request with an error, unserved.
    fn refuses<Q: MethodRequest>(
        self,
        refusal: impl Fn(&Q) -> Option<Status> + Send + Sync + 'static,
    ) -> Self {
        self.refuses_call(On::of::<Q>(), move |call| refusal(&call.message()))
    }

    /// Changes what the handshake declares.
    fn declares(self, change: impl Fn(&mut Capabilities) + Send + Sync + 'static) -> Self {
        self.answer::<HandshakeRequest>(move |_, answer| {
            change(answer.capabilities.get_or_insert_default());
        })
    }

    /// Changes the errors of calls.
    fn error(self, on: On, change: impl Fn(Status) -> Status + Send + Sync + 'static) -> Self {
        self.answered(on, move |_, answer| match answer.error() {
            Some(status) => Answer::failed(change(status)),
            None => answer,
        })
    }

    /// Spoils each answer, as the fault of the same name does for a while.
    fn bad_answer<Q: MethodRequest>(self, bad: BadAnswer) -> Self {
        self.answered(On::of::<Q>(), move |call, mut answer| {
            if let Some(shape) = Method::of::<Q>().shape() {
                let objects = shape.objects(call.first());
                shape.spoil_answer(bad, &objects, &mut answer, &|_| true);
            }
            answer
        })
    }
}

/// An entry of a list.
type EntryOf<L> = <<L as MethodRequest>::Response as ListPage>::Item;

fn deliberate(reason: ErrorReason, message: &str) -> InjectedError {
    let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
    let error = InjectedError::new(code_of(reason)).with_reason(name);
    error.with_message(message)
}

/// A deliberate error of a call.
fn refusal(reason: ErrorReason, message: &str) -> Status {
    deliberate(reason, message).to_status()
}

/// A deliberate error of one item.
fn item(reason: ErrorReason, message: &str) -> RpcStatus {
    deliberate(reason, message).to_item()
}

/// The reason of an answer that is a deliberate error.
fn reason(answer: &Answer) -> Option<ErrorReason> {
    let details = answer.error()?.get_error_details();
    let name = &details.error_info()?.reason;
    ErrorReason::from_str_name(&format!("ERROR_REASON_{name}"))
}

impl fmt::Debug for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Defect").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_defect_and_each_defect_a_row() {
        let rows = MISTAKES.lines().filter(|line| line.contains(" | "));
        let rows: Vec<_> = rows.filter_map(|line| line.split(' ').next()).collect();
        let defects = all();
        let mut names: Vec<_> = defects.iter().map(|one| one.name).collect();
        assert!(defects.iter().all(|one| !one.sentence.is_empty()));
        let mut rows: Vec<_> = rows.into_iter().filter(|name| *name != "#").collect();
        rows.sort_unstable();
        names.sort_unstable();
        assert_eq!(rows, names);
    }
}
