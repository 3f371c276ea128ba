//! Mistakes that authors of providers make, each under a name: `serve --defect NAME`. Only the feature `defects` has them.
//!
//! The mock is a correct provider. A [`Defect`] stands in front of it and changes its requests, its answers, or
//! the way it listens; each names the cases of the conformance suite that must fail by it. So the suite is
//! tested: a mistake that no case catches is a case that is missing.

mod act;
mod hook;
mod listening;
mod odd;
mod run;
mod scope;
mod step;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::middleware::from_fn_with_state;
use outrigger_api::v1::ErrorReason;
use outrigger_provider_sdk::Server;
use tonic_types::StatusExt as _;

use crate::exchange::{Answer, Call};
use crate::faults::Method;
use hook::{Around, Next, On};
use listening::Listening;
use step::Step;

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
    let mut rows: Vec<Defect> = Vec::new();
    let mut steps = Vec::new();
    for line in MISTAKES.lines().rev() {
        if line.starts_with("  ") {
            steps.insert(0, line);
        } else if let Some(row) = Row::read(line) {
            let made = match std::mem::take(&mut steps) {
                none if none.is_empty() => Some(odd::goes_on_after_cancel()),
                steps => Defect::of_steps(row.name, &steps),
            };
            rows.extend(made.map(|one| one.described(&row)));
        }
    }
    rows.reverse();
    rows
}

/// A row: `NAME | CASES | SENTENCE`.
struct Row {
    name: &'static str,
    cases: &'static str,
    sentence: &'static str,
}

impl Row {
    fn read(line: &'static str) -> Option<Self> {
        let cells: Vec<_> = line.split(" | ").collect();
        match cells.as_slice() {
            [name, cases, sentence] if !line.starts_with('#') => Some(Self {
                name,
                cases,
                sentence,
            }),
            _ => None,
        }
    }
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

impl Defect {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// The one that makes these steps; none, if a step cannot be read.
    fn of_steps(name: &'static str, lines: &[&'static str]) -> Option<Self> {
        let defect = Self::new(name);
        if let [line] = lines
            && let Some(word) = line.trim().strip_prefix("socket: ")
        {
            let listening = Listening::named(word)?;
            return Some(Self {
                listening,
                ..defect
            });
        }
        let steps: Arc<[Step]> = lines
            .iter()
            .map(|line| Step::read(line))
            .collect::<Option<_>>()?;
        let mut places: Vec<On> = steps.iter().flat_map(|step| step.on.clone()).collect();
        if places.contains(&On::Every) {
            places = vec![On::Every];
        }
        let memory = Arc::default();
        let mut defect = defect;
        for (at, on) in places.iter().enumerate() {
            if !places.iter().take(at).any(|one| one == on) {
                let (steps, memory) = (Arc::clone(&steps), Arc::clone(&memory));
                defect = defect.around(*on, move |call, next| {
                    run::serve(Arc::clone(&steps), Arc::clone(&memory), call, next)
                });
            }
        }
        (!steps.is_empty()).then_some(defect)
    }

    /// With the cells of its row.
    fn described(self, row: &Row) -> Self {
        let (cases, by_chance) = row.cases.split_once(" or ").unwrap_or((row.cases, ""));
        let cases = cases.split_whitespace();
        let explored = cases.clone().find_map(|case| case.strip_prefix(EXPLORE));
        Self {
            sentence: row.sentence,
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
        // A call behind a defect begins once its request is whole, after the SIGTERM of RES-10.
        let upload = Method::SyncNodeSet.path;
        let holds_uploads = || self.hooks.iter().any(|(on, _)| on.is_about(upload));
        self.by_chance.contains(&case) || case == "RES-10" && holds_uploads()
    }

    /// Puts it between the callers and a provider: to the mistake a fault is one of the cloud.
    pub fn stand_before(self: &Arc<Self>, server: Server) -> Server {
        let defect = Arc::clone(self);
        server.wrap(move |mut routes| {
            let router = routes.axum_router_mut();
            *router = std::mem::take(router).layer(from_fn_with_state(defect, hook::serve));
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

    /// Does something with each call, the correct answer at reach.
    fn around<F>(mut self, on: On, around: impl Fn(Call, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let around: Around = Arc::new(move |call, next| Box::pin(around(call, next)));
        self.hooks.push((on, around));
        self
    }
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
        let rows: BTreeSet<_> = MISTAKES
            .lines()
            .filter_map(Row::read)
            .map(|row| row.name)
            .collect();
        let defects: BTreeSet<_> = all().iter().map(|one| one.name).collect();
        assert_eq!(rows, defects);
    }
}
