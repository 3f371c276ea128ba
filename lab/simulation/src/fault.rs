//! The faults of a run: what goes wrong, when, and for how long.

use std::{collections::BTreeMap, fmt, time::Duration};

use fastrand::Rng;
use outrigger_provider_mock::faults::{self, BadAnswer, Effect, InjectedError, Method};

/// One of the two Pods, by number.
pub type Pod = usize;

/// Something that goes wrong for a while.
#[derive(Clone, Debug)]
pub struct Fault {
    /// In this round.
    pub round: usize,
    /// In it.
    pub begins: Begin,
    /// The time after which it is mended.
    pub lasts: Duration,
    /// The kind of it.
    pub kind: Kind,
}

/// When something begins, in its round.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// So long after its begin.
    After(Duration),
    /// So long after so many of these. A fault of a Pod is then one of the Pod that holds the Lease.
    With(Occasion, u32, Duration),
}

/// Work that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// A request of a controller that writes an object of this kind.
    Write(&'static str),
    /// A call of a provider to the cloud.
    Call(&'static str),
    /// An event of an object of this kind that the leader is shown.
    Event(&'static str),
}

/// How often there was each occasion in a round. Those of a Pod that does not hold the Lease do not count.
pub type Occasions = BTreeMap<Occasion, u32>;

impl Begin {
    /// In the middle of work with this probability, otherwise within `crowded`.
    pub fn draw(in_work: f64, crowded: Duration, random: &mut Rng) -> Self {
        if random.f64() > in_work {
            return Self::After(crowded.mul_f64(random.f64()));
        }
        let (occasion, most) = OCCASIONS[random.usize(0..OCCASIONS.len())];
        // While it is in flight, or soon after.
        let after = Duration::from_millis((2000_f64.powf(random.f64())) as u64);
        Self::With(occasion, random.u32(1..=most), after)
    }

    /// The time since the begin of the round when it begins, if that is known.
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::After(time) => Some(time),
            Self::With(..) => None,
        }
    }
}

/// Occasions, and the number that is not rare in a round.
pub const OCCASIONS: [(Occasion, u32); 13] = [
    (Occasion::Write("nodes"), 8),
    (Occasion::Write("services"), 8),
    (Occasion::Write("certificatesigningrequests"), 2),
    (Occasion::Write("persistentvolumes"), 2),
    (Occasion::Call("GetInstances"), 4),
    (Occasion::Call("FindLoadBalancer"), 4),
    (Occasion::Call("CreateLoadBalancer"), 2),
    (Occasion::Call("ModifyLoadBalancer"), 2),
    (Occasion::Call("SetTargets"), 2),
    (Occasion::Call("DeleteLoadBalancer"), 2),
    (Occasion::Call("CreateRoute"), 2),
    (Occasion::Call("DeleteRoute"), 2),
    (Occasion::Call("GetVolume"), 2),
];

/// Kinds of faults.
#[derive(Clone, Debug)]
pub enum Kind {
    /// SIGKILL of a controller.
    Kill(Pod),
    /// SIGTERM of a controller.
    Terminate(Pod),
    /// SIGSTOP of a controller.
    Freeze(Pod),
    /// SIGKILL of a provider.
    KillProvider(Pod),
    /// SIGSTOP of a provider.
    FreezeProvider(Pod),
    /// Both providers end, and those that follow declare something else.
    Upgrade(Declared),
    /// Something between the controller of a Pod and the API server.
    Requests(Pod, Wrong, f64),
    /// All watches of a Pod show events only when this is over.
    LateEvents(Pod),
    /// The watches of a Pod end at each event.
    CutWatches(Pod),
    /// The watches of a Pod break and are refused, until the API server forgets its history: only a list shows what
    /// happened meanwhile.
    Relist(Pod),
    /// The clock of a Pod's machine is wrong by so many seconds.
    Clock(Pod, i64),
    /// Something that the cloud or its provider does.
    Cloud(Box<faults::Fault>),
    /// Each call to the cloud takes so long.
    SlowCloud(Duration),
    /// Something that happens to the write or the event alone which it begins with.
    Once(Once),
}

