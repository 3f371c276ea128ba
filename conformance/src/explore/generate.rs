//! Traces by chance: equal for equal seeds, worlds and numbers of steps.

use fastrand::Rng;

use super::{
    desired::{Desired, Spec, first_node_port},
    trace::{Change, Fault, Field, Mark, Name, Port, Step, Target, Trace, Turn, WORDS},
    world::{SERVICES, World},
};

/// Ports of load balancers.
const PORTS: [i32; 5] = [80, 443, 8080, 53, 8443];
/// Milliseconds after which a fault comes.
const MOMENTS: [u64; 7] = [0, 1, 2, 5, 10, 20, 50];
/// Node ports of health checks of one Service.
const HEALTH_CHECKS: i32 = 3;
const FIRST_HEALTH_CHECK: i32 = 1_100;
/// Changes of ports that are tried: some change nothing, or make what Kubernetes refuses.
const ATTEMPTS: usize = 8;
/// Words of fields, some more often than others.
const FIELDS: [&str; 8] = [
    "ports",
    "ports",
    "ports",
    "policy",
    "affinity",
    "families",
    "ranges",
    "annotations",
];
/// Percent of the words that a trace does not have.
const LEFT_OUT: u32 = 40;
const AFFINITIES: [Option<i64>; 3] = [None, Some(10_800), Some(600)];

/// The trace of a seed.
pub(super) fn trace(seed: u64, world: &World, turns: usize) -> Trace {
    let mut rng = Rng::with_seed(seed);
    let world = part(world, &mut rng);
    let mut generator = Generator {
        rng,
        world: &world,
        desired: Desired::new(&world),
    };
    let mut turns: Vec<_> = (1..turns).map(|_| generator.turn()).collect();
    turns.push(generator.last_turn());
    Trace(turns)
}

/// A world of fewer Services and words: traces of few kinds of steps have more changes that undo one another than
/// traces in which everything may come.
fn part(world: &World, rng: &mut Rng) -> World {
    let mut part = world.clone();
    part.names.truncate(rng.usize(1..=SERVICES));
    // A provider of routes alone has nothing else that changes.
    let least = if world.names.is_empty() { "route" } else { "" };
    for word in WORDS {
        if word != least && rng.u32(0..100) < LEFT_OUT {
            part.without.insert(word.to_owned());
        }
    }
    part
}

struct Generator<'a> {
    rng: Rng,
    world: &'a World,
    desired: Desired,
}

