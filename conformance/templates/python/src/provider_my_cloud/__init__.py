"""The cloud my-cloud for Outrigger."""
