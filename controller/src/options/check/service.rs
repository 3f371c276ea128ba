//! How the service-lb loop works.

use std::time::Duration;

use outrigger_core::targets::{Allowance, Pace};

use super::Findings;
use crate::{
    options::{config::PlanOutput, flags::ServiceFlags, values::not_negative},
    service::ServiceSettings,
};

pub(super) fn check(flags: &ServiceFlags, f: &mut Findings) -> ServiceSettings {
    let drift_period = f.take(not_negative(
        "load-balancer-drift-period",
        flags.load_balancer_drift_period,
    ));
    ServiceSettings {
        workers: f.workers("concurrent-service-syncs", flags.concurrent_service_syncs),
        pace: pace(flags, f),
        allowance: allowance(flags, f),
        drift_period: Some(drift_period).filter(|period| !period.is_zero()),
    }
}

fn pace(flags: &ServiceFlags, f: &mut Findings) -> Pace {
    let idle = f.take(not_negative(
        "load-balancer-update-idle",
        flags.load_balancer_update_idle,
    ));
    let ceiling = not_negative(
        "load-balancer-update-ceiling",
        flags.load_balancer_update_ceiling,
    );
    let ceiling = ceiling.and_then(|ceiling| {
        let fits = ceiling >= idle;
        fits.then_some(ceiling).ok_or_else(|| {
            format!(
                "--load-balancer-update-ceiling must not be less than \
                 --load-balancer-update-idle, but got {} and {}",
                flags.load_balancer_update_ceiling, flags.load_balancer_update_idle
            )
        })
    });
    Pace {
        idle,
        ceiling: f.take(ceiling),
        ..Pace::default()
    }
}

fn allowance(flags: &ServiceFlags, f: &mut Findings) -> Allowance {
    let few = f.count(
        "load-balancer-shrink-count",
        flags.load_balancer_shrink_count,
    );
    let fraction = f.fraction(
        "load-balancer-shrink-fraction",
        flags.load_balancer_shrink_fraction,
    );
    let hold: Duration = f.take(not_negative(
        "load-balancer-shrink-hold",
        flags.load_balancer_shrink_hold,
    ));
    Allowance {
        few: usize::try_from(few).unwrap_or(usize::MAX),
        fraction,
        hold,
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
