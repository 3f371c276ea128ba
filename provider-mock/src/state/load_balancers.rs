//! Load balancers in the state file. Thousands may have the same thousands of targets, so each list
//! of targets stands there once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::load_balancers::{LoadBalancer, LoadBalancerInventory, Target};

/// Lists that load balancers name by their index.
pub(super) type TargetLists = Vec<Arc<[Target]>>;

/// One load balancer, its targets named.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Saved {
    load_balancer: LoadBalancer,
    target_list: usize,
}

pub(super) fn save(inventory: &LoadBalancerInventory) -> (Vec<Saved>, TargetLists) {
    let mut lists = TargetLists::new();
    let saved = inventory
        .iter()
        .map(|load_balancer| {
            // The inventory keeps equal lists once.
            let position = lists
                .iter()
                .rposition(|list| Arc::ptr_eq(list, &load_balancer.targets));
            let target_list = position.unwrap_or_else(|| {
                lists.push(Arc::clone(&load_balancer.targets));
                lists.len() - 1
            });
            Saved {
                load_balancer: LoadBalancer {
                    targets: Arc::default(),
                    ..LoadBalancer::clone(load_balancer)
                },
                target_list,
            }
        })
        .collect();
    (saved, lists)
}

pub(super) fn restore(
    saved: Vec<Saved>,
    lists: &TargetLists,
) -> Result<LoadBalancerInventory, String> {
    let load_balancers = saved.into_iter().map(|saved| {
        let id = &saved.load_balancer.id;
        let list = lists.get(saved.target_list);
        let targets = list.ok_or_else(|| {
            format!(
                "load balancer {id} names target list {}, which is not there",
                saved.target_list
            )
        })?;
        Ok(LoadBalancer {
            targets: Arc::clone(targets),
            ..saved.load_balancer
        })
    });
    let load_balancers = load_balancers.collect::<Result<_, String>>()?;
    LoadBalancerInventory::restore(load_balancers).map_err(|refused| refused.to_string())
}
