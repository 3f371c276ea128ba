//! Authorization of a caller: `SubjectAccessReview`, and paths that need none (AUTH-5).

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};

use super::{
    AccessError, Caller,
    review::{Cache, ReviewClient, ReviewError},
};

pub(super) const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

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
    reviewer: Option<ReviewClient>,
    free: Paths,
    yes: Duration,
    no: Duration,
    verdicts: Cache<Question, Verdict>,
}

impl Rights {
    pub(super) fn new(
        reviewer: Option<ReviewClient>,
        free: Paths,
        yes: Duration,
        no: Duration,
    ) -> Self {
        Self {
            reviewer,
            free,
            yes,
            no,
            verdicts: Cache::new(),
        }
    }

    /// True if `path` needs no right.
    pub(super) fn is_free(&self, path: &str) -> bool {
        self.free.allow(path)
    }

    /// Decides the rights of `caller` at the address `peer`.
    pub(super) async fn of(
        &self,
        caller: &Caller,
        verb: &str,
        path: &str,
        peer: IpAddr,
    ) -> Result<Verdict, ReviewError> {
        if caller.is_master() || self.is_free(path) {
            return Ok(Verdict {
                allowed: true,
                reason: String::new(),
            });
        }
        let Some(reviewer) = &self.reviewer else {
            return Ok(Verdict::default());
        };
        let question = Question {
            caller: caller.clone(),
            verb: verb.to_owned(),
            path: path.to_owned(),
        };
        if let Some(verdict) = self.verdicts.get(&question) {
            return Ok(verdict);
        }
        let verdict = ask(reviewer, &question, peer).await?;
        let ttl = if verdict.allowed { self.yes } else { self.no };
        self.verdicts.put(question, verdict.clone(), ttl);
        Ok(verdict)
    }
}

async fn ask(
    reviewer: &ReviewClient,
    question: &Question,
    peer: IpAddr,
) -> Result<Verdict, ReviewError> {
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
    let status = reviewer.ask(peer, &review).await?.status;
    let status = status.unwrap_or_default();
    Ok(Verdict {
        // A denial wins over what another authoriser allows.
        allowed: status.allowed && !status.denied.unwrap_or_default(),
        reason: status.reason.unwrap_or_default(),
    })
}

/// `--authorization-always-allow-paths` (AUTH-5).
#[derive(Debug)]
pub(super) struct Paths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl Paths {
    /// A leading slash may be left out; a trailing star stands for anything.
    pub(super) fn parse(patterns: &[String]) -> Result<Self, AccessError> {
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        for given in patterns {
            let pattern = given.strip_prefix('/').unwrap_or(given);
            let prefix = pattern.strip_suffix('*');
            if prefix.unwrap_or(pattern).contains('*') {
                return Err(AccessError::Pattern(given.clone()));
            }
            match prefix {
                Some(prefix) => prefixes.push(prefix.to_owned()),
                None => exact.push(pattern.to_owned()),
            }
        }
        Ok(Self { exact, prefixes })
    }

    pub(super) fn allow(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|exact| exact == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_may_lack_and_stars_end() {
        let paths = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
            Paths::parse(&patterns)
        };
        let some = paths(&["/healthz", "livez", "/readyz/*"]).unwrap();
        for (path, allowed) in [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/livez", true),
            ("/readyz", false),
            ("/readyz/provider", true),
            ("/", false),
        ] {
            assert_eq!(some.allow(path), allowed, "{path}");
        }
        assert!(paths(&["/"]).unwrap().allow("/"));
        assert!(paths(&["*"]).unwrap().allow("/metrics"));
        let error = paths(&["/a*/b"]).unwrap_err().to_string();
        assert_eq!(error, "only trailing * allowed in \"/a*/b\"");
    }
}
