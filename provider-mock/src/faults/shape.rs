//! The parts of requests and answers that faults are about: items, results and entries.

use std::marker::PhantomData;

use outrigger_api::v1::{
    BatchGetInstancesRequest, CreateRouteRequest, DeleteLoadBalancerRequest, DeleteRouteRequest,
    EnsureLoadBalancerRequest, GetLoadBalancerRequest, GetLoadBalancerResponse, GetVolumeRequest,
    Instance, InstanceResult, ListInstancesRequest, ListLoadBalancersRequest, ListRoutesRequest,
    PlanLoadBalancerRequest, Service, UpdateLoadBalancerNodesRequest, instance_result::Outcome,
};
use outrigger_api::{ListPage, MethodRequest, RpcStatus};
use prost::Message;

use super::about::Named;
use super::spoil::Spoil;
use super::{About, BadAnswer as Bad, Method};
use crate::exchange::Answer;

/// Mistakes of an answer about instances.
const INSTANCES: &[Bad] = &[
    Bad::MalformedAddress,
    Bad::HostnamesOnly,
    Bad::OversizedStrings,
    Bad::MalformedCidr,
    Bad::NotManaged,
    Bad::BadLabel,
    Bad::DuplicateProviderId,
    Bad::WrongPrefix,
    Bad::OtherSpelling,
    Bad::EmptyProviderId,
    Bad::StaleAbsence,
    Bad::UncertainAbsence,
    Bad::FalseAbsence,
];

/// Mistakes of an answer about many objects.
const OF_MANY: &[Bad] = &[Bad::MissingResult, Bad::DuplicateResult, Bad::Empty];

/// The methods whose messages have objects, and the bad answers that fit them besides those that fit all of their kind.
static SHAPES: &[&dyn Shape] = &[
    &Batch(INSTANCES),
    &List::<ListInstancesRequest>(PhantomData, INSTANCES),
    &One {
        method: Method::GetLoadBalancer,
        service: |bytes| GetLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[
            Bad::MalformedAddress,
            Bad::OversizedStrings,
            Bad::Empty,
            Bad::NotManaged,
            Bad::MissingDisposition,
            Bad::MissingStatus,
            Bad::InProgressWithoutStatus,
            Bad::FalseAbsence,
        ],
    },
    &One {
        method: Method::EnsureLoadBalancer,
        service: |bytes| EnsureLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[
            Bad::MalformedAddress,
            Bad::OversizedStrings,
            Bad::Empty,
            Bad::NotManaged,
            Bad::MissingDisposition,
            Bad::MissingStatus,
            Bad::InProgressWithoutStatus,
            Bad::FarRetry,
        ],
    },
    &One {
        method: Method::UpdateLoadBalancerNodes,
        service: |bytes| UpdateLoadBalancerNodesRequest::decode(bytes).ok()?.service,
        fits: &[
            Bad::MalformedAddress,
            Bad::OversizedStrings,
            Bad::Empty,
            Bad::NotManaged,
            Bad::MissingDisposition,
            Bad::FalseAbsence,
            Bad::FarRetry,
        ],
    },
    &One {
        method: Method::DeleteLoadBalancer,
        service: |bytes| DeleteLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[
            Bad::Empty,
            Bad::NotManaged,
            Bad::MissingDisposition,
            Bad::FarRetry,
        ],
    },
    &List::<ListLoadBalancersRequest>(PhantomData, &[Bad::MalformedAddress, Bad::OversizedStrings]),
    &One {
        method: Method::PlanLoadBalancer,
        service: |bytes| PlanLoadBalancerRequest::decode(bytes).ok()?.service,
        fits: &[],
    },
    &List::<ListRoutesRequest>(
        PhantomData,
        &[
            Bad::MalformedAddress,
            Bad::OversizedStrings,
            Bad::MalformedCidr,
        ],
    ),
    &Single::<CreateRouteRequest> {
        object: |request| request.route.as_ref().map(Named::about),
        fits: &[Bad::OversizedStrings, Bad::MalformedCidr, Bad::Empty],
    },
    &Single::<DeleteRouteRequest> {
        object: |request| request.route.as_ref().map(Named::about),
        fits: &[Bad::OversizedStrings, Bad::Empty],
    },
    &Single::<GetVolumeRequest> {
        object: |request| request.volume.as_ref().map(Named::about),
        fits: &[
            Bad::OversizedStrings,
            Bad::Empty,
            Bad::NotManaged,
            Bad::BadLabel,
            Bad::FalseAbsence,
        ],
    },
];

