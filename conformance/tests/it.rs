//! The suite against the mock, over a real socket; and the cases against the contract's text.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use outrigger_conformance::{
    case::{Clause, Level},
    cases,
    explore::{Plan, Rule, explore},
    inputs::{Inputs, Machine, Volume},
    report::{self, Outcome, Report, Skip},
    run::{Settings, run},
    waivers::Waivers,
};
use outrigger_provider_mock::{
    Cloud, CloudConfig, MockProvider, ProviderOptions, ServedRoutes, ServedVolumes,
    faults::{Effect, Fault, InjectedError, Method},
    instances::{InstanceSpec, Maintenance, Power},
    volumes::{Volume as CloudVolume, VolumeState},
};
use outrigger_provider_sdk::Endpoint;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

const DRIVER: &str = "disk.example";

fn of_driver(handle: &str) -> Volume {
    Volume {
        driver: DRIVER.to_owned(),
        handle: handle.to_owned(),
        ..Volume::default()
    }
}

/// Makes a volume, and describes it as the inputs do.
fn volume(cloud: &Cloud, handle: &str, zones: &[&str], state: VolumeState) -> Volume {
    let made = CloudVolume {
        handle: handle.to_owned(),
        region: "mock-1".to_owned(),
        zones: zones.iter().map(|zone| (*zone).to_owned()).collect(),
        state,
    };
    cloud.edit_volumes(|volumes| volumes.insert(handle.to_owned(), made));
    let labels = [("zone", zones.join("__")), ("region", "mock-1".to_owned())];
    let labels = labels.map(|(key, value)| (format!("topology.kubernetes.io/{key}"), value));
    Volume {
        labels: labels.into(),
        ..of_driver(handle)
    }
}

/// A mock with three machines on a socket, and the inputs that describe it.
struct Mock {
    cloud: Cloud,
    endpoint: Endpoint,
    inputs: Inputs,
    stop: CancellationToken,
    _folder: TempDir,
    _server: JoinSet<()>,
}

