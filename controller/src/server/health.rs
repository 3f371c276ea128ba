//! `/healthz`, `/livez` and `/readyz`, whole and check by check (HTTP-2 … HTTP-7, Q-25), and their results at
//! `/metrics/slis` (M-63).

#![allow(clippy::unused_async, reason = "axum's handlers are async")]

use std::{collections::BTreeSet, fmt::Write as _, future::ready, sync::Arc};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    routing::get,
};
use http::StatusCode;
use outrigger_runtime::{
    log_repeated, metric_families,
    telemetry::{Labelled, Repeats},
};
use parking_lot::RwLock;
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

use super::{
    answer::{self, Answer},
    metrics,
};

/// The checks of the process. Clones share the checks; they come and go while the server runs.
#[derive(Clone, Default)]
pub struct Checks {
    checks: Arc<RwLock<Vec<Check>>>,
    repeats: Arc<Repeats>,
}

/// Which of the three paths include a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All: a process that fails it should be started again.
    Everywhere,
    /// `/readyz` alone: a restart would not help, as with a provider that is down.
    Readiness,
}

/// Ok, or what is wrong; asked with each request, so that it must be cheap.
type Probe = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
struct Check {
    name: Arc<str>,
    scope: Scope,
    probe: Probe,
}

impl Checks {
    /// Adds the check `name`, or replaces it in its place. The reason is logged, and shown only on
    /// the check's own path.
    pub fn add(
        &self,
        name: &str,
        scope: Scope,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let check = Check {
            name: name.into(),
            scope,
            probe: Arc::new(probe),
        };
        let mut checks = self.checks.write();
        match checks.iter_mut().find(|other| *other.name == *name) {
            Some(former) => *former = check,
            None => checks.push(check),
        }
    }
}

metric_families! {
    struct CheckMetrics {
        latest: Labelled<2, Gauge> = Labelled::by(["name", "type"]),
            "kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck";
        total: Labelled<3, Counter> = Labelled::by(["name", "type", "status"]),
            "kubernetes_healthchecks", "[STABLE] This metric records the results of all healthcheck";
    }
}

/// One of the three paths.
#[derive(Clone)]
struct Health {
    name: &'static str,
    checks: Checks,
    metrics: CheckMetrics,
}

/// Answers health paths by `checks`, and `/metrics/slis`.
pub(super) fn router(checks: &Checks) -> Router {
    let mut registry = Registry::default();
    let metrics = CheckMetrics::register(&mut registry);
    let of = |name| {
        let health = Health {
            name,
            checks: checks.clone(),
            metrics: metrics.clone(),
        };
        Router::new()
            .route(&format!("/{name}"), get(Health::all))
            // Upstream's API servers do the same.
            .route(&format!("/{name}/"), get(Health::all))
            .route(&format!("/{name}/{{check}}"), get(Health::one))
            .with_state(health)
    };
    let paths = of("healthz").merge(of("livez")).merge(of("readyz"));
    let registry = Arc::new(registry);
    let results = move || ready(metrics::answer(&registry));
    paths.route("/metrics/slis", get(results))
}

impl Health {
    /// The checks of this path; there is always one (HTTP-6).
    fn included(&self) -> Vec<Check> {
        let checks = self.checks.checks.read();
        let included = |check: &&Check| check.scope == Scope::Everywhere || self.name == "readyz";
        let mut checks: Vec<_> = checks.iter().filter(included).cloned().collect();
        if checks.is_empty() {
            checks.push(Check {
                name: "ping".into(),
                scope: Scope::Everywhere,
                probe: Arc::new(|| Ok(())),
            });
        }
        checks
    }

