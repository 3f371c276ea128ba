//! The parts of requests and answers that faults are about: items, results and entries.

use std::marker::PhantomData;

use outrigger_api::v1::{
    BatchCreateRoutesRequest, BatchDeleteRoutesRequest, BatchGetInstancesRequest,
    BatchGetVolumesRequest, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest,
    GetLoadBalancerRequest, GetLoadBalancerResponse, ListInstancesRequest,
    ListLoadBalancersRequest, ListRoutesRequest, PlanLoadBalancerRequest, Service,
    UpdateLoadBalancerNodesRequest,
};
use outrigger_api::{BatchRequest, ItemResult, ListPage, MethodRequest, RpcStatus};
use prost::Message;

use super::BadAnswer::{self, *};
use super::spoil::{Outcome, Spoil};
use super::{About, Method, Named};
use crate::wire::Answer;

/// Of an answer about instances.
const INSTANCES: &[BadAnswer] = &[
    MalformedAddress,
    OversizedStrings,
    MalformedCidr,
    NotManaged,
    BadLabel,
    DuplicateProviderId,
    WrongPrefix,
    OtherSpelling,
    EmptyProviderId,
    StaleAbsence,
    UncertainAbsence,
];

/// The methods whose messages have objects, and the bad answers that fit them besides those that fit all of their kind.
static SHAPES: &[&dyn Shape] = &[
    &Batch::<BatchGetInstancesRequest>::of(INSTANCES),
    &List::<ListInstancesRequest>::of(INSTANCES),
    &One {
        method: Method::GetLoadBalancer,
        service: |bytes| GetLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[
            MalformedAddress,
            OversizedStrings,
            Empty,
            NotManaged,
            MissingDisposition,
            MissingStatus,
            InProgressWithoutStatus,
            FalseAbsence,
        ],
    },
    &One {
        method: Method::EnsureLoadBalancer,
        service: |bytes| EnsureLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[
            MalformedAddress,
            OversizedStrings,
            Empty,
            NotManaged,
            MissingDisposition,
            MissingStatus,
            InProgressWithoutStatus,
            FarRetry,
        ],
    },
    &Batch::<UpdateLoadBalancerNodesRequest>::of(&[
        MalformedAddress,
        OversizedStrings,
        NotManaged,
        MissingDisposition,
        FalseAbsence,
        FarRetry,
        ForeignResult,
    ]),
    &One {
        method: Method::DeleteLoadBalancer,
        service: |bytes| DeleteLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[Empty, NotManaged, MissingDisposition, FarRetry],
    },
    &List::<ListLoadBalancersRequest>::of(&[MalformedAddress, OversizedStrings]),
    &One {
        method: Method::PlanLoadBalancer,
        service: |bytes| PlanLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[],
    },
    &List::<ListRoutesRequest>::of(&[MalformedAddress, OversizedStrings, MalformedCidr]),
    &Batch::<BatchCreateRoutesRequest>::of(&[OversizedStrings, MalformedCidr, ForeignResult]),
    &Batch::<BatchDeleteRoutesRequest>::of(&[OversizedStrings, MalformedCidr, ForeignResult]),
    &Batch::<BatchGetVolumesRequest>::of(&[
        OversizedStrings,
        NotManaged,
        BadLabel,
        FalseAbsence,
        ForeignResult,
    ]),
];

/// The objects of a request, each with the key of its result.
pub(crate) type Asked = Vec<(String, About)>;

/// Beyond what any caller accepts that named no limit of its own (4 MiB).
const OVERSIZED_BYTES: usize = 5 << 20;

/// The messages of a method.
pub(crate) trait Shape: Sync {
    fn method(&self) -> Method;

    /// Whether answers can be so.
    fn fits(&self, bad: BadAnswer) -> bool;

    /// The objects that a request is about.
    fn asked(&self, request: &[u8]) -> Asked;

    /// The objects that an answer is about.
    fn answered(&self, asked: &Asked, answer: &Answer) -> Vec<About>;

