//! The memory that one Service takes, and how one that takes too much becomes small.

use super::{ServiceView, Spec};
use crate::{condition::Condition, effects::is_of_controller, string_map::StringMap};

/// Memory of one text, beside its bytes: pointer, length, and what an allocator adds.
const TEXT: usize = 40;
/// Memory of one port, beside its texts.
const PORT: usize = 16;
/// Longest value of an annotation of the controller itself that is kept.
const LONGEST_OWN: usize = 1_024;
/// Bytes of all annotations of the controller itself that are kept.
const MOST_OWN: usize = 4_096;

/// A Service of which most was forgotten, since it is too large to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// The field that takes the most, such as `metadata.annotations`.
    pub field: &'static str,
    /// Memory of that field.
    pub of_field: usize,
}

impl ServiceView {
    /// The memory that it takes, roughly.
    pub fn bytes(&self) -> usize {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Forgets labels, annotations and the larger part of the spec: the loop leaves such a Service alone.
    /// The controller's own annotations stay, as far as they are of the length that it writes.
    pub fn shed(&mut self) {
        let mut parts = self.parts();
        parts.sort_unstable_by_key(|(_, bytes)| *bytes);
        let Some((field, of_field)) = parts.last().copied() else {
            return;
        };
        let own = |key: &str, value: &str| is_of_controller(key) && value.len() <= LONGEST_OWN;
        let annotations = self.annotations.filtered(own);
        self.annotations = if annotations.bytes() <= MOST_OWN {
            annotations
        } else {
            StringMap::default()
        };
        self.labels = StringMap::default();
        let spec = std::mem::take(&mut self.spec);
        self.spec = Spec {
            kind: spec.kind,
            load_balancer_class: spec.load_balancer_class,
            ..Spec::default()
        };
        self.shed = Some(Box::new(Shed { field, of_field }));
    }

    /// The fields that can be large, with the memory that each takes.
    fn parts(&self) -> [(&'static str, usize); 8] {
        let texts = |texts: &[Box<str>]| texts.iter().map(|text| TEXT + text.len()).sum();
        let ports = self.spec.ports.iter().map(|port| {
            let optional = port.app_protocol.as_deref().unwrap_or_default();
            let texts = [&port.name, &port.protocol, &port.target_port];
            let texts: usize = texts.iter().map(|text| TEXT + text.len()).sum();
            PORT + texts + TEXT + optional.len()
        });
        let conditions = self.conditions.iter().map(|condition: &Condition| {
            4 * TEXT + condition.kind.len() + condition.reason.len() + condition.message.len()
        });
        let ingress = self.ingress.iter().map(|entry| {
            let ports = entry.ports.len() * 3 * TEXT;
            4 * TEXT + entry.ip.len() + entry.hostname.len() + ports
        });
        [
            ("metadata.annotations", self.annotations.bytes()),
            ("metadata.labels", self.labels.bytes()),
            ("metadata.finalizers", texts(&self.finalizers)),
            ("spec.ports", ports.sum()),
            (
                "spec.loadBalancerSourceRanges",
                texts(&self.spec.load_balancer_source_ranges),
            ),
            ("spec.externalIPs", texts(&self.spec.external_ips)),
            ("status.conditions", conditions.sum()),
            ("status.loadBalancer", ingress.sum()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        condition::Condition,
        fixture::load_balancer,
        service::{ANNOTATION_PAUSED, Ingress, Port, PortStatus, ServiceView},
    };

    #[test]
    fn the_largest_field_is_named_and_all_large_ones_forgotten() {
        let mut service = load_balancer("web");
        let small = service.bytes();
        assert!(small < 2_048, "{small}");
        let own = [(ANNOTATION_PAUSED, "true")];
        let large = "x".repeat(100_000);
        let more = [("example.com/a", &*large), ("outrigger.dev/junk", &*large)];
        service.annotations = service.annotations.with(own).with(more);
        let bytes = service.bytes();
        assert!((200_000..210_000).contains(&bytes), "{bytes}");
        service.shed();
        let shed = service.shed.clone().unwrap();
        assert_eq!(shed.field, "metadata.annotations");
        assert!(service.bytes() < 2_048, "{service:?}");
        assert!(service.is_paused() && service.is_load_balancer() && service.is_left_alone());

        let mut service = load_balancer("web");
        assert!(!service.is_left_alone());
        service.spec.load_balancer_class = Some("example.com/fast".into());
        let ranges = (0..1_000).map(|at| format!("10.{}.{}.0/24", at / 250, at % 250).into());
        service.spec.load_balancer_source_ranges = ranges.collect();
        service.shed();
        let field = service.shed.as_ref().map(|shed| shed.field);
        assert_eq!(field, Some("spec.loadBalancerSourceRanges"));
        assert!(service.is_left_alone() && !service.is_paused());
        let class = service.spec.load_balancer_class.as_deref();
        assert_eq!(class, Some("example.com/fast"));
    }

    /// One object more in a list counts with no less than its size and that which an allocator adds to its texts, and
    /// with not much more.
    #[test]
    fn each_list_counts_with_the_memory_of_its_objects() {
        type Add = fn(&mut ServiceView, Box<str>);
        const ALLOCATION: usize = 16;
        let port = size_of::<Port>() + 4 * ALLOCATION;
        let condition = size_of::<Condition>() + 4 * ALLOCATION;
        let ingress = size_of::<Ingress>() + 2 * ALLOCATION;
        let statuses = 10 * (size_of::<PortStatus>() + ALLOCATION);
        let text = size_of::<Box<str>>() + ALLOCATION;
        let lists: [(Add, usize, usize); 6] = [
            (|s, text| s.finalizers = [text].into(), text, 1),
            (|s, text| s.spec.external_ips = [text].into(), text, 1),
            (
                |s, text| {
                    s.spec.ports = [Port {
                        name: text.clone(),
                        protocol: text.clone(),
                        target_port: text.clone(),
                        app_protocol: Some(text),
                        ..Port::default()
                    }]
                    .into();
                },
                port,
                4,
            ),
            (
                |s, text| {
                    s.conditions = [Condition {
                        kind: text.clone(),
                        reason: text.clone(),
                        message: text,
                        status: "".into(),
                        last_transition_time: None,
                    }]
                    .into();
                },
                condition,
                3,
            ),
            (
                |s, text| {
                    s.ingress = [Ingress {
                        ip: text.clone(),
                        hostname: text,
                        ..Ingress::default()
                    }]
                    .into();
                },
                ingress,
                2,
            ),
            (
                |s, text| {
                    let ports = vec![PortStatus::default(); 10];
                    s.ingress = [Ingress {
                        ip: text.clone(),
                        hostname: text,
                        ports: ports.into(),
                        ..Ingress::default()
                    }]
                    .into();
                },
                ingress + statuses,
                2,
            ),
        ];
        let mut bare = load_balancer("web");
        bare.spec.ports = [].into();
        for (at, (add, least, texts)) in lists.into_iter().enumerate() {
            for length in [1, 100] {
                let mut service = bare.clone();
                add(&mut service, "x".repeat(length).into());
                let more = service.bytes() - bare.bytes() - texts * length;
                assert!((least..3 * least).contains(&more), "{at}: {more}, {least}");
            }
        }
    }

    #[test]
    fn many_short_values_are_forgotten_too() {
        let mut service = load_balancer("web");
        let junk = (0..100).map(|at| (format!("outrigger.dev/{at}"), "x".repeat(1_000)));
        service.annotations = junk.collect();
        service.shed();
        assert!(service.annotations.is_empty());
    }
}