impl Mock {
    fn start() -> Self {
        let config = CloudConfig {
            max_routes: Some(12),
            ..CloudConfig::new().unwrap()
        };
        let cloud = Cloud::new(config);
        let create = |name: &str| {
            let spec = InstanceSpec::named(name.parse().unwrap());
            let instance = cloud.create(spec).unwrap();
            Machine {
                node_name: name.to_owned(),
                provider_id: cloud.provider_id(&instance.id),
                zone: Some(instance.zone.to_string()),
                region: Some(instance.region.to_string()),
                instance_type: Some(instance.instance_type.to_string()),
                ..Machine::default()
            }
        };
        let mut inputs = Inputs::default();
        inputs.instances.existing = vec![create("worker-1"), create("worker-2")];
        let maintenance = Maintenance {
            starts_at: Some("2026-12-01T02:00:00Z".parse().unwrap()),
            ends_at: Some("2026-12-01T04:00:00Z".parse().unwrap()),
            kind: Some("reboot".to_owned()),
            id: "event-1".to_owned(),
            reason: "new host".to_owned(),
            ..Maintenance::default()
        };
        cloud.announce_maintenance("worker-1", Some(maintenance));
        inputs.instances.stopped = Some(create("stopped-1"));
        cloud.set_power("stopped-1", Power::Shutdown);
        inputs.instances.absent = Some(Machine {
            node_name: "gone-1".to_owned(),
            provider_id: "mock://i-0123456789abcdef".to_owned(),
            ..Machine::default()
        });
        inputs.instances.malformed_provider_id = Some("mock://not an id".to_owned());
        let refused = ("mock.example/address-mode", "nonsense");
        inputs.services.refused_annotations =
            BTreeMap::from([(refused.0.to_owned(), refused.1.to_owned())]);
        inputs.services.refused_protocol = Some("SCTP".to_owned());
        inputs.services.second_protocol = Some("UDP".to_owned());
        inputs.services.requestable_address = Some("198.18.99.7".to_owned());
        inputs.services.reserved_address_name = Some("eip-1".to_owned());
        let internal = ("mock.example/internal".to_owned(), "true".to_owned());
        inputs.services.internal_annotations = BTreeMap::from([internal]);
        inputs.services.ip_families = vec!["IPv4".to_owned(), "IPv6".to_owned()];
        inputs.cluster.pod_cidrs = ["10.231.0.0/16", "fd00:231::/48"]
            .map(|range| range.parse().unwrap())
            .to_vec();
        inputs.routes.limit = Some(12);
        inputs.volumes.existing = vec![
            volume(&cloud, "vol-1", &["mock-1a"], VolumeState::Available),
            volume(
                &cloud,
                "vol-2",
                &["mock-1a", "mock-1b"],
                VolumeState::Available,
            ),
        ];
        inputs.volumes.absent = Some(of_driver("vol-gone"));
        inputs.volumes.malformed = Some(of_driver("no handle"));
        inputs.volumes.foreign = Some(volume(&cloud, "vol-other", &[], VolumeState::Foreign));
        inputs.secrets = vec!["canary-7c1d".to_owned()];
        inputs.limits.late = jiff::SignedDuration::ZERO;
        inputs.limits.idle = jiff::SignedDuration::from_millis(100);
        let folder = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::unix(folder.path().join("provider.sock")).unwrap();
        let stop = CancellationToken::new();
        let options = ProviderOptions {
            routes: Some(ServedRoutes::default()),
            volumes: Some(ServedVolumes {
                csi_drivers: vec![DRIVER.to_owned()],
                in_tree: false,
            }),
            ..ProviderOptions::default()
        };
        let server = MockProvider::with_options(cloud.clone(), options).into_server();
        let (at, stopped) = (endpoint.clone(), stop.clone().cancelled_owned());
        let mut serving = JoinSet::new();
        serving.spawn(async move { server.serve_until(&at, stopped).await.unwrap() });
        Self {
            cloud,
            endpoint,
            inputs,
            stop,
            _folder: folder,
            _server: serving,
        }
    }

    async fn settings(&self) -> Settings {
        while tokio::net::UnixStream::connect(self.endpoint.path())
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
        Settings {
            endpoint: self.endpoint.clone(),
            inputs: self.inputs.clone(),
            waivers: Waivers::default(),
            only: Vec::new(),
            allow_mutations: true,
            run_id: "test".to_owned(),
        }
    }

