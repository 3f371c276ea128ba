//! Instances as the contract asks for them.

use std::net::IpAddr;
use std::time::SystemTime;

use futures::stream::{self, StreamExt as _};
use outrigger_provider_sdk::{
    Context, Error, InstanceSink, Instances, Lookup, Lookups, Outcome, Query, WithEffects, v1,
};

use super::{MockProvider, PROVIDED_NODE_IP, effects};
use crate::choice;
use crate::cloud::{Cloud, Preference, RateLimited};
use crate::instances::{
    Address, AddressType, Instance, InstanceId, Key, LookupRequest, LookupResult, NodeName, Power,
};

/// Calls to the cloud that one lookup makes at a time.
const PARALLEL_CALLS: usize = 8;

impl Instances for MockProvider {
    fn capability(&self) -> v1::InstancesCapability {
        let (options, config) = (self.options(), self.cloud().config());
        let delay = config.visibility_delay;
        let preference = match config.preference {
            Preference::Each => v1::LookupPreference::Each,
            Preference::Batch => v1::LookupPreference::Batch,
            Preference::List => v1::LookupPreference::ListAll,
        };
        v1::InstancesCapability {
            max_batch_size: options.max_batch_size,
            list: true,
            lookup_preference: preference.into(),
            visibility_delay: delay.and_then(|delay| delay.try_into().ok()),
            managed_label_keys: options.managed_label_keys.clone(),
            allocates_pod_cidrs: !config.pod_cidrs.is_empty(),
            ..v1::InstancesCapability::default()
        }
    }

    async fn get_instance(
        &self,
        ctx: &Context,
        node: &v1::Node,
        query: &Query,
    ) -> Result<Lookup, Error> {
        let mut lookups = self
            .get_instances(ctx, std::slice::from_ref(node), query)
            .await?;
        lookups
            .remove(&node.name)
            .unwrap_or_else(|| Err(Error::internal("the lookup was lost")))
    }

    async fn get_instances(
        &self,
        ctx: &Context,
        nodes: &[v1::Node],
        query: &Query,
    ) -> Result<Lookups, Error> {
        let cloud = self.cloud();
        cloud.count().items_asked("BatchGetInstances", nodes.len());
        let mut lookups = Lookups::with_capacity(nodes.len());
        let mut pending = Vec::with_capacity(nodes.len());
        for node in nodes {
            match need_of(cloud, node) {
                Need::Cloud(key) => {
                    let provided = provided_ips(node);
                    pending.push((node.name.clone(), LookupRequest { key, provided }));
                }
                Need::Nothing(answer) => {
                    lookups.insert(node.name.clone(), *answer);
                }
            }
        }
        let config = cloud.config();
        let each = config.preference == Preference::Each;
        let size = if each { 1 } else { config.page_size.get() };
        let mut calls = Vec::with_capacity(pending.len().div_ceil(size));
        while !pending.is_empty() {
            let rest = pending.split_off(size.min(pending.len()));
            let page = std::mem::replace(&mut pending, rest);
            calls.push(look_up(cloud, page, query, self.options().instance_effects));
        }
        let mut calls = stream::iter(calls).buffer_unordered(PARALLEL_CALLS);
        loop {
            let answered = tokio::select! {
                () = ctx.cancelled() => return Err(Error::cancelled()),
                answered = calls.next() => answered,
            };
            match answered {
                None => return Ok(lookups),
                Some((names, Ok(results))) => lookups.extend(names.into_iter().zip(results)),
                // One call per instance: the others have their own answers.
                Some((names, Err(limited))) if each => {
                    lookups.extend(names.into_iter().map(|name| (name, Err(limited.into()))));
                }
                Some((_, Err(limited))) => return Err(limited.into()),
            }
        }
    }

    async fn list_instances(
        &self,
        ctx: &Context,
        _query: &Query,
        instances: &mut InstanceSink,
    ) -> Result<(), Error> {
        let cloud = self.cloud();
        let mut after = None;
        loop {
            let (page, more) = tokio::select! {
                () = ctx.cancelled() => return Err(Error::cancelled()),
                page = cloud.instance_page(after.as_ref()) => page?,
            };
            let visible = page.iter().filter(|one| cloud.shows(one));
            let visible: Vec<_> = visible.map(|one| answer(cloud, one)).collect();
            instances.send_all(visible).await?;
            after = page.last().map(|last| last.id.clone());
            if !more {
                return Ok(());
            }
        }
    }
}

/// One call to the cloud. The names come back with their answers, in the same order.
async fn look_up(
    cloud: &Cloud,
    page: Vec<(String, LookupRequest)>,
    query: &Query,
    has_effects: bool,
) -> (Vec<String>, Result<Vec<Result<Lookup, Error>>, RateLimited>) {
    let (names, requests): (Vec<String>, Vec<LookupRequest>) = page.into_iter().unzip();
    let answered = cloud.look_up(&requests).await.map(|results| {
        let results = results.iter();
        let lookup = |results| {
            let effects = has_effects.then(|| effects::of_lookup(results));
            Ok(WithEffects::from(lookup(cloud, results, query)).with_effects(effects))
        };
        results.map(lookup).collect()
    });
    (names, answered)
}

