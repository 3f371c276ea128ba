//! Rules that every answer about a load balancer keeps. They judge the whole run.

use std::{net::IpAddr, time::Duration};

use outrigger_api::{
    MethodRequest as _,
    v1::{
        DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest,
        LoadBalancerAnswer, LoadBalancerDisposition as D, UpdateLoadBalancerNodesRequest,
    },
};

use crate::{
    case::{Check, check},
    subject::{Subject, expect_one_of},
    verdict::{Verdict, expect, skipped},
};

const GET: &str = GetLoadBalancerRequest::METHOD.name;
const ENSURE: &str = EnsureLoadBalancerRequest::METHOD.name;
const UPDATE: &str = UpdateLoadBalancerNodesRequest::METHOD.name;
const DELETE: &str = DeleteLoadBalancerRequest::METHOD.name;

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-20", async |subject| each(subject, retry_after).await),
        check("LBS-41", async |subject| each(subject, disposition).await),
        check("LBS-42", async |subject| each(subject, addresses).await),
        check("LBS-44", async |subject| each(subject, reason).await),
    ]
}

async fn each(
    subject: &Subject,
    check: fn(&'static str, &LoadBalancerAnswer) -> Verdict,
) -> Verdict {
    let observations = subject.observations();
    if observations.answers.is_empty() {
        subject.get(&subject.service(), None).await?;
    }
    let observations = subject.observations();
    if observations.answers.is_empty() {
        return Err(skipped("no answer was seen in this run"));
    }
    observations
        .answers
        .iter()
        .try_for_each(|(rpc, answer)| check(rpc, answer))
}

fn retry_after(rpc: &'static str, answer: &LoadBalancerAnswer) -> Verdict {
    if answer.disposition() != D::InProgress || rpc == GET {
        return Ok(());
    }
    let Some(wait) = answer.retry_after else {
        return Ok(());
    };
    let longest = if rpc == DELETE { 30 } else { 300 };
    let read = Duration::try_from(wait).unwrap_or_default();
    let legal = (Duration::from_secs(1)..=Duration::from_secs(longest)).contains(&read);
    expect(
        legal,
        format!("{rpc}: IN_PROGRESS with a retry_after of 1 s to {longest} s"),
        format!("{} s {} ns", wait.seconds, wait.nanos),
    )
}

fn disposition(rpc: &'static str, answer: &LoadBalancerAnswer) -> Verdict {
    let allowed: &[D] = match rpc {
        GET => &[
            D::Ready,
            D::Differs,
            D::InProgress,
            D::NotManaged,
            D::Absent,
        ],
        ENSURE => &[D::Ready, D::InProgress, D::NotManaged],
        UPDATE => &[D::Ready, D::InProgress, D::NotManaged, D::Absent],
        _ => &[D::Absent, D::Retained, D::NotManaged, D::InProgress],
    };
    let names: Vec<_> = allowed
        .iter()
        .map(|one| crate::subject::name_of(*one))
        .collect();
    let expected = format!("{rpc} is answered {}", names.join(", "));
    expect_one_of(allowed, answer, expected)
}

fn addresses(rpc: &'static str, answer: &LoadBalancerAnswer) -> Verdict {
    let points = answer.status.clone().unwrap_or_default().ingress;
    expect(points.len() <= 64, "at most 64 addresses", points.len())?;
    for point in points {
        let legal = match (&*point.ip, &*point.hostname) {
            (ip, "") => ip.parse::<IpAddr>().is_ok(),
            ("", name) => name.len() <= 253 && *name == name.to_lowercase(),
            _ => false,
        };
        expect(
            legal,
            format!("{rpc}: an IP address, or a lower case DNS name"),
            format!("ip {:?}, hostname {:?}", point.ip, point.hostname),
        )?;
        let mode = point.ip_mode.as_deref();
        expect(
            mode.is_none_or(|mode| ["VIP", "Proxy"].contains(&mode) && !point.ip.is_empty()),
            format!("{rpc}: ip_mode VIP or Proxy with an ip, or none"),
            format!("{mode:?} with the ip {:?}", point.ip),
        )?;
    }
    Ok(())
}

fn reason(rpc: &'static str, answer: &LoadBalancerAnswer) -> Verdict {
    let reason = &answer.reason;
    let camel = reason.is_empty()
        || reason.starts_with(|c: char| c.is_ascii_uppercase())
            && reason.chars().all(|c| c.is_ascii_alphanumeric());
    expect(
        camel && reason.len() <= 128,
        format!("{rpc}: a CamelCase reason of 128 bytes at most, or none"),
        format!("{reason:?}"),
    )
}
