//! Routes to Pod CIDRs: those of a cluster are a routing table of its own, and the kernel has nothing else of them.

use std::net::IpAddr;

use ipnet::IpNet;
use outrigger_provider_sdk::v1::Route;
use outrigger_provider_sdk::{Context, Error, RouteSink, Routes, WithEffects};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{LinuxProvider, while_waited_for};
use crate::hops::{PROTOCOL, flag};
use crate::kernel::{Failure, ip_list, run};
use crate::load_balancer::{Family, cluster_uid, internal_ip};

/// Priority of the rules of clusters, after those of load balancers and before the host's own table.
const PRIORITY: &str = "21321";

/// A route as `ip -j route` shows it.
#[derive(Debug, Deserialize)]
struct Shown {
    #[serde(default, rename = "type")]
    kind: String,
    dst: String,
    gateway: Option<IpAddr>,
    #[serde(default)]
    flags: Vec<String>,
}

impl Shown {
    fn leads_nowhere(&self) -> bool {
        self.kind == "blackhole"
            || self
                .flags
                .iter()
                .any(|flag| flag == "dead" || flag == "linkdown")
    }

    /// The destination; a single address has no length.
    fn destination(&self) -> Option<IpNet> {
        let single = || self.dst.parse::<IpAddr>().ok().map(IpNet::from);
        self.dst.parse().ok().or_else(single)
    }

    fn into_route(self) -> Option<Route> {
        let destination = self.destination()?;
        let blackhole = self.leads_nowhere();
        let gateway = self.gateway.map(|gateway| gateway.to_string());
        Some(Route {
            destination_cidr: destination.to_string(),
            next_hop_ip: gateway.unwrap_or_default(),
            blackhole,
            ..Route::default()
        })
    }
}

/// The number of a cluster's routing table: 0x5 and the first bits of the digest of its UID.
pub(crate) fn table_of(cluster: &str) -> String {
    let digest = Sha256::digest(cluster.as_bytes());
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (0x5000_0000 | number >> 4).to_string()
}

async fn show(family: Family, table: &str) -> Result<Vec<Shown>, Failure> {
    match ip_list(&[flag(family), "route", "show", "table", table]).await {
        Err(failure) if failure.says("table does not exist") => Ok(Vec::new()),
        shown => shown,
    }
}

/// The destination of a route, and the addresses of its target in its family.
fn parse(route: &Route) -> Result<(IpNet, Vec<IpAddr>), Error> {
    let text = &route.destination_cidr;
    let destination: IpNet = text
        .parse()
        .map_err(|_| Error::invalid_request(format!("{text:?} is no CIDR")))?;
    let family = Family::of(destination.addr());
    let addresses = route.node_addresses.iter().filter_map(internal_ip);
    let next_hop = route.next_hop_ip.parse().ok();
    let hops = next_hop.into_iter().chain(addresses);
    Ok((
        destination.trunc(),
        hops.filter(|hop| Family::of(*hop) == family).collect(),
    ))
}

impl Routes for LinuxProvider {
    async fn list_routes(&self, ctx: &Context, routes: &mut RouteSink) -> Result<(), Error> {
        let table = table_of(cluster_uid(ctx)?);
        for family in Family::ALL {
            let shown = while_waited_for(ctx, show(family, &table)).await??;
            let shown: Vec<_> = shown.into_iter().filter_map(Shown::into_route).collect();
            routes.send_all(shown).await?;
        }
        Ok(())
    }

    async fn create_route(
        &self,
        ctx: &Context,
        route: &Route,
    ) -> Result<WithEffects<Option<Route>>, Error> {
        let table = table_of(cluster_uid(ctx)?);
        let (destination, hops) = parse(route)?;
        let family = Family::of(destination.addr());
        let Some(hop) = hops.first() else {
            return Err(Error::unsupported_feature(format!(
                "the Node {} has no InternalIP of the family {family}, to which a route to {destination} could lead",
                route.node_name
            )));
        };
        ctx.check()?;
        let to_table = ["lookup", &table, "priority", PRIORITY, "protocol", PROTOCOL];
        let rule = [&[flag(family), "rule", "add"], &to_table[..]].concat();
        match run("ip", &rule, "").await {
            Err(failure) if !failure.says("File exists") => return Err(failure.into()),
            _ => {}
        }
        let (to, via) = (destination.to_string(), hop.to_string());
        let hop_to = [&to, "via", &via, "table", &table, "proto", PROTOCOL];
        let add = [&[flag(family), "route", "add"], &hop_to[..]].concat();
        match run("ip", &add, "").await {
            Ok(_) => {}
            Err(failure) if failure.says("File exists") => {
                let shown = show(family, &table).await?;
                let existing = shown
                    .into_iter()
                    .find(|one| one.destination() == Some(destination));
                let target = existing.and_then(|one| one.gateway);
                if target != Some(*hop) {
                    let target =
                        target.map_or_else(|| "nowhere".to_owned(), |target| target.to_string());
                    return Err(Error::conflicting_resource(format!(
                        "the route to {destination} leads to {target} and not to {hop}"
                    )));
                }
            }
            Err(failure @ Failure::Failed { .. }) => {
                return Err(Error::dependency_not_ready(format!(
                    "no link to the Node {} is up: {failure}",
                    route.node_name
                )));
            }
            Err(failure) => return Err(failure.into()),
        }
        let made = Route {
            destination_cidr: to,
            next_hop_ip: via,
            ..Route::default()
        };
        Ok(Some(made).into())
    }

    async fn delete_route(&self, ctx: &Context, route: &Route) -> Result<WithEffects<()>, Error> {
        let table = table_of(cluster_uid(ctx)?);
        let (destination, hops) = parse(route)?;
        let family = Family::of(destination.addr());
        let shown = while_waited_for(ctx, show(family, &table)).await??;
        let Some(existing) = shown
            .into_iter()
            .find(|one| one.destination() == Some(destination))
        else {
            return Ok(().into());
        };
        let to = destination.to_string();
        // The kernel compares the target again, so that no other route is deleted.
        let target = match existing.gateway {
            Some(gateway) if hops.contains(&gateway) => {
                vec![to, "via".to_owned(), gateway.to_string()]
            }
            Some(_) => return Ok(().into()),
            None => vec![existing.kind, to],
        };
        ctx.check()?;
        let mut delete = vec![flag(family), "route", "delete"];
        delete.extend(target.iter().map(String::as_str));
        delete.extend(["table", &table]);
        match run("ip", &delete, "").await {
            Err(failure) if !failure.says("No such process") => Err(failure.into()),
            _ => Ok(().into()),
        }
    }
}

/// Removes all routes of a cluster.
pub async fn clean_up(cluster: &str) -> Result<(), Failure> {
    let table = table_of(cluster);
    for family in Family::ALL {
        for command in [
            vec![flag(family), "rule", "delete", "lookup", &table],
            vec![flag(family), "route", "flush", "table", &table],
        ] {
            match run("ip", &command, "").await {
                Err(failure)
                    if !failure.says("No such file") && !failure.says("does not exist") =>
                {
                    return Err(failure);
                }
                _ => {}
            }
        }
    }
    Ok(())
}
