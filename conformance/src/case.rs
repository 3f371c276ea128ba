//! The description of one case: its id, level and clause, the inputs that it takes, and its body.

use std::{fmt, sync::Arc};

use futures::future::LocalBoxFuture;

use crate::{
    capability::Capability,
    needs::Input,
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
    /// Without one of these it cannot run.
    pub needs: Vec<Input>,
    /// Every error of a run is held to it, also where the case is not selected.
    pub of_errors: Option<ErrorRule>,
    /// The check.
    pub body: Body,
}

/// How binding a case is, in the words of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// A provider that fails it breaks the contract.
    Must,
    /// A provider that fails it works, with a disadvantage that the case names.
    Should,
    /// Reported, never a failure.
    Info,
}

/// Where the contract says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Clause {
    /// File below `proto/cloudprovider/v1/`, such as `instances.proto`.
    pub file: &'static str,
    /// The message, RPC, field or enum value that the sentence stands at; empty: the head of the file.
    pub at: &'static str,
    /// The sentence, as the comments have it.
    pub text: &'static str,
}

/// A case that a provider MUST pass.
pub fn must(id: &'static str, title: &'static str) -> Builder {
    Builder::new(id, title, Level::Must)
}

/// A case that a provider SHOULD pass.
pub fn should(id: &'static str, title: &'static str) -> Builder {
    Builder::new(id, title, Level::Should)
}

/// A case whose outcome is only reported.
pub fn info(id: &'static str, title: &'static str) -> Builder {
    Builder::new(id, title, Level::Info)
}

/// A case that is being described; [`Builder::check`] completes it.
#[must_use = "a case is complete with its check"]
pub struct Builder(Case);

impl Builder {
    fn new(id: &'static str, title: &'static str, level: Level) -> Self {
        Self(Case {
            id,
            title,
            level,
            capability: Capability::Core,
            mutates: false,
            clause: Clause {
                file: "",
                at: "",
                text: "",
            },
            needs: Vec::new(),
            of_errors: None,
            body: Arc::new(|_| Box::pin(async { Ok(()) })),
        })
    }

    /// It belongs to this capability; [`Capability::Core`] if not called.
    pub const fn of(mut self, capability: Capability) -> Self {
        self.0.capability = capability;
        self
    }

    /// It changes the cloud.
    pub const fn mutates(mut self) -> Self {
        self.0.mutates = true;
        self
    }

    /// The sentence `text` in the comment of `at` in `file`.
    pub const fn clause(
        mut self,
        file: &'static str,
        at: &'static str,
        text: &'static str,
    ) -> Self {
        self.0.clause = Clause { file, at, text };
        self
    }

    /// It cannot run without this input. May be repeated.
    pub fn needs(mut self, input: Input) -> Self {
        self.0.needs.push(input);
        self
    }

    /// Every error of each run is held to this rule.
    pub const fn of_errors(mut self, rule: ErrorRule) -> Self {
        self.0.of_errors = Some(rule);
        self
    }

    /// The case, with its check.
    pub fn check<F>(mut self, check: F) -> Case
    where
        F: AsyncFn(&Subject) -> Verdict + Copy + Send + Sync + 'static,
    {
        self.0.body = Arc::new(move |subject| Box::pin(async move { check(subject).await }));
        self.0
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.id).finish()
    }
}

impl Level {
    /// `MUST`, `SHOULD` or `INFO`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::Info => "INFO",
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
