//! Users, kubelets and the machines of the cloud: what they do, whatever the controllers do.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use fastrand::Rng;
use outrigger_provider_mock::{
    Cloud,
    instances::{InstanceId, InstanceSpec, Maintenance, Power},
};
use serde_json::{Value, json};

use crate::{
    apiserver::ApiServer,
    certificates::{CertificateRequest, Flaw, PATIENCE, REQUESTS},
    fault::{self, Begin, Occasions},
    host, maintenance,
    story::{ACTS, Act, Story},
    volumes::{self, HANDLES, VOLUMES},
};

/// Services and machines of a run. A round is about one or two of each: what happens to one object at a time matters.
const SERVICES: u32 = 4;
const MACHINES: u32 = 5;
const PERSISTENT_VOLUMES: u32 = 3;

/// The annotation of a Service that selects its targets.
pub const SELECTOR: &str = "outrigger.dev/node-selector";

/// The label of Nodes that [`SELECTORS`] read.
pub const POOL: &str = "pool";

/// The label of a Node that no load balancer sends to.
pub const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Selectors of the targets of a Service. The last one is wrong.
pub const SELECTORS: [&str; 4] = ["pool", "!pool", "pool in (a,b)", "pool in"];

/// How long the control plane waits for a silent kubelet.
const SILENCE: Duration = Duration::from_secs(40);

/// The collection of Nodes.
pub const NODES: &str = "/api/v1/nodes";

/// The collection of the Services of a run.
pub const SERVICES_OF_RUN: &str = "/api/v1/namespaces/default/services";

const PAUSED: &str = "outrigger.dev/paused";

/// All of them.
pub struct People {
    api: ApiServer,
    cloud: Cloud,
    seed: u64,
    /// Things to do, by their time.
    due: BTreeMap<(Duration, u64), Deed>,
    /// Things to do once work is in flight.
    waiting: Vec<(Begin, u64)>,
    /// The objects that this round is about.
    services: Vec<u32>,
    machines: Vec<u32>,
    /// Requests for certificates, the oldest first.
    requests: VecDeque<Requested>,
    number: u64,
}

/// A request for a certificate that was made.
struct Requested {
    at: Duration,
    name: String,
    /// The machine whose kubelet waits for it, by number and ID.
    kubelet: Option<(u32, InstanceId)>,
}

#[derive(Clone, Debug)]
enum Deed {
    /// A part of a story.
    Do(Act),
    /// Something that this random number decides.
    Act(u64),
    Register(u32),
    Silent(u32),
    CreateService(u32, u64),
    EditService(u32, Value),
    Announce(u32, Option<Maintenance>),
}

impl People {
    /// The people of `seed`.
    pub fn new(seed: u64, api: &ApiServer, cloud: &Cloud) -> Self {
        volumes::make(cloud);
        Self {
            api: api.clone(),
            cloud: cloud.clone(),
            seed,
            due: BTreeMap::new(),
            waiting: Vec::new(),
            services: Vec::new(),
            machines: Vec::new(),
            requests: VecDeque::new(),
            number: 0,
        }
    }

    /// Plans what is done in a round that begins at `now`.
    pub fn begin_round(&mut self, round: usize, now: Duration) {
        let (mut random, crowded) = fault::of_round(self.seed, round, 0x9e09);
        let mut some = |all: u32| (0..random.u32(1..3)).map(|_| random.u32(0..all)).collect();
        (self.services, self.machines) = (some(SERVICES), some(MACHINES));
        if round == 0 {
            for number in 0..MACHINES - 1 {
                self.make_machine(&machine_name(number));
                self.plan(now, Deed::Register(number));
            }
            for number in 0..SERVICES - 1 {
                self.plan(now, Deed::CreateService(number, random.u64(..)));
            }
        }
        for _ in 0..random.usize(3..20) {
            let begins = Begin::draw(0.3, crowded, &mut random);
            let chance = random.u64(..);
            match begins.time() {
                Some(time) => self.plan(now + time, Deed::Act(chance)),
                None => self.waiting.push((begins, chance)),
            }
        }
    }

    /// Plans the acts of a story.
    pub fn follow(&mut self, story: &Story) {
        for number in 0..3 {
            self.make_machine(&machine_name(number));
            self.plan(Duration::ZERO, Deed::Register(number));
        }
        for number in 0..2 {
            self.make_service(number);
        }
        for (seconds, act) in story.acts {
            self.plan(ACTS + Duration::from_secs(*seconds), Deed::Do(*act));
        }
    }

