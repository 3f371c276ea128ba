//! Why a load balancer is ensured, and how.

/// How an Ensure is announced and paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// With events, at full pace: the Service, or its load balancer, is not what it was.
    Announced,
    /// In the background, with no event where nothing differs; a failure does not make a load balancer that serves
    /// look broken.
    Background,
}

/// Why a load balancer is ensured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnsureCause {
    /// It has never been ready.
    New,
    /// The Service is not what it was made from.
    Changed,
    /// The provider has another configuration, or another program has led since.
    Reconfigured,
    /// Made by another controller: upstream's, or a provider of another name.
    Unrecorded,
    /// The provider was at work, and the time it asked for is over.
    Continued,
    /// An update of targets failed (S-55), or found no load balancer.
    TargetsFailed,
    /// The provider's answer could not be written.
    NotWritten,
    /// The cloud is not what it was.
    Drifted,
    /// The status has other addresses than those that were written, and this term does not know the latter.
    AddressesLost,
}

impl EnsureCause {
    pub(super) const fn manner(self) -> Manner {
        match self {
            Self::Reconfigured | Self::Unrecorded => Manner::Background,
            Self::New
            | Self::Changed
            | Self::Continued
            | Self::TargetsFailed
            | Self::NotWritten
            | Self::AddressesLost
            | Self::Drifted => Manner::Announced,
        }
    }

    /// The metric label: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Reconfigured => "reconfigured",
            Self::Unrecorded => "unrecorded",
            Self::Continued => "continued",
            Self::TargetsFailed => "targets_failed",
            Self::NotWritten => "not_written",
            Self::AddressesLost => "addresses_lost",
            Self::Drifted => "drifted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EnsureCause;

    #[test]
    fn a_label_is_the_name_in_snake_case() {
        for cause in [
            EnsureCause::New,
            EnsureCause::TargetsFailed,
            EnsureCause::NotWritten,
        ] {
            let name = format!("{cause:?}");
            let words = name.chars().flat_map(|c| {
                let space = c.is_uppercase().then_some('_');
                space.into_iter().chain(c.to_lowercase())
            });
            let words: String = words.collect();
            assert_eq!(cause.as_str(), words.trim_start_matches('_'));
        }
    }
}
