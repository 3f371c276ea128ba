//! How the service-lb loop works.

use outrigger_core::targets::Pace;
use outrigger_loops::service::ServiceSettings;

use super::Findings;
use crate::options::{config::PlanOutput, table::Flags};

pub(super) fn service(flags: &Flags, f: &mut Findings) -> ServiceSettings {
    let drift_period = f.duration(&flags.load_balancer_drift_period);
    ServiceSettings {
        workers: f.workers(&flags.concurrent_service_syncs),
        pace: pace(flags, f),
        drift_period: Some(drift_period).filter(|period| !period.is_zero()),
    }
}

fn pace(flags: &Flags, f: &mut Findings) -> Pace {
    let (idle_flag, ceiling_flag) = (
        &flags.load_balancer_update_idle,
        &flags.load_balancer_update_ceiling,
    );
    let (idle, ceiling) = (f.duration(idle_flag), f.duration(ceiling_flag));
    if ceiling < idle && ceiling_flag.as_std().is_some() {
        f.errors.push(format!(
            "{ceiling_flag} must not be less than {idle_flag}, but got {} and {}",
            ceiling_flag.value, idle_flag.value
        ));
    }
    Pace {
        idle,
        ceiling,
        ..Pace::default()
    }
}

pub(super) fn plan(flags: &Flags, f: &mut Findings) -> Option<PlanOutput> {
    let output = match flags.plan_output.as_str() {
        "table" => PlanOutput::Table,
        "json" => PlanOutput::Json,
        other => {
            f.errors.push(format!(
                "--plan-output must be table or json, but got {other:?}"
            ));
            return None;
        }
    };
    flags.plan.then_some(output)
}