    /// Nothing that waits for an occasion comes any more.
    pub fn forget(&mut self) {
        self.waiting.clear();
    }

    /// The time of what is to be done next.
    pub fn next(&self) -> Option<Duration> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn plan(&mut self, at: Duration, deed: Deed) {
        self.number += 1;
        self.due.insert((at, self.number), deed);
    }

    /// Does what is due at `now`, after these `occasions` in the round.
    pub fn act(&mut self, now: Duration, occasions: &Occasions) {
        for (begins, chance) in std::mem::take(&mut self.waiting) {
            match begins {
                Begin::With(occasion, nth, after)
                    if occasions.get(&occasion).is_some_and(|count| *count >= nth) =>
                {
                    self.plan(now + after, Deed::Act(chance));
                }
                _ => self.waiting.push((begins, chance)),
            }
        }
        while let Some(entry) = self.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Deed::Do(act) => act(self, now),
                Deed::Act(chance) => self.decide(now, &mut Rng::with_seed(chance)),
                Deed::Register(number) => self.register(now, number),
                Deed::Silent(number) if self.runs(number) => {}
                Deed::Silent(number) => self.report(number, "Unknown"),
                Deed::CreateService(number, chance) => {
                    self.create_service(number, &mut Rng::with_seed(chance));
                }
                Deed::EditService(number, change) => self.edit_service(number, &change),
                Deed::Announce(number, maintenance) => self.announce(number, maintenance),
            }
        }
        self.end_requests(now);
    }

    fn decide(&mut self, now: Duration, random: &mut Rng) {
        match random.u32(0..11) {
            0..5 => self.change_service(now, random),
            5..9 => self.change_machine(now, random),
            9 => self.ask_wrongly(now, random),
            _ => self.change_volume(random),
        }
    }

    // ---- Services ---------------------------------------------------------------------------

    fn change_service(&mut self, now: Duration, random: &mut Rng) {
        let number = random.choice(&self.services).copied().unwrap_or_default();
        let path = service_path(number);
        let Ok(service) = self.api.get(&path) else {
            self.create_service(number, random);
            return;
        };
        let is_load_balancer = service["spec"]["type"] == "LoadBalancer";
        let change = match random.u32(0..15) {
            0..3 => {
                self.delete_service(number);
                if random.bool() {
                    // Made again as soon as it is gone, or a little later.
                    self.plan(
                        now + soon(random),
                        Deed::CreateService(number, random.u64(..)),
                    );
                }
                return;
            }
            3 | 4 => json!({"spec": {"ports": ports(random)}}),
            5 => {
                json!({"spec": {"loadBalancerSourceRanges": (&["192.0.2.0/24", "198.51.100.0/24"][..random.usize(0..3)])}})
            }
            6 if is_load_balancer => json!({"spec": {
                "type": "ClusterIP", "externalTrafficPolicy": null, "loadBalancerSourceRanges": null,
                "allocateLoadBalancerNodePorts": null, "healthCheckNodePort": null,
            }}),
            6 | 7 if !is_load_balancer => json!({"spec": {"type": "LoadBalancer"}}),
            8 => {
                json!({"metadata": {"annotations": {"mock.example/address-mode": (["ip", "proxy", "hostname"][random.usize(0..3)])}}})
            }
            9 => json!({"metadata": {"labels": {"edited": random.u32(..).to_string()}}}),
            10 => {
                json!({"metadata": {"annotations": {"outrigger.dev/resync": random.u32(..).to_string()}}})
            }
            11 => json!({"metadata": {"annotations": {PAUSED: "true"}}}),
            12 => {
                let selector = SELECTORS.get(random.usize(0..=SELECTORS.len()));
                json!({"metadata": {"annotations": {SELECTOR: selector}}})
            }
            _ if is_load_balancer => json!({"spec": {
                "externalTrafficPolicy": (["Local", "Cluster"][random.usize(0..2)]), "healthCheckNodePort": null,
            }}),
            _ => json!({"metadata": {"labels": {"edited": null}}}),
        };
        // No Service stays paused, and users change their mind.
        let undone = if change["metadata"]["annotations"][PAUSED].is_null() {
            (random.u32(0..3) == 0).then(|| undo(&change, &service))
        } else {
            Some(json!({"metadata": {"annotations": {PAUSED: null}}}))
        };
        if let Some(change) = undone {
            self.plan(now + soon(random), Deed::EditService(number, change));
        }
        self.edit_service(number, &change);
    }

    /// A user deletes a Service.
    pub fn delete_service(&self, number: u32) {
        tracing::info!(service = number, "a user deletes a Service");
        note(self.api.delete(&service_path(number)));
    }

    /// A user edits a Service by a merge patch.
    pub fn edit_service(&self, number: u32, change: &Value) {
        tracing::info!(service = number, %change, "a user edits a Service");
        note(self.api.patch(&service_path(number), change));
    }

    fn create_service(&self, number: u32, random: &mut Rng) {
        let kind = if random.u32(0..5) == 0 {
            "ClusterIP"
        } else {
            "LoadBalancer"
        };
        self.create(number, kind, &ports(random));
    }

    /// A user makes a Service with a load balancer.
    pub fn make_service(&self, number: u32) {
        let ports = json!([{"name": "a", "port": 80, "protocol": "TCP"}]);
        self.create(number, "LoadBalancer", &ports);
    }

    fn create(&self, number: u32, kind: &str, ports: &Value) {
        tracing::info!(service = number, kind, "a user makes a Service");
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": format!("s{number}"), "namespace": "default"},
            "spec": {"type": kind, "ports": ports, "selector": {"app": "web"}},
        });
        note(self.api.create(SERVICES_OF_RUN, &service));
    }

    /// Users give all Services up.
    pub fn leave(&mut self) {
        tracing::info!("users give up all Services");
        for number in 0..SERVICES {
            let path = service_path(number);
            if self.api.get(&path).is_ok() {
                note(self.api.delete(&path));
            }
        }
    }

    /// Another client writes its own address into the status of a Service.
    pub fn overwrite_status(&self, number: u32) {
        tracing::info!(
            service = number,
            "another client writes the status of a Service"
        );
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9", "ipMode": "VIP"}]}}});
        note(
            self.api
                .patch(&format!("{}/status", service_path(number)), &status),
        );
    }

    // ---- Volumes ----------------------------------------------------------------------------

    fn change_volume(&self, random: &mut Rng) {
        let number = random.u32(0..PERSISTENT_VOLUMES);
        let handle = HANDLES[random.usize(0..HANDLES.len())];
        let path = format!("{VOLUMES}/v{number}");
        if self.api.get(&path).is_ok() {
            tracing::info!(volume = number, "a user deletes a volume");
            note(self.api.delete(&path));
        } else {
            self.make_volume(number, handle, random.u32(0..4) == 0);
        }
    }

    /// A user makes a volume, perhaps with the label of a wrong zone.
    pub fn make_volume(&self, number: u32, handle: &str, is_wrong: bool) {
        tracing::info!(volume = number, handle, is_wrong, "a user makes a volume");
        let volume = volumes::object(&format!("v{number}"), handle, is_wrong);
        note(self.api.create(VOLUMES, &volume));
    }

    // ---- Nodes ------------------------------------------------------------------------------

    fn change_machine(&mut self, now: Duration, random: &mut Rng) {
        let number = random.choice(&self.machines).copied().unwrap_or_default();
        let name = machine_name(number);
        let path = format!("{NODES}/{name}");
        let machine = self.cloud.find(&name);
        let node = self.api.get(&path).ok();
        match (machine, random.u32(0..14)) {
            (None, _) if node.is_none() => {
                self.make_machine(&name);
                let boots = Duration::from_millis(random.u64(0..20_000));
                self.plan(now + boots, Deed::Register(number));
            }
            (Some(_), 0) => {
                self.remove_machine(number);
                self.plan(now + SILENCE, Deed::Silent(number));
            }
            (Some(machine), 1 | 2) if machine.power == Power::Running => {
                self.switch(number, Power::Shutdown);
                self.plan(now + SILENCE, Deed::Silent(number));
            }
            (Some(machine), _) if machine.power != Power::Running => {
                self.switch(number, Power::Running);
                self.plan(now + Duration::from_secs(5), Deed::Register(number));
            }
            (Some(_), 3) if node.is_some() => {
                tracing::info!(machine = %name, "a user deletes a Node");
                note(self.api.delete(&path));
                self.plan(now + soon(random), Deed::Register(number));
            }
            // With the same name, and perhaps before anything was done about the one before.
            (Some(_), 7) if node.is_some() => {
                self.replace(number);
                self.plan(now + soon(random), Deed::Register(number));
            }
            (Some(_), 4 | 5) if node.is_some() => {
                self.label(number, EXCLUDED, random.bool().then_some("true"));
            }
            (Some(_), 8) if node.is_some() => {
                let pool = ["a", "b", "c"].get(random.usize(0..4));
                self.label(number, POOL, pool.copied());
            }
            (Some(machine), 9..12) => {
                let due = Duration::from_secs(random.u64(1..120));
                let maintenance = maintenance::draw(due, random);
                // It may be a mistake. Otherwise there is no rest before the taint is due.
                let (after, then) = if random.u32(0..3) == 0 {
                    (soon(random), machine.maintenance.clone())
                } else {
                    (due + Duration::from_secs(1), maintenance.clone())
                };
                self.announce(number, maintenance);
                self.plan(now + after, Deed::Announce(number, then));
            }
            (Some(_), 12) => self.ask_for_certificate(now, number),
            (Some(_), 13) if let Some(node) = &node => {
                let puts = random.bool();
                tracing::info!(machine = %name, puts, "an operator marks a Node");
                let (conditions, taints) = maintenance::marked(node, puts, &time());
                let status = json!({"status": {"conditions": conditions}});
                note(self.api.patch(&format!("{path}/status"), &status));
                note(self.api.patch(&path, &json!({"spec": {"taints": taints}})));
            }
            (Some(_), 6) if node.is_some() => {
                tracing::info!(machine = %name, "a kubelet is silent");
                self.report(number, "Unknown");
                self.plan(now + soon(random), Deed::Register(number));
            }
            // A machine does not come before the Node of the one before has gone.
            _ => {}
        }
    }

    /// A machine comes; its kubelet has not registered yet.
    pub fn boot(&self, number: u32) {
        self.make_machine(&machine_name(number));
    }

    /// A machine goes.
    pub fn remove_machine(&self, number: u32) {
        let name = machine_name(number);
        tracing::info!(machine = %name, "a machine goes");
        let _ = self.cloud.delete(&name);
    }

    /// A machine stops or starts.
    pub fn switch(&self, number: u32, power: Power) {
        let name = machine_name(number);
        tracing::info!(machine = %name, ?power, "a machine is switched");
        let _ = self.cloud.set_power(&name, power);
    }

    /// A user replaces a machine and its Node.
    pub fn replace(&self, number: u32) {
        let name = machine_name(number);
        tracing::info!(machine = %name, "a user replaces a machine and its Node");
        let _ = self.cloud.delete(&name);
        note(self.api.delete(&format!("{NODES}/{name}")));
        self.make_machine(&name);
    }

    /// A user labels a Node.
    pub fn label(&self, number: u32, key: &str, value: Option<&str>) {
        let name = machine_name(number);
        tracing::info!(machine = %name, key, ?value, "a user labels a Node");
        let change = json!({"metadata": {"labels": {key: value}}});
        note(self.api.patch(&format!("{NODES}/{name}"), &change));
    }

    fn make_machine(&self, name: &str) {
        tracing::info!(machine = %name, "a machine comes");
        if let Ok(spec) = name.parse() {
            let _ = self.cloud.create(InstanceSpec::named(spec));
        }
    }

    /// The cloud announces maintenance of a machine, or takes that back.
    pub fn announce(&self, number: u32, maintenance: Option<Maintenance>) {
        let name = machine_name(number);
        tracing::info!(machine = %name, ?maintenance, "the cloud announces maintenance");
        let _ = self.cloud.announce_maintenance(&name, maintenance);
    }

    /// The kubelet of a machine that runs registers its Node, or reports that it is ready.
    pub fn register(&mut self, now: Duration, number: u32) {
        let name = machine_name(number);
        if !self.runs(number) {
            return;
        }
        if self.api.get(&format!("{NODES}/{name}")).is_ok() {
            self.report(number, "True");
            return;
        }
        tracing::info!(machine = %name, "a kubelet registers");
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"taints": [{
                "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule",
            }]},
            "status": {
                "addresses": [{"type": "Hostname", "address": name}],
                "conditions": [ready("True")],
            },
        });
        note(self.api.create(NODES, &node));
        self.ask_for_certificate(now, number);
    }

    fn runs(&self, number: u32) -> bool {
        let machine = self.cloud.find(&machine_name(number));
        machine.is_some_and(|machine| machine.power == Power::Running)
    }

    /// The readiness of a Node changes.
    pub fn report(&self, number: u32, status: &str) {
        let name = machine_name(number);
        let path = format!("{NODES}/{name}");
        let Ok(node) = self.api.get(&path) else {
            return;
        };
        tracing::info!(machine = %name, status, "a Node's readiness changes");
        let mut conditions = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Ready");
        conditions.push(ready(status));
        let change = json!({"status": {"conditions": conditions}});
        note(self.api.patch(&format!("{path}/status"), &change));
    }
}

