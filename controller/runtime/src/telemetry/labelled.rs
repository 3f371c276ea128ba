//! A family of metrics with labels.

use std::{borrow::Cow, fmt::Error};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder},
    metrics::{MetricType, TypedMetric, family::Family},
};

/// Names and values of labels.
type LabelSet<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// Metrics by the values of `N` labels, whose names stand with the family alone.
#[derive(Clone, Debug)]
pub struct Labelled<const N: usize, M> {
    names: [&'static str; N],
    family: Family<LabelSet<N>, M>,
}

impl<const N: usize, M: Clone> Labelled<N, M> {
    /// Metrics that begin as their default, with labels of these names.
    pub fn by(names: [&'static str; N]) -> Self
    where
        M: Default,
    {
        Self::made_by(names, M::default)
    }

    /// Metrics that begin as `metric` makes them, with labels of these names.
    pub fn made_by(names: [&'static str; N], metric: fn() -> M) -> Self {
        let family: Family<LabelSet<N>, M> = Family::new_with_constructor(metric);
        #[cfg(any(test, feature = "fixture"))]
        if let Some(value) = crate::fixture::sample() {
            drop(family.get_or_create(&names.map(|name| (name, value.into()))));
        }
        Self { names, family }
    }

    /// The metric whose labels have `values`.
    pub fn of<V: Into<Cow<'static, str>>>(&self, values: [V; N]) -> M {
        let mut values = values.into_iter().map(Into::into);
        let label = |name| (name, values.next().unwrap_or_default());
        self.family.get_or_create_owned(&self.names.map(label))
    }

    /// Forgets all values.
    pub fn clear(&self) {
        self.family.clear();
    }
}

impl<const N: usize, M: EncodeMetric + TypedMetric> EncodeMetric for Labelled<N, M> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> Result<(), Error> {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        EncodeMetric::is_empty(&self.family)
    }
}
