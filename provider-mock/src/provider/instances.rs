//! Instances as the contract asks for them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::SystemTime;

use futures::stream::{self, StreamExt as _};
use outrigger_provider_sdk as sdk;
use outrigger_provider_sdk::{Context, Error, Instances, Lookup, Lookups, Node, Query};

use super::{MockProvider, PROVIDED_NODE_IP, effects};
use crate::choice;
use crate::cloud::{Cloud, Preference, RateLimited};
use crate::instances::{
    Address, AddressType, Instance, InstanceId, Key, LookupRequest, LookupResult, NodeName, Power,
};

impl Instances for MockProvider {
    fn capability(&self) -> sdk::InstancesCapability {
        let (options, config) = (self.options(), self.cloud().config());
        sdk::InstancesCapability::default()
            .with_max_batch_size(options.max_batch_size)
            .with_list(true)
            .with_lookup_preference(match config.preference {
                Preference::Each => sdk::LookupPreference::Each,
                Preference::Batch => sdk::LookupPreference::Batch,
                Preference::List => sdk::LookupPreference::ListAll,
            })
            .with_visibility_delay(config.visibility_delay)
            .with_managed_label_keys(options.managed_label_keys.as_slice())
            .with_allocates_pod_cidrs(!config.pod_cidrs.is_empty())
    }

    async fn get_instance(
        &self,
        ctx: &Context,
        node: &Node,
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
        nodes: &[Node],
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
                    lookups.insert(node.name.clone(), answer);
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
        let mut calls = stream::iter(calls).buffer_unordered(config.parallel_calls.get());
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
        instances: &mut sdk::InstanceSink,
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
            Ok(lookup(cloud, results, query).with_effects(effects))
        };
        results.map(lookup).collect()
    });
    (names, answered)
}

fn lookup(cloud: &Cloud, result: &LookupResult, query: &Query) -> Lookup {
    match result {
        LookupResult::Instance(instance) => Lookup::found(answer(cloud, instance)),
        // A caller that allows an old answer does not ask in order to delete.
        LookupResult::Absent if query.max_staleness.is_zero() => Lookup::absent(),
        LookupResult::Absent | LookupResult::NotVisibleYet => Lookup::not_visible_yet(),
    }
}

fn answer(cloud: &Cloud, instance: &Instance) -> sdk::Instance {
    let labels = instance.labels.iter();
    let labels = labels.map(|(key, value)| (key.to_string(), value.to_string()));
    let pod_cidrs = instance.pod_cidrs.iter().map(ToString::to_string);
    sdk::Instance::new(cloud.provider_id(&instance.id))
        .with_node_name(instance.name.to_string())
        .with_instance_type(instance.instance_type.to_string())
        .with_addresses(instance.addresses.iter().map(to_sdk).collect::<Vec<_>>())
        .with_zone(instance.zone.to_string())
        .with_region(instance.region.to_string())
        .with_additional_labels(labels.collect::<BTreeMap<_, _>>())
        .with_pod_cidrs(pod_cidrs.collect::<Vec<_>>())
        .with_planned_maintenance(instance.maintenance.as_ref().map(|maintenance| {
            let starts_at = maintenance.starts_at.map(SystemTime::from);
            sdk::PlannedMaintenance::new(starts_at, maintenance.reason.as_str())
        }))
        .with_power_state(match instance.power {
            Power::Pending => sdk::PowerState::Pending,
            Power::Running => sdk::PowerState::Running,
            Power::Shutdown => sdk::PowerState::Shutdown,
            Power::Terminating => sdk::PowerState::Terminating,
        })
}

pub(super) fn to_sdk(address: &Address) -> sdk::Address {
    let text = || address.as_str().to_owned();
    let ip = address.as_str().parse::<IpAddr>();
    match (address.kind(), ip) {
        (AddressType::InternalIp, Ok(ip)) => sdk::Address::InternalIp(ip),
        (AddressType::ExternalIp, Ok(ip)) => sdk::Address::ExternalIp(ip),
        (AddressType::Hostname, _) => sdk::Address::Hostname(text()),
        (AddressType::InternalDns, _) => sdk::Address::InternalDns(text()),
        (AddressType::ExternalDns, _) => sdk::Address::ExternalDns(text()),
        (kind, Err(_)) => sdk::Address::Other {
            kind: choice::name(&kind),
            address: text(),
        },
    }
}

/// An address of a type that the mock knows, if it is one of its type.
pub(super) fn from_sdk(address: &sdk::Address) -> Option<Address> {
    match address {
        sdk::Address::InternalIp(ip) => Some(Address::internal(*ip)),
        sdk::Address::ExternalIp(ip) => Address::new(AddressType::ExternalIp, &ip.to_string()).ok(),
        sdk::Address::Hostname(name) => Address::new(AddressType::Hostname, name).ok(),
        sdk::Address::InternalDns(name) => Address::new(AddressType::InternalDns, name).ok(),
        sdk::Address::ExternalDns(name) => Address::new(AddressType::ExternalDns, name).ok(),
        _ => None,
    }
}

/// The effort for a node.
enum Need {
    /// The cloud has to be asked.
    Cloud(Key),
    /// The node itself has the answer.
    Nothing(Result<Lookup, Error>),
}

fn need_of(cloud: &Cloud, node: &Node) -> Need {
    let scheme = cloud.config().provider_name.as_str();
    if node.provider_id.is_empty() {
        return match node.name.parse() {
            Ok(name) => Need::Cloud(Key::Name(name)),
            // No instance can have a name that no Node can have.
            Err(_) => Need::Nothing(Ok(Lookup::absent())),
        };
    }
    let id = node
        .provider_id
        .strip_prefix(scheme)
        .and_then(|rest| rest.strip_prefix("://"));
    let Some(id) = id else {
        let reason = format!("the provider ID {:?} is not of {scheme}", node.provider_id);
        return Need::Nothing(Ok(Lookup::not_managed(reason)));
    };
    match id.parse::<InstanceId>() {
        Ok(id) => Need::Cloud(Key::Id(id, node.name.parse::<NodeName>().ok())),
        Err(bad) => Need::Nothing(Err(Error::malformed_provider_id(format!(
            "the provider ID {:?} of node {:?} is wrong: {bad}",
            node.provider_id, node.name
        )))),
    }
}

/// The addresses of the kubelet's `--node-ip`: its annotation, and the addresses it reported.
fn provided_ips(node: &Node) -> Vec<IpAddr> {
    let annotated = node
        .annotations
        .get(PROVIDED_NODE_IP)
        .map(String::as_str)
        .unwrap_or_default();
    let annotated = annotated.split(',').filter_map(|ip| ip.trim().parse().ok());
    let reported = node.addresses.iter().filter_map(|address| match address {
        sdk::Address::InternalIp(ip) => Some(*ip),
        _ => None,
    });
    let mut ips = Vec::new();
    for ip in annotated.chain(reported) {
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    ips
}