// ---- Certificates ---------------------------------------------------------------------------

impl People {
    /// The kubelet of a machine asks for its serving certificate, perhaps a stopped one.
    fn ask_for_certificate(&mut self, now: Duration, number: u32) {
        let request = self.certificate_of(number);
        let machine = self.cloud.find(&request.node);
        let kubelet = machine.map(|machine| (number, machine.id.clone()));
        self.ask(now, &request, kubelet);
    }

    /// An attacker with the credentials of a kubelet, perhaps that of a stopped machine, asks for a certificate.
    fn ask_wrongly(&mut self, now: Duration, random: &mut Rng) {
        let number = random.u32(0..MACHINES);
        let others = self.certificate_of((number + 1) % MACHINES).names;
        let mut request = self.certificate_of(number);
        match random.u32(0..8) {
            0 => request.names.extend(others.first().cloned()),
            1 => request.names = others,
            2 => request.names.push("kubernetes.default.svc".to_owned()),
            _ if !self.runs(number) => {}
            3 => request.flaw = Some(Flaw::User),
            4 => request.flaw = Some(Flaw::Subject),
            5 => request.flaw = Some(Flaw::Groups),
            6 => request.flaw = Some(Flaw::Usages),
            _ => request.flaw = Some(Flaw::Lifetime),
        }
        self.ask(now, &request, None);
    }

