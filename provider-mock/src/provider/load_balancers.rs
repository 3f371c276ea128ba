//! Load balancers as the contract asks for them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_provider_sdk as sdk;
use outrigger_provider_sdk::{
    Answer, ChangeAction, Context, Deleted, Ensured, Error, Ingress, IngressPoint, IpMode,
    LoadBalancers, LoadBalancersCapability, Observed, PlanOperation, PlannedChange, Service,
    Targets, Updated,
};

use super::{MockProvider, cluster_of, effects};
use crate::cloud::{Cloud, Deletion};
use crate::load_balancers::{
    ANNOTATION_PREFIX, AddressMode, LoadBalancer, LoadBalancerSpec, Target, targets as kept,
};

impl LoadBalancers for MockProvider {
    fn capability(&self) -> LoadBalancersCapability {
        let served = self.options().load_balancers.clone().unwrap_or_default();
        LoadBalancersCapability::default()
            .with_list(true)
            .with_plan(true)
            .with_classes(served.classes)
            .with_no_default_class(served.without_default_class)
            .with_max_in_flight(served.max_in_flight)
            .with_configuration_revision(served.configuration_revision)
            .with_target_label_keys(served.target_label_keys)
    }

    async fn get_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        if is_foreign(service) {
            return Ok(Observed::NotManaged.into());
        }
        let cloud = self.cloud();
        let Some(existing) = find(cloud, ctx, service).await? else {
            return Ok(Observed::Absent.into());
        };
        let now = cloud.config().clock.now();
        let description = described(&existing);
        let spec = LoadBalancerSpec::of(service, &cloud.config().load_balancers);
        let mut differences = spec.map_or_else(|_| Vec::new(), |w| w.differences(&existing));
        differences.extend(targets.and_then(|spec| other_targets(&existing, &kept(spec))));
        Ok(match existing.state(now) {
            "ready" if differences.is_empty() => Observed::Ready(description).into(),
            "ready" => {
                let answer = Answer::from(Observed::Differs(description));
                answer.because("NotAsWanted", differences.join("; "))
            }
            _ => Observed::InProgress(Some(early(cloud, description))).into(),
        })
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        if is_foreign(service) {
            return Ok(Ensured::NotManaged.into());
        }
        let cloud = self.cloud();
        let mut spec = LoadBalancerSpec::of(service, &cloud.config().load_balancers)?;
        spec.remember(service);
        let targets = kept(targets);
        let mut made = false;
        let load_balancer = match find(cloud, ctx, service).await? {
            None => {
                ctx.check()?;
                made = true;
                let cluster = cluster_of(ctx);
                cloud.create_load_balancer(&cluster, &spec, targets).await?
            }
            Some(existing) if existing.gone_at.is_some() => {
                let retry_after = until(existing.gone_at, cloud.config().clock.now());
                let answer = Ensured::in_progress(retry_after, None);
                let text = "The load balancer that this Service had is still being deleted";
                return Ok(Answer::from(answer).because("Deleting", text));
            }
            Some(mut existing) => {
                if !spec.differences(&existing).is_empty() {
                    ctx.check()?;
                    existing = cloud.change_load_balancer(&existing.id, &spec).await?;
                }
                if existing.targets != targets {
                    ctx.check()?;
                    existing = cloud.set_targets(&existing.id, targets).await?;
                }
                existing
            }
        };
        let now = cloud.config().clock.now();
        let description = described(&load_balancer);
        if load_balancer.state(now) != "ready" {
            let retry_after = until(Some(load_balancer.ready_at), now);
            let answer = Ensured::in_progress(retry_after, early(cloud, description));
            let text = "The cloud is making the load balancer";
            return Ok(Answer::from(answer).because("Provisioning", text));
        }
        let effects = self.has_effects();
        let effects = effects.then(|| effects::of_load_balancer(&load_balancer, made));
        Ok(Answer::from(Ensured::Ready(description)).with_effects(effects))
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        let cloud = self.cloud();
        if is_foreign(service) {
            return Ok(Updated::NotManaged.into());
        }
        let existing = find(cloud, ctx, service).await?;
        let Some(existing) = existing.filter(|existing| existing.gone_at.is_none()) else {
            return Ok(Updated::Absent.into());
        };
        let targets = kept(targets);
        if existing.targets != targets {
            ctx.check()?;
            cloud.set_targets(&existing.id, targets).await?;
        }
        Ok(Updated::ready(None).into())
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        if is_foreign(service) {
            return Ok(Deleted::NotManaged.into());
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
                Answer::from(Deleted::Absent).with_effects(effects)
            }
            Deletion::Protected => {
                let text = "The load balancer is protected from deletion and was kept";
                Answer::from(Deleted::Retained).because("DeletionProtected", text)
            }
            Deletion::Going(gone_at) => {
                Deleted::in_progress(until(Some(gone_at), cloud.config().clock.now())).into()
            }
        })
    }

    async fn list_load_balancers(
        &self,
        ctx: &Context,
        load_balancers: &mut sdk::LoadBalancerSink,
    ) -> Result<(), Error> {
        let (cloud, cluster) = (self.cloud(), cluster_of(ctx));
        let mut after: Option<String> = None;
        loop {
            let page = cloud.load_balancer_page(&cluster, after.as_deref());
            let (page, more) = page.await?;
            for one in &page {
                let service = one
                    .service
                    .as_ref()
                    .map(|tag| sdk::ServiceName::new(&tag.namespace, &tag.name, &tag.uid));
                let owned = sdk::OwnedLoadBalancer::new(described(one)).with_service(service);
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
        service: &Service,
        operation: &PlanOperation,
    ) -> Result<Vec<PlannedChange>, Error> {
        if is_foreign(service) {
            return Ok(Vec::new());
        }
        let cloud = self.cloud();
        let existing = find(cloud, ctx, service).await?;
        let change = |action, id: &str, summary: String| {
            PlannedChange::new(action, "load-balancer", summary).with_resource_id(id)
        };
        let targets = match operation {
            PlanOperation::Ensure(targets) => targets,
            PlanOperation::Delete => {
                let going =
                    existing.filter(|existing| !existing.protected && existing.gone_at.is_none());
                let gone = |existing: &LoadBalancer| format!("{} would be deleted", existing.name);
                return Ok(going
                    .map(|existing| change(ChangeAction::Delete, &existing.id, gone(&existing)))
                    .into_iter()
                    .collect());
            }
            _ => {
                return Err(Error::unsupported_feature(
                    "the mock plans no such operation",
                ));
            }
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
        let others = other_targets(&existing, &kept(targets));
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
}

fn other_targets(existing: &LoadBalancer, targets: &[Target]) -> Option<String> {
    let (from, to) = (existing.targets.len(), targets.len());
    (*existing.targets != *targets).then(|| format!("the targets would be changed, {from} to {to}"))
}

fn is_foreign(service: &Service) -> bool {
    let key = format!("{ANNOTATION_PREFIX}not-managed");
    service.annotations.get(&key).is_some_and(|v| v == "true")
}

async fn find(
    cloud: &Cloud,
    ctx: &Context,
    service: &Service,
) -> Result<Option<Arc<LoadBalancer>>, Error> {
    let cluster = cluster_of(ctx);
    Ok(cloud.find_load_balancer(&cluster, &service.uid).await?)
}

fn described(load_balancer: &LoadBalancer) -> sdk::LoadBalancer {
    let mode = match load_balancer.address_mode {
        AddressMode::Ip | AddressMode::Hostname => None,
        AddressMode::Vip => Some(IpMode::Vip),
        AddressMode::Proxy => Some(IpMode::Proxy),
    };
    let ingress = if load_balancer.address_mode == AddressMode::Hostname {
        vec![Ingress::hostname(load_balancer.hostname())]
    } else {
        let addresses = load_balancer.addresses.iter();
        addresses
            .map(|ip| IngressPoint::Ip { ip: *ip, mode }.into())
            .collect::<Vec<_>>()
    };
    sdk::LoadBalancer::new(&load_balancer.id)
        .with_name(&load_balancer.name)
        .with_ingress(ingress)
}

/// The answer about one that is not ready.
fn early(cloud: &Cloud, mut description: sdk::LoadBalancer) -> sdk::LoadBalancer {
    if !cloud.config().load_balancers.early_addresses {
        description.ingress.clear();
    }
    description
}

fn until(time: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = time.map(|time| time.duration_since(now));
    left.and_then(|left| left.try_into().ok())
        .unwrap_or_default()
}
