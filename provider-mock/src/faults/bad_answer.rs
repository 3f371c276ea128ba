//! Answers that no provider should send and every caller must survive.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::choice;

/// Defects of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadAnswer {
    /// Each instance found has the same provider ID.
    DuplicateProviderId,
    /// Each instance found has an `InternalIP` that is no IP address; so has each load balancer.
    MalformedAddress,
    /// Each instance found has its host name alone, which is legal.
    HostnamesOnly,
    /// The message is larger than the caller accepts.
    OversizedReply,
    /// Each instance found has an id, a zone and an address beyond the limits of the contract, each volume a
    /// label.
    OversizedStrings,
    /// A node or Service that was asked about has no result; a listed route is left out.
    MissingResult,
    /// A node or Service has two results; a route is listed twice.
    DuplicateResult,
    /// Each instance or volume found has a zone that is no label value, and a label of Kubernetes' own.
    BadLabel,
    /// Each instance found has the provider ID of another provider.
    WrongPrefix,
    /// Each instance found has its provider ID in another spelling of the same machine, which is legal.
    OtherSpelling,
    /// Each instance found has no provider ID.
    EmptyProviderId,
    /// Each instance found is absent for sure, by an observation of an hour ago.
    StaleAbsence,
    /// Each instance found is absent, with neither certainty nor age.
    UncertainAbsence,
    /// Each node, Service or volume is answered as managed by another provider.
    NotManaged,
    /// Each result has no outcome, an answer has nothing at all; a list is cut off before its end.
    Empty,
    /// A load balancer has no disposition.
    MissingDisposition,
    /// A load balancer is ready and has no status.
    MissingStatus,
    /// A machine, load balancer or volume that exists is absent for sure; so is a machine of another provider.
    FalseAbsence,
    /// A load balancer is in progress, to be asked for again in a thousand hours.
    FarRetry,
    /// A load balancer is in progress and has an empty status.
    InProgressWithoutStatus,
    /// There is a result for a node or Service that was not asked about.
    ForeignResult,
    /// The destination of a route, or a Pod CIDR of an instance, is none.
    MalformedCidr,
}

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&choice::name(self))
    }
}