/// The objects of a request, each with the key of its result.
pub(crate) type Objects = Vec<(String, About)>;

/// Beyond what any caller accepts that named no limit of its own (4 MiB).
const OVERSIZED_BYTES: usize = 5 << 20;

/// Which objects are meant.
type Meant<'a> = &'a dyn Fn(&About) -> bool;

/// The messages of a method.
pub(crate) trait Shape: Sync {
    fn method(&self) -> Method;

    /// True if answers can be so.
    fn fits(&self, bad: Bad) -> bool;

    /// The objects that a request is about.
    fn objects(&self, request: &[u8]) -> Objects;

    /// The objects that an answer is about.
    fn answered(&self, objects: &Objects, _: &Answer) -> Vec<About> {
        objects.iter().map(|(_, about)| about.clone()).collect()
    }

    /// Fails single results.
    fn fail(&self, _: &Objects, _: &mut Answer, _: &mut dyn FnMut(&About) -> Option<RpcStatus>) {}

    /// Spoils the parts of an answer that are about some objects.
    fn spoil(&self, bad: Bad, objects: &Objects, answer: &mut Answer, is_meant: Meant<'_>);
}

impl Method {
    /// The shape of its answers, if its messages have objects.
    pub(crate) fn shape(self) -> Option<&'static dyn Shape> {
        let mut shapes = SHAPES.iter().copied();
        shapes.find(|shape| shape.method() == self)
    }

    /// True if answers can be so.
    pub(crate) fn can_be(self, bad: Bad) -> bool {
        self.shape()
            .is_some_and(|shape| bad == Bad::OversizedReply || shape.fits(bad))
    }
}

impl dyn Shape {
    /// Spoils an answer, also in its size.
    pub(crate) fn spoil_answer(
        &self,
        bad: Bad,
        objects: &Objects,
        answer: &mut Answer,
        is_meant: Meant<'_>,
    ) {
        if bad == Bad::OversizedReply {
            answer.inflate(OVERSIZED_BYTES);
        } else if !answer.is_empty() {
            self.spoil(bad, objects, answer, is_meant);
        }
    }
}

/// The object of a key; none, if it was not asked about.
fn about<'a>(objects: &'a Objects, key: &str) -> Option<&'a About> {
    let object = objects.iter().find(|(item, _)| item == key);
    object.map(|(_, about)| about)
}

/// Leaves some out, or doubles them; false: `bad` is none of these.
fn count<T: Clone>(bad: Bad, all: &mut Vec<T>, is_meant: impl Fn(&T) -> bool) -> bool {
    match bad {
        Bad::MissingResult => all.retain(|one| !is_meant(one)),
        Bad::DuplicateResult => {
            let twins = all.iter().filter(|one| is_meant(one));
            all.extend(twins.cloned().collect::<Vec<_>>());
        }
        _ => return false,
    }
    true
}

