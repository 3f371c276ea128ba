"""Looks up three machines. Replace them by calls to your cloud."""

import re

from outrigger_provider import Call, Error, Instances, Lookup, Query, Reason, absent, not_managed, v1

SCHEME = "my-cloud://"
# Address, and whether it runs.
MACHINES = {"node-1": ("10.0.0.1", True), "node-2": ("10.0.0.2", True), "node-3": ("10.0.0.3", False)}


class Machines(Instances):
    async def get_instance(self, call: Call, node: v1.Node, query: Query) -> Lookup:
        name = node.provider_id.removeprefix(SCHEME) or node.name
        if node.provider_id and not node.provider_id.startswith(SCHEME):
            return not_managed(f"{node.provider_id} is another cloud's")
        if not re.fullmatch("[a-z0-9-]+", name):
            raise Error(Reason.MALFORMED_PROVIDER_ID, f"{node.provider_id} is no ID of this cloud")
        if name not in MACHINES:
            # The controller may delete the Node. The cloud was asked during this call and showed everything.
            return absent()
        address, runs = MACHINES[name]
        state = v1.POWER_STATE_RUNNING if runs else v1.POWER_STATE_SHUTDOWN
        instance = v1.Instance(provider_id=SCHEME + name, power_state=state)
        instance.addresses.add(type="InternalIP", address=address)
        return instance
