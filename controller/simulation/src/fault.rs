//! The faults of a run: what goes wrong, when, and for how long.

use std::{fmt, time::Duration};

use fastrand::Rng;
use outrigger_provider_mock::faults::{self, BadAnswer, Effect, InjectedError, Method};

/// How long much happens.
const CROWDED: Duration = Duration::from_mins(1);

/// One of the two Pods, by number.
pub type Pod = usize;

/// Something that goes wrong from one time to another.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Since the beginning.
    pub at: Duration,
    /// The time after which it is mended.
    pub lasts: Duration,
    /// The kind of it.
    pub kind: Kind,
}

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
    /// The API server forgets its history.
    Compaction,
    /// The clock of a Pod's machine is wrong by so many seconds.
    Clock(Pod, i64),
    /// Something that the cloud or its provider does.
    Cloud(Box<faults::Fault>),
    /// Each call to the cloud takes so long.
    SlowCloud(Duration),
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
#[derive(Clone, Copy, Debug)]
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "at {at:.3} s for {lasts:.3} s: {:?}", self.kind)
    }
}

/// When much happens, each time for [`CROWDED`]; between these nothing begins. People and faults meet there.
pub fn crowds(seed: u64, hours: f64) -> Vec<Duration> {
    let mut random = Rng::with_seed(seed ^ 0xc10d);
    let last = (hours * 3_600_000.0) as u64 - CROWDED.as_millis() as u64;
    let count = (hours * 12.0) as usize;
    (0..count.max(1))
        .map(|_| Duration::from_millis(random.u64(..last)))
        .collect()
}

/// A time in one of the `crowds`.
pub fn within(crowds: &[Duration], random: &mut Rng) -> Duration {
    let after = Duration::from_millis(random.u64(..CROWDED.as_millis() as u64));
    random.choice(crowds).copied().unwrap_or_default() + after
}

/// The faults of a seed.
pub fn faults(seed: u64, hours: f64) -> Vec<Fault> {
    let mut random = Rng::with_seed(seed ^ 0xfa17);
    let crowds = crowds(seed, hours);
    let mut faults: Vec<_> = (0..crowds.len() * 6)
        .map(|_| Fault {
            at: within(&crowds, &mut random),
            // Most are short; some last longer than every deadline.
            lasts: Duration::from_millis((200.0 * 1000.0_f64.powf(random.f64())) as u64),
            kind: kind(&mut random),
        })
        .collect();
    faults.sort_by_key(|fault| fault.at);
    faults
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
        17 => Kind::Compaction,
        18 => Kind::Clock(pod, random.i64(-400..400)),
        19 => Kind::SlowCloud(Duration::from_secs(random.u64(1..30))),
        _ => Kind::Cloud(Box::new(cloud_fault(random))),
    }
}

fn cloud_fault(random: &mut Rng) -> faults::Fault {
    const METHODS: [Method; 10] = [
        Method::GetStatus,
        Method::BatchGetInstances,
        Method::ListInstances,
        Method::GetLoadBalancer,
        Method::EnsureLoadBalancer,
        Method::UpdateLoadBalancerNodes,
        Method::DeleteLoadBalancer,
        Method::ListLoadBalancers,
        Method::BatchCreateRoutes,
        Method::BatchDeleteRoutes,
    ];
    const CODES: [tonic::Code; 5] = [
        tonic::Code::Unavailable,
        tonic::Code::Internal,
        tonic::Code::ResourceExhausted,
        tonic::Code::PermissionDenied,
        tonic::Code::Unknown,
    ];
    // They say nothing false: a false answer looks as the truth does.
    const BAD: [BadAnswer; 8] = [
        BadAnswer::MissingResult,
        BadAnswer::DuplicateResult,
        BadAnswer::Empty,
        BadAnswer::OversizedReply,
        BadAnswer::UncertainAbsence,
        BadAnswer::StaleAbsence,
        BadAnswer::ForeignResult,
        BadAnswer::MissingDisposition,
    ];
    loop {
        let method = METHODS[random.usize(0..METHODS.len())];
        let effect = match random.u32(0..8) {
            0 | 1 => Effect::Error(InjectedError::new(CODES[random.usize(0..CODES.len())])),
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
