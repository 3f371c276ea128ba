//! A Service that is too large to be kept in memory.
//!
//! The store calls [`ServiceView::forget_if_too_large`] with each Service that it applies. Its identity stays, and the loop
//! leaves its load balancer alone and says so in a condition.

use super::{ANNOTATION_PAUSED, ServiceView, Spec, last_applied::ANNOTATION_LAST_APPLIED};
use crate::string_map::StringMap;

/// Memory of one Service; of a larger one its identity alone is kept. A usual one takes 1 KiB.
const LARGEST: usize = 64 << 10;
/// Memory of one text beside its bytes: pointer, length, and what an allocator adds.
const TEXT: usize = 40;
/// Longest value of an annotation that is kept.
const LONGEST_OWN: usize = 1_024;
/// Annotations that say whose it is, and whether it is paused.
const OWN: [&str; 2] = [ANNOTATION_LAST_APPLIED, ANNOTATION_PAUSED];

impl ServiceView {
    /// The memory of all that a user can make large, roughly.
    pub fn bytes(&self) -> usize {
        let spec = &self.spec;
        let lists = [
            &self.finalizers,
            &spec.load_balancer_source_ranges,
            &spec.external_ips,
        ];
        let lists = lists.into_iter().flatten().map(|text| &**text);
        let ports = spec.ports.iter().flat_map(|port| {
            let protocol = port.app_protocol.as_deref().unwrap_or_default();
            [&*port.name, &port.protocol, &port.target_port, protocol]
        });
        let conditions = self.conditions.iter().flat_map(|condition| {
            let (kind, reason) = (&*condition.kind, &*condition.reason);
            [kind, reason, &condition.message, &condition.status]
        });
        let addresses = self.ingress.iter().flat_map(|entry| {
            // A port takes as much as three texts.
            let ports = std::iter::repeat_n("", 3 * entry.ports.len());
            ports.chain([&*entry.ip, &entry.hostname, "", ""])
        });
        let texts = lists.chain(ports).chain(conditions).chain(addresses);
        let texts: usize = texts.map(|text| TEXT + text.len()).sum();
        self.annotations.bytes() + self.labels.bytes() + texts
    }

    /// Forgets labels, annotations and the larger part of the spec of a Service that takes too much memory: the loop leaves
    /// it alone. The annotations by which it does so stay, as far as they are of the length that it writes.
    pub fn forget_if_too_large(&mut self) {
        if self.bytes() <= LARGEST {
            return;
        }
        let is_kept = |key: &str, value: &str| OWN.contains(&key) && value.len() <= LONGEST_OWN;
        self.annotations = self.annotations.filtered(is_kept);
        self.labels = StringMap::default();
        let spec = std::mem::take(&mut self.spec);
        self.spec = Spec {
            kind: spec.kind,
            load_balancer_class: spec.load_balancer_class,
            ..Spec::default()
        };
        self.is_too_large = true;
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
    fn of_a_service_that_is_too_large_what_the_controller_wrote_is_kept() {
        let mut service = load_balancer("web");
        let small = service.clone();
        service.forget_if_too_large();
        assert_eq!(service, small);
        service.spec.load_balancer_class = Some("example.com/fast".into());
        let large = "x".repeat(100_000);
        let annotations = [
            (ANNOTATION_PAUSED, "true"),
            ("example.com/a", &*large),
            ("outrigger.dev/junk", &*large),
        ];
        service.annotations = service.annotations.with(annotations);
        service.forget_if_too_large();
        assert!(service.is_too_large && service.bytes() < 2_048);
        assert!(service.is_paused() && service.is_load_balancer() && service.is_left_alone());
        let class = service.spec.load_balancer_class.as_deref();
        assert_eq!(class, Some("example.com/fast"));
    }

    #[test]
    fn each_list_counts_with_no_less_than_the_memory_of_its_objects() {
        type Add = fn(&mut ServiceView);
        const COUNT: usize = 100;
        let lists: [(Add, usize); 6] = [
            (
                |s| s.finalizers = vec!["".into(); COUNT].into(),
                size_of::<Box<str>>(),
            ),
            (
                |s| s.spec.external_ips = vec!["".into(); COUNT].into(),
                size_of::<Box<str>>(),
            ),
            (
                |s| s.spec.ports = vec![Port::default(); COUNT].into(),
                size_of::<Port>(),
            ),
            (
                |s| {
                    let condition = Condition {
                        kind: "".into(),
                        reason: "".into(),
                        message: "".into(),
                        status: "".into(),
                        last_transition_time: None,
                    };
                    s.conditions = vec![condition; COUNT].into();
                },
                size_of::<Condition>(),
            ),
            (
                |s| s.ingress = vec![Ingress::default(); COUNT].into(),
                size_of::<Ingress>(),
            ),
            (
                |s| {
                    let ports = vec![PortStatus::default(); COUNT].into();
                    s.ingress = [Ingress {
                        ports,
                        ..Ingress::default()
                    }]
                    .into();
                },
                size_of::<PortStatus>(),
            ),
        ];
        let mut bare = load_balancer("web");
        bare.spec.ports = [].into();
        for (at, (add, size)) in lists.into_iter().enumerate() {
            let mut service = bare.clone();
            add(&mut service);
            let more = service.bytes() - bare.bytes();
            assert!(more >= COUNT * size, "{at}: {more}");
        }
    }
}
