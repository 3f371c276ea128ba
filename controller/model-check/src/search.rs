//! The search: every state that a model reaches, breadth first, so that the first fault has the shortest way.

use std::{
    collections::HashSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

/// More steps without a fault, one after the other, are no way to rest.
const LONGEST_REST: usize = 400;

/// States, and the steps from each.
pub(crate) trait Model {
    type State: Clone + Hash;

    /// The states that the search begins with.
    fn begin(&self) -> Vec<Self::State>;

    /// Calls `add` with each step that is possible in `state`, in words, and the state after it. Progress comes before
    /// faults, and what is to come first when nothing fails comes first.
    fn steps(&self, state: &Self::State, add: &mut Add<'_, Self::State>);

    /// The promise that `state` breaks.
    fn violation(&self, state: &Self::State) -> Option<&'static str>;

    /// `state` with no fault left to come.
    fn calm(&self, state: &Self::State) -> Self::State;

    /// The fact that is missing in `state`, where nothing happens any more.
    fn missing(&self, state: &Self::State) -> Option<&'static str>;
}

/// Takes one step of a state.
pub(crate) type Add<'a, S> = dyn FnMut(fmt::Arguments<'_>, S) + 'a;

/// The result of a search.
#[derive(Debug)]
pub struct Report {
    /// Name of the model.
    pub model: &'static str,
    /// Different states.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// Different states without further faults on the ways to rest.
    pub resting: usize,
    /// Steps of the longest way that was looked at.
    pub depth: usize,
    /// True if there is no other state.
    pub is_complete: bool,
    /// How long it took.
    pub took: Duration,
    /// The first fault.
    pub fault: Option<Counterexample>,
}

/// A fault, and the steps that lead to it.
#[derive(Debug)]
pub struct Counterexample {
    /// The promise that is broken.
    pub what: &'static str,
    /// In words.
    pub steps: Vec<String>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    fingerprints: HashSet<u64>,
    /// How each state was reached: from which one, and by which of its steps.
    ways: Vec<(u32, u32)>,
    /// States without further faults that come to rest as they should.
    resting: HashSet<u64>,
}

/// Searches the states of `model`, until `limit` of them have been looked at.
pub(crate) fn search<M: Model>(name: &'static str, model: &M, limit: usize) -> Report {
    #[expect(
        clippy::disallowed_methods,
        reason = "it measures a search, which has no runtime"
    )]
    let began = Instant::now();
    let mut search = Search {
        model,
        fingerprints: HashSet::new(),
        ways: Vec::new(),
        resting: HashSet::new(),
    };
    let mut report = search.run(limit);
    report.model = name;
    report.took = began.elapsed();
    report
}

