//! Writes that the API server does not allow, for `/readyz`: a process that may not write does nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Method;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use super::error::ApiError;

/// How long a kind of write may be refused: rights that are being changed, and an API server that has
/// not read its roles yet, refuse for a while.
const GRACE: Duration = Duration::from_mins(1);

/// A refusal that is this old does not count: the write may be wanted no more. Above the
/// longest back-off of a write that is refused.
const OLD: Duration = Duration::from_mins(10);

/// Which kinds of writes are refused at present. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    refused: Arc<Mutex<BTreeMap<Kind, Refused>>>,
}

/// Verb and resource, as in a Role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    verb: &'static str,
    resource: String,
}

#[derive(Clone, Debug)]
struct Refused {
    since: Instant,
    last: Instant,
    logged: Option<Instant>,
    count: u64,
    cause: String,
    /// The API server did not take the credentials (401); the right itself may be there.
    is_unauthenticated: bool,
}

impl Refusals {
    /// Ok, unless refusals of a kind of write came for a minute and none of it was allowed since. One
    /// refusal, however old, is not enough.
    ///
    /// # Errors
    /// A sentence that names the verb, the resource, how often and for how long, and the cause.
    pub fn check(&self) -> Result<(), String> {
        let refused = self.refused.lock();
        let lasting = refused.iter().find(|(_, refused)| refused.lasts());
        lasting.map_or(Ok(()), |(kind, refused)| Err(refused.sentence(kind)))
    }

    /// A write by `method` to `path` ended. Only an answer of the API server shows whether it is
    /// allowed. A refusal that lasts is logged once a minute.
    pub(super) fn answered(&self, method: &Method, path: &str, error: Option<&ApiError>) {
        if error.is_none() {
            self.allowed(|_, refused| refused.is_unauthenticated);
        }
        let Some(kind) = Kind::of(method, path) else {
            return;
        };
        let cause = match error {
            Some(error) if error.refuses_us() => error.cause(),
            // Everything else is decided after who may write what.
            None
            | Some(ApiError::Status {
                code: 400..=499, ..
            }) => {
                self.allowed(|refused, _| *refused == kind);
                return;
            }
            Some(_) => return,
        };
        let now = Instant::now();
        let mut all = self.refused.lock();
        // An entry that is old is not about this refusal.
        all.retain(|_, refused| refused.last.elapsed() < OLD);
        let refused = all.entry(kind.clone()).or_insert_with(|| Refused {
            since: now,
            last: now,
            logged: None,
            count: 0,
            cause: String::new(),
            is_unauthenticated: false,
        });
        refused.last = now;
        refused.count += 1;
        refused.cause = cause;
        refused.is_unauthenticated = error.and_then(ApiError::code) == Some(401);
        let is_due = refused.logged.unwrap_or(refused.since) + GRACE <= now;
        if is_due {
            refused.logged = Some(now);
            let refused = refused.clone();
            drop(all);
            let Kind { verb, resource } = kind;
            let (refusals, seconds) = (refused.count, refused.since.elapsed().as_secs());
            warn!(
                verb,
                resource,
                refusals,
                seconds,
                error = refused.cause,
                "write is not allowed"
            );
        }
    }

    /// Forgets the kinds of writes that `is_allowed` selects.
    fn allowed(&self, is_allowed: impl Fn(&Kind, &Refused) -> bool) {
        self.refused.lock().retain(|kind, refused| {
            let is_allowed = is_allowed(kind, refused);
            if is_allowed && refused.logged.is_some() {
                let Kind { verb, resource } = kind;
                info!(verb, resource, "write is allowed again");
            }
            !is_allowed
        });
    }
}

impl Refused {
    fn lasts(&self) -> bool {
        self.last - self.since >= GRACE && self.last.elapsed() < OLD
    }

    fn sentence(&self, kind: &Kind) -> String {
        let Kind { verb, resource } = kind;
        let (count, seconds) = (self.count, self.since.elapsed().as_secs());
        format!(
            "may not {verb} {resource} ({count} refusals in {seconds} s): {}",
            self.cause
        )
    }
}