    /// The right request of the kubelet of a machine.
    fn certificate_of(&self, number: u32) -> CertificateRequest {
        let node = machine_name(number);
        let machine = self.cloud.find(&node);
        let addresses = machine.iter().flat_map(|machine| &machine.addresses);
        let names: Vec<_> = addresses
            .map(|address| address.as_str().to_owned())
            .collect();
        CertificateRequest {
            names: if names.is_empty() {
                vec![node.clone()]
            } else {
                names
            },
            node,
            flaw: None,
        }
    }

    fn ask(
        &mut self,
        at: Duration,
        request: &CertificateRequest,
        kubelet: Option<(u32, InstanceId)>,
    ) {
        self.number += 1;
        let name = format!("csr-{}", self.number);
        tracing::info!(name, ?request, "a client asks for a certificate");
        match request.object(&name) {
            Ok(object) => note(self.api.create(REQUESTS, &object)),
            Err(error) => tracing::error!(%error, "no certificate can have these names"),
        }
        self.requests.push_back(Requested { at, name, kubelet });
    }

    /// Requests that are too old go, and a kubelet that has waited for one makes another.
    fn end_requests(&mut self, now: Duration) {
        while let Some(old) = self.requests.pop_front_if(|one| one.at + PATIENCE <= now) {
            let path = format!("{REQUESTS}/{}", old.name);
            let request = self.api.get(&path).unwrap_or_default();
            note(self.api.delete(&path));
            let is_open = request["status"]["conditions"].is_null();
            let waits = |(number, id): &(u32, InstanceId)| {
                let machine = self.cloud.find(&machine_name(*number));
                is_open && self.runs(*number) && machine.is_some_and(|one| one.id == *id)
            };
            if let Some((number, _)) = old.kubelet.filter(waits) {
                self.ask_for_certificate(now, number);
            }
        }
    }
}