    /// Fails single results.
    fn fail(&self, _: &Asked, _: &mut Answer, _error: &mut dyn FnMut(&About) -> Option<RpcStatus>) {
    }

    /// Spoils the parts of an answer that are about some objects.
    fn spoil(
        &self,
        bad: BadAnswer,
        asked: &Asked,
        answer: &mut Answer,
        is_about: &dyn Fn(&About) -> bool,
    );
}

impl Method {
    /// None: its messages have no objects.
    pub(crate) fn shape(self) -> Option<&'static dyn Shape> {
        let mut shapes = SHAPES.iter().copied();
        shapes.find(|shape| shape.method() == self)
    }

    /// Whether answers can be so.
    pub(crate) fn can_be(self, bad: BadAnswer) -> bool {
        self.shape()
            .is_some_and(|shape| bad == OversizedReply || shape.fits(bad))
    }
}

impl dyn Shape {
    /// Spoils an answer; an error stays as it is.
    pub(crate) fn spoil_answer(
        &self,
        bad: BadAnswer,
        asked: &Asked,
        answer: &mut Answer,
        is_about: &dyn Fn(&About) -> bool,
    ) {
        if bad == OversizedReply {
            answer.inflate(OVERSIZED_BYTES);
        } else {
            self.spoil(bad, asked, answer, is_about);
        }
    }
}

/// The object of a key; none, if it was not asked about.
fn about<'a>(asked: &'a Asked, key: &str) -> Option<&'a About> {
    let found = asked.iter().find(|(known, _)| known == key);
    found.map(|(_, about)| about)
}

/// Leaves some out, or doubles them; false: `bad` is none of these.
fn count<T: Clone>(bad: BadAnswer, all: &mut Vec<T>, is_meant: impl Fn(&T) -> bool) -> bool {
    match bad {
        MissingResult => all.retain(|one| !is_meant(one)),
        DuplicateResult => {
            let twins = all.iter().filter(|one| is_meant(one));
            all.extend(twins.cloned().collect::<Vec<_>>());
        }
        _ => return false,
    }
    true
}

struct Batch<B> {
    fits: &'static [BadAnswer],
    request: PhantomData<fn() -> B>,
}

impl<B: BatchRequest> Batch<B> {
    const fn of(fits: &'static [BadAnswer]) -> Self {
        let request = PhantomData;
        Self { fits, request }
    }
}

impl<B> Shape for Batch<B>
where
    B: BatchRequest,
    B::Item: Named,
    <B::ItemResult as ItemResult>::Outcome: Outcome,
{
    fn method(&self) -> Method {
        Method::of::<B>()
    }

    fn fits(&self, bad: BadAnswer) -> bool {
        matches!(bad, MissingResult | DuplicateResult | Empty) || self.fits.contains(&bad)
    }

    fn asked(&self, request: &[u8]) -> Asked {
        let request = B::decode(request).unwrap_or_default();
        let items = request.items().iter();
        items
            .map(|item| (B::key(item).to_owned(), item.about()))
            .collect()
    }

    fn answered(&self, asked: &Asked, answer: &Answer) -> Vec<About> {
        let results = answer.messages().into_iter().flat_map(B::results);
        let known = results.filter_map(|result| about(asked, result.key()).cloned());
        known.collect()
    }

    fn fail(
        &self,
        asked: &Asked,
        answer: &mut Answer,
        error: &mut dyn FnMut(&About) -> Option<RpcStatus>,
    ) {
        answer.results::<B>(|results| {
            for result in results {
                if let Some(error) = about(asked, result.key()).and_then(&mut *error) {
                    *result = B::ItemResult::failed(result.key().to_owned(), error);
                }
            }
        });
    }

    fn spoil(
        &self,
        bad: BadAnswer,
        asked: &Asked,
        answer: &mut Answer,
        is_about: &dyn Fn(&About) -> bool,
    ) {
        let is_meant = |result: &B::ItemResult| about(asked, result.key()).is_some_and(is_about);
        answer.results::<B>(|results| {
            if count(bad, results, is_meant) {
                return;
            }
            if bad == ForeignResult {
                let (key, outcome) = Outcome::foreign();
                results.push(B::ItemResult::new(key, outcome));
                return;
            }
            for result in results.iter_mut().filter(|one| is_meant(one)) {
                match (bad, <B::ItemResult as ItemResult>::Outcome::NO_KEY) {
                    (Empty, _) => *result.outcome_mut() = None,
                    (MalformedCidr, Some(key)) => key.clone_into(result.key_mut()),
                    _ => result
                        .outcome_mut()
                        .iter_mut()
                        .for_each(|one| one.spoil(bad)),
                }
            }
        });
    }
}

