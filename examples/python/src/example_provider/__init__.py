"""A provider for Outrigger: the contract cloudprovider.v1 over a cloud that it has in memory."""
