"""A simulated AWS for AWS's cloud provider: moto, corrected where it differs from AWS, with some machines.

It ends by itself some seconds after the last provider that uses it.
"""

import argparse
import os
import pathlib
import sys
import threading
import time
import urllib.parse

import boto3
import moto.ec2.models.instances
import moto.ec2.models.route_tables
import moto.ec2.responses
import moto.elb.models
import moto.elbv2.models
from moto.core.responses import ActionResult
from moto.moto_api._internal import mock_random
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

REGION = "us-east-1"
ZONE = "us-east-1a"
CLUSTER_TAG = {"Key": "kubernetes.io/cluster/outrigger", "Value": "owned"}
# How long it waits for a provider, and for one that is started again.
IDLE = 10


# --- Corrections. Each is an answer of moto that AWS does not give, and that the provider stumbles over.


def after(kind, method):
    """Has the decorated function called after a method, with the object."""

    def decorate(function):
        first = getattr(kind, method)

        def both(self, *args, **fields):
            first(self, *args, **fields)
            function(self)

        setattr(kind, method, both)

    return decorate


@after(moto.elb.models.LoadBalancer, "__init__")
def has_a_health_check(balancer):
    """A new classic load balancer checks its first listener."""
    target = f"TCP:{balancer.listeners[0].instance_port}"
    balancer.health_check = moto.elb.models.FakeHealthCheck("5", "10", "2", "30", target)


@after(moto.elbv2.models.FakeLoadBalancer, "__init__")
def is_named_as_its_type(balancer):
    """A network load balancer has `elb` before the region; one without a scheme is internet-facing."""
    balancer.scheme = balancer.scheme or "internet-facing"
    if balancer.type == "network":
        balancer.dns_name = f"{balancer.name}-1.elb.{REGION}.amazonaws.com"


# A route to a terminated instance leads nowhere.
moto.ec2.models.route_tables.Route.state = property(
    lambda route: "blackhole" if route.instance and route.instance.state == "terminated" else "active"
)

# A load balancer whose making was cut off has no target groups yet, and can be deleted all the same.
groups_of = moto.elbv2.models.ELBv2Backend.describe_target_groups
moto.elbv2.models.ELBv2Backend.describe_target_groups = lambda backend, arn, groups, names: (
    [] if arn and has_no_groups(backend, arn) else groups_of(backend, arn, groups, names)
)


def has_no_groups(backend, arn):
    return arn in backend.load_balancers and not any(
        arn in group.load_balancer_arns for group in backend.target_groups.values()
    )


# An id that is named twice is one instance.
by_ids = moto.ec2.models.instances.InstanceBackend.get_reservations_by_instance_ids
moto.ec2.models.instances.InstanceBackend.get_reservations_by_instance_ids = (
    lambda backend, ids, filters=None: by_ids(backend, list(dict.fromkeys(ids)), filters)
)

# Few types of instances have a topology, and those used here have none.
moto.ec2.responses.EC2Response.describe_instance_topology = lambda _: ActionResult({"Instances": []})


# --- The server.


class Simulation:
    """moto with a switch, a count of changes, and an end."""

    def __init__(self):
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()
        self.is_off = False
        self.is_ready = False
        self.changes = 0
        self.providers = set()

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"].startswith("/control/"):
            return self.control(environ, start_response)
        if self.is_off:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        with self.lock:  # moto's models are not made for calls at one time
            body = self.moto._get_body(environ)
            action = self.moto.get_action_from_body(body) or ""
            if not action.startswith(("Describe", "Get", "List")):
                self.changes += 1
            return list(self.moto(environ, start_response))

    def control(self, environ, start_response):
        query = urllib.parse.parse_qs(environ["QUERY_STRING"])
        answer, status = "", "200 OK"
        match environ["PATH_INFO"].removeprefix("/control/"):
            case _ if not self.is_ready:
                status = "503 Service Unavailable"
            case "provider":
                self.providers.add(int(query["pid"][0]))
            case "off" | "on" as switch:
                self.is_off = switch == "off"
            case "changes":
                answer = f"{self.changes}\n"
            case _:
                status = "404 Not Found"
        start_response(status, [("Content-Type", "text/plain")])
        return [answer.encode()]

    def is_used(self):
        self.providers = {pid for pid in self.providers.copy() if os.path.exists(f"/proc/{pid}")}
        return bool(self.providers)


# --- The machines.


def populate(url, instances):
    """A VPC with machines of one cluster; the cloud config that leads to it."""
    ec2 = boto3.client(
        "ec2", REGION, endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test"
    )

    def tagged(kind, *tags):
        return [{"ResourceType": kind, "Tags": [CLUSTER_TAG, *tags]}]

    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(
        VpcId=vpc,
        CidrBlock="10.0.0.0/20",
        AvailabilityZone=ZONE,
        TagSpecifications=tagged("subnet", {"Key": "kubernetes.io/role/elb", "Value": "1"}),
    )["Subnet"]["SubnetId"]
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc, TagSpecifications=tagged("route-table"))["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    group = ec2.create_security_group(
        GroupName="nodes", Description="nodes", VpcId=vpc, TagSpecifications=tagged("security-group")
    )["GroupId"]
    for number in range(1, instances + 1):
        # One call for each: moto loses the others of a call when one is looked up.
        ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=1,
            SubnetId=subnet,
            SecurityGroupIds=[group],
            PrivateIpAddress=f"10.0.1.{number}",
            TagSpecifications=tagged("instance"),
        )
    machines = [
        machine for one in ec2.describe_instances()["Reservations"] for machine in one["Instances"]
    ]
    ec2.stop_instances(InstanceIds=[machines[-1]["InstanceId"]])
    for machine in machines:
        print(machine["PrivateDnsName"], f"aws:///{ZONE}/{machine['InstanceId']}")
    print("the last one is stopped", flush=True)
    return f"""[Global]
Region = {REGION}
VPC = {vpc}
SubnetID = {subnet}
RouteTableID = {table}
KubernetesClusterID = outrigger
"""


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--port", type=int, required=True)
    flags.add_argument("--instances", type=int, required=True, help="machines; the last one is stopped")
    flags.add_argument("--cloud-config", type=pathlib.Path, required=True, help="file to write")
    flags = flags.parse_args()

    mock_random.seed(1)  # equal ids each time
    simulation = Simulation()
    server = make_server("127.0.0.1", flags.port, simulation, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags.cloud_config.write_text(populate(f"http://127.0.0.1:{flags.port}", flags.instances))
    simulation.is_ready = True
    used = time.monotonic()
    while time.monotonic() - used < IDLE:
        time.sleep(0.5)
        if simulation.is_used():
            used = time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
