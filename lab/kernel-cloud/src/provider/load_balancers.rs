//! Load balancers of Services.

use outrigger_provider_sdk::{
    Answer, ChangeAction, Context, Deleted, Ensured, Error, Ingress, IngressPoint, IpMode,
    LoadBalancer, LoadBalancerSink, LoadBalancers, LoadBalancersCapability, Observed,
    OwnedLoadBalancer, PlanOperation, PlannedChange, Service, ServiceName, Targets, Updated,
};

use super::{LinuxProvider, while_waited_for};
use crate::load_balancer::{self, Family, Key, cluster_uid, families};

/// The kind of resource in plans.
const KIND: &str = "nftables-chain";

impl LoadBalancers for LinuxProvider {
    fn capability(&self) -> LoadBalancersCapability {
        let options = self.balancer().options();
        let health = options.cluster_health_port.unwrap_or_default();
        LoadBalancersCapability::default()
            .with_list(true)
            .with_plan(true)
            // The kernel forgets them with the next start of the host, which has another name then.
            .with_configuration_revision(format!(
                "1-{health}-{}-{}",
                u8::from(options.masquerade),
                options.start_of_host
            ))
    }

    async fn get_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: Option<&Targets>,
    ) -> Result<Answer<Observed>, Error> {
        let key = Key::of(ctx, service)?;
        let table = while_waited_for(ctx, self.balancer().read()).await??;
        let Some(held) = table.balancers.get(&key) else {
            return Ok(Observed::Absent.into());
        };
        let balancer = described(&key, held, service);
        let desired = self.balancer().desired(ctx, &table, service, targets)?;
        let mut differences = held.differences(&desired);
        if !table.has_rules_of(&key) {
            differences.push("rules: some are missing".to_owned());
        }
        if differences.is_empty() {
            return Ok(Observed::Ready(balancer).into());
        }
        let differs = Answer::from(Observed::Differs(balancer));
        Ok(differs.because("OtherRules", differences.join("; ")))
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Ensured>, Error> {
        let key = Key::of(ctx, service)?;
        let balancer = self.balancer();
        let change = |table: &_| {
            let desired = balancer.desired(ctx, table, service, Some(targets))?;
            ctx.check()?;
            Ok(Some(desired))
        };
        let made = balancer.change(&key, change).await?.unwrap_or_default();
        Ok(Ensured::Ready(described(&key, &made, service)).into())
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        service: &Service,
        targets: &Targets,
    ) -> Result<Answer<Updated>, Error> {
        let key = Key::of(ctx, service)?;
        let change = |table: &crate::nft::Table| {
            let mut balancer = table.balancers.get(&key).cloned();
            if let Some(balancer) = &mut balancer {
                let families: Vec<_> = balancer.addresses.keys().copied().collect();
                balancer.targets = load_balancer::targets(targets, &families, &balancer.targets);
            }
            ctx.check()?;
            Ok(balancer)
        };
        let updated = self.balancer().change(&key, change).await?;
        Ok(updated
            .map_or(Updated::Absent, |_| Updated::ready(None))
            .into())
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
    ) -> Result<Answer<Deleted>, Error> {
        let key = Key::of(ctx, service)?;
        self.balancer()
            .change(&key, |_| ctx.check().map(|()| None))
            .await?;
        Ok(Deleted::Absent.into())
    }

    async fn list_load_balancers(
        &self,
        ctx: &Context,
        load_balancers: &mut LoadBalancerSink,
    ) -> Result<(), Error> {
        let cluster = cluster_uid(ctx)?;
        let table = while_waited_for(ctx, self.balancer().read()).await??;
        let own = table
            .balancers
            .iter()
            .filter(|(key, _)| key.cluster == cluster);
        let own: Vec<_> = own
            .map(|(key, held)| {
                let (namespace, name) = held.name.split_once('/').unwrap_or_default();
                let service = ServiceName::new(namespace, name, &key.service);
                let balancer = described(key, held, &Service::default());
                OwnedLoadBalancer::new(balancer).with_service(service)
            })
            .collect();
        load_balancers.send_all(own).await
    }

    async fn plan_load_balancer(
        &self,
        ctx: &Context,
        service: &Service,
        operation: &PlanOperation,
    ) -> Result<Vec<PlannedChange>, Error> {
        let key = Key::of(ctx, service)?;
        let table = while_waited_for(ctx, self.balancer().read()).await??;
        let held = table.balancers.get(&key);
        let change = |action, summary: &str| {
            vec![PlannedChange::new(action, KIND, summary).with_resource_id(key.service.clone())]
        };
        let targets = match (operation, held) {
            (PlanOperation::Ensure(targets), _) => targets,
            (_, Some(held)) => {
                let summary = format!("the load balancer of {} would be removed", held.name);
                return Ok(change(ChangeAction::Delete, &summary));
            }
            (_, None) => return Ok(Vec::new()),
        };
        let desired = self
            .balancer()
            .desired(ctx, &table, service, Some(targets))?;
        let Some(held) = held else {
            let addresses: Vec<_> = desired
                .addresses
                .values()
                .map(ToString::to_string)
                .collect();
            let summary = format!("a load balancer would be made at {}", addresses.join(", "));
            return Ok(change(ChangeAction::Create, &summary));
        };
        let mut differences = held.differences(&desired);
        if !table.has_rules_of(&key) {
            differences.push("rules: some are missing".to_owned());
        }
        let changes = differences
            .iter()
            .flat_map(|one| change(ChangeAction::Update, one));
        Ok(changes.collect())
    }
}

/// The load balancer as the controller sees it, its addresses in the order of the Service.
fn described(key: &Key, held: &load_balancer::LoadBalancer, service: &Service) -> LoadBalancer {
    let mut order = families(service);
    order.extend(Family::ALL);
    let mut ingress: Vec<Ingress> = Vec::new();
    for address in order.iter().filter_map(|family| held.addresses.get(family)) {
        // Packets arrive at a node as they are.
        let mode = Some(IpMode::Vip);
        let entry = Ingress::from(IngressPoint::Ip { ip: *address, mode });
        if !ingress.contains(&entry) {
            ingress.push(entry);
        }
    }
    LoadBalancer::new(key.service.clone())
        .with_name(held.name.clone())
        .with_ingress(ingress)
}