/// Lookups.
struct Batch(&'static [Bad]);

impl Shape for Batch {
    fn method(&self) -> Method {
        Method::BatchGetInstances
    }

    fn fits(&self, bad: Bad) -> bool {
        OF_MANY.contains(&bad) || self.0.contains(&bad)
    }

    fn objects(&self, request: &[u8]) -> Objects {
        let request = BatchGetInstancesRequest::decode(request).unwrap_or_default();
        let items = request.items.iter();
        items
            .map(|item| (item.name.clone(), item.about()))
            .collect()
    }

    fn fail(
        &self,
        objects: &Objects,
        answer: &mut Answer,
        error: &mut dyn FnMut(&About) -> Option<RpcStatus>,
    ) {
        answer.results(|results| {
            for result in results {
                if let Some(error) = about(objects, &result.key).and_then(&mut *error) {
                    result.outcome = Some(Outcome::Error(error));
                }
            }
        });
    }

    fn spoil(&self, bad: Bad, objects: &Objects, answer: &mut Answer, is_about: Meant<'_>) {
        let is_meant = |result: &InstanceResult| about(objects, &result.key).is_some_and(is_about);
        answer.results(|results| {
            if count(bad, results, is_meant) {
                return;
            }
            if bad == Bad::ForeignResult {
                let stray = Outcome::Found(Instance::default());
                results.push(InstanceResult::new("stray".to_owned(), stray));
                return;
            }
            for result in results.iter_mut().filter(|one| is_meant(one)) {
                match bad {
                    Bad::Empty => result.outcome = None,
                    _ => result.outcome.iter_mut().for_each(|one| one.spoil(bad)),
                }
            }
        });
    }
}

struct List<L>(PhantomData<fn() -> L>, &'static [Bad]);

impl<L, I> Shape for List<L>
where
    L: MethodRequest<Response: ListPage<Item = I>>,
    I: Message + Default + Clone + Named + Spoil,
{
    fn method(&self) -> Method {
        Method::of::<L>()
    }

    fn fits(&self, bad: Bad) -> bool {
        OF_MANY.contains(&bad) || self.1.contains(&bad)
    }

    fn objects(&self, _: &[u8]) -> Objects {
        Objects::new()
    }

    fn answered(&self, _: &Objects, answer: &Answer) -> Vec<About> {
        let pages = answer.messages::<L::Response>().into_iter();
        let entries = pages.flat_map(|page| page.into_parts().0);
        entries.map(|entry| entry.about()).collect()
    }

    fn spoil(&self, bad: Bad, _: &Objects, answer: &mut Answer, is_about: Meant<'_>) {
        let is_meant = |entry: &I| is_about(&entry.about());
        answer.each(|page: &mut L::Response| {
            let (mut entries, mut complete) = std::mem::take(page).into_parts();
            match bad {
                Bad::Empty => {
                    entries.clear();
                    complete = false;
                }
                // Mistakes of an entry of a list.
                Bad::StaleAbsence | Bad::UncertainAbsence | Bad::FalseAbsence | Bad::NotManaged => {
                    entries.retain(|one| !is_meant(one));
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
    fits: &'static [Bad],
}

impl Shape for One {
    fn method(&self) -> Method {
        self.method
    }

    fn fits(&self, bad: Bad) -> bool {
        self.fits.contains(&bad)
    }

    fn objects(&self, request: &[u8]) -> Objects {
        let service = (self.service)(request);
        let named = service.map(|service| (service.uid.clone(), service.about()));
        named.into_iter().collect()
    }

    fn spoil(&self, bad: Bad, _: &Objects, answer: &mut Answer, _: Meant<'_>) {
        answer.each(|message: &mut GetLoadBalancerResponse| match bad {
            Bad::Empty => message.answer = None,
            _ => message.answer.get_or_insert_default().spoil(bad),
        });
    }
}

/// A call about one route or volume.
struct Single<Q> {
    object: fn(&Q) -> Option<About>,
    fits: &'static [Bad],
}

impl<Q: MethodRequest<Response: Spoil>> Shape for Single<Q> {
    fn method(&self) -> Method {
        Method::of::<Q>()
    }

    fn fits(&self, bad: Bad) -> bool {
        self.fits.contains(&bad)
    }

    fn objects(&self, request: &[u8]) -> Objects {
        let request = Q::decode(request).unwrap_or_default();
        let about = (self.object)(&request);
        about
            .map(|about| (String::new(), about))
            .into_iter()
            .collect()
    }

    fn spoil(&self, bad: Bad, _: &Objects, answer: &mut Answer, _: Meant<'_>) {
        answer.each(|message: &mut Q::Response| match bad {
            Bad::Empty => *message = Q::Response::default(),
            _ => message.spoil(bad),
        });
    }
}
