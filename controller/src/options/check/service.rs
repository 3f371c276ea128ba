//! How the service-lb loop works.

use outrigger_core::targets::{Allowance, Pace};

use super::Findings;
use crate::options::{config::PlanOutput, flags::ServiceFlags};
use outrigger_loops::service::ServiceSettings;

pub(super) fn check(flags: &ServiceFlags, f: &mut Findings) -> ServiceSettings {
    let drift_period = f.duration(flag!(flags.load_balancer_drift_period));
    let few = f.count(flag!(flags.load_balancer_shrink_count));
    ServiceSettings {
        workers: f.workers(flag!(flags.concurrent_service_syncs)),
        pace: pace(flags, f),
        allowance: Allowance {
            few: usize::try_from(few).unwrap_or(usize::MAX),
            fraction: f.fraction(flag!(flags.load_balancer_shrink_fraction)),
            hold: f.duration(flag!(flags.load_balancer_shrink_hold)),
        },
        drift_period: Some(drift_period).filter(|period| !period.is_zero()),
    }
}

fn pace(flags: &ServiceFlags, f: &mut Findings) -> Pace {
    let idle = f.duration(flag!(flags.load_balancer_update_idle));
    let ceiling = f.duration(flag!(flags.load_balancer_update_ceiling));
    if ceiling < idle && flags.load_balancer_update_ceiling.as_std().is_some() {
        f.errors.push(format!(
            "--load-balancer-update-ceiling must not be less than --load-balancer-update-idle, \
             but got {} and {}",
            flags.load_balancer_update_ceiling, flags.load_balancer_update_idle
        ));
    }
    Pace {
        idle,
        ceiling,
        ..Pace::default()
    }
}

pub(super) fn plan(flags: &ServiceFlags, f: &mut Findings) -> Option<PlanOutput> {
    let output = match &*flags.plan_output {
        "table" => PlanOutput::Table,
        "json" => PlanOutput::Json,
        other => {
            f.errors.push(format!(
                "--plan-output must be table or json, but got {other:?}"
            ));
            return None;
        }
    };
    flags.plan.0.then_some(output)
}
