//! Services that want a load balancer, as many as you like, and how long each waits for its address.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString},
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};

use crate::{Error, Result, follow::follow, nodes::Load, wire};

/// A Service that wants a load balancer for HTTP and HTTPS, with one label.
pub fn balanced(name: &str, label: (&str, &str)) -> Service {
    let port = |name: &str, port, target| ServicePort {
        name: Some(name.to_owned()),
        port,
        target_port: Some(IntOrString::Int(target)),
        ..ServicePort::default()
    };
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    Service {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([owned(label)].into()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".to_owned()),
            selector: Some([owned(("app", name))].into()),
            ports: Some(vec![port("http", 80, 8080), port("https", 443, 8443)]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// `count` names: `<prefix>00000`, `<prefix>00001` and so on.
pub fn numbered(prefix: &str, count: usize) -> impl ExactSizeIterator<Item = String> {
    (0..count).map(move |number| format!("{prefix}{number:05}"))
}

/// The addresses, or host names, at which a Service is reached.
pub fn addresses(service: &Service) -> Vec<&str> {
    let status = service.status.as_ref();
    let load_balancer = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = load_balancer.and_then(|status| status.ingress.as_deref());
    let ingress = ingress.unwrap_or_default().iter();
    ingress
        .filter_map(|ingress| ingress.ip.as_deref().or(ingress.hostname.as_deref()))
        .collect()
}

/// The conditions of a Service.
pub fn conditions(service: &Service) -> &[Condition] {
    let status = service.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

/// Services to make, and what they wait for.
pub struct Exposure<'a> {
    /// Where they are made.
    pub namespace: &'a str,
    /// Each with the label of `selector`, and a name.
    pub services: Vec<Service>,
    /// Selects them.
    pub selector: &'a str,
    /// Whether a Service has what it waits for.
    pub is_ready: fn(&Service) -> bool,
    /// How fast they are made.
    pub load: Load,
    /// How long all of it may take.
    pub timeout: Duration,
}

/// The result of an [`Exposure`].
#[derive(Debug)]
pub struct Exposed {
    /// Each Service when it was seen ready, by name, with its time from the answer to its creation.
    pub services: Vec<(Service, Duration)>,
    /// From the first request to the answer to the last.
    pub created: Duration,
    /// From the first request until the last Service was seen ready.
    pub took: Duration,
}

impl Exposed {
    /// The longest time that this part of the Services, 0 to 1, waited at most.
    pub fn percentile(&self, part: f64) -> Duration {
        let mut times: Vec<_> = self.services.iter().map(|(_, took)| *took).collect();
        times.sort_unstable();
        let rank = (part * times.len() as f64).ceil() as usize;
        times.get(rank.max(1) - 1).copied().unwrap_or_default()
    }
}

enum News {
    Created(String),
    Seen(Box<Service>),
}

impl Exposure<'_> {
    /// Makes the Services and waits until all are ready.
    ///
    /// `progress` is called with the number of those that are. Ends at the first error, or with
    /// [`Error::Unready`] after the timeout; what was made stays.
    pub async fn run(self, client: &Client, progress: impl FnMut(usize)) -> Result<Exposed> {
        let started = Instant::now();
        let (tell, mut news) = mpsc::unbounded_channel();
        let api: Api<Service> = Api::namespaced(client.clone(), self.namespace);
        let names = self.services.iter().map(name_of);
        let mut tracker = Tracker {
            services: names.map(|name| (name, Progress::default())).collect(),
            is_ready: self.is_ready,
            ready: 0,
            last: started,
            progress,
        };
        let seen = |service| {
            let _ = tell.send(News::Seen(Box::new(service)));
        };
        let path = path(self.namespace);
        let create = async |service: Service| {
            let name = name_of(&service);
            wire::post(client, &path, &service, &service_named(&name)).await?;
            let _ = tell.send(News::Created(name));
            Ok(())
        };
        let mut following = pin!(follow(&api, self.selector, "the Services", seen));
        let mut creating = pin!(self.load.run(self.services, |_| {}, create));
        let mut created = None;
        let all = async {
            while created.is_none() || !tracker.is_done() {
                tokio::select! {
                    Err(error) = &mut following => return Err(error),
                    took = &mut creating, if created.is_none() => created = Some(took?),
                    Some(news) = news.recv() => tracker.take(news, Instant::now()),
                }
            }
            Ok(())
        };
        match timeout_at(started + self.timeout, all).await {
            Ok(done) => done?,
            Err(_) => {
                return Err(Error::Unready {
                    late: tracker.late(),
                    timeout: self.timeout,
                });
            }
        }
        Ok(Exposed {
            created: created.unwrap_or_default(),
            took: tracker.last - started,
            services: tracker
                .services
                .into_values()
                .filter_map(Progress::done)
                .collect(),
        })
    }
}

/// Deletes Services and returns, with the time that it took, when they are gone: that is when
/// their load balancers are.
///
/// Ends at the first error, or with [`Error::Undeleted`] after `timeout`. A Service that is not
/// there counts as deleted.
pub async fn delete_all(
    client: &Client,
    namespace: &str,
    names: BTreeSet<String>,
    load: Load,
    timeout: Duration,
) -> Result<Duration> {
    const EVERY: Duration = Duration::from_millis(100);
    let started = Instant::now();
    let path = path(namespace);
    let delete = async |name: String| {
        let deleted = wire::delete(client, &format!("{path}/{name}"), &service_named(&name)).await;
        deleted.or_else(Error::unless_missing)
    };
    load.run(names.clone(), |_| {}, delete).await?;
    loop {
        let mut left = list(client, namespace).await?;
        left.retain(|name| names.contains(name));
        if left.is_empty() {
            return Ok(started.elapsed());
        }
        if started.elapsed() > timeout {
            return Err(Error::Undeleted { left, timeout });
        }
        sleep(EVERY).await;
    }
}

/// The names of all Services of a namespace, sorted.
pub async fn list(client: &Client, namespace: &str) -> Result<Vec<String>> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let all = services.list_metadata(&ListParams::default()).await;
    let all = all.map_err(Error::kube("cannot list Services"))?.items;
    let mut names: Vec<_> = all
        .into_iter()
        .filter_map(|one| one.metadata.name)
        .collect();
    names.sort_unstable();
    Ok(names)
}

/// The state of each Service.
struct Tracker<P> {
    services: BTreeMap<String, Progress>,
    is_ready: fn(&Service) -> bool,
    ready: usize,
    last: Instant,
    progress: P,
}

#[derive(Default)]
struct Progress {
    created: Option<Instant>,
    ready: Option<(Service, Duration)>,
}

impl Progress {
    fn done(self) -> Option<(Service, Duration)> {
        self.ready
    }
}

impl<P: FnMut(usize)> Tracker<P> {
    fn take(&mut self, news: News, now: Instant) {
        let (name, seen) = match news {
            News::Created(name) => (name, None),
            News::Seen(service) => (name_of(&service), Some(service)),
        };
        let Some(known) = self.services.get_mut(&name) else {
            return;
        };
        // The watch may be faster than the answer to the creation.
        let created = *known.created.get_or_insert(now);
        let is_ready = self.is_ready;
        let Some(service) = seen.filter(|service| known.ready.is_none() && is_ready(service))
        else {
            return;
        };
        known.ready = Some((*service, now - created));
        self.ready += 1;
        self.last = now;
        (self.progress)(self.ready);
    }

    fn is_done(&self) -> bool {
        self.ready == self.services.len()
    }

    fn late(&self) -> Vec<String> {
        let late = self
            .services
            .iter()
            .filter(|(_, known)| known.ready.is_none());
        late.map(|(name, _)| name.clone()).collect()
    }
}

fn name_of(service: &Service) -> String {
    service.metadata.name.clone().unwrap_or_default()
}

fn service_named(name: &str) -> String {
    format!("Service {name}")
}

fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/services")
}
