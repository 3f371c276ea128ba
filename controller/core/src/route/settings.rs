//! The flags of the node-route loop, checked.

use crate::cidr::{Cidr, ClusterCidrError, cluster_cidrs};

/// The warning where [`route_cidrs`] finds none.
pub const WITHOUT_CLUSTER_CIDR: &str = "node-route-controller is skipped, and no Node gets a \
    route: --cluster-cidr is empty; name the range of the Pods, or set \
    --configure-cloud-routes=false";

/// The ranges of `--cluster-cidr`, inside which routes are this cluster's. None: the loop
/// is skipped with [`WITHOUT_CLUSTER_CIDR`].
pub fn route_cidrs(cluster_cidr: &str) -> Result<Option<Vec<Cidr>>, ClusterCidrError> {
    match cluster_cidrs(cluster_cidr) {
        Err(ClusterCidrError::Empty) => Ok(None),
        cidrs => cidrs.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::route_cidrs;
    use crate::cidr::Cidr;

    ///
    #[test]
    fn without_a_cluster_cidr_the_loop_is_skipped() {
        assert_eq!(route_cidrs(""), Ok(None));
        let range = Cidr::parse("10.244.0.0/16").unwrap();
        assert_eq!(route_cidrs("10.244.0.0/16"), Ok(Some(vec![range])));
        for junk in ["junk", "10.0.0.0/8,11.0.0.0/8"] {
            assert!(route_cidrs(junk).is_err(), "{junk}");
        }
    }
}
