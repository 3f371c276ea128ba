//! Metrics that are declared once: what each is, how it begins, its name and its help.

/// Labels of a metric, fixed texts: names and values.
pub type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Labels of a metric, some of whose values are no fixed texts.
pub type TextLabels<const N: usize> = [(&'static str, String); N];

/// Declares a struct of metrics with a `register` for all of them; its default is not registered.
///
/// An entry is a field with its type, what it begins as unless that is the default, its name at `/metrics` (that of a
/// counter without `_total`) and its help. At the end stand groups that register metrics of their own.
///
/// ```ignore
/// metric_families! {
///     /// `outrigger_example_*`.
///     pub struct ExampleMetrics {
///         calls: Family<Labels<1>, Counter>,
///             "outrigger_example_calls", "Calls, by result";
///         durations: Histogram = Histogram::new(BUCKETS),
///             "outrigger_example_duration_seconds", "How long calls took";
///         + others: OtherMetrics;
///     }
/// }
/// ```
#[macro_export]
macro_rules! metric_families {
    ($(#[$meta:meta])* $vis:vis struct $group:ident {
        $($field_vis:vis $field:ident: $metric:ty $(= $first:expr)?, $name:literal, $help:literal;)*
        $(+ $inner_vis:vis $inner:ident: $inner_group:ty;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $group {
            $($field_vis $field: $metric,)*
            $($inner_vis $inner: $inner_group,)*
        }

        impl Default for $group {
            fn default() -> Self {
                Self {
                    $($field: $crate::metric_families!(@first $metric $(, $first)?),)*
                    $($inner: <$inner_group>::default(),)*
                }
            }
        }

        impl $group {
            /// Registers the families.
            $vis fn register(registry: &mut ::prometheus_client::registry::Registry) -> Self {
                let group = Self::default();
                group.register_in(registry);
                group
            }

            /// Registers these.
            $vis fn register_in(&self, registry: &mut ::prometheus_client::registry::Registry) {
                $(registry.register($name, $help, self.$field.clone());)*
                $(self.$inner.register_in(registry);)*
            }
        }
    };
    (@first $metric:ty) => { <$metric>::default() };
    (@first $metric:ty, $first:expr) => { $first };
}
