//! The answers about a load balancer, one function for each disposition.
//!
//! The methods of [`LoadBalancers`](super::LoadBalancers) say which of them they may return. Further fields, such as the
//! reason of the Service's condition, the identity and the effects, are the message's own:
//!
//! ```
//! use outrigger_provider_sdk::{Answer, answer, v1};
//!
//! let ingress = v1::LoadBalancerIngress { ip: "192.0.2.7".to_owned(), ..Default::default() };
//! let answer = Answer { message: "two of three zones".to_owned(), ..answer::ready([ingress]) };
//! assert_eq!(answer.disposition(), v1::LoadBalancerDisposition::Ready);
//! ```

use std::time::Duration;

use outrigger_api::v1::{
    LoadBalancerAnswer, LoadBalancerDisposition, LoadBalancerIngress, LoadBalancerStatus,
};

use crate::error::duration;

/// It is as asked for, and reached under these addresses. An update needs none.
pub fn ready(ingress: impl IntoIterator<Item = LoadBalancerIngress>) -> LoadBalancerAnswer {
    LoadBalancerAnswer {
        status: status(ingress),
        ..stands(LoadBalancerDisposition::Ready)
    }
}

/// It works, but an ensure would change it: the difference, for people. An answer to a get alone.
pub fn differs(difference: impl Into<String>) -> LoadBalancerAnswer {
    LoadBalancerAnswer {
        message: difference.into(),
        ..stands(LoadBalancerDisposition::Differs)
    }
}

/// The change was accepted, or is under way: the controller asks again after this time, 1 s to 5 min, and publishes
/// the addresses, if there are any.
pub fn in_progress(
    retry_after: Duration,
    ingress: impl IntoIterator<Item = LoadBalancerIngress>,
) -> LoadBalancerAnswer {
    LoadBalancerAnswer {
        retry_after: Some(duration(retry_after)),
        status: status(ingress),
        ..stands(LoadBalancerDisposition::InProgress)
    }
}

/// Another controller owns the Service. Nothing was touched.
pub fn not_managed() -> LoadBalancerAnswer {
    stands(LoadBalancerDisposition::NotManaged)
}

/// No part of it exists; in answer to an update there is none.
pub fn absent() -> LoadBalancerAnswer {
    stands(LoadBalancerDisposition::Absent)
}

/// It was kept on purpose, because of a deletion protection. An answer to a deletion alone.
pub fn retained() -> LoadBalancerAnswer {
    stands(LoadBalancerDisposition::Retained)
}

fn stands(disposition: LoadBalancerDisposition) -> LoadBalancerAnswer {
    LoadBalancerAnswer {
        disposition: disposition.into(),
        ..LoadBalancerAnswer::default()
    }
}

/// Without addresses it is left out, since an empty one says nothing.
fn status(ingress: impl IntoIterator<Item = LoadBalancerIngress>) -> Option<LoadBalancerStatus> {
    let ingress: Vec<_> = ingress.into_iter().collect();
    (!ingress.is_empty()).then_some(LoadBalancerStatus { ingress })
}