    async fn run(&self, change: impl FnOnce(&mut Settings)) -> Report {
        let mut settings = self.settings().await;
        change(&mut settings);
        Box::pin(run(settings, |_| ())).await.unwrap()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn lines(report: &Report) -> String {
    let lines = report.judged.iter();
    let lines = lines.filter_map(report::line);
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_mock_passes_and_nothing_is_left() {
    let mock = Mock::start();
    let report = Box::pin(mock.run(|_| ())).await;
    assert_eq!(report.failed(), [""; 0], "{}", lines(&report));
    assert!(report.leftovers.is_empty(), "{:?}", report.leftovers);
    assert!(mock.cloud.load_balancers().is_empty());
    assert!(mock.cloud.routes().is_empty());
    let skipped = |one: &&report::Judged| matches!(one.outcome, Outcome::Skipped(_));
    for judged in report.judged.iter().filter(skipped) {
        // Without a command of the inputs nothing can be killed, and the mock offers neither.
        let input_or_capability = matches!(
            judged.outcome,
            Outcome::Skipped(Skip::Input(_) | Skip::Capability(_) | Skip::NothingToJudge(_))
        );
        assert!(input_or_capability, "{}", judged.case.id);
    }
    assert!(report.count("passed") > 90, "{}", report::summary(&report));
}

#[tokio::test]
async fn a_run_that_may_not_change_the_cloud_changes_nothing() {
    let mock = Mock::start();
    let report = Box::pin(mock.run(|settings| settings.allow_mutations = false)).await;
    assert_eq!(report.failed(), [""; 0], "{}", lines(&report));
    let read_only = report.count("skipped: without --allow-mutations");
    assert!(read_only > 20, "{}", report::summary(&report));
    assert_eq!(mock.cloud.counters().calls("EnsureLoadBalancer", "OK"), 0);
    assert_eq!(mock.cloud.counters().calls("DeleteLoadBalancer", "OK"), 0);
}

#[tokio::test]
async fn cases_that_are_not_selected_are_counted() {
    let mock = Mock::start();
    let report = mock.run(|settings| settings.only = vec!["INS-01".to_owned(), "NDS".to_owned()]);
    let report = Box::pin(report).await;
    let of_sets = |case: &cases::Case| case.id.starts_with("NDS");
    let selected = 1 + cases::all().iter().filter(|case| of_sets(case)).count();
    let others = report.judged.len() - selected;
    assert_eq!(report.count("not selected"), others);
}

/// `RATE_LIMITED` that does not say how long to wait.
fn without_wait() -> InjectedError {
    InjectedError::new(tonic::Code::ResourceExhausted).without_retry_info()
}

#[tokio::test]
async fn an_error_that_breaks_a_rule_fails_also_where_its_case_is_left_out() {
    let mock = Mock::start();
    let limited = Effect::Error(without_wait());
    let fault = Fault::on(Method::EnsureLoadBalancer, limited);
    mock.cloud.inject(fault.times(1));
    let only = |settings: &mut Settings| settings.only = vec!["LBS-02".to_owned()];
    let report = Box::pin(mock.run(only)).await;
    assert_eq!(report.failed(), ["ERR-02"], "{}", lines(&report));
    assert!(lines(&report).contains("EnsureLoadBalancer"));
}

/// Errors that ask for patience break no rule.
#[tokio::test]
async fn a_mock_that_hesitates_keeps_all_rules_of_explore() {
    let mut mock = Mock::start();
    // These take the most time.
    mock.inputs.explore.without = ["cut", "deadline", "twice"].map(str::to_owned).to_vec();
    let busy = InjectedError::new(tonic::Code::Aborted).retry_after(Duration::from_millis(1));
    for method in [Method::EnsureLoadBalancer, Method::DeleteLoadBalancer] {
        let busy = Fault::on(method, Effect::Error(busy.clone()));
        mock.cloud.inject(busy.with_rate(0.2));
    }
    let plan = Plan {
        first: 1,
        count: Some(6),
        duration: None,
        steps: 6,
    };
    let explored = explore(mock.settings().await, plan, "explore".to_owned(), |_, _| ());
    let explored = Box::pin(explored).await.unwrap();
    assert!(explored.failure.is_none(), "{explored}");
    assert_eq!(explored.traces, 6);
    assert_eq!(explored.leftovers, [""; 0]);
}

#[tokio::test]
async fn a_case_about_something_that_the_provider_does_not_offer_is_skipped() {
    let mut mock = Mock::start();
    let other = ("other.example/mode".to_owned(), "nonsense".to_owned());
    mock.inputs.services.refused_annotations = BTreeMap::from([other]);
    let unsupported =
        InjectedError::new(tonic::Code::InvalidArgument).with_reason("UNSUPPORTED_FEATURE");
    let fault = Fault::on(Method::EnsureLoadBalancer, Effect::Error(unsupported));
    mock.cloud.inject(fault.times(1));
    let cases = ["LBS-09", "LBS-07", "LBS-38"];
    let report = Box::pin(mock.run(|settings| settings.only = cases.map(str::to_owned).to_vec()));
    let report = report.await;
    let outcome = |id: &str| {
        let judged = report.judged.iter().find(|one| one.case.id == id).unwrap();
        judged.outcome.end(judged.case.level)
    };
    let outcomes = cases.map(outcome);
    // The refused protocol is left for the last one.
    let nothing = "skipped: nothing to judge";
    assert_eq!(outcomes, [nothing, nothing, "passed"], "{}", lines(&report));
}

/// The comments of a file of the contract as one text.
fn comments(file: &str) -> String {
    let path = Path::new(ROOT).join("proto/cloudprovider/v1").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("//"));
    let words = lines.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_case_has_an_id_of_its_own_and_a_clause_of_the_contract() {
    let all = cases::all();
    let mut ids = BTreeSet::new();
    for case in &all {
        let id = case.id;
        assert!(ids.insert(id), "{id} twice");
        let has_area = AREAS.iter().any(|(area, _)| id.starts_with(area));
        assert!(has_area, "{id} is of no area");
        is_in_the_contract(id, &case.clause);
    }
    let of = |level: Level| all.iter().filter(|case| case.level == level).count();
    assert!(of(Level::Must) >= 65, "{} MUST", of(Level::Must));
}

#[test]
fn each_rule_of_explore_has_a_clause_of_the_contract() {
    for rule in Rule::ALL {
        is_in_the_contract(rule.name, &rule.clause);
    }
}

fn is_in_the_contract(id: &str, clause: &Clause) {
    let text = comments(clause.file);
    let is_there = text.contains(clause.text);
    assert!(is_there, "{id}: not in the contract: {clause}");
    let at = clause.at.rsplit('.').next().unwrap();
    assert!(text.contains(at), "{id}: {at:?} is not in {}", clause.file);
}

/// The areas in their order, by the letters of their ids.
const AREAS: [(&str, &str); 9] = [
    ("TRN", "Transport"),
    ("IDN", "Handshake and status"),
    ("ERR", "Errors"),
    ("INS", "Instances"),
    ("LBS", "Load balancers"),
    ("NDS", "Node sets"),
    ("RTE", "Routes"),
    ("VOL", "Volumes"),
    ("RES", "Resilience"),
];

/// A table for each area.
fn tables() -> String {
    let cases = cases::table();
    let of_area = |(letters, title): (&str, &str)| {
        let rows = cases.lines().filter(|line| line.starts_with(letters));
        let rows = rows.map(|line| {
            let fields: Vec<_> = line.split('\t').collect();
            let [id, level, capability, mutates, title] = [0, 1, 2, 3, 4].map(|at| fields[at]);
            format!("| {id} | {title} | {level} | {capability} | {mutates} |\n")
        });
        let rows: String = rows.collect();
        let head = "| id | case | level | capability | cloud |\n|---|---|---|---|---|";
        format!("### {title}\n\n{head}\n{rows}\n")
    };
    AREAS.map(of_area).concat()
}

#[test]
fn the_table_of_the_documents_is_that_of_list() {
    let path = Path::new(ROOT).join("docs/conformance.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- cases -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end of cases -->").unwrap();
    let table = tables();
    let new_page = format!("{before}<!-- cases -->\n{table}<!-- end of cases -->{after}");
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&path, new_page).unwrap();
    } else {
        assert!(
            page == new_page,
            "write the table again: UPDATE_CASES=1 cargo test -p outrigger-conformance"
        );
    }
}

#[tokio::test]
async fn a_load_balancer_that_cannot_be_deleted_is_reported() {
    let mut mock = Mock::start();
    let protection = ("mock.example/deletion-protection", "true");
    let annotations = &mut mock.inputs.services.annotations;
    annotations.insert(protection.0.to_owned(), protection.1.to_owned());
    let only = |settings: &mut Settings| settings.only = vec!["LBS-02".into(), "RES-09".into()];
    let report = Box::pin(mock.run(only)).await;
    assert_eq!(report.failed(), ["RES-09"], "{}", lines(&report));
    assert_eq!(report.leftovers.len(), 1, "{:?}", report.leftovers);
}

#[tokio::test]
async fn inputs_that_do_not_fit_the_provider_are_refused() {
    let mut mock = Mock::start();
    mock.inputs.services.load_balancer_class = Some("example.com/other".to_owned());
    let settings = mock.settings().await;
    let error = Box::pin(run(settings, |_| ()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("loadBalancerClass"), "{error}");
}