    /// All checks at once.
    async fn all(State(health): State<Self>, RawQuery(query): RawQuery) -> Answer {
        let name = health.name;
        let query = query.unwrap_or_default();
        let parameters = || form_urlencoded::parse(query.as_bytes());
        let mut excluded: BTreeSet<_> = parameters()
            .filter_map(|(key, value)| (key == "exclude").then_some(value))
            .collect();
        let (mut lines, mut failed) = (String::new(), Vec::new());
        for check in health.included() {
            let of = &*check.name;
            if excluded.remove(of) {
                let _ = writeln!(lines, "[+]{of} excluded: ok");
                continue;
            }
            let result = (check.probe)();
            health.observe(of, result.is_ok());
            if let Err(reason) = result {
                // Anyone may ask, so that the reason is only logged (HTTP-5).
                let _ = writeln!(lines, "[-]{of} failed: reason withheld");
                failed.push(format!("{of}: {reason}"));
            } else {
                let _ = writeln!(lines, "[+]{of} ok");
            }
        }
        if !excluded.is_empty() {
            let quoted: Vec<_> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let _ = writeln!(
                lines,
                "warn: some health checks cannot be excluded: no matches for {}",
                quoted.join(",")
            );
        }
        if !failed.is_empty() {
            let error = failed.join("; ");
            log_repeated!(
                info,
                health.checks.repeats,
                name,
                error,
                "{name} check failed"
            );
            let text = format!("{lines}{name} check failed");
            return answer::error(StatusCode::INTERNAL_SERVER_ERROR, &text);
        }
        if parameters().any(|(key, _)| key == "verbose") {
            return answer::text(format!("{lines}{name} check passed\n"));
        }
        answer::text("ok")
    }

    /// One check alone, with its reason.
    async fn one(State(health): State<Self>, Path(name): Path<String>) -> Answer {
        let checks = health.included();
        let Some(check) = checks.iter().find(|check| *check.name == *name) else {
            return answer::not_found();
        };
        match (check.probe)() {
            Ok(()) => answer::text("ok"),
            Err(reason) => answer::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                &format!("internal server error: {reason}"),
            ),
        }
    }

    fn observe(&self, check: &str, ok: bool) {
        let of_check = [check, self.name].map(str::to_owned);
        let latest = self.metrics.latest.of(of_check);
        latest.set(i64::from(ok));
        let status = if ok { "success" } else { "error" };
        let outcome = [check, self.name, status].map(str::to_owned);
        self.metrics.total.of(outcome).inc();
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    fn checks() -> Checks {
        let checks = Checks::default();
        checks.add("leaderElection", Scope::Everywhere, || Ok(()));
        checks.add("provider", Scope::Readiness, || {
            Err("down: no socket".into())
        });
        checks
    }

    async fn ask(checks: &Checks, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = router(checks).oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn texts_are_upstreams() {
        let checks = checks();
        let expect = [
            ("/healthz", 200, "ok"),
            ("/healthz/", 200, "ok"),
            (
                "/livez?verbose",
                200,
                "[+]leaderElection ok\nlivez check passed\n",
            ),
            (
                "/readyz",
                500,
                "[+]leaderElection ok\n[-]provider failed: reason withheld\nreadyz check failed\n",
            ),
            ("/readyz?exclude=provider", 200, "ok"),
            (
                "/healthz?verbose&exclude=c%2Fd+%zz",
                200,
                "[+]leaderElection ok\n\
             warn: some health checks cannot be excluded: no matches for \"c/d %zz\"\n\
             healthz check passed\n",
            ),
            (
                "/healthz?verbose=1&exclude=leaderElection&exclude=b&exclude=a",
                200,
                "[+]leaderElection excluded: ok\n\
             warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\n\
             healthz check passed\n",
            ),
            ("/healthz/leaderElection", 200, "ok"),
            ("/healthz/provider", 404, "404 page not found\n"),
            (
                "/readyz/provider",
                500,
                "internal server error: down: no socket\n",
            ),
        ];
        for (path, code, body) in expect {
            assert_eq!(ask(&checks, path).await, (code, body.to_owned()), "{path}");
        }
    }

    #[tokio::test]
    async fn without_checks_there_is_ping() {
        let expected = "[+]ping ok\nhealthz check passed\n".to_owned();
        let checks = Checks::default();
        assert_eq!(ask(&checks, "/healthz?verbose").await, (200, expected));
        assert_eq!(ask(&checks, "/healthz/ping").await.0, 200);
    }

    #[tokio::test]
    async fn a_check_can_be_replaced() {
        let checks = checks();
        checks.add("provider", Scope::Readiness, || Ok(()));
        assert_eq!(ask(&checks, "/readyz").await.0, 200);
    }
}