fn machine_name(number: u32) -> String {
    format!("m{number}")
}

fn service_path(number: u32) -> String {
    format!("{SERVICES_OF_RUN}/s{number}")
}

/// From 20 ms to 2 min, mostly short.
fn soon(random: &mut Rng) -> Duration {
    Duration::from_millis((20.0 * 6000_f64.powf(random.f64())) as u64)
}

/// The change that brings back what `change` has replaced in `object`.
fn undo(change: &Value, object: &Value) -> Value {
    match change {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, change)| (name.clone(), undo(change, &object[name])))
            .collect(),
        _ => object.clone(),
    }
}

/// A request that is refused changes nothing.
fn note(answer: Result<Value, Value>) {
    if let Err(status) = answer {
        tracing::info!(error = %status["message"], "the API server refuses");
    }
}

fn ports(random: &mut Rng) -> Value {
    let first = random.u32(1..100);
    let protocol = ["TCP", "UDP"][random.usize(0..2)];
    let ports = [
        json!({"name": "a", "port": first, "protocol": "TCP"}),
        json!({"name": "b", "port": first + 1, "protocol": protocol}),
    ];
    json!(ports[..random.usize(1..3)])
}

fn ready(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "lastTransitionTime": time(), "reason": "Simulated", "message": ""})
}

fn time() -> String {
    host::true_time().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