impl<M: Model> Search<'_, M> {
    fn run(&mut self, limit: usize) -> Report {
        let mut report = Report {
            model: "",
            states: 0,
            steps: 0,
            resting: 0,
            depth: 0,
            is_complete: true,
            took: Duration::ZERO,
            fault: None,
        };
        let mut layer = Vec::new();
        for (nth, state) in self.model.begin().into_iter().enumerate() {
            self.fingerprints.insert(fingerprint(&state));
            self.ways.push((u32::MAX, nth as u32));
            layer.push((nth as u32, state));
        }
        'search: while !layer.is_empty() {
            let mut next = Vec::new();
            for (at, state) in layer {
                if let Some(fault) = self.fault(at, &state) {
                    report.fault = Some(fault);
                    break 'search;
                }
                let mut nth = 0;
                self.model.steps(&state, &mut |_, after| {
                    if self.fingerprints.insert(fingerprint(&after)) {
                        next.push((self.ways.len() as u32, after));
                        self.ways.push((at, nth));
                    }
                    nth += 1;
                });
                report.steps += nth as usize;
                if self.fingerprints.len() >= limit {
                    report.is_complete = false;
                    break 'search;
                }
            }
            report.depth += 1;
            layer = next;
        }
        report.states = self.fingerprints.len();
        report.resting = self.resting.len();
        report
    }

    fn fault(&mut self, at: u32, state: &M::State) -> Option<Counterexample> {
        let (what, rest) = match self.model.violation(state) {
            Some(what) => (what, 0),
            None => self.rest(state).err()?,
        };
        let mut steps = self.way_to(at);
        if rest > 0 {
            steps.push("-- no fault from here on --".to_owned());
            steps.extend(self.words_of_rest(self.model.calm(state), rest));
        }
        Some(Counterexample { what, steps })
    }

    /// Without a further fault, what is wanted is reached from `state`, and then nothing happens any more.
    ///
    /// # Errors
    /// The broken rule, and after how many steps.
    fn rest(&mut self, state: &M::State) -> Result<(), (&'static str, usize)> {
        let mut state = self.model.calm(state);
        let mut way = Vec::new();
        loop {
            let at = fingerprint(&state);
            if self.resting.contains(&at) {
                break;
            }
            way.push(at);
            if let Some(what) = self.model.violation(&state) {
                return Err((what, way.len()));
            }
            if way.len() > LONGEST_REST {
                return Err(("it does not come to rest", way.len()));
            }
            match self.progress(&state) {
                Some((_, after)) => state = after,
                None => match self.model.missing(&state) {
                    Some(what) => return Err((what, way.len())),
                    None => break,
                },
            }
        }
        self.resting.extend(way);
        Ok(())
    }

    /// The first step that changes something, by its number.
    fn progress(&self, state: &M::State) -> Option<(u32, M::State)> {
        let before = fingerprint(state);
        let (mut first, mut nth) = (None, 0);
        self.model.steps(state, &mut |_, after| {
            if first.is_none() && fingerprint(&after) != before {
                first = Some((nth, after));
            }
            nth += 1;
        });
        first
    }

    fn words_of_rest(&self, mut state: M::State, steps: usize) -> Vec<String> {
        const SHOWN: usize = 40;
        let mut words = Vec::new();
        while words.len() < steps.min(SHOWN)
            && let Some((nth, _)) = self.progress(&state)
        {
            let (said, after) = self.step(&state, nth);
            words.push(said);
            state = after;
        }
        words
    }

    fn way_to(&self, mut at: u32) -> Vec<String> {
        let mut numbers = Vec::new();
        while let Some(&(before, nth)) = self.ways.get(at as usize) {
            numbers.push(nth);
            at = before;
        }
        let begin = numbers.pop().unwrap_or_default();
        let mut state = self.model.begin().swap_remove(begin as usize);
        let mut words = vec![format!("begin in state {begin}")];
        for nth in numbers.into_iter().rev() {
            let (said, after) = self.step(&state, nth);
            words.push(said);
            state = after;
        }
        words
    }

    fn step(&self, state: &M::State, number: u32) -> (String, M::State) {
        let (mut step, mut nth) = (None, 0);
        self.model.steps(state, &mut |words, after| {
            if nth == number {
                step = Some((words.to_string(), after));
            }
            nth += 1;
        });
        step.expect("a state has the same steps each time")
    }
}

fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{:<10} {:>9} states, {:>9} steps, {:>9} at rest, depth {:>2}, {seconds:.1} s, {:.0} states/s, {}",
            self.model,
            self.states,
            self.steps,
            self.resting,
            self.depth,
            self.states as f64 / seconds,
            if self.fault.is_some() {
                "FAULT"
            } else if self.is_complete {
                "all"
            } else {
                "not all"
            },
        )?;
        let Some(fault) = &self.fault else {
            return Ok(());
        };
        write!(f, "\n  {}:", fault.what)?;
        for (nth, step) in fault.steps.iter().enumerate() {
            write!(f, "\n  {nth:>3} {step}")?;
        }
        Ok(())
    }
}
