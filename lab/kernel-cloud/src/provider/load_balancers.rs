//! Load balancers of Services.

use outrigger_provider_sdk::v1::{self, LoadBalancerIngress, Service};
use outrigger_provider_sdk::{
    Answer, Context, Error, LoadBalancerSink, LoadBalancers, OfService as _, Targets, answer,
};

use super::{LinuxProvider, while_waited_for};
use crate::load_balancer::{self, Family, Key, cluster_uid, families};
use crate::options;

/// The kind of resource in plans.
const KIND: &str = "nftables-chain";

impl LoadBalancers for LinuxProvider {
    fn capability(&self) -> v1::LoadBalancersCapability {
        let made = self.balancer().options();
        let health = made.cluster_health_port.unwrap_or_default();
        let (masquerade, start) = (u8::from(made.masquerade), &made.start_of_host);
        v1::LoadBalancersCapability {
            list: true,
            plan: true,
            // The kernel forgets them with the next start of the host, which has another name then.
            configuration_revision: format!("2-{health}-{masquerade}-{start}"),
            options: Some(options::served(!made.internal_links.is_empty())),
            ..v1::LoadBalancersCapability::default()
        }
    }

    async fn get_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::GetLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Answer, Error> {
        let service = request.service();
        let key = Key::of(ctx, service)?;
        let table = while_waited_for(ctx, self.balancer().read()).await??;
        let Some(held) = table.balancers.get(&key) else {
            return Ok(answer::absent());
        };
        let desired = self.balancer().desired(ctx, &table, service, targets)?;
        let mut differences = held.differences(&desired);
        if !table.has_rules_of(&key, self.balancer().options().masquerade) {
            differences.push("rules: some are missing".to_owned());
        }
        if differences.is_empty() {
            return Ok(ready(&key, held, service));
        }
        Ok(answer::differs(differences.join("; ")))
    }

    async fn ensure_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let service = request.service();
        let key = Key::of(ctx, service)?;
        let balancer = self.balancer();
        let change = |table: &_| {
            let desired = balancer.desired(ctx, table, service, Some(targets))?;
            ctx.check()?;
            Ok(Some(desired))
        };
        let made = balancer.change(&key, change).await?.unwrap_or_default();
        Ok(ready(&key, &made, service))
    }

    async fn update_load_balancer_nodes(
        &self,
        ctx: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        let key = Key::of(ctx, request.service())?;
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
        Ok(updated.map_or_else(answer::absent, |_| answer::ready([])))
    }

    async fn delete_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        let key = Key::of(ctx, request.service())?;
        self.balancer()
            .change(&key, |_| ctx.check().map(|()| None))
            .await?;
        Ok(answer::absent())
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
                let described = ready(key, held, &Service::default());
                v1::OwnedLoadBalancer {
                    identity: described.identity,
                    service: Some(v1::ServiceRef {
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                        uid: key.service.clone(),
                    }),
                    status: described.status,
                }
            })
            .collect();
        load_balancers.send_all(own).await
    }

    async fn plan_load_balancer(
        &self,
        ctx: &Context,
        request: &v1::PlanLoadBalancerRequest,
        targets: Option<&Targets>,
    ) -> Result<Vec<v1::PlannedChange>, Error> {
        let service = request.service();
        let key = Key::of(ctx, service)?;
        let table = while_waited_for(ctx, self.balancer().read()).await??;
        let held = table.balancers.get(&key);
        let change = |action: v1::ChangeAction, summary: &str| {
            vec![v1::PlannedChange {
                action: action.into(),
                resource_type: KIND.to_owned(),
                resource_id: key.service.clone(),
                summary: summary.to_owned(),
            }]
        };
        let targets = match (targets, held) {
            (Some(targets), _) => targets,
            (None, Some(held)) => {
                let summary = format!("the load balancer of {} would be removed", held.name);
                return Ok(change(v1::ChangeAction::Delete, &summary));
            }
            (None, None) => return Ok(Vec::new()),
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
            return Ok(change(v1::ChangeAction::Create, &summary));
        };
        let mut differences = held.differences(&desired);
        if !table.has_rules_of(&key, self.balancer().options().masquerade) {
            differences.push("rules: some are missing".to_owned());
        }
        let changes = differences
            .iter()
            .flat_map(|one| change(v1::ChangeAction::Update, one));
        Ok(changes.collect())
    }
}

/// The load balancer as the controller sees it, its addresses in the order of the Service.
fn ready(key: &Key, held: &load_balancer::LoadBalancer, service: &Service) -> Answer {
    let mut order = families(service);
    order.extend(Family::ALL);
    let mut ingress = Vec::new();
    for address in order.iter().filter_map(|family| held.addresses.get(family)) {
        let entry = LoadBalancerIngress {
            ip: address.to_string(),
            // Packets arrive at a node as they are.
            ip_mode: Some("VIP".to_owned()),
            ..LoadBalancerIngress::default()
        };
        if !ingress.contains(&entry) {
            ingress.push(entry);
        }
    }
    Answer {
        identity: Some(v1::LoadBalancerIdentity {
            id: key.service.clone(),
            name: held.name.clone(),
        }),
        ..answer::ready(ingress)
    }
}
