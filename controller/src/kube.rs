//! The Kubernetes side: clients, watches, stores of views, writes, events.

pub mod events;
