//! Mistakes that authors of providers make, each under a name: `serve --defect NAME`.
//!
//! The mock is a correct provider. A [`Defect`] stands in front of it and changes its requests, its answers, or
//! the way it listens; each names the cases of the conformance suite that must fail by it. So the suite is
//! tested: a mistake that no case catches is a case that is missing.

mod cancelled;
mod cloud;
mod defective;
mod errors;
mod exchange;
mod handshake;
mod instances;
mod listening;
mod load_balancers;
mod node_sets;
mod resilience;
mod routes;
mod transport;
mod volumes;

use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::Stream;
use futures::future::{FutureExt as _, ready};
use outrigger_api::v1::ErrorReason;
use outrigger_api::{RpcStatus, code_of};
use prost::Message;
use tonic::Status;
use tonic::transport::server::{Connected, UdsConnectInfo};
use tonic_types::StatusExt as _;

pub(crate) use defective::Defective;
pub use listening::{Guarded, Peer};

use crate::faults::{BadAnswer, InjectedError, Method};
use crate::wire::frames::Answer;
use crate::wire::spoil::spoil_all;
use exchange::{Around, Call, Next, On};
use listening::Listening;

/// Environment variable that names the defect of `serve`.
pub const DEFECT_ENV: &str = "PROVIDER_MOCK_DEFECT";

/// A mistake of a provider.
pub struct Defect {
    /// Its name.
    pub name: &'static str,
    /// The mistake, of a provider that has it: "The provider …".
    pub sentence: &'static str,
    /// The cases of the conformance suite that fail by it, and no other does.
    pub cases: &'static [&'static str],
    /// Cases that may fail too: the moment at which they cut a call off decides.
    by_chance: &'static [&'static str],
    hooks: Vec<(On, Around)>,
    listening: Listening,
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
        cloud::defects(),
    ];
    areas.into_iter().flatten().collect()
}

/// The one of a name.
///
/// # Errors
///
/// There is none: the sentence names where they are listed.
pub fn named(name: &str) -> Result<Arc<Defect>, String> {
    let found = all().into_iter().find(|one| one.name == name);
    let found = found.ok_or_else(|| {
        format!("the mock has no defect {name:?}; `provider-mock defects` lists them")
    })?;
    Ok(Arc::new(found))
}

impl Defect {
    fn new(name: &'static str, sentence: &'static str, cases: &'static [&'static str]) -> Self {
        Self {
            name,
            sentence,
            cases,
            by_chance: &[],
            hooks: Vec::new(),
            listening: Listening::default(),
        }
    }

    /// The methods that it changes: the areas of cases that it concerns.
    pub fn methods(&self) -> impl Iterator<Item = Method> {
        self.hooks.iter().filter_map(|(on, _)| match on {
            On::Method(method) => Some(*method),
            _ => None,
        })
    }

    /// Whether a case that is none of [`cases`](Self::cases) may fail by it.
    pub fn may_fail(&self, case: &str) -> bool {
        // A call behind a defect begins once its request is whole, after the SIGTERM of RES-21.
        let upload = Method::SyncNodeSet.path();
        let holds_uploads = || self.hooks.iter().any(|(on, _)| on.is_about(&upload));
        self.by_chance.contains(&case) || case == "RES-21" && holds_uploads()
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

    /// The connections as it serves them.
    pub fn guard<C: Connected<ConnectInfo = UdsConnectInfo>>(
        &self,
        incoming: impl Stream<Item = io::Result<C>> + Send,
    ) -> impl Stream<Item = io::Result<Guarded<C>>> + Send {
        self.listening.guard(incoming)
    }

    fn by_chance(self, by_chance: &'static [&'static str]) -> Self {
        Self { by_chance, ..self }
    }

    fn listening(self, listening: Listening) -> Self {
        Self { listening, ..self }
    }

    /// Does something with each call, the correct answer at reach.
    fn around<F>(
        mut self,
        on: impl Into<On>,
        around: impl Fn(Call, Next) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let around: Around = Arc::new(move |call, next| Box::pin(around(call, next)));
        self.hooks.push((on.into(), around));
        self
    }

    /// Serves another request than the one that came.
    fn request<Q: Message + Default>(
        self,
        on: impl Into<On>,
        change: impl Fn(&mut Q) + Send + Sync + 'static,
    ) -> Self {
        self.around(on, move |call, next| {
            let mut message = call.message();
            change(&mut message);
            next.serve(call.with(&message))
        })
    }

    /// Changes each message of the answer.
    fn answer<A: Message + Default + 'static>(
        self,
        on: impl Into<On>,
        change: impl Fn(&mut A) + Send + Sync + 'static,
    ) -> Self {
        self.answer_to(on, move |(): &(), answer| change(answer))
    }

    /// Changes each message of the answer, as the request asks for it.
    fn answer_to<Q: Message + Default + 'static, A: Message + Default + 'static>(
        self,
        on: impl Into<On>,
        change: impl Fn(&Q, &mut A) + Send + Sync + 'static,
    ) -> Self {
        let change = Arc::new(change);
        self.around(on, move |call, next| {
            let change = Arc::clone(&change);
            async move {
                let request = call.message();
                let mut answer = next.serve(call).await;
                answer.each(|message| change(&request, message));
                answer
            }
        })
    }

    /// Answers a request with an error, unserved.
    fn refuses<Q: Message + Default>(
        self,
        on: impl Into<On>,
        refusal: impl Fn(&Q) -> Option<Status> + Send + Sync + 'static,
    ) -> Self {
        self.around(on, move |call, next| match refusal(&call.message()) {
            Some(status) => ready(Answer::failed(status)).boxed(),
            None => next.serve(call),
        })
    }

    /// Changes the errors of calls.
    fn error(
        self,
        on: impl Into<On>,
        change: impl Fn(Status) -> Status + Send + Sync + 'static,
    ) -> Self {
        let change = Arc::new(change);
        self.around(on, move |call, next| {
            let change = Arc::clone(&change);
            async move {
                let answer = next.serve(call).await;
                match answer.error() {
                    Some(status) => Answer::failed(change(status)),
                    None => answer,
                }
            }
        })
    }

    /// Spoils each answer, as the fault of the same name does for a while.
    fn bad_answer(self, method: Method, bad: BadAnswer) -> Self {
        self.around(method, move |call, next| async move {
            let mut answer = next.serve(call).await;
            spoil_all(bad, method, &mut answer);
            answer
        })
    }
}

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