fn lookup(cloud: &Cloud, result: &LookupResult, query: &Query) -> Outcome<v1::Instance> {
    match result {
        LookupResult::Instance(instance) => Outcome::Found(answer(cloud, instance)),
        // A caller that allows an old answer does not ask in order to delete.
        LookupResult::Absent if query.max_staleness.is_zero() => {
            Outcome::absent("the cloud has no such instance")
        }
        LookupResult::Absent | LookupResult::NotVisibleYet => {
            Outcome::not_visible_yet("it may be too young to be seen")
        }
    }
}

fn answer(cloud: &Cloud, instance: &Instance) -> v1::Instance {
    let labels = instance.labels.iter();
    let labels = labels.map(|(key, value)| (key.to_string(), value.to_string()));
    let power = match instance.power {
        Power::Pending => v1::PowerState::Pending,
        Power::Running => v1::PowerState::Running,
        Power::Shutdown => v1::PowerState::Shutdown,
        Power::Terminating => v1::PowerState::Terminating,
    };
    let time = |time: jiff::Timestamp| SystemTime::from(time).into();
    let kind = |kind: Option<&String>| {
        let name = format!("MAINTENANCE_KIND_{}", kind?.to_uppercase());
        v1::MaintenanceKind::from_str_name(&name)
    };
    let maintenance = instance.maintenance.as_ref();
    v1::Instance {
        provider_id: cloud.provider_id(&instance.id),
        node_name: instance.name.to_string(),
        instance_type: instance.instance_type.to_string(),
        addresses: instance.addresses.iter().map(to_wire).collect(),
        zone: instance.zone.to_string(),
        region: instance.region.to_string(),
        additional_labels: labels.collect(),
        power_state: power.into(),
        pod_cidrs: instance.pod_cidrs.iter().map(ToString::to_string).collect(),
        planned_maintenance: maintenance.map(|maintenance| v1::PlannedMaintenance {
            starts_at: maintenance.starts_at.map(time),
            ends_at: maintenance.ends_at.map(time),
            kind: kind(maintenance.kind.as_ref()).unwrap_or_default().into(),
            id: maintenance.id.clone(),
            in_progress: maintenance.in_progress,
            reason: maintenance.reason.clone(),
        }),
    }
}

pub(super) fn to_wire(address: &Address) -> v1::NodeAddress {
    v1::NodeAddress {
        r#type: choice::name(&address.kind()),
        address: address.as_str().to_owned(),
    }
}

/// An address of a type that the mock knows, if it is one of its type.
pub(super) fn from_wire(address: &v1::NodeAddress) -> Option<Address> {
    let kind: AddressType = choice::named("address type", &address.r#type).ok()?;
    Address::new(kind, &address.address).ok()
}

/// The address, if it is an `InternalIP`.
pub(super) fn internal_ip(address: &v1::NodeAddress) -> Option<IpAddr> {
    let internal = Some(address).filter(|address| address.r#type == "InternalIP");
    internal?.address.parse().ok()
}

/// The effort for a node.
enum Need {
    /// The cloud has to be asked.
    Cloud(Key),
    /// The node itself has the answer.
    Nothing(Box<Result<Lookup, Error>>),
}

fn need_of(cloud: &Cloud, node: &v1::Node) -> Need {
    let nothing = |answer| Need::Nothing(Box::new(answer));
    let scheme = cloud.config().provider_name.as_str();
    if node.provider_id.is_empty() {
        return match node.name.parse() {
            Ok(name) => Need::Cloud(Key::Name(name)),
            // No instance can have a name that no Node can have.
            Err(_) => nothing(Ok(Outcome::absent("no instance can have that name").into())),
        };
    }
    let id = node
        .provider_id
        .strip_prefix(scheme)
        .and_then(|rest| rest.strip_prefix("://"));
    let Some(id) = id else {
        let reason = format!("the provider ID {:?} is not of {scheme}", node.provider_id);
        return nothing(Ok(Outcome::not_managed(reason).into()));
    };
    match id.parse::<InstanceId>() {
        Ok(id) => Need::Cloud(Key::Id(id, node.name.parse::<NodeName>().ok())),
        Err(bad) => nothing(Err(Error::malformed_provider_id(format!(
            "the provider ID {:?} of node {:?} is wrong: {bad}",
            node.provider_id, node.name
        )))),
    }
}

/// The addresses of the kubelet's `--node-ip`: its annotation, and the addresses it reported.
fn provided_ips(node: &v1::Node) -> Vec<IpAddr> {
    let annotated = node
        .annotations
        .get(PROVIDED_NODE_IP)
        .map(String::as_str)
        .unwrap_or_default();
    let annotated = annotated.split(',').filter_map(|ip| ip.trim().parse().ok());
    let reported = node.addresses.iter().filter_map(internal_ip);
    let mut ips = Vec::new();
    for ip in annotated.chain(reported) {
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    ips
}
