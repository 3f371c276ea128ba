//! Traces by chance, as a state machine of proptest: the changes that may come next follow from the desired state.
//!
//! A value shrinks to that of a plain Service, or to nothing; a choice between kinds of steps does not shrink to another kind.

use std::{iter, sync::Arc};

use proptest::{
    bool::weighted, collection, prelude::*, sample::select, sample::subsequence, strategy::Union,
};
use proptest_state_machine::Sequential;

use super::{
    trace::{Change, Fault, Port, Spec, Step, Target, Turn, WORDS},
    world::{Desired, World, first_node_port, first_port},
};

/// Milliseconds after which a fault comes.
const MOMENTS: [u64; 7] = [0, 1, 2, 5, 10, 20, 50];
/// Words of fields: ports change most often.
const FIELDS: &str = "ports ports ports policy affinity families ranges annotations";
/// The share of the words that a trace does not have.
const LEFT_OUT: f64 = 0.4;
/// From a node port of a Service to those of its health checks.
const HEALTH_CHECKS: i32 = 1_100;

/// The desired state, in the part of a world that a trace has.
#[derive(Clone, Debug)]
pub(super) struct TraceModel {
    world: Arc<World>,
    desired: Desired,
}

type Boxed<T> = BoxedStrategy<T>;

/// Traces of so many turns.
pub(super) fn traces(
    world: &Arc<World>,
    turns: usize,
) -> Sequential<TraceModel, Turn, Boxed<TraceModel>, Boxed<Turn>> {
    let world = Arc::clone(world);
    let next = |mut model: TraceModel, turn: &Turn| {
        for step in &turn.0 {
            model.desired.apply(&step.change);
        }
        model
    };
    let first = move || part_of(&world);
    Sequential::new(turns.into(), first, |_, _| true, TraceModel::turn, next)
}

/// Some Services and words of a world: traces of few kinds of steps have more changes that undo one another than traces in
/// which everything may come.
fn part_of(world: &Arc<World>) -> Boxed<TraceModel> {
    let world = Arc::clone(world);
    let words: Vec<_> = WORDS.split(' ').collect();
    let most = world.names.len();
    let left_out = collection::vec(weighted(LEFT_OUT), words.len());
    let model = move |(count, left_out): (usize, Vec<bool>)| {
        let mut part = World::clone(&world);
        part.names.truncate(count);
        let left_out = words.iter().zip(left_out).filter(|(_, is_out)| *is_out);
        let left_out = left_out.map(|(word, _)| (*word).to_owned());
        part.without.extend(left_out);
        let desired = Desired::new(&part);
        let world = Arc::new(part);
        TraceModel { world, desired }
    };
    (1..=most, left_out).prop_map(model).no_shrink().boxed()
}

/// One of these, each as often as its weight says.
fn choice<T: std::fmt::Debug + 'static>(options: Vec<(u32, Boxed<T>)>) -> Boxed<T> {
    let numbers = options.iter().enumerate();
    let numbers = numbers.map(|(number, (weight, _))| (*weight, Just(number)));
    let number = Union::new_weighted(numbers.collect()).no_shrink();
    number
        .prop_flat_map(move |number| options[number].1.clone())
        .boxed()
}

/// One of these, which does not shrink to another one.
fn any_of<T: Clone + std::fmt::Debug + 'static>(values: Vec<T>) -> Boxed<T> {
    select(values).no_shrink().boxed()
}

/// A value that shrinks to the default of its type.
fn or_default<T: Default + std::fmt::Debug + 'static>(value: Boxed<T>) -> Boxed<T> {
    let kept = |(is_kept, value): (bool, T)| if is_kept { value } else { T::default() };
    (weighted(1.0), value).prop_map(kept).boxed()
}

impl TraceModel {
    fn has(&self, word: &str) -> bool {
        self.world.has(word)
    }

    fn turn(&self) -> Boxed<Turn> {
        let step = self.step();
        let mut options = vec![(16, step.clone().prop_map(|step| Turn(vec![step])).boxed())];
        if self.has("together") {
            let steps = collection::vec(step, 1..=3);
            options.push((4, steps.prop_map(joined).boxed()));
        }
        // Several Services are deleted, as with their namespace.
        let services = self.desired.services.keys();
        let delete = services.map(|name| Step {
            change: Change::Delete(*name),
            fault: None,
        });
        let all: Vec<_> = delete.collect();
        if self.has("together") && self.has("delete") && all.len() > 1 {
            let most = all.len();
            options.push((5, subsequence(all, 1..=most).prop_map(Turn).boxed()));
        }
        choice(options)
    }

    fn step(&self) -> Boxed<Step> {
        let fault = or_default(self.fault());
        let step = |(fault, change): (Option<Fault>, Change)| {
            // The calls about targets are several.
            let is_single = !matches!(change, Change::Nodes(_));
            let fault = fault.filter(|fault| is_single || !matches!(fault, Fault::Kill(_)));
            Step { change, fault }
        };
        (fault, self.change()).prop_map(step).boxed()
    }

    fn fault(&self) -> Boxed<Option<Fault>> {
        let none = Just(None).boxed();
        let mut options = vec![
            ("cut", Fault::Cut as fn(u64) -> Fault),
            ("deadline", |time: u64| Fault::Deadline(time.max(1))),
            ("twice", |_| Fault::Twice),
            ("once", |_| Fault::Once),
            ("kill", Fault::Kill),
        ];
        options.retain(|(word, _)| self.has(word));
        if options.is_empty() {
            return none;
        }
        let makes: Vec<_> = options.into_iter().map(|(_, make)| make).collect();
        let made =
            (any_of(makes), any_of(MOMENTS.to_vec())).prop_map(|(make, time)| Some(make(time)));
        choice(vec![(3, none), (1, made.boxed())])
    }

