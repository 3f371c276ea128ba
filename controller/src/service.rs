//! The service-lb loop: makes, keeps and deletes the load balancers of Services.

mod metrics;

pub use metrics::{LoadBalancers, ServiceMetrics};
