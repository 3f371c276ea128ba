//! The fields of an instance that was found.

use std::net::IpAddr;

use ipnet::IpNet;
use outrigger_api::v1::{Instance, InstanceView, Node, PowerState};

use crate::{
    case::{Check, check},
    labels::{is_kubernetes, is_label_key, is_label_value},
    subject::Subject,
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("INS-12", async |subject| each(subject, placement).await),
        check("INS-21", stable),
        check("INS-22", async |subject| each(subject, addresses).await),
        check("INS-23", async |subject| each(subject, labels).await),
        check("INS-24", prefixes),
        check("INS-25", state_view),
        check("INS-26", unknown_view),
        check("INS-27", async |subject| each(subject, pod_cidrs).await),
        check("INS-28", as_in_inputs),
        check("INS-35", planned_maintenance),
        check("INS-36", name_of_the_cloud),
    ]
}

/// All machines of the inputs that exist, with a view.
async fn all(subject: &Subject, view: InstanceView) -> Verdict<Vec<Instance>> {
    let mut instances = Vec::new();
    for machine in &subject.inputs().instances.existing {
        instances.push(subject.found(subject.node(machine), view).await?);
    }
    Ok(instances)
}

async fn each(subject: &Subject, check: fn(&Instance) -> Verdict) -> Verdict {
    let instances = all(subject, InstanceView::Metadata).await?;
    instances.iter().try_for_each(check)
}

fn placement(instance: &Instance) -> Verdict {
    for (field, value) in [
        ("zone", &instance.zone),
        ("region", &instance.region),
        ("instance_type", &instance.instance_type),
    ] {
        expect(
            is_label_value(value),
            format!("{field} is a label value or empty"),
            format!("{value:?}"),
        )?;
    }
    Ok(())
}

async fn stable(subject: &Subject) -> Verdict {
    let first = all(subject, InstanceView::Metadata).await?;
    for _ in 0..3 {
        let again = all(subject, InstanceView::Metadata).await?;
        for (first, again) in first.iter().zip(&again) {
            expect(
                first.addresses == again.addresses && first.addresses.len() <= 64,
                format!("the addresses {:?}", first.addresses),
                format!("{:?}", again.addresses),
            )?;
        }
    }
    Ok(())
}

