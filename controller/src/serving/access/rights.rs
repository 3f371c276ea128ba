//! Authorization of a caller: `SubjectAccessReview`, and paths that need none (AUTH-5).

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};

use super::{cache::Cache, caller::Caller, counts::Reviews, paths::Paths, review};
use crate::kube::api::Api;

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Paths longer than this are not remembered.
const LONGEST: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    pub(super) reason: String,
}

#[derive(PartialEq, Eq, Hash)]
struct Question {
    caller: Caller,
    verb: String,
    path: String,
}

pub(super) struct Rights {
    /// Without it only masters and free paths.
    api: Option<Api>,
    free: Paths,
    yes: Duration,
    no: Duration,
    metrics: Reviews,
    known: Cache<Question, Verdict>,
}

impl Rights {
    pub(super) fn new(
        api: Option<Api>,
        free: Paths,
        yes: Duration,
        no: Duration,
        metrics: Reviews,
    ) -> Self {
        Self {
            api,
            free,
            yes,
            no,
            metrics,
            known: Cache::new(),
        }
    }

    /// Whether `path` needs no right.
    pub(super) fn is_free(&self, path: &str) -> bool {
        self.free.allow(path)
    }

    pub(super) async fn of(
        &self,
        caller: &Caller,
        verb: &str,
        path: &str,
    ) -> Result<Verdict, String> {
        if caller.is_master() || self.is_free(path) {
            return Ok(Verdict {
                allowed: true,
                reason: String::new(),
            });
        }
        let Some(api) = &self.api else {
            return Ok(Verdict::default());
        };
        let question = Question {
            caller: caller.clone(),
            verb: verb.to_owned(),
            path: path.to_owned(),
        };
        if let Some(known) = self.known.get(&question) {
            return Ok(known);
        }
        let verdict = ask(api, &question, &self.metrics).await?;
        if path.len() <= LONGEST {
            let ttl = if verdict.allowed { self.yes } else { self.no };
            self.known.put(question, verdict.clone(), ttl);
        }
        Ok(verdict)
    }
}

async fn ask(api: &Api, question: &Question, metrics: &Reviews) -> Result<Verdict, String> {
    let Question { caller, verb, path } = question;
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(caller.name.clone()),
            uid: Some(caller.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(caller.groups.clone()),
            extra: Some(caller.extra.clone()),
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.clone()),
                verb: Some(verb.clone()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let status = review::ask(api, PATH, &review, metrics).await?.status;
    let status = status.unwrap_or_default();
    Ok(Verdict {
        // A denial wins over what another authoriser allows.
        allowed: status.allowed && !status.denied.unwrap_or_default(),
        reason: status.reason.unwrap_or_default(),
    })
}
