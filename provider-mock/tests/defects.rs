//! The conformance suite against each defect: its cases fail by it, and no other does; `explore` finds those of transitions.
//!
//! A run has the areas of cases that the defect concerns. The whole suite for each defect takes minutes:
//! `cargo test --package outrigger-provider-mock --features defects --test defects -- --ignored`. `DEFECTS=NAME,NAME` chooses some.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use outrigger_conformance::cases;
use outrigger_conformance::explore::{Plan, Trace, explore};
use outrigger_conformance::inputs::Inputs;
use outrigger_conformance::report::{self, Report};
use outrigger_conformance::run::{Settings, run};
use outrigger_conformance::waivers::Waivers;
use outrigger_provider_mock::defects::{self, DEFECT_ENV, Defect};
use outrigger_provider_mock::faults::Method;
use outrigger_provider_sdk::Endpoint;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/examples/");

/// Cases that measure time or wait long: run only where the defect names them.
const TIMED: [&str; 2] = ["NDS-09", "RES-23"];

/// A case that the load of other runs may turn red.
const LATENCY: &str = "NDS-09";

/// The turns of a trace that explores, and the most of the smallest one that is left of it.
const STEPS: usize = 8;
const SMALLEST: usize = 4;

fn area(case: &str) -> &str {
    case.split('-').next().unwrap_or_default()
}

fn areas(method: Method) -> &'static [&'static str] {
    match method.service {
        "ProviderService" => &["TRN", "IDN"],
        "InstancesService" => &["INS"],
        "NodeSetsService" => &["NDS"],
        "RoutesService" => &["RTE"],
        "VolumesService" => &["VOL"],
        _ => &["LBS"],
    }
}

/// The cases of the areas that a defect concerns.
fn concerned(defect: &Defect) -> Vec<String> {
    let mut concerned: BTreeSet<&str> = defect.methods().flat_map(areas).copied().collect();
    concerned.extend(defect.cases.iter().map(|case| area(case)));
    let all = cases::all().into_iter().map(|case| case.id);
    let chosen = all.filter(|id| {
        concerned.contains(area(id)) && (!TIMED.contains(id) || defect.cases.contains(id))
    });
    chosen.map(str::to_owned).collect()
}

/// The inputs of the documents, for the programs of this build.
fn inputs(folder: &Path, defect: &str) -> Inputs {
    let text = std::fs::read_to_string(Path::new(EXAMPLES).join("mock.yaml")).unwrap();
    let text = text
        .replace(
            "provider-mock",
            env!("CARGO_BIN_EXE_defective-provider-mock"),
        )
        .replace("conformance/examples/", EXAMPLES);
    let path = folder.join("inputs.yaml");
    std::fs::write(&path, text).unwrap();
    let mut inputs = Inputs::read(&path).unwrap();
    let env = &mut inputs.provider.env;
    env.insert(DEFECT_ENV.to_owned(), defect.to_owned());
    inputs.limits.ready = jiff::SignedDuration::from_secs(5);
    inputs.limits.gone = jiff::SignedDuration::from_secs(5);
    inputs
}

fn run_suite(defect: &Defect, only: Vec<String>) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        endpoint: Endpoint::unix(folder.path().join("provider.sock")).unwrap(),
        inputs: inputs(folder.path(), defect.name),
        waivers: Waivers::default(),
        only,
        allow_mutations: true,
        run_id: "defects".to_owned(),
    };
    runtime().block_on(run(settings, |_| ())).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread();
    { runtime }.enable_all().build().unwrap()
}

/// The difference between the cases that failed and those that had to.
fn difference(defect: &Defect, report: &Report) -> Option<String> {
    let failed: BTreeSet<_> = report.failed().into_iter().collect();
    let cases: BTreeSet<_> = defect.cases.iter().copied().collect();
    let missed: Vec<_> = cases.difference(&failed).collect();
    let others = failed.difference(&cases);
    let others: Vec<_> = others
        .filter(|id| !defect.may_fail(id) && **id != LATENCY)
        .collect();
    if missed.is_empty() && others.is_empty() {
        return None;
    }
    let lines = report.judged.iter();
    let lines = lines.filter(|one| others.contains(&&one.case.id));
    let lines: Vec<_> = lines.filter_map(report::line).collect();
    let name = defect.name;
    Some(format!(
        "{name}: not red {missed:?}, red besides {others:?}\n{}",
        lines.join("\n")
    ))
}

