//! Invariants of each moment of a drill, read from the provider's journal while it is written.
//!
//! - No load balancer is deleted whose Service the drill neither deleted nor gave another type.
//! - A Service never has two load balancers.
//! - Changing calls about one Service or one destination of routes never overlap; a call about several Services
//!   is over for each with its result.
//! - A process makes no changing call after SIGTERM, nor once another process makes them.
//! - Calls per time are bounded, of all Services and of each.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs,
    path::PathBuf,
    time::Duration,
};

use outrigger_provider_mock::{
    faults::Method,
    journal::{Event, LoadBalancerName},
};
use tonic::Code;

use super::{ledger::Ledger, pod_cidrs::Owners, route_changes::RouteChanges};

/// A call that left before the signal may arrive so much later.
const UNDER_WAY: u64 = micros(Duration::from_secs(1));

/// A cancelled call may be noticed so much later than the call that follows it.
const CANCELLED: u64 = micros(Duration::from_secs(3));

/// Calls are counted over this time.
const WINDOW: u64 = micros(Duration::from_secs(10));

/// Changing calls about one Service in a window: each edit leads to one, each failure and each change of
/// nodes to one a second, and people edit twice a second.
const CALLS_OF_ONE: usize = 50;

/// Handshakes in a window: reconnects are at most 20 at first, then one a second.
const HANDSHAKES: usize = 100;

/// All calls in a window.
const CALLS: usize = 4_000;

const fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

/// Reads the journal as far as it is written, and checks.
pub(super) struct Invariants {
    path: PathBuf,
    read: usize,
    ledger: Ledger,
    /// The mock process whose calls are in `open`.
    provider: u32,
    open: HashMap<u64, Open>,
    /// Calls that were open when the next one that excludes them began.
    overlapped: HashMap<u64, (u64, String)>,
    load_balancers: HashMap<String, HashSet<String>>,
    pub(super) routes: RouteChanges,
    /// The processes that made changing calls, in order of the first.
    writers: Vec<i32>,
    recent: VecDeque<(u64, Method, Vec<String>)>,
    calls: HashMap<String, Calls>,
    names: HashMap<String, String>,
}

/// How many calls about a Service have begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// Calls of Ensure and Delete.
    pub(super) whole: usize,
    /// Calls that update the nodes.
    pub(super) nodes: usize,
    /// Calls of Delete alone.
    pub(super) deletions: usize,
}

struct Open {
    method: Method,
    caller: Option<i32>,
    /// UIDs of Services, or destinations of routes.
    keys: Vec<String>,
}

