//! Writes that the API server does not allow, for `/readyz`: a process that may not write does nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Method;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::ApiError;

/// How long a kind of write may be refused: rights that are being changed, and an API server that has
/// not read its roles yet, refuse for a while.
const GRACE: Duration = Duration::from_mins(1);

/// A refusal that is this old does not count: the write may be wanted no more. Above the
/// longest back-off of a write that is refused.
const OLD: Duration = Duration::from_mins(10);

/// Rights to write that the API server denies at present, as `patch nodes/status`. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    denied: Arc<Mutex<BTreeMap<String, Denial>>>,
}

#[derive(Clone, Debug)]
struct Denial {
    since: Instant,
    last: Instant,
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
        let denied = self.denied.lock();
        match denied.iter().find(|(_, denial)| denial.lasts()) {
            Some((right, denial)) => {
                let (count, cause) = (denial.count, &denial.cause);
                let seconds = denial.since.elapsed().as_secs();
                Err(format!(
                    "may not {right} ({count} refusals in {seconds} s): {cause}"
                ))
            }
            None => Ok(()),
        }
    }

    /// A request by `method` to `path` ended. Only an answer of the API server shows whether a write is allowed.
    pub(super) fn answered(&self, method: &Method, path: &str, error: Option<&ApiError>) {
        let mut denied = self.denied.lock();
        if error.is_none() {
            denied.retain(|_, denial| !denial.is_unauthenticated);
        }
        let Some(right) = right(method, path) else {
            return;
        };
        match error {
            Some(error) if error.refuses_us() => {
                // An entry that is old is not about this refusal.
                denied.retain(|_, denial| denial.last.elapsed() < OLD);
                let now = Instant::now();
                let former = denied.get(&right);
                let (since, count) = former.map_or((now, 0), |former| (former.since, former.count));
                let denial = Denial {
                    since,
                    last: now,
                    count: count + 1,
                    cause: error.cause(),
                    is_unauthenticated: error.code() == Some(401),
                };
                denied.insert(right, denial);
            }
            // Everything else is decided after who may write what.
            None
            | Some(ApiError::Status {
                code: 400..=499, ..
            }) => {
                denied.remove(&right);
            }
            Some(_) => {}
        }
    }
}

impl Denial {
    fn lasts(&self) -> bool {
        self.last - self.since >= GRACE && self.last.elapsed() < OLD
    }
}

/// Verb and resource of a write, as in a Role. Absent: no write, or not about objects.
fn right(method: &Method, path: &str) -> Option<String> {
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
    Some(match rest.next() {
        Some(subresource) => format!("{verb} {resource}/{subresource}"),
        None => format!("{verb} {resource}"),
    })
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
            assert_eq!(right(&method, path).as_deref(), expected, "{path}");
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