struct List<L> {
    fits: &'static [BadAnswer],
    request: PhantomData<fn() -> L>,
}

impl<L: MethodRequest> List<L> {
    const fn of(fits: &'static [BadAnswer]) -> Self {
        let request = PhantomData;
        Self { fits, request }
    }
}

impl<L, I> Shape for List<L>
where
    L: MethodRequest<Response: ListPage<Item = I>>,
    I: Message + Default + Clone + Named + Spoil,
{
    fn method(&self) -> Method {
        Method::of::<L>()
    }

    fn fits(&self, bad: BadAnswer) -> bool {
        matches!(bad, MissingResult | DuplicateResult | Empty) || self.fits.contains(&bad)
    }

    fn asked(&self, _: &[u8]) -> Asked {
        Asked::new()
    }

    fn answered(&self, _: &Asked, answer: &Answer) -> Vec<About> {
        let pages = answer.messages::<L::Response>().into_iter();
        let entries = pages.flat_map(|page| page.into_parts().0);
        entries.map(|entry| entry.about()).collect()
    }

    fn spoil(
        &self,
        bad: BadAnswer,
        _: &Asked,
        answer: &mut Answer,
        is_about: &dyn Fn(&About) -> bool,
    ) {
        let is_meant = |entry: &I| is_about(&entry.about());
        answer.each(|page: &mut L::Response| {
            let (mut entries, mut complete) = std::mem::take(page).into_parts();
            match bad {
                Empty => {
                    entries.clear();
                    complete = false;
                }
                // Of an entry of a list.
                StaleAbsence | UncertainAbsence | NotManaged => {
                    entries.retain(|one| !is_meant(one))
                }
                _ if count(bad, &mut entries, is_meant) => {}
                _ => {
                    let meant = entries.iter_mut().filter(|one| is_meant(one));
                    meant.for_each(|one| one.spoil(bad));
                }
            }
            *page = ListPage::page(entries, complete);
        });
    }
}

/// A call about the load balancer of one Service. The answer has the same place in each response.
struct One {
    method: Method,
    service: fn(&[u8]) -> Option<Service>,
    fits: &'static [BadAnswer],
}

impl Shape for One {
    fn method(&self) -> Method {
        self.method
    }

    fn fits(&self, bad: BadAnswer) -> bool {
        self.fits.contains(&bad)
    }

    fn asked(&self, request: &[u8]) -> Asked {
        let service = (self.service)(request);
        let named = service.map(|service| (service.uid.clone(), service.about()));
        named.into_iter().collect()
    }

    fn answered(&self, asked: &Asked, answer: &Answer) -> Vec<About> {
        let of_call = if answer.is_empty() {
            None
        } else {
            asked.first()
        };
        of_call
            .map(|(_, about)| about.clone())
            .into_iter()
            .collect()
    }

    fn spoil(&self, bad: BadAnswer, _: &Asked, answer: &mut Answer, _: &dyn Fn(&About) -> bool) {
        answer.each(|message: &mut GetLoadBalancerResponse| match bad {
            Empty => message.answer = None,
            _ => message.answer.get_or_insert_default().spoil(bad),
        });
    }
}
