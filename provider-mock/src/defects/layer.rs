//! The layer in front of a correct provider that makes the mistakes of a defect.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware;
use axum::response::Response;

use super::Defect;
use super::hook::{Around, Next, Serve};
use crate::exchange::{Answer, Call};

/// Serves a call with a defect in front.
pub(super) async fn serve(
    State(defect): State<Arc<Defect>>,
    request: Request,
    inner: middleware::Next,
) -> Response {
    let path = request.uri().path();
    let hooks = defect.hooks.iter().filter(|(on, _)| on.is_about(path));
    let hooks: Vec<Around> = hooks.map(|(_, around)| Arc::clone(around)).collect();
    if hooks.is_empty() {
        return inner.run(request).await;
    }
    let serve: Serve = Arc::new(move |call| {
        let inner = inner.clone();
        Box::pin(async move { Answer::of(inner.run(call.into_request()).await).await })
    });
    let call = Call::read(request).await;
    Next::new(hooks, serve).serve(call).await.into_response()
}
