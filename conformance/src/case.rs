//! One case: its row of the table with id, level, clause and the inputs that it takes, and its check.

use std::{fmt, sync::Arc};

use clap::ValueEnum as _;
use futures::future::LocalBoxFuture;

use crate::{
    capability::Capability,
    inputs::Inputs,
    needs::are_given,
    subject::Subject,
    verdict::{ErrorRule, Verdict},
};

/// The check of a case. It runs with a timeout, and a panic of it is a failure.
pub type Body = Arc<dyn Fn(&Subject) -> LocalBoxFuture<'_, Verdict> + Send + Sync>;

/// One thing that the contract asks of a provider, and the check of it.
#[derive(Clone)]
pub struct Case {
    /// Unique and stable: reports, waivers and documents name it.
    pub id: &'static str,
    /// The behaviour, as a statement that is true of a provider that passes.
    pub title: &'static str,
    /// How binding it is.
    pub level: Level,
    /// The part of the contract without which it says nothing.
    pub capability: Capability,
    /// It makes, changes or deletes something in the cloud: `--allow-mutations`.
    pub mutates: bool,
    /// The sentence of the contract that asks for it.
    pub clause: Clause,
    /// Keys of the inputs file without which it cannot run.
    pub needs: Vec<&'static str>,
    /// Every error of a run is held to it, also where the case is not selected.
    pub of_errors: Option<ErrorRule>,
    /// The check.
    pub body: Body,
}

/// How binding a case is, in the words of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A provider that fails it breaks the contract.
    Must,
    /// A provider that fails it works, with a disadvantage that the case names.
    Should,
}

/// Where the contract says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clause {
    /// File below `proto/cloudprovider/v1/`, such as `instances.proto`.
    pub file: &'static str,
    /// The message, RPC, field or enum value that the sentence stands at; empty: the head of the file.
    pub at: &'static str,
    /// The sentence, as the comments have it.
    pub text: &'static str,
}

/// The check of the case with this id.
#[derive(Clone)]
pub(crate) struct Check {
    pub(crate) id: &'static str,
    of_errors: Option<ErrorRule>,
    body: Body,
}

/// The check of the case with this id.
pub(crate) fn check<F>(id: &'static str, check: F) -> Check
where
    F: AsyncFn(&Subject) -> Verdict + Copy + Send + Sync + 'static,
{
    Check {
        id,
        of_errors: None,
        body: Arc::new(move |subject| Box::pin(async move { check(subject).await })),
    }
}

impl Check {
    /// Every error of each run is held to this rule.
    pub(crate) const fn of_errors(mut self, rule: ErrorRule) -> Self {
        self.of_errors = Some(rule);
        self
    }
}

impl Case {
    /// The case that a block of the table describes; none if the block is malformed, or without a check.
    pub(crate) fn read(block: &'static str, checks: &[Check]) -> Option<Self> {
        let mut lines = block.lines();
        let mut head = lines.next()?.split(' ');
        let (id, level, capability) = (head.next()?, head.next()?, head.next()?);
        let check = checks.iter().find(|check| check.id == id)?;
        let title = lines.next()?;
        let (place, text) = lines.next()?.split_once(": ")?;
        let (file, at) = place.split_once(' ').unwrap_or((place, ""));
        let needs = match lines.next() {
            Some(line) => line.strip_prefix("needs: ")?.split("; ").collect(),
            None => Vec::new(),
        };
        let is_known = |keys: &&str| are_given(keys, &Inputs::default()).is_some();
        let mut levels = [Level::Must, Level::Should].into_iter();
        needs.iter().all(is_known).then_some(Self {
            id,
            title,
            level: levels.find(|one| one.as_str() == level)?,
            capability: Capability::from_str(capability, false).ok()?,
            mutates: head.next().is_some(),
            clause: Clause { file, at, text },
            needs,
            of_errors: check.of_errors,
            body: Arc::clone(&check.body),
        })
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.id).finish()
    }
}

impl Level {
    /// `MUST` or `SHOULD`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "" } else { ", " };
        write!(f, "{}{at}{}: {:?}", self.file, self.at, self.text)
    }
}
