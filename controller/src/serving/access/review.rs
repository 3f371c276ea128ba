//! One review, asked of the API server.

use std::time::Duration;

use outrigger_core::error_class::ErrorClass;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep};

use super::counts::Reviews;
use crate::kube::{api::Api, error::ApiError};

/// How long the caller of the server waits for a review, tries and pauses together. Upstream
/// allows as long for each try, which a scraper does not wait for (AUTH-6).
const TIME: Duration = Duration::from_secs(10);

const TRIES: u32 = 5;

/// Before the second try; then each half as long again, and up to a fifth longer.
const PAUSE: Duration = Duration::from_millis(500);

/// Creates `review` at `path`; the answer is what the API server made of it. A review writes
/// nothing, so that it may be asked again whenever an answer is lacking.
pub(super) async fn ask<T: Serialize + DeserializeOwned>(
    api: &Api,
    path: &str,
    review: &T,
    metrics: &Reviews,
) -> Result<T, String> {
    let tries = async {
        let mut pause = PAUSE;
        let mut left = TRIES;
        loop {
            left -= 1;
            let asked = Instant::now();
            let answer = api.create(path, review).await;
            let code = match &answer {
                Ok(_) => Some(201),
                Err(error) => error.code(),
            };
            metrics.answered(code, asked.elapsed());
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) if left == 0 || !passes(&error) => return Err(with_hint(&error)),
                Err(_) => {}
            }
            sleep(pause.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
            pause = pause.mul_f64(1.5);
        }
    };
    match tokio::time::timeout(TIME, tries).await {
        Ok(result) => result,
        Err(_) => Err(format!(
            "the API server did not answer within {} s",
            TIME.as_secs()
        )),
    }
}

/// A right that is missing is usually granted by a `ClusterRole` that every cluster has.
fn with_hint(error: &ApiError) -> String {
    let Some(subject) = error.subject() else {
        return error.to_string();
    };
    format!(
        "{error}; usually fixed by: kubectl create clusterrolebinding CLUSTERROLEBINDING_NAME \
         --clusterrole=system:auth-delegator {subject}"
    )
}

/// Whether another try may help.
pub(super) fn passes(error: &ApiError) -> bool {
    matches!(
        error.class(),
        ErrorClass::Transient | ErrorClass::RateLimited { .. }
    ) && !error.is_not_found()
}
