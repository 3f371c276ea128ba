//! Removes objects that earlier runs have left in the cloud.

use std::{fmt, sync::Arc};

use ipnet::IpNet;
use outrigger_api::v1::Service;

use crate::{
    capability::Capability,
    cases,
    run::{self, Settings},
    subject::{NAMESPACE, Subject, destination, uid_of},
    verdict::{Stop, Verdict},
};

/// The most objects of one kind that one case makes, for a sweep without a list.
pub(crate) const MOST_OF_A_CASE: u32 = 16;

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    deleted: Vec<String>,
    left: Vec<String>,
}

impl Swept {
    /// Nothing is left.
    pub const fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.deleted {
            writeln!(f, "deleted {name}")?;
        }
        for name in &self.left {
            writeln!(f, "not deleted: {name}")?;
        }
        write!(
            f,
            "{} deleted, {} left",
            self.deleted.len(),
            self.left.len()
        )
    }
}

/// Deletes the load balancers of one run, or all that a list shows; and the routes of all runs.
///
/// # Errors
///
/// The provider cannot be reached; or it has no list of load balancers and no run is named.
pub async fn sweep(settings: Settings, by_run: bool) -> Result<Swept, String> {
    let suite = Arc::new(run::prepare(&settings).await?);
    let has_balancers = Capability::LoadBalancers.is_declared(&suite.handshake);
    let has_routes = Capability::Routes.is_declared(&suite.handshake);
    if !has_balancers && !has_routes {
        return Err(
            "the provider declares neither load balancers nor routes: nothing to sweep".to_owned(),
        );
    }
    let has_list = Capability::LoadBalancersList.is_declared(&suite.handshake);
    let reason = |stop: Stop| stop.to_string();
    let subject = Subject::of(&suite, "sweep").await.map_err(reason)?;
    let services = if !has_balancers {
        Vec::new()
    } else if by_run {
        possible(&settings.run_id)
    } else if has_list {
        let listed = subject.listed_services(None).await;
        let services = listed.map_err(|error| error.to_string())?.into_iter();
        let ours = services.filter(|one| one.namespace == NAMESPACE);
        ours.map(|one| service(one.name, one.uid)).collect()
    } else {
        return Err(
            "the provider declares no LoadBalancersCapability.list; name the run: --run-id ID"
                .to_owned(),
        );
    };
    let mut swept = Swept::default();
    for service in services {
        let name = service.name.clone();
        match subject.delete(&service).await {
            Ok(_) => swept.deleted.push(name),
            Err(stop) => swept.left.push(format!("{name}: {stop}")),
        }
    }
    if has_routes {
        sweep_routes(&subject, &mut swept).await.map_err(reason)?;
    }
    Ok(swept)
}

/// The routes of all runs, as they are listed: nothing in a route names a run.
async fn sweep_routes(subject: &Subject, swept: &mut Swept) -> Verdict {
    let ranges = &subject.inputs().cluster.pod_cidrs;
    let is_ours = |to: IpNet| ranges.iter().any(|range| range.contains(&to));
    for route in subject.list_routes().await? {
        if !destination(&route).is_some_and(is_ours) {
            continue;
        }
        let name = format!("route to {}", route.destination_cidr);
        match subject.delete_routes(&[route]).await {
            Ok(()) => swept.deleted.push(name),
            Err(stop) => swept.left.push(format!("{name}: {stop}")),
        }
    }
    Ok(())
}

/// Every Service that a run of this id could have made.
fn possible(run_id: &str) -> Vec<Service> {
    let cases = cases::all().into_iter().filter(|case| case.mutates);
    cases
        .flat_map(|case| {
            let case = case.id.to_lowercase();
            (0..MOST_OF_A_CASE).map(move |number| format!("conformance-{run_id}-{case}-{number}"))
        })
        .map(|name| {
            let uid = uid_of(&name);
            service(name, uid)
        })
        .collect()
}

fn service(name: String, uid: String) -> Service {
    Service {
        namespace: NAMESPACE.to_owned(),
        name,
        uid,
        r#type: "LoadBalancer".to_owned(),
        ..Service::default()
    }
}
