//! The record of targets on the Lease, by which a new term knows what load balancers have.
//!
//! The service-lb loop writes it once all load balancers have the targets that go out, and clears it before other ones do.
//! A term that begins asks [`TargetsRecord::inheritance`] how much of it, and of the records on Services, is to be
//! believed.

use std::fmt;

use super::Revision;

/// The knowledge of a term about load balancers at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inheritance {
    /// Every load balancer whose Service has a hash has the present targets.
    InSync,
    /// The targets of load balancers are unknown; the records of Services are believed.
    TargetsUnknown,
    /// Another program may have led: nothing is believed.
    Nothing,
}

/// Annotation of the Lease with the [`TargetsRecord`].
pub const ANNOTATION_TARGETS: &str = "outrigger.dev/load-balancer-targets";

/// The annotation of the Lease: `<revision>@<leaseTransitions>`.
///
/// The revision is the one of the targets of all load balancers, as long as every load balancer whose Service has a hash
/// has them; empty otherwise. The number is that of the last term: each term writes its own with its claim
/// ([`TargetsRecord::carry`]), before it has done anything. A program that counts terms on the Lease and does not know the
/// annotation, upstream's controller for one, leaves a former number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetsRecord {
    /// No revision: not all load balancers have the same targets, or it is not known.
    pub revision: Option<Revision>,
    /// `leaseTransitions` of the last term.
    pub term: i32,
}

impl TargetsRecord {
    /// The value for the term `now`, which follows the term `former` without another between them; none for a value that
    /// is not of the term `former`.
    pub fn carry(value: &str, former: i32, now: i32) -> Option<String> {
        let record = Self::parse(value).filter(|record| record.is_believed(former))?;
        Some(
            Self {
                term: now,
                ..record
            }
            .to_string(),
        )
    }

    /// The record in a value of the annotation; none if that is no record.
    pub fn parse(value: &str) -> Option<Self> {
        let (revision, term) = value.rsplit_once('@')?;
        Some(Self {
            revision: (!revision.is_empty()).then(|| Revision::stored(revision)),
            term: term.parse().ok()?,
        })
    }

    /// Returns true if no other program can have led before the term `now`.
    pub const fn is_believed(&self, now: i32) -> bool {
        now == self.term
    }

    /// The knowledge of the term `now`, whose present targets have the revision `current`.
    pub fn inheritance(&self, now: i32, current: &Revision) -> Inheritance {
        if !self.is_believed(now) {
            Inheritance::Nothing
        } else if self.revision.as_ref() == Some(current) {
            Inheritance::InSync
        } else {
            Inheritance::TargetsUnknown
        }
    }
}

impl fmt::Display for TargetsRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self.revision.as_ref().map_or("", Revision::as_str);
        write!(f, "{revision}@{}", self.term)
    }
}

#[cfg(test)]
mod tests {
    use super::{Inheritance, Revision, TargetsRecord};

    #[test]
    fn a_gap_of_terms_is_not_believed() {
        let record = TargetsRecord::parse("5921@7").unwrap();
        assert_eq!(record.revision, Some(Revision::stored("5921")));
        assert_eq!(record.to_string(), "5921@7");
        for (term, current, expected) in [
            (6, "5921", Inheritance::Nothing),
            (7, "5921", Inheritance::InSync),
            (7, "86b1", Inheritance::TargetsUnknown),
            (8, "5921", Inheritance::Nothing),
        ] {
            let inheritance = record.inheritance(term, &Revision::stored(current));
            assert_eq!(inheritance, expected, "{term} {current}");
        }
        assert_eq!(
            TargetsRecord::carry("5921@7", 7, 8).as_deref(),
            Some("5921@8")
        );
        assert_eq!(TargetsRecord::carry("5921@7", 8, 9), None);
    }

    #[test]
    fn a_record_names_no_revision_while_load_balancers_differ() {
        let record = TargetsRecord::parse("@3").unwrap();
        assert_eq!((&record.revision, record.term), (&None, 3));
        assert_eq!(record.to_string(), "@3");
        for other in ["", "5921", "@", "5921@x"] {
            assert_eq!(TargetsRecord::parse(other), None, "{other}");
        }
    }
}
