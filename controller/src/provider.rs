//! The provider side: one connection, its state, and typed calls over it.
