//! The removal of everything that the run may have made.

use outrigger_api::v1::Service;

use super::{Subject, destination};
use crate::{
    inputs::limit,
    verdict::{Verdict, failed},
};

impl Subject {
    /// Deletes everything that is left over. The first error ends nothing; it is returned at the end.
    pub(crate) async fn clean_up(&self) -> Verdict {
        let mut verdict = Ok(());
        for service in self.leftovers().objects().services.into_values() {
            let deleted = self.remove(&service).await;
            verdict = verdict.and(deleted);
        }
        verdict.and(self.remove_routes().await)
    }

    /// Deletes, as they are listed, the routes that cases have made, until a list has none of them.
    async fn remove_routes(&self) -> Verdict {
        let expected = self.leftovers().objects().routes;
        if expected.is_empty() {
            return Ok(());
        }
        let within = limit(self.inputs().limits.gone);
        let look = async || {
            let listed = self.list_routes().await?;
            let ours = listed.into_iter();
            let ours = ours.filter(|one| destination(one).is_some_and(|to| expected.contains(&to)));
            let ours: Vec<_> = ours.collect();
            if ours.is_empty() {
                return Ok(());
            }
            self.delete_routes(&ours).await?;
            Err(failed(
                "no route of the case",
                format!("{} routes", ours.len()),
            ))
        };
        self.wait_for("a list has no route of the case", within, look)
            .await?;
        self.leftovers().forget_routes();
        Ok(())
    }

    async fn remove(&self, service: &Service) -> Verdict {
        use outrigger_api::v1::LoadBalancerDisposition::Retained;
        let answer = self.delete(service).await?;
        if answer.disposition() == Retained {
            let kept = format!("the load balancer of {} is RETAINED", service.name);
            return Err(failed("a Service of the suite leaves nothing behind", kept));
        }
        self.leftovers().forget(service);
        Ok(())
    }
}
