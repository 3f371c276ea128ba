//! A layer between the socket and the provider: counts each call, and lets faults happen.
//!
//! It works on HTTP, below every type of the contract, since most faults are answers that typed
//! code cannot even express: a result that is missing, a reply that is too large, an error that no
//! provider sends on purpose.

mod ended;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tonic::Status;
use tonic::transport::server::UdsConnectInfo;

use crate::cloud::Cloud;
use crate::connections::Peer;
use crate::exchange::{Answer, Call};
use crate::faults::{Method, Objects};
use ended::{Counted, Ended};

/// Serves a call with the faults and the counters of a [`Cloud`] in front.
pub(crate) async fn faulty(State(cloud): State<Cloud>, request: Request, next: Next) -> Response {
    let Some(method) = Method::of_path(request.uri().path()) else {
        return next.run(request).await;
    };
    let mut ended = Ended::cancelled_unless_said(cloud.clone(), method);
    let response = match serve(&cloud, method, request, next, &mut ended).await {
        Ok(response) => response,
        Err(status) => status.into_http(),
    };
    match Status::from_header_map(response.headers()) {
        Some(status) => {
            ended.with(status.code());
            response
        }
        None => response.map(|body| Body::new(Counted::new(tonic::body::Body::new(body), ended))),
    }
}

/// Serves a call with its faults.
async fn serve(
    cloud: &Cloud,
    method: Method,
    request: Request,
    next: Next,
    ended: &mut Ended,
) -> Result<Response, Status> {
    let caller = caller(&request);
    let faults = cloud.faults();
    let is_read = cloud.journal().is_some() || faults.concern(method);
    let (request, objects) = if is_read && method.has_objects() {
        let call = Call::read(request).await;
        let objects = method.objects(call.first());
        (call.into_request(), objects)
    } else {
        (request, Objects::new())
    };
    ended.began(caller, &objects);
    let interfered = faults.interfere(method, &objects).await;
    interfered.map_err(|error| error.to_status())?;
    let response = next.run(request).await;
    if faults.loses_reply(method, &objects) {
        // Read to its end: a stream without a reader would end its handler early.
        let _ = Answer::of(response).await;
        return Err(Status::unknown("the reply was lost"));
    }
    if !faults.may_spoil(method) {
        return Ok(response);
    }
    let mut answer = Answer::of(response).await;
    faults.spoil(method, &objects, &mut answer);
    Ok(answer.into_response())
}

/// Process id of the caller, where the connection is a Unix socket and the system knows it.
fn caller(request: &Request) -> Option<i32> {
    let extensions = request.extensions();
    let peer = extensions.get::<Peer>().map(|peer| &peer.caller);
    let info = peer.or_else(|| extensions.get::<UdsConnectInfo>())?;
    info.peer_cred.as_ref()?.pid()
}