impl Invariants {
    pub(super) fn new(path: PathBuf, ledger: &Ledger, owners: Owners) -> Self {
        Self {
            path,
            read: 0,
            ledger: ledger.clone(),
            provider: 0,
            open: HashMap::new(),
            overlapped: HashMap::new(),
            load_balancers: HashMap::new(),
            routes: RouteChanges::new(ledger, owners),
            writers: Vec::new(),
            recent: VecDeque::new(),
            calls: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// The changing calls about a Service.
    pub(super) fn calls_about(&self, uid: &str) -> Calls {
        self.calls.get(uid).copied().unwrap_or_default()
    }

    /// True if a call that changes something about a Service is in flight.
    pub(super) fn is_called(&self, uid: &str) -> bool {
        let mut open = self.open.values();
        open.any(|call| call.method.changes_cloud && call.keys.iter().any(|key| key == uid))
    }

    /// How many Services are being ensured or deleted.
    pub(super) fn worked_on(&self) -> usize {
        let open = self.open.values();
        let whole = [Method::EnsureLoadBalancer, Method::DeleteLoadBalancer];
        open.filter(|call| whole.contains(&call.method)).count()
    }

    /// Reads what was written since the last time. Fails with the invariant that does not hold.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let text = fs::read(&self.path).unwrap_or_default();
        let new = &text[self.read.min(text.len())..];
        // The last line may be half written.
        let end = new.iter().rposition(|byte| *byte == b'\n');
        let Some(end) = end else { return Ok(()) };
        let lines = new[..end].split(|byte| *byte == b'\n');
        let lines: Vec<outrigger_provider_mock::journal::Line> = lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        self.read += end + 1;
        for line in lines {
            if line.process != self.provider {
                // The former process was killed, and its calls with it.
                self.provider = line.process;
                self.open.clear();
                self.overlapped.clear();
                self.routes.provider_killed();
            }
            self.take(line.at, line.event)?;
        }
        Ok(())
    }

    fn take(&mut self, at: u64, event: Event) -> Result<(), String> {
        let late = self.overlapped.values();
        if let Some((_, what)) = late.into_iter().find(|(since, _)| at > since + CANCELLED) {
            return Err(what.clone());
        }
        match event {
            Event::CallBegan {
                call,
                method,
                caller,
                services,
                routes,
            } => {
                let keys = services.iter().map(|service| service.uid.clone());
                let keys = keys.chain(routes.iter().map(ToString::to_string)).collect();
                let names = services.into_iter();
                let names = names.map(|service| (service.uid, service.name));
                self.names.extend(names);
                self.began(at, call, method, caller, keys)
            }
            Event::ServiceAnswered { call, uid } => {
                if let Some(open) = self.open.get_mut(&call) {
                    open.keys.retain(|key| *key != uid);
                }
                Ok(())
            }
            Event::CallEnded { call, code, .. } => {
                self.open.remove(&call);
                match self.overlapped.remove(&call) {
                    Some((_, what)) if code.0 != Code::Cancelled => Err(what),
                    _ => Ok(()),
                }
            }
            Event::LoadBalancerCreated(LoadBalancerName { id, uid }) => {
                let Some(uid) = uid else { return Ok(()) };
                let ids = self.load_balancers.entry(uid.clone()).or_default();
                ids.insert(id);
                if ids.len() > 1 {
                    let service = self.name(&uid);
                    let ids = &self.load_balancers[&uid];
                    return Err(format!("two load balancers for {service}: {ids:?}"));
                }
                Ok(())
            }
            Event::LoadBalancerDeleted(LoadBalancerName { id, uid }) => {
                let Some(uid) = uid else { return Ok(()) };
                self.load_balancers
                    .entry(uid.clone())
                    .or_default()
                    .remove(&id);
                self.may_delete(&uid)
            }
            Event::Route(event) => self.routes.observe(at, event),
        }
    }

    fn began(
        &mut self,
        at: u64,
        call: u64,
        method: Method,
        caller: Option<i32>,
        keys: Vec<String>,
    ) -> Result<(), String> {
        if method.changes_cloud {
            self.may_change(at, method, caller, &keys)?;
            for uid in &keys {
                let calls = self.calls.entry(uid.clone()).or_default();
                if method == Method::UpdateLoadBalancerNodes {
                    calls.nodes += 1;
                } else {
                    calls.whole += 1;
                    calls.deletions += usize::from(method == Method::DeleteLoadBalancer);
                }
                // A copied manifest may have our finalizer without a load balancer.
                let has_one = self
                    .load_balancers
                    .get(uid)
                    .is_some_and(|ids| !ids.is_empty());
                if method == Method::DeleteLoadBalancer && has_one {
                    self.may_delete(uid)?;
                }
            }
            let overlapped = self.open.iter().filter_map(|(open, other)| {
                let shared = other.keys.iter().find(|key| keys.contains(key));
                let same_writer = other.caller == caller;
                if !other.method.changes_cloud || (shared.is_none() && same_writer) {
                    return None;
                }
                let key = shared.or(keys.first())?;
                let what = format!(
                    "two writers: {method} about {} by process {caller:?} began while {} by process \
                     {:?} was not answered",
                    self.name(key),
                    other.method,
                    other.caller
                );
                Some((*open, (at, what)))
            });
            let overlapped: Vec<_> = overlapped.collect();
            self.overlapped.extend(overlapped);
        }
        let open = Open {
            method,
            caller,
            keys: keys.clone(),
        };
        self.open.insert(call, open);
        self.recent.push_back((at, method, keys));
        self.bounded(at)
    }

    fn may_delete(&self, uid: &str) -> Result<(), String> {
        if self.ledger.is_released(uid) {
            return Ok(());
        }
        Err(format!(
            "the load balancer of {} is deleted though the Service was neither deleted nor given \
             another type",
            self.name(uid)
        ))
    }

    fn may_change(
        &mut self,
        at: u64,
        method: Method,
        caller: Option<i32>,
        keys: &[String],
    ) -> Result<(), String> {
        let Some(caller) = caller else { return Ok(()) };
        self.ledger.wrote(caller);
        let about = keys.first().map_or_else(String::new, |key| self.name(key));
        if let Some(signal) = self.ledger.terminated_at(caller)
            && at > signal + UNDER_WAY
        {
            let after = Duration::from_micros(at - signal);
            return Err(format!(
                "process {caller} began {method} about {about} {after:?} after SIGTERM"
            ));
        }
        if self.writers.last() != Some(&caller) {
            if self.writers.contains(&caller) {
                return Err(format!(
                    "two writers: process {caller} began {method} about {about} though process \
                     {:?} had taken over",
                    self.writers.last()
                ));
            }
            self.writers.push(caller);
        }
        Ok(())
    }

    fn bounded(&mut self, at: u64) -> Result<(), String> {
        while self
            .recent
            .front()
            .is_some_and(|(old, ..)| old + WINDOW < at)
        {
            self.recent.pop_front();
        }
        let bound = |what: &str, count: usize, most: usize| {
            if count <= most {
                return Ok(());
            }
            Err(format!("{count} calls {what} in 10 s, more than {most}"))
        };
        bound("of all methods", self.recent.len(), CALLS)?;
        let handshakes = self.recent.iter();
        let handshakes = handshakes.filter(|(_, method, _)| *method == Method::Handshake);
        bound("of Handshake", handshakes.count(), HANDSHAKES)?;
        let Some((_, method, keys)) = self.recent.back() else {
            return Ok(());
        };
        for key in keys.iter().filter(|_| method.changes_cloud) {
            let about = self.recent.iter();
            let about =
                about.filter(|(_, method, keys)| method.changes_cloud && keys.contains(key));
            let what = format!("that change {}", self.name(key));
            bound(&what, about.count(), CALLS_OF_ONE)?;
        }
        Ok(())
    }

    fn name(&self, key: &str) -> String {
        match self.names.get(key) {
            Some(service) => format!("{service} ({key})"),
            None => key.to_owned(),
        }
    }
}