impl Kind {
    /// Absent: no write, or not about objects.
    fn of(method: &Method, path: &str) -> Option<Self> {
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return None,
        };
        let mut parts = path.strip_prefix('/')?.split('/');
        // /api/<version>, /apis/<group>/<version>
        let skip = usize::from(parts.next()? != "api");
        let mut rest = parts.skip(skip + 1).peekable();
        if rest.peek() == Some(&"namespaces") {
            rest.next();
            rest.next();
        }
        let resource = rest.next()?;
        let _name = rest.next();
        let resource = match rest.next() {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource.to_owned(),
        };
        Some(Self { verb, resource })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> ApiError {
        ApiError::Status {
            code: 403,
            reason: "Forbidden".to_owned(),
            message:
                "nodes \"n1\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API \
                      group \"\" at the cluster scope"
                    .to_owned(),
            retry_after: None,
        }
    }

    #[test]
    fn a_kind_of_write_is_named_as_in_a_role() {
        for (method, path, expected) in [
            (Method::PATCH, "/api/v1/nodes/a", Some("patch nodes")),
            (
                Method::PATCH,
                "/api/v1/nodes/a/status",
                Some("patch nodes/status"),
            ),
            (Method::DELETE, "/api/v1/nodes/a", Some("delete nodes")),
            (
                Method::PATCH,
                "/api/v1/namespaces/a/services/b/status",
                Some("patch services/status"),
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a",
                Some("update leases"),
            ),
            (Method::GET, "/api/v1/nodes/a", None),
            (Method::POST, "/", None),
        ] {
            let kind = Kind::of(&method, path);
            let kind = kind.map(|kind| format!("{} {}", kind.verb, kind.resource));
            assert_eq!(kind.as_deref(), expected, "{path}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_right_that_is_missing_for_a_minute_makes_unready() {
        let refusals = Refusals::default();
        let patch = |error: Option<&ApiError>| {
            refusals.answered(&Method::PATCH, "/api/v1/nodes/a", error);
        };
        patch(Some(&forbidden()));
        assert_eq!(
            refusals.check(),
            Ok(()),
            "it may have been granted just now"
        );
        tokio::time::advance(GRACE).await;
        patch(Some(&forbidden()));
        let sentence = refusals.check().unwrap_err();
        let start = "may not patch nodes (2 refusals in 60 s): ";
        assert!(sentence.starts_with(start), "{sentence}");
        // No answer shows nothing; another resource is another right.
        patch(Some(&ApiError::Fenced));
        refusals.answered(&Method::PATCH, "/api/v1/nodes/a/status", None);
        assert!(refusals.check().is_err());
        patch(None);
        assert_eq!(refusals.check(), Ok(()));
        // An admission webhook's refusal of one object is no missing right.
        let mut denied = forbidden();
        if let ApiError::Status { message, .. } = &mut denied {
            *message = "admission webhook \"x\" denied the request".to_owned();
        }
        for _ in 0..2 {
            patch(Some(&denied));
            tokio::time::advance(GRACE).await;
        }
        assert_eq!(refusals.check(), Ok(()));
        patch(Some(&forbidden()));
        tokio::time::advance(OLD).await;
        assert_eq!(refusals.check(), Ok(()), "it is wanted no more");
    }
    #[tokio::test(start_paused = true)]
    async fn refusals_that_do_not_last_leave_it_ready() {
        let refusals = Refusals::default();
        let patch = |error: Option<&ApiError>| {
            refusals.answered(&Method::PATCH, "/api/v1/nodes/a", error);
        };
        patch(Some(&forbidden()));
        tokio::time::advance(GRACE * 2).await;
        assert_eq!(refusals.check(), Ok(()), "one refusal");
        tokio::time::advance(OLD).await;
        patch(Some(&forbidden()));
        assert_eq!(refusals.check(), Ok(()), "the first one was long ago");
        tokio::time::advance(GRACE).await;
        patch(Some(&forbidden()));
        assert!(refusals.check().is_err());
        // A success of another kind shows no right to this one.
        refusals.answered(&Method::GET, "/api/v1/nodes/a", None);
        assert!(refusals.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_are_taken_again_end_every_401() {
        let refusals = Refusals::default();
        let unauthorized = ApiError::Status {
            code: 401,
            reason: "Unauthorized".to_owned(),
            message: "Unauthorized".to_owned(),
            retry_after: None,
        };
        for _ in 0..2 {
            refusals.answered(&Method::PATCH, "/api/v1/nodes/a", Some(&unauthorized));
            tokio::time::advance(GRACE).await;
        }
        assert!(refusals.check().is_err());
        refusals.answered(&Method::GET, "/api/v1/nodes/a", None);
        assert_eq!(refusals.check(), Ok(()));
    }
}
