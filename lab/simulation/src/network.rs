//! The ways between controllers and the API server: each request and each event asks here what happens to it.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    apiserver::{ApiServer, Delivery, Fault, FaultKind, Request, Verb},
    fault::{Kind, Occasion, Occasions, Once, Pod, Wrong},
    host,
};

/// The names of the controllers, by Pod.
pub(crate) const CONTROLLERS: [&str; 2] = ["a", "b"];

/// A late request is on its way for less than this.
pub(crate) const LATEST: Duration = Duration::from_secs(8);

/// The faults that last, and what a fault may begin with.
#[derive(Default)]
pub(crate) struct Network {
    requests: Vec<(Pod, Wrong, f64, Rng)>,
    /// Pods whose watches show events only then.
    late: Vec<(Pod, Duration)>,
    /// Pods whose watches end at each event.
    cut: Vec<Pod>,
    /// Pods whose watches are refused.
    blind: Vec<Pod>,
    latency: Rng,
    /// The newest of the API server.
    version: u64,
    /// The leader's writes and events of this round.
    occasions: Occasions,
    leader: Option<Pod>,
    /// The fault of one write or event.
    once: Option<(Occasion, u32, Once)>,
}

impl Network {
    /// The network before `api`, which asks it from now on.
    pub(crate) fn before(api: &ApiServer, seed: u64) -> Arc<Mutex<Self>> {
        let network = Arc::new(Mutex::new(Self {
            latency: Rng::with_seed(seed ^ 0x1a7e),
            ..Self::default()
        }));
        let (requests, events) = (Arc::clone(&network), Arc::clone(&network));
        api.set_faults(move |request| requests.lock().on_request(request));
        api.set_watch_faults(move |request| events.lock().on_event(request));
        network
    }

    /// Sets the fault of one write or event alone.
    pub(crate) fn happens_once(&mut self, once: Option<(Occasion, u32, Once)>) {
        self.once = once;
    }

    /// Counts occasions from nothing.
    pub(crate) fn begin_round(&mut self) {
        self.occasions.clear();
    }

    /// The leader's writes and events of this round.
    pub(crate) fn occasions(&self) -> &Occasions {
        &self.occasions
    }

    /// The newest version of the API server, and who leads.
    pub(crate) fn observe(&mut self, version: u64, leader: Option<Pod>) {
        (self.version, self.leader) = (version, leader);
    }

    /// From `now` on these faults last, each with its number, until the time beside it.
    pub(crate) fn change<'a>(
        &mut self,
        faults: impl Iterator<Item = (u64, &'a Kind, Duration)>,
        now: Duration,
    ) {
        self.requests.clear();
        self.late.clear();
        self.cut.clear();
        self.blind.clear();
        for (number, kind, end) in faults {
            match *kind {
                Kind::Requests(pod, wrong, chance) => {
                    if wrong.is_behind() {
                        self.cut.push(pod);
                    }
                    let random = Rng::with_seed(number ^ now.as_millis() as u64);
                    self.requests.push((pod, wrong, chance, random));
                }
                Kind::LateEvents(pod) => self.late.push((pod, end)),
                Kind::CutWatches(pod) => self.cut.push(pod),
                Kind::Relist(pod) => {
                    self.cut.push(pod);
                    self.blind.push(pod);
                }
                _ => {}
            }
        }
    }

    fn on_request(&mut self, request: &Request) -> Fault {
        let mut fault = Fault {
            before: Duration::ZERO,
            after: Duration::from_millis(self.latency.u64(1..8)),
            kind: FaultKind::None,
        };
        if request.verb.writes()
            && self.leads(request)
            && let Some(Once::Write(wrong)) = self.count(Occasion::Write(request.resource))
        {
            go_wrong(wrong, request, self.version, LATEST / 2, &mut fault);
        }
        let is_its = |pod: &Pod| request.client == CONTROLLERS[*pod];
        if request.verb == Verb::Watch && self.blind.iter().any(is_its) {
            fault.kind = FaultKind::Refused(503);
        }
        // A process whose lists are from the past keeps its Lease.
        let is_behind =
            |(pod, wrong, ..): &(Pod, Wrong, f64, Rng)| is_its(pod) && wrong.is_behind();
        let keeps_lease = request.resource == "leases" && self.requests.iter().any(is_behind);
        for (pod, wrong, chance, random) in &mut self.requests {
            let concerns = is_its(pod) && random.f64() < *chance;
            if concerns && (!keeps_lease || wrong.is_behind()) {
                let late = Duration::from_millis(random.u64(50..LATEST.as_millis() as u64));
                go_wrong(*wrong, request, self.version, late, &mut fault);
            }
        }
        fault
    }

    fn leads(&self, request: &Request) -> bool {
        self.leader
            .is_some_and(|pod| request.client == CONTROLLERS[pod])
    }

    /// Counts an occasion; the fault that begins with it alone.
    fn count(&mut self, occasion: Occasion) -> Option<Once> {
        let count = self.occasions.entry(occasion).or_default();
        *count += 1;
        let (its, nth, once) = self.once?;
        ((its, nth) == (occasion, *count)).then_some(once)
    }

    fn on_event(&mut self, request: &Request) -> Delivery {
        if self.leads(request) {
            match self.count(Occasion::Event(request.resource)) {
                Some(Once::Cut) => return Delivery::Cut,
                Some(Once::LateEvent(late)) => return Delivery::At(Instant::now() + late),
                _ => {}
            }
        }
        let is_its = |pod: Pod| request.client == CONTROLLERS[pod];
        if self.cut.iter().any(|pod| is_its(*pod)) {
            return Delivery::Cut;
        }
        match self.late.iter().find(|(pod, _)| is_its(*pod)) {
            Some((_, end)) => Delivery::At(Instant::now() + end.saturating_sub(host::elapsed())),
            None => Delivery::Now,
        }
    }
}

/// The fate of a request while the newest version is `version`; `late` is how long a late one is on its way.
fn go_wrong(wrong: Wrong, request: &Request, version: u64, late: Duration, fault: &mut Fault) {
    fault.kind = match wrong {
        Wrong::LostRequest => FaultKind::RequestLost,
        Wrong::LostAnswer => FaultKind::AnswerLost,
        Wrong::Refused(code) => FaultKind::Refused(code),
        Wrong::Late => {
            fault.before = late;
            return;
        }
        Wrong::Behind(versions) => match request.verb {
            Verb::List => FaultKind::Past(version.saturating_sub(versions)),
            Verb::Watch => FaultKind::Refused(410),
            _ => return,
        },
    };
}