impl Generator<'_> {
    /// True in so many of a hundred cases.
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        self.rng.choice(all).cloned()
    }

    fn turn(&mut self) -> Turn {
        let mut steps = vec![self.step()];
        if self.world.has("together") && self.chance(20) {
            for _ in 0..self.rng.usize(1..=2) {
                let step = self.step();
                if self.may_join(&steps, &step) {
                    steps.push(step);
                }
            }
        }
        for step in &steps {
            self.desired.apply(&step.change, self.world);
        }
        Turn(steps)
    }

    /// All Services are deleted together, as with their namespace, or any turn.
    fn last_turn(&mut self) -> Turn {
        let names: Vec<_> = self.desired.balanced().map(|(name, _)| name).collect();
        let may = ["together", "delete"]
            .iter()
            .all(|word| self.world.has(word));
        if names.len() < 2 || !may || !self.world.balancers_together || !self.chance(30) {
            return self.turn();
        }
        let delete = |name| Step {
            change: Change::Delete(name),
            fault: None,
        };
        Turn(names.into_iter().map(delete).collect())
    }

    fn may_join(&self, steps: &[Step], step: &Step) -> bool {
        let is_route = |step: &Step| step.change.key().starts_with("route");
        steps.iter().all(|other| {
            let keys = [&step.change, &other.change].map(Change::key);
            let is_kill = |step: &Step| matches!(step.fault, Some(Fault::Kill(_)));
            let may_overlap = match [step, other].map(is_route) {
                [true, true] => self.world.routes_together,
                [false, false] => self.world.balancers_together,
                _ => true,
            };
            may_overlap
                && keys[0] != keys[1]
                && keys.iter().all(|key| !key.is_empty())
                && !is_kill(step)
                && !is_kill(other)
        })
    }

    fn step(&mut self) -> Step {
        let change = self.change();
        let is_call = !matches!(
            change,
            Change::Restart | Change::Wait(_) | Change::Blackhole(_)
        );
        let fault = if is_call && self.chance(25) {
            self.fault()
        } else {
            None
        };
        Step { change, fault }
    }

    fn fault(&mut self) -> Option<Fault> {
        let moment = self.pick(&MOMENTS).unwrap_or_default();
        let mut faults = vec![
            ("cut", Fault::Cut(moment)),
            ("deadline", Fault::Deadline(moment.max(1))),
            ("twice", Fault::Twice),
            ("again", Fault::Again),
            ("once", Fault::Once),
            ("drop", Fault::Drop(moment)),
            ("kill", Fault::Kill(moment)),
        ];
        faults.retain(|(word, _)| self.world.has(word));
        self.pick(&faults).map(|(_, fault)| fault)
    }

    fn change(&mut self) -> Change {
        let world = self.world;
        let offered = [
            (60, "ports", !world.names.is_empty()),
            (15, "nodes", !world.names.is_empty()),
            (20, "route", world.routes > 0),
            (4, "blackhole", world.routes > 0 && world.has("route")),
            (3, "restart", true),
            (2, "wait", true),
        ];
        let offered = offered
            .into_iter()
            .filter(|(_, word, is_there)| *is_there && (*word == "ports" || world.has(word)));
        let offered: Vec<_> = offered.collect();
        let sum = offered.iter().map(|(weight, ..)| weight).sum();
        let mut at: u32 = self.rng.u32(0..sum);
        let chosen = offered.iter().find(|(weight, ..)| {
            let is_chosen = at < *weight;
            at = at.saturating_sub(*weight);
            is_chosen
        });
        match chosen.map(|(_, word, _)| *word) {
            Some("ports") => self.service(),
            Some("nodes") => Change::Nodes(self.targets()),
            Some("route") => self.route(),
            Some("blackhole") => Change::Blackhole(self.rng.usize(0..world.routes)),
            Some("restart") => Change::Restart,
            _ => Change::Wait(self.pick(&[20, 100]).unwrap_or_default()),
        }
    }

    fn route(&mut self) -> Change {
        let number = self.rng.usize(0..self.world.routes);
        let may_go = self.world.has("delete") && self.desired.routes.contains_key(&number);
        if may_go && self.chance(35) {
            return Change::NoRoute(number);
        }
        let nodes = &self.world.nodes;
        Change::Route(number, self.pick(nodes).unwrap_or_default())
    }

    fn targets(&mut self) -> Vec<Target> {
        let nodes = &self.world.nodes;
        let mut targets = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            if self.chance(35) {
                continue;
            }
            let mark = match self.rng.u32(0..10) {
                0 | 1 => Some(Mark::Moved),
                2 => Some(Mark::New),
                // The next machine is then no target of its own.
                3 if index + 1 < nodes.len() => Some(Mark::Replaced),
                _ => None,
            };
            let target = Target {
                node: node.clone(),
                mark,
            };
            targets.push(target);
            if mark == Some(Mark::Replaced) {
                break;
            }
        }
        targets
    }

    fn service(&mut self) -> Change {
        let name = self.pick(&self.world.names).unwrap_or(Name('a'));
        let present = self.desired.services.get(&name).cloned();
        if present.is_some() && self.world.has("delete") && self.chance(20) {
            return Change::Delete(name);
        }
        let is_new = present.is_none();
        let spec = present.unwrap_or_else(|| Spec::new(name, self.world));
        let mut fields = Vec::new();
        if !spec.balanced {
            // It returns, mostly.
            if self.chance(80) {
                fields.push(Field::Balanced(true));
            }
        } else if self.world.has("type") && !is_new && self.chance(10) {
            return Change::Service(name, vec![Field::Balanced(false)]);
        }
        // Kubernetes keeps the class of a Service with a load balancer.
        if (is_new || !spec.balanced) && self.world.has("class") && self.chance(30) {
            fields.extend(self.pick(&self.world.classes).map(Field::Class));
        }
        let count = if is_new {
            self.rng.usize(0..=2)
        } else {
            self.rng.usize(1..=2)
        };
        for _ in 0..count {
            let field = self.field(name, &spec);
            let is_new = |field: &Field| {
                let same =
                    |one: &Field| std::mem::discriminant(one) == std::mem::discriminant(field);
                !fields.iter().any(same)
            };
            fields.extend(field.filter(is_new));
        }
        Change::Service(name, fields)
    }

    fn field(&mut self, name: Name, spec: &Spec) -> Option<Field> {
        let world = self.world;
        if self.chance(40)
            && let Some(field) = self.pick(&taken_back(name, spec, world))
        {
            return Some(field);
        }
        let words = FIELDS.iter().filter(|word| world.has(word));
        let word = self.pick(&words.collect::<Vec<_>>())?;
        match *word {
            "ports" => Some(Field::Ports(self.ports(name, spec))),
            "policy" if spec.local.is_some() && self.chance(50) => Some(Field::Local(None)),
            "policy" => {
                let first = first_node_port(name) + FIRST_HEALTH_CHECK;
                Some(Field::Local(Some(first + self.rng.i32(0..HEALTH_CHECKS))))
            }
            "affinity" => Some(Field::Affinity(self.pick(&AFFINITIES).flatten())),
            "families" => self.families().map(Field::Families),
            "ranges" => Some(Field::Ranges(self.ranges())),
            "annotations" if world.annotations > 0 => {
                Some(Field::Annotations(self.rng.usize(0..=world.annotations)))
            }
            _ => None,
        }
    }

    fn families(&mut self) -> Option<Vec<String>> {
        let [first, second] = &*self.world.families else {
            return None;
        };
        let choices = [
            vec![first],
            vec![second],
            vec![first, second],
            vec![second, first],
        ];
        let chosen = self.pick(&choices)?;
        Some(chosen.into_iter().cloned().collect())
    }

    fn ranges(&mut self) -> Vec<String> {
        let choices: [&[&str]; 4] = [
            &[],
            &["192.0.2.0/24"],
            &["198.51.100.0/24"],
            &["192.0.2.0/24", "198.51.100.0/24"],
        ];
        let chosen = self.pick(&choices).unwrap_or_default();
        chosen.iter().map(|one| (*one).to_owned()).collect()
    }

    /// One change or more of the ports that a Service has.
    fn ports(&mut self, name: Name, spec: &Spec) -> Vec<Port> {
        let mut ports = spec.ports.clone();
        for _ in 0..ATTEMPTS {
            let mut changed = ports.clone();
            self.change_ports(name, &mut changed);
            if changed == ports || !is_legal(&changed) {
                continue;
            }
            ports = changed;
            if self.chance(60) {
                break;
            }
        }
        ports
    }

    fn change_ports(&mut self, name: Name, ports: &mut Vec<Port>) {
        let index = self.rng.usize(0..ports.len());
        let node_port = first_node_port(name) + self.rng.i32(0..10);
        let number = self.pick(&PORTS).unwrap_or(80);
        let protocol = self.pick(&self.world.protocols).unwrap_or_default();
        match self.rng.u32(0..12) {
            0..=2 => ports.push(Port::new(&protocol, number, node_port)),
            3 | 4 if ports.len() > 1 => {
                ports.remove(index);
            }
            5 => ports[index].port = number,
            6 => ports[index].node_port = node_port,
            7 => ports[index].protocol = protocol,
            8 => {
                // Both protocols on one port, with one node port or two.
                let mut both = ports[index].clone();
                both.protocol = protocol;
                both.name = None;
                if self.chance(50) {
                    both.node_port = node_port;
                }
                ports.push(both);
            }
            9 | 10 => {
                // Never itself, where there is another one.
                let other = (index + 1) % ports.len();
                let node_ports = (ports[index].node_port, ports[other].node_port);
                ports[other].node_port = node_ports.0;
                ports[index].node_port = node_ports.1;
            }
            11 => match self.rng.u32(0..3) {
                0 => {
                    let targets = [None, Some("9090".to_owned())];
                    ports[index].target_port = self.pick(&targets).flatten();
                }
                1 => ports[index].name = self.pick(&[None, Some("web".to_owned())]).flatten(),
                _ => ports.reverse(),
            },
            _ => {}
        }
    }
}

/// The changes that give one field the value of a new Service again.
fn taken_back(name: Name, spec: &Spec, world: &World) -> Vec<Field> {
    let new = Spec::new(name, world).fields().into_iter();
    let both = new.zip(spec.fields());
    let changed = both.filter(|((word, new), (_, now))| new != now && world.has(word));
    changed.map(|((_, new), _)| new).collect()
}

/// Kubernetes takes these ports: no port, node port or name comes twice.
fn is_legal(ports: &[Port]) -> bool {
    let is_twice = |of: fn(&Port) -> String| {
        let mut values: Vec<_> = ports.iter().map(of).collect();
        values.sort_unstable();
        values.windows(2).any(|pair| pair[0] == pair[1])
    };
    !is_twice(|one| format!("{} {}", one.protocol, one.port))
        && !is_twice(|one| format!("{} {}", one.protocol, one.node_port))
        && !is_twice(|one| one.of_service().name)
}