fn addresses(instance: &Instance) -> Verdict {
    for address in &instance.addresses {
        let (kind, text) = (&*address.r#type, &address.address);
        let is_ip = text.parse::<IpAddr>().is_ok();
        let legal = match kind {
            "InternalIP" | "ExternalIP" => is_ip,
            "Hostname" | "InternalDNS" | "ExternalDNS" => {
                (1..=253).contains(&text.len()) && !text.contains(char::is_whitespace)
            }
            _ => false,
        };
        expect(
            legal,
            "an address of type InternalIP or ExternalIP is an IP address, of Hostname, \
             InternalDNS or ExternalDNS a DNS name",
            format!("{kind} {text:?}"),
        )?;
    }
    Ok(())
}

fn labels(instance: &Instance) -> Verdict {
    let labels = &instance.additional_labels;
    expect(
        labels.len() <= 64,
        "at most 64 additional labels",
        labels.len(),
    )?;
    for (key, value) in labels {
        expect(
            is_label_key(key) && is_label_value(value) && !is_kubernetes(key),
            "a legal label outside kubernetes.io and k8s.io",
            format!("{key}={value}"),
        )?;
    }
    Ok(())
}

fn needs_provider_id(subject: &Subject) -> Verdict {
    if subject.instances().without_provider_id {
        return Err(skipped("the provider declares without_provider_id"));
    }
    Ok(())
}

async fn prefixes(subject: &Subject) -> Verdict {
    needs_provider_id(subject)?;
    let prefixes = subject.provider_id_prefixes();
    for instance in all(subject, InstanceView::Metadata).await? {
        let id = &instance.provider_id;
        let owned = prefixes.iter().any(|prefix| id.starts_with(prefix));
        expect(
            owned && id.len() <= 1024,
            format!("a provider ID that begins with one of {prefixes:?}"),
            format!("{id:?}"),
        )?;
    }
    Ok(())
}

async fn state_view(subject: &Subject) -> Verdict {
    for instance in all(subject, InstanceView::State).await? {
        let power = instance.power_state();
        let named = !instance.provider_id.is_empty() || subject.instances().without_provider_id;
        expect(
            power != PowerState::Unspecified && named,
            "a power state and a provider ID",
            format!("{}, {:?}", power.as_str_name(), instance.provider_id),
        )?;
    }
    Ok(())
}

async fn unknown_view(subject: &Subject) -> Verdict {
    let node = subject.node(&subject.existing());
    let full = subject.found(node.clone(), InstanceView::Full).await?;
    let instance = subject.found(node, 1000).await?;
    expect(
        instance.addresses == full.addresses && instance.zone == full.zone,
        "the same as with the view FULL",
        format!("{instance:?}"),
    )
}

fn pod_cidrs(instance: &Instance) -> Verdict {
    let mut families = Vec::new();
    for cidr in &instance.pod_cidrs {
        let read = cidr.parse::<IpNet>();
        let legal = read.as_ref().is_ok_and(|net| *net == net.trunc());
        expect(legal, "a CIDR without host bits", format!("{cidr:?}"))?;
        let is_ipv4 = matches!(read, Ok(IpNet::V4(_)));
        expect(
            !families.contains(&is_ipv4),
            "one Pod CIDR of each IP family at most",
            format!("{:?}", instance.pod_cidrs),
        )?;
        families.push(is_ipv4);
    }
    Ok(())
}

async fn planned_maintenance(subject: &Subject) -> Verdict {
    let first = all(subject, InstanceView::Metadata).await?;
    let again = all(subject, InstanceView::Metadata).await?;
    if !first
        .iter()
        .chain(&again)
        .any(|one| one.planned_maintenance.is_some())
    {
        return Err(skipped("no machine has planned maintenance"));
    }
    for (first, again) in first.iter().zip(&again) {
        let planned = &first.planned_maintenance;
        expect(
            *planned == again.planned_maintenance,
            format!("{planned:?} in the next answer, too"),
            format!("{:?}", again.planned_maintenance),
        )?;
        let Some(planned) = planned else {
            continue;
        };
        for time in planned.starts_at.iter().chain(&planned.ends_at) {
            let read = jiff::Timestamp::new(time.seconds, time.nanos);
            expect(
                read.is_ok_and(|at| at > jiff::Timestamp::UNIX_EPOCH),
                "a time after 1970-01-01T00:00:00Z and before the year 10000",
                format!("{} s and {} ns", time.seconds, time.nanos),
            )?;
        }
        let (id, reason) = (&planned.id, &planned.reason);
        expect(
            reason.len() <= 256 && id.len() <= 128 && id.bytes().all(|c| c.is_ascii_graphic()),
            "a reason of at most 256 bytes, and an id of at most 128 visible ASCII characters",
            format!("{} bytes, and {id:?}", reason.len()),
        )?;
    }
    Ok(())
}

async fn name_of_the_cloud(subject: &Subject) -> Verdict {
    needs_provider_id(subject)?;
    let node = subject.node(&subject.existing());
    // The provider ID alone says which machine is meant.
    let other = subject.inputs().instances.existing.get(1);
    let name = other.map_or_else(|| subject.name(), |machine| machine.node_name.clone());
    let renamed = Node {
        name: name.clone(),
        ..node.clone()
    };
    let expected = subject.found(node, InstanceView::Metadata).await?;
    let actual = subject.found(renamed, InstanceView::Metadata).await?;
    let machine = |one: &Instance| format!("{:?}, {:?}", one.provider_id, one.node_name);
    expect(
        machine(&actual) == machine(&expected),
        format!(
            "{}, also for a Node of the name {name:?}",
            machine(&expected)
        ),
        machine(&actual),
    )
}

async fn as_in_inputs(subject: &Subject) -> Verdict {
    let machines = subject.inputs().instances.existing.iter();

    let instances = all(subject, InstanceView::Metadata).await?;
    let mut judged = false;
    for (machine, instance) in machines.zip(instances) {
        for (field, input, actual) in [
            ("zone", &machine.zone, &instance.zone),
            ("region", &machine.region, &instance.region),
            ("type", &machine.instance_type, &instance.instance_type),
        ] {
            if let Some(input) = input {
                judged = true;
                let expected = format!("{} has the {field} {input:?}", machine.node_name);
                expect(input == actual, expected, format!("{actual:?}"))?;
            }
        }
    }
    if judged {
        Ok(())
    } else {
        Err(skipped(
            "no entry of instances.existing has zone, region or instanceType",
        ))
    }
}
