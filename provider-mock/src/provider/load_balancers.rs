//! Load balancers as the contract asks for them.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_provider_sdk::v1::{self, ChangeAction, LoadBalancerIngress};
use outrigger_provider_sdk::{
    Answer, Context, Error, LoadBalancerSink, LoadBalancers, OfService as _, Targets, answer,
};

use super::{MockProvider, cluster_of, effects, instances::internal_ip};
use crate::cloud::{Cloud, Deletion};
use crate::load_balancers::{
    ANNOTATION_PREFIX, AddressMode, LoadBalancer, LoadBalancerSpec, Target, capability,
};

impl LoadBalancers for MockProvider {
    fn capability(&self) -> v1::LoadBalancersCapability {
        let served = self.options().load_balancers.clone().unwrap_or_default();
        v1::LoadBalancersCapability {
            list: true,
            plan: true,
            classes: served.classes,
            without_default_class: served.without_default_class,
            max_in_flight: served.max_in_flight,
            configuration_revision: served.configuration_revision,
            target_label_keys: served.target_label_keys,
            options: Some(capability()),
        }
    }

    async fn get_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::GetLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Answer, Error> {
        let service = request.service();
        if is_foreign(service) {
            return Ok(answer::not_managed());
        }
        let cloud = self.cloud();
        let Some(existing) = find(cloud, ctx, service).await? else {
            return Ok(answer::absent());
        };
        let now = cloud.config().clock.now();
        let spec = LoadBalancerSpec::of(service, &cloud.config().load_balancers);
        let mut differences = spec.map_or_else(|_| Vec::new(), |w| w.differences(&existing));
        differences.extend(targets.and_then(|spec| other_targets(&existing, &self.kept(spec))));
        Ok(match existing.is_ready(now) {
            true if differences.is_empty() => ready(&existing),
            true => Answer {
                reason: "NotAsWanted".to_owned(),
                status: ready(&existing).status,
                identity: identity(&existing),
                ..answer::differs(differences.join("; "))
            },
            false => Answer {
                retry_after: None,
                ..early(cloud, &existing, Duration::ZERO)
            },
        })
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        if is_foreign(service) {
            return Ok(answer::not_managed());
        }
        let cloud = self.cloud();
        let mut spec = LoadBalancerSpec::of(service, &cloud.config().load_balancers)?;
        spec.remember(service);
        let targets = self.kept(targets);
        let cluster = cluster_of(ctx);
        let mut made = false;
        let load_balancer = match find(cloud, ctx, service).await? {
            None => {
                ctx.check()?;
                made = true;
                cloud.create_load_balancer(&cluster, &spec, targets).await?
            }
            Some(existing) if existing.gone_at.is_some() => {
                let retry_after = until(existing.gone_at, cloud.config().clock.now());
                let text = "The load balancer that this Service had is still being deleted";
                let answer = answer::in_progress(retry_after, []);
                return Ok(because(answer, "Deleting", text));
            }
            Some(mut existing) => {
                if !spec.differences(&existing).is_empty() {
                    ctx.check()?;
                    existing = cloud.change_load_balancer(&existing.id, &spec).await?;
                }
                if other_targets(&existing, &targets).is_some() {
                    ctx.check()?;
                    let set = cloud.set_targets(&cluster, &service.uid, targets);
                    let Some(changed) = set.await? else {
                        return Ok(answer::in_progress(Duration::from_secs(1), []));
                    };
                    existing = changed;
                }
                existing
            }
        };
        let now = cloud.config().clock.now();
        if !load_balancer.is_ready(now) {
            let retry_after = until(Some(load_balancer.ready_at), now);
            let text = "The cloud is making the load balancer";
            let answer = early(cloud, &load_balancer, retry_after);
            return Ok(because(answer, "Provisioning", text));
        }
        let effects = self.has_effects();
        let effects = effects.then(|| effects::of_load_balancer(&load_balancer, made));
        Ok(Answer {
            effects,
            ..ready(&load_balancer)
        })
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        let cloud = self.cloud();
        if is_foreign(service) {
            return Ok(answer::not_managed());
        }
        let cluster = cluster_of(ctx);
        let set = cloud.set_targets(&cluster, &service.uid, self.kept(targets));
        Ok(match set.await? {
            Some(_) => answer::ready([]),
            None => answer::absent(),
        })
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        let service = request.service();
        if is_foreign(service) {
            return Ok(answer::not_managed());
        }
        let cloud = self.cloud();
        let deleted = match find(cloud, ctx, service).await? {
            None => Deletion::Gone,
            Some(existing) => {
                ctx.check()?;
                cloud.delete_load_balancer(&existing.id).await?
            }
        };
        Ok(match deleted {
            Deletion::Gone => {
                let effects = self.has_effects().then(effects::of_deleted_load_balancer);
                Answer {
                    effects,
                    ..answer::absent()
                }
            }
            Deletion::Protected => {
                let text = "The load balancer is protected from deletion and was kept";
                because(answer::retained(), "DeletionProtected", text)
            }
            Deletion::Going(gone_at) => {
                answer::in_progress(until(Some(gone_at), cloud.config().clock.now()), [])
            }
        })
    }

    async fn list_load_balancers(
        &self,
        ctx: &Context,
        load_balancers: &mut LoadBalancerSink,
    ) -> Result<(), Error> {
        let (cloud, cluster) = (self.cloud(), cluster_of(ctx));
        let mut after: Option<String> = None;
        loop {
            let page = cloud.load_balancer_page(&cluster, after.as_deref());
            let (page, more) = page.await?;
            for one in &page {
                let service = one.service.as_ref().map(|tag| v1::ServiceRef {
                    namespace: tag.namespace.clone(),
                    name: tag.name.clone(),
                    uid: tag.uid.clone(),
                });
                let owned = v1::OwnedLoadBalancer {
                    identity: identity(one),
                    service,
                    status: ready(one).status,
                };
                load_balancers.send(owned).await?;
            }
            after = page.last().map(|last| last.id.clone());
            if !more {
                return Ok(());
            }
        }
    }