/// Explores from the seed of a defect; the result, unless it is the smallest trace that shows the cause.
fn explored_otherwise(defect: &Defect) -> Option<String> {
    let expected = defect.explored.as_ref()?;
    let folder = tempfile::tempdir().unwrap();
    let mut inputs = inputs(folder.path(), defect.name);
    // A defect lives as long as its process.
    inputs.explore.without = ["kill"].map(str::to_owned).to_vec();
    let endpoint = Endpoint::unix(folder.path().join("provider.sock")).unwrap();
    let settings = Settings::plain(endpoint, inputs, "defects".to_owned());
    let plan = Plan {
        first: expected.seed,
        count: Some(1),
        duration: None,
        steps: STEPS,
    };
    let explored = explore(settings, plan, "explore".to_owned(), |_, _| ());
    let explored = runtime().block_on(explored).unwrap();
    let seconds = explored.took.as_secs_f64();
    eprintln!("{seconds:>6.1} s  {} explored", defect.name);
    let is_cause =
        |trace: &Trace| trace.words() == expected.words && (2..=SMALLEST).contains(&trace.0.len());
    let again = format!("again     explore --seed {} --steps", expected.seed);
    let is_as_expected = explored.to_string().contains(&again)
        && explored
            .failure
            .as_ref()
            .is_some_and(|one| is_cause(&one.trace));
    (!is_as_expected).then(|| {
        format!(
            "{}: not found by {:?}\n{explored}",
            defect.name, expected.words
        )
    })
}

/// Tries each defect once, some at a time; those with another result than theirs once more, each alone.
fn each_defect(differs: impl Fn(&Defect) -> Option<String> + Sync) {
    let mut chosen = defects::all();
    if let Ok(names) = std::env::var("DEFECTS") {
        chosen.retain(|one| names.split(',').any(|name| name == one.name));
    }
    // Suites mostly wait and explorations compute: side by side they take less time.
    fastrand::Rng::with_seed(1).shuffle(&mut chosen);
    let next = AtomicUsize::new(0);
    let different = std::sync::Mutex::new(Vec::new());
    // Much of the time of a run is waiting.
    let workers = std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(defect) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if differs(defect).is_some() {
                        different.lock().unwrap().push(defect);
                    }
                }
            });
        }
    });
    // Beside others a call may come too late to meet another one.
    let alone = different.into_inner().unwrap().into_iter();
    let wrong: Vec<_> = alone.filter_map(differs).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs the suite; how its result differs from the cases that have to fail.
fn differs(defect: &Defect, only: Vec<String>) -> Option<String> {
    let report = run_suite(defect, only);
    eprintln!("{:>6.1} s  {}", report.seconds, defect.name);
    let different = difference(defect, &report);
    if let Some(text) = &different {
        eprintln!("{text}");
    }
    different
}

#[test]
fn each_defect_fails_its_cases_and_no_other() {
    each_defect(|defect| {
        let suite = (!defect.cases.is_empty()).then(|| differs(defect, concerned(defect)));
        suite.flatten().or_else(|| explored_otherwise(defect))
    });
}

#[test]
#[ignore = "takes minutes; each_defect_fails_its_cases_and_no_other runs the areas concerned"]
fn each_defect_fails_its_cases_of_the_whole_suite() {
    each_defect(|defect| differs(defect, Vec::new()));
}

#[test]
fn each_case_has_a_defect() {
    let defects = defects::all();
    let red: BTreeSet<_> = defects.iter().flat_map(|one| &one.cases).copied().collect();
    let ids: BTreeSet<_> = cases::all().into_iter().map(|case| case.id).collect();
    let unknown: Vec<_> = red.difference(&ids).collect();
    assert!(unknown.is_empty(), "no cases: {unknown:?}");
    let mut names = BTreeSet::new();
    for one in &defects {
        assert!(names.insert(one.name), "{} twice", one.name);
        let is_found = !one.cases.is_empty() || one.explored.is_some();
        assert!(is_found, "{}: a case or a seed is missing", one.name);
    }
    let without: Vec<_> = ids.difference(&red).collect();
    assert!(without.is_empty(), "no defect turns them red: {without:?}");
}