/// Fates of one write or event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Once {
    /// The fate of a write.
    Write(Wrong),
    /// The watch breaks instead of showing the event.
    Cut,
    /// The event, and those after it, come so late.
    LateEvent(Duration),
}

/// Declarations of providers for a while.
#[derive(Clone, Copy, Debug)]
pub enum Declared {
    /// No load balancers.
    NoLoadBalancers,
    /// No routes.
    NoRoutes,
    /// Another revision of how Services become load balancers.
    OtherRevision,
    /// No node sets.
    NoNodeSets,
}

/// Fates of a request to the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wrong {
    /// It does not arrive.
    LostRequest,
    /// It is carried out, and the answer does not arrive.
    LostAnswer,
    /// It is answered with this status.
    Refused(u16),
    /// It arrives late.
    Late,
    /// It goes to a server that is so many changes behind: its lists are old, and it knows no newer version to watch from.
    Behind(u64),
}

impl Wrong {
    pub(crate) const fn is_behind(self) -> bool {
        matches!(self, Self::Behind(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (round, lasts) = (self.round, self.lasts.as_secs_f64());
        match self.begins {
            Begin::After(time) => write!(f, "round {round}, {:.3} s", time.as_secs_f64())?,
            Begin::With(occasion, nth, after) => {
                write!(f, "round {round}, {after:?} after {occasion:?} {nth}")?;
            }
        }
        write!(f, ", for {lasts:.3} s: {:?}", self.kind)
    }
}

impl Fault {
    /// The write or event that it is about, if that is one alone.
    pub(crate) fn once(&self) -> Option<(Occasion, u32, Once)> {
        match (self.begins, &self.kind) {
            (Begin::With(occasion, nth, _), Kind::Once(once)) => Some((occasion, nth, *once)),
            _ => None,
        }
    }
}

/// A source of chance for one round of a seed, and how long much happens in that round.
pub fn of_round(seed: u64, round: usize, purpose: u64) -> (Rng, Duration) {
    let mut random = Rng::with_seed(seed ^ (round as u64) << 32);
    let crowded = Duration::from_secs(random.u64(2..45));
    (Rng::with_seed(random.u64(..) ^ purpose), crowded)
}

/// The faults of a seed.
pub fn faults(seed: u64, rounds: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for round in 0..rounds {
        let (mut random, crowded) = of_round(seed, round, 0xfa17);
        // Many rounds with few, since faults hide each other.
        for _ in 0..random.usize(1..9) {
            faults.push(Fault {
                round,
                begins: Begin::draw(0.7, crowded, &mut random),
                // Most are short; some last longer than every deadline.
                lasts: Duration::from_millis((200.0 * 1000.0_f64.powf(random.f64())) as u64),
                kind: kind(&mut random),
            });
        }
    }
    faults
}

impl Kind {
    /// The same of another Pod.
    #[must_use]
    pub fn of(self, pod: Pod) -> Self {
        match self {
            Self::Kill(_) => Self::Kill(pod),
            Self::Terminate(_) => Self::Terminate(pod),
            Self::Freeze(_) => Self::Freeze(pod),
            Self::KillProvider(_) => Self::KillProvider(pod),
            Self::FreezeProvider(_) => Self::FreezeProvider(pod),
            Self::Requests(_, wrong, chance) => Self::Requests(pod, wrong, chance),
            Self::LateEvents(_) => Self::LateEvents(pod),
            Self::CutWatches(_) => Self::CutWatches(pod),
            Self::Clock(_, seconds) => Self::Clock(pod, seconds),
            Self::Relist(_) => Self::Relist(pod),
            Self::Upgrade(_) | Self::Cloud(_) | Self::SlowCloud(_) | Self::Once(_) => self,
        }
    }
}

fn kind(random: &mut Rng) -> Kind {
    let pod = random.usize(0..2);
    match random.u32(0..24) {
        0..3 => Kind::Kill(pod),
        3 => Kind::Terminate(pod),
        4..6 => Kind::Freeze(pod),
        6..8 => Kind::KillProvider(pod),
        8 => Kind::FreezeProvider(pod),
        9 => Kind::Upgrade(match random.u32(0..4) {
            0 => Declared::NoLoadBalancers,
            1 => Declared::NoRoutes,
            2 => Declared::OtherRevision,
            _ => Declared::NoNodeSets,
        }),
        10..15 => {
            let wrong = match random.u32(0..7) {
                0 | 1 => Wrong::LostAnswer,
                2 => Wrong::LostRequest,
                3 => Wrong::Refused([409, 429, 500, 503][random.usize(0..4)]),
                4 => Wrong::Late,
                _ => Wrong::Behind(random.u64(1..40)),
            };
            Kind::Requests(pod, wrong, [0.1, 0.5, 1.0][random.usize(0..3)])
        }
        15 => Kind::LateEvents(pod),
        16 => Kind::CutWatches(pod),
        17 => Kind::Relist(pod),
        18 => Kind::Clock(pod, random.i64(-400..400)),
        19 => Kind::SlowCloud(Duration::from_secs(random.u64(1..30))),
        _ => Kind::Cloud(Box::new(cloud_fault(random))),
    }
}

fn cloud_fault(random: &mut Rng) -> faults::Fault {
    const METHODS: [Method; 11] = [
        Method::GetStatus,
        Method::BatchGetInstances,
        Method::ListInstances,
        Method::GetLoadBalancer,
        Method::EnsureLoadBalancer,
        Method::UpdateLoadBalancerNodes,
        Method::DeleteLoadBalancer,
        Method::ListLoadBalancers,
        Method::ListRoutes,
        Method::CreateRoute,
        Method::DeleteRoute,
    ];
    // They say nothing false: a false answer looks as the truth does.
    const BAD: [BadAnswer; 12] = [
        BadAnswer::MissingResult,
        BadAnswer::DuplicateResult,
        BadAnswer::Empty,
        BadAnswer::OversizedReply,
        BadAnswer::UncertainAbsence,
        BadAnswer::StaleAbsence,
        BadAnswer::ForeignResult,
        BadAnswer::MissingDisposition,
        BadAnswer::MissingStatus,
        BadAnswer::MalformedAddress,
        BadAnswer::MalformedCidr,
        BadAnswer::OversizedStrings,
    ];
    loop {
        let method = METHODS[random.usize(0..METHODS.len())];
        let effect = match random.u32(0..8) {
            0 | 1 => Effect::Error(error(random)),
            2 | 3 => Effect::Hang {
                duration: Some(Duration::from_secs(random.u64(1..120))),
            },
            4 | 5 => Effect::LoseReply,
            _ => Effect::BadAnswer(BAD[random.usize(0..BAD.len())]),
        };
        let fault = faults::Fault::on(method, effect);
        let fault = fault.with_rate([0.2, 0.6, 1.0][random.usize(0..3)]);
        if fault.check().is_ok() {
            return fault;
        }
    }
}

/// An error, perhaps for a reason that the contract does not have, or with a time to call again that makes no sense.
fn error(random: &mut Rng) -> InjectedError {
    const CODES: [tonic::Code; 5] = [
        tonic::Code::Unavailable,
        tonic::Code::Internal,
        tonic::Code::ResourceExhausted,
        tonic::Code::PermissionDenied,
        tonic::Code::Unknown,
    ];
    let error = InjectedError::new(CODES[random.usize(0..CODES.len())]);
    match random.u32(0..8) {
        0 => error.with_reason("MOON_TOO_FULL"),
        1 => error.with_reason("OVERLOADED"),
        2 => error.retry_after(Duration::from_millis(1)),
        3 => error.retry_after(Duration::from_hours(24 * 365)),
        _ => error,
    }
}
