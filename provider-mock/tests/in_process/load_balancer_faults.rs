//! Faults of load balancers.

use outrigger_api::v1::{LoadBalancerAnswer, LoadBalancerDisposition as Wire};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, Method};
use tonic::Code;

use crate::balanced::{Balanced, service};

fn bad(method: Method, bad: BadAnswer) -> Fault {
    Fault::on(method, Effect::BadAnswer(bad)).times(1)
}

#[tokio::test(start_paused = true)]
async fn answers_about_one_load_balancer_are_bad() {
    use BadAnswer::{
        Empty, FalseAbsence, FarRetry, MalformedAddress, MissingDisposition, MissingStatus,
        NotManaged, OversizedStrings,
    };
    let lb = Balanced::start(|_| {}).await;
    let good = lb.make("web").await.unwrap();
    for what in [
        Empty,
        FarRetry,
        MalformedAddress,
        MissingDisposition,
        MissingStatus,
        NotManaged,
        OversizedStrings,
    ] {
        lb.mock.cloud.inject(bad(Method::EnsureLoadBalancer, what));
        let spoilt = lb.make("web").await.unwrap();
        let disposition = spoilt.disposition();
        let ingress = spoilt.status.as_ref().map(|status| &status.ingress[0]);
        match what {
            Empty => assert_eq!(spoilt, LoadBalancerAnswer::default()),
            FarRetry => assert_eq!(spoilt.retry_after.unwrap().seconds, 3_600_000),
            MalformedAddress => assert_eq!(ingress.unwrap().ip, "999.0.2.1/33"),
            MissingDisposition => {
                assert_eq!(disposition, Wire::Unspecified);
                assert!(ingress.is_some());
            }
            MissingStatus => assert!(disposition == Wire::Ready && ingress.is_none()),
            NotManaged => assert_eq!(disposition, Wire::NotManaged),
            _ => assert!(ingress.unwrap().hostname.len() > 1_024),
        }
        assert_eq!(lb.make("web").await.unwrap(), good, "after {what}");
    }
    lb.mock
        .cloud
        .inject(bad(Method::GetLoadBalancer, FalseAbsence));
    let absent = lb.get(service("web")).await.unwrap();
    assert_eq!(absent.disposition(), Wire::Absent);
    lb.mock
        .cloud
        .inject(bad(Method::DeleteLoadBalancer, MissingDisposition));
    let nothing = lb.delete(service("web")).await.unwrap();
    assert_eq!(nothing.disposition(), Wire::Unspecified);
    assert!(
        lb.mock.cloud.load_balancers().is_empty(),
        "it was served all the same"
    );
}

#[tokio::test(start_paused = true)]
async fn lists_are_cut_off_or_say_things_twice() {
    let lb = Balanced::start(|_| {}).await;
    for name in ["a", "b"] {
        lb.make(name).await.unwrap();
    }
    for (what, count, whole) in [
        (BadAnswer::Empty, 0, false),
        (BadAnswer::DuplicateResult, 4, true),
        (BadAnswer::MissingResult, 0, true),
    ] {
        lb.mock.cloud.inject(bad(Method::ListLoadBalancers, what));
        let (listed, complete) = lb.list().await.unwrap();
        assert_eq!((listed.len(), complete), (count, whole), "{what}");
    }
    lb.mock
        .cloud
        .inject(bad(Method::ListLoadBalancers, BadAnswer::OversizedReply));
    assert_eq!(lb.list().await.unwrap_err().code(), Code::OutOfRange);
}