    fn change(&self) -> Boxed<Change> {
        let services = self.world.names.iter();
        let services = services.map(|name| (1, self.service(*name)));
        let mut options = vec![(60, choice(services.collect()))];
        if self.has("nodes") {
            options.push((15, self.targets().prop_map(Change::Nodes).boxed()));
        }
        choice(options)
    }

    fn targets(&self) -> Boxed<Vec<Target>> {
        let nodes = self.world.nodes.clone();
        let marks = collection::vec((weighted(0.65), weighted(0.3)), nodes.len());
        let targets = move |marks: Vec<(bool, bool)>| {
            let all = nodes.iter().cloned().zip(marks);
            let all = all.filter(|(_, (is_target, _))| *is_target);
            all.map(|(node, (_, is_moved))| Target { node, is_moved })
                .collect()
        };
        marks.prop_map(targets).boxed()
    }

    fn service(&self, name: char) -> Boxed<Change> {
        let Some(present) = self.desired.services.get(&name) else {
            return self.spec(name, Spec::default(), 0);
        };
        let spec = self.spec(name, present.clone().unwrap_or_default(), 1);
        let mut options = vec![(70, spec)];
        if self.has("delete") {
            options.push((20, Just(Change::Delete(name)).boxed()));
        }
        if present.is_some() && self.has("type") {
            options.push((10, Just(Change::ClusterIp(name)).boxed()));
        }
        choice(options)
    }

    /// The Service with at most two other fields than it has, and at least so many.
    fn spec(&self, name: char, present: Spec, least: usize) -> Boxed<Change> {
        let words: Vec<_> = FIELDS.split(' ').filter(|word| self.has(word)).collect();
        let most = words.len().min(2);
        let model = self.clone();
        subsequence(words, least.min(most)..=most)
            .no_shrink()
            .prop_flat_map(move |words| model.fields(name, &present, &words))
            .prop_map(move |spec| Change::Service(name, spec))
            .boxed()
    }

    /// The fields of these words have other values than they have, mostly.
    fn fields(&self, name: char, present: &Spec, words: &[&str]) -> Boxed<Spec> {
        fn field<T>(is_new: bool, value: Boxed<T>, present: &T) -> Boxed<T>
        where
            T: Clone + Default + std::fmt::Debug + 'static,
        {
            let kept = Just(present.clone()).boxed();
            or_default(if is_new { value } else { kept })
        }
        let check = first_node_port(name) + HEALTH_CHECKS;
        let policies = any_of(vec![None, Some(check), Some(check + 1)]);
        let affinities = any_of(vec![None, Some(10_800), Some(600)]);
        let families = match &*self.world.families {
            [first, second] => vec![
                vec![],
                vec![second.clone()],
                vec![first.clone(), second.clone()],
                vec![second.clone(), first.clone()],
            ],
            _ => vec![vec![]],
        };
        let ranges = ["192.0.2.0/24", "198.51.100.0/24"]
            .map(str::to_owned)
            .to_vec();
        let sets = self.world.annotations.iter().cloned();
        let sets = any_of(iter::once(String::new()).chain(sets).collect());
        let is_new = |word| words.contains(&word);
        (
            field(is_new("ports"), self.ports(name, present), &present.ports),
            field(is_new("policy"), policies, &present.local),
            field(is_new("affinity"), affinities, &present.affinity),
            field(is_new("families"), any_of(families), &present.families),
            field(
                is_new("ranges"),
                subsequence(ranges, 0..=2).boxed(),
                &present.ranges,
            ),
            field(is_new("annotations"), sets, &present.annotations),
        )
            .prop_map(
                |(ports, local, affinity, families, ranges, annotations)| Spec {
                    ports,
                    local,
                    affinity,
                    families,
                    ranges,
                    annotations,
                },
            )
            .boxed()
    }

    /// Few different ports, so that protocols share a number. Where they are those of before, node ports move between them.
    fn ports(&self, name: char, present: &Spec) -> Boxed<Vec<Port>> {
        let (numbers, second) = match &self.world.second_protocol {
            Some(second) => ([80, 80, 443, 8443], second.as_str()),
            None => ([80, 8080, 443, 8443], "TCP"),
        };
        let all = (0..).zip(numbers).map(|(index, port)| Port {
            protocol: if index % 2 == 0 { "TCP" } else { second }.to_owned(),
            port,
            node_port: index,
        });
        let some = subsequence(all.collect::<Vec<Port>>(), 1..=3);
        // Node ports as ever, those of neighbours swapped, and others.
        let moves = any_of(vec![0, 1, 4]);
        let present = present.ports_of(name);
        (some, moves)
            .prop_map(move |(mut ports, moved)| {
                for port in &mut ports {
                    port.node_port = first_node_port(name) + (port.node_port ^ moved);
                }
                let number = |port: &Port| (port.protocol.clone(), port.port);
                if ports.iter().map(number).eq(present.iter().map(number)) {
                    let before = present.iter().cycle().skip(1);
                    for (port, before) in ports.iter_mut().zip(before) {
                        port.node_port = before.node_port;
                    }
                }
                if ports == [first_port(name)] {
                    Vec::new()
                } else {
                    ports
                }
            })
            .boxed()
    }
}

/// The steps that can be made together with the first one.
fn joined(steps: Vec<Step>) -> Turn {
    let mut turn = Turn(Vec::new());
    for step in steps {
        let may_join = turn.0.iter().all(|other| {
            let keys = [&step.change, &other.change].map(Change::key);
            let kills = [&step, other].map(|one| matches!(one.fault, Some(Fault::Kill(_))));
            keys[0] != keys[1] && !keys.contains(&None) && kills == [false; 2]
        });
        if may_join {
            turn.0.push(step);
        }
    }
    turn
}