    async fn plan_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::PlanLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Vec<v1::PlannedChange>, Error> {
        let service = request.service();
        if is_foreign(service) {
            return Ok(Vec::new());
        }
        let cloud = self.cloud();
        let existing = find(cloud, ctx, service).await?;
        let change = |action: ChangeAction, id: &str, summary: String| v1::PlannedChange {
            action: action.into(),
            resource_type: "load-balancer".to_owned(),
            resource_id: id.to_owned(),
            summary,
        };
        let Some(targets) = targets else {
            let going =
                existing.filter(|existing| !existing.protected && existing.gone_at.is_none());
            let gone = |existing: &LoadBalancer| format!("{} would be deleted", existing.name);
            return Ok(going
                .map(|existing| change(ChangeAction::Delete, &existing.id, gone(&existing)))
                .into_iter()
                .collect());
        };
        let spec = LoadBalancerSpec::of(service, &cloud.config().load_balancers)?;
        let Some(existing) = existing else {
            let summary = format!(
                "a load balancer with {} listeners and {} targets would be made",
                spec.ports.len(),
                targets.len()
            );
            return Ok(vec![change(ChangeAction::Create, "", summary)]);
        };
        let mut changes: Vec<_> = spec
            .differences(&existing)
            .into_iter()
            .map(|summary| change(ChangeAction::Update, &existing.id, summary))
            .collect();
        let others = other_targets(&existing, &self.kept(targets));
        changes.extend(others.map(|summary| change(ChangeAction::Update, &existing.id, summary)));
        Ok(changes)
    }
}

impl MockProvider {
    /// True if answers carry effects.
    fn has_effects(&self) -> bool {
        let served = self.options().load_balancers.as_ref();
        served.is_some_and(|served| served.effects)
    }

    /// The targets as the cloud keeps them. Calls with the nodes of one upload share them: thousands of names are not
    /// copied for each.
    fn kept(&self, targets: &Targets) -> Arc<[Target]> {
        let (nodes, kept) = &mut *self.kept.lock();
        if !nodes
            .iter()
            .map(ptr::from_ref)
            .eq(targets.iter().map(ptr::from_ref))
        {
            let target = |node: &v1::Node| Target {
                node: node.name.as_str().into(),
                address: node.addresses.iter().find_map(internal_ip),
            };
            (*nodes, *kept) = (targets.clone(), targets.iter().map(target).collect());
        }
        Arc::clone(kept)
    }
}

fn other_targets(existing: &LoadBalancer, targets: &Arc<[Target]>) -> Option<String> {
    let (from, to) = (existing.targets.len(), targets.len());
    let is_same = Arc::ptr_eq(&existing.targets, targets) || existing.targets == *targets;
    (!is_same).then(|| format!("the targets would be changed, {from} to {to}"))
}

fn is_foreign(service: &v1::Service) -> bool {
    let key = format!("{ANNOTATION_PREFIX}not-managed");
    service.annotations.get(&key).is_some_and(|v| v == "true")
}

async fn find(
    cloud: &Cloud,
    ctx: &Context,
    service: &v1::Service,
) -> Result<Option<Arc<LoadBalancer>>, Error> {
    let cluster = cluster_of(ctx);
    Ok(cloud.find_load_balancer(&cluster, &service.uid).await?)
}

fn ingress(load_balancer: &LoadBalancer) -> Vec<LoadBalancerIngress> {
    let mode = match load_balancer.address_mode {
        AddressMode::Hostname => {
            return vec![LoadBalancerIngress {
                hostname: load_balancer.hostname(),
                ..LoadBalancerIngress::default()
            }];
        }
        AddressMode::Ip => None,
        AddressMode::Vip => Some("VIP"),
        AddressMode::Proxy => Some("Proxy"),
    };
    let addresses = load_balancer.addresses.iter();
    addresses
        .map(|ip| LoadBalancerIngress {
            ip: ip.to_string(),
            ip_mode: mode.map(str::to_owned),
            ..LoadBalancerIngress::default()
        })
        .collect()
}

#[expect(clippy::unnecessary_wraps, reason = "a field of an answer")]
fn identity(load_balancer: &LoadBalancer) -> Option<v1::LoadBalancerIdentity> {
    Some(v1::LoadBalancerIdentity {
        id: load_balancer.id.clone(),
        name: load_balancer.name.clone(),
    })
}

fn ready(load_balancer: &LoadBalancer) -> Answer {
    Answer {
        identity: identity(load_balancer),
        ..answer::ready(ingress(load_balancer))
    }
}

/// The answer about one that is not ready.
fn early(cloud: &Cloud, load_balancer: &LoadBalancer, retry_after: Duration) -> Answer {
    let mut early = ingress(load_balancer);
    if !cloud.config().load_balancers.early_addresses {
        early.clear();
    }
    Answer {
        identity: identity(load_balancer),
        ..answer::in_progress(retry_after, early)
    }
}

fn because(answer: Answer, reason: &str, message: &str) -> Answer {
    Answer {
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..answer
    }
}

fn until(time: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = time.map(|time| time.duration_since(now));
    left.and_then(|left| left.try_into().ok())
        .unwrap_or_default()
}
