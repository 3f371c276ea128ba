//! Chained setters: a struct whose fields may grow cannot be written as a literal elsewhere.

/// Writes one setter for each field that is named. A `plain` one accepts the field's type, so that a number
/// needs no suffix; the others accept what converts into it.
macro_rules! setters {
    (plain $type:ident { $($setter:ident => $field:ident: $kind:ty,)+ }) => {
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $setter(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
    ($type:ident { $($setter:ident => $field:ident: $kind:ty,)+ }) => {
        impl $type {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                #[must_use]
                pub fn $setter(mut self, $field: impl Into<$kind>) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}

pub(crate) use setters;
