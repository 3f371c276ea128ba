"""A simulated AWS for AWS's cloud provider: moto, corrected where it differs from AWS, with some machines.

It ends by itself some seconds after the last provider that uses it.
"""

import argparse
import json
import logging
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
import moto.elbv2.exceptions
import moto.elbv2.models
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.elb.models import elb_backends
from moto.elbv2.models import ELBv2Backend, elbv2_backends
from moto.moto_api._internal import mock_random
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

REGION = "us-east-1"
ZONE = "us-east-1a"
CLUSTER_TAG = {"Key": "kubernetes.io/cluster/outrigger", "Value": "owned"}
# How long it waits for a provider, and for one that is started again.
IDLE = 10
# An answer that comes before AWS's client has done with its request is lost to it, and the request sent again.
LATENCY = 0.01


# --- Corrections. Each is an answer of moto that AWS does not give, and that the provider stumbles over.


def corrected(kind, method):
    """Has the decorated function called for a method, with the method before its arguments."""

    def decorate(function):
        first = getattr(kind, method)
        setattr(kind, method, lambda *args, **fields: function(first, *args, **fields))

    return decorate


@corrected(moto.elb.models.LoadBalancer, "__init__")
def a_new_classic_load_balancer_checks_its_first_listener(first, balancer, *args, **fields):
    first(balancer, *args, **fields)
    target = f"TCP:{balancer.listeners[0].instance_port}"
    balancer.health_check = moto.elb.models.FakeHealthCheck("5", "10", "2", "30", target)


@corrected(moto.elbv2.models.FakeLoadBalancer, "__init__")
def a_network_load_balancer_has_elb_before_the_region_and_a_scheme(first, balancer, *args, **fields):
    first(balancer, *args, **fields)
    balancer.scheme = balancer.scheme or "internet-facing"
    if balancer.type == "network":
        balancer.dns_name = f"{balancer.name}-1.elb.{REGION}.amazonaws.com"


@corrected(ELBv2Backend, "describe_target_groups")
def a_load_balancer_may_have_no_target_groups(first, backend, arn, arns, names):
    try:
        return first(backend, arn, arns, names)
    except moto.elbv2.exceptions.TargetGroupNotFoundError:
        if arn:
            return []
        raise


@corrected(ELBv2Backend, "create_target_group")
def a_target_group_is_made_once(first, backend, name, **settings):
    for group in backend.target_groups.values():
        if group.name == name and group.settings == settings:
            return group
    group = first(backend, name, **settings)
    group.settings = settings
    return group


@corrected(ELBv2Backend, "delete_target_group")
def a_target_group_that_is_gone_can_be_deleted(first, backend, target_group_arn):
    if target_group_arn in backend.target_groups:
        first(backend, target_group_arn)


class TargetGroupAssociationLimit(moto.elbv2.exceptions.ELBClientError):
    code = "TargetGroupAssociationLimit"
    message = "You've reached the limit on the number of load balancers per target group."


@corrected(ELBv2Backend, "create_listener")
def a_target_group_is_of_one_load_balancer(first, backend, **settings):
    for action in settings["actions"]:
        group = backend.target_groups.get(action.get("TargetGroupArn"))
        owners = set(group.load_balancer_arns if group else []) & set(backend.load_balancers)
        if owners - {settings["load_balancer_arn"]}:
            raise TargetGroupAssociationLimit()
    return first(backend, **settings)


@corrected(ELBv2Backend, "modify_listener")
def a_target_group_is_of_the_load_balancer_of_a_changed_listener(first, backend, *args, **settings):
    listener = first(backend, *args, **settings)
    for action in listener.default_actions:
        group = backend.target_groups.get(action.data.get("TargetGroupArn"))
        if group and listener.load_balancer_arn not in group.load_balancer_arns:
            group.load_balancer_arns.append(listener.load_balancer_arn)
    return listener


@corrected(moto.ec2.models.instances.InstanceBackend, "get_reservations_by_instance_ids")
def an_instance_may_be_named_twice(first, backend, ids, filters=None):
    return first(backend, list(dict.fromkeys(ids)), filters)


# A route to a terminated instance leads nowhere, as does one that the switch names.
moto.ec2.models.route_tables.Route.leads_nowhere = False
moto.ec2.models.route_tables.Route.state = property(
    lambda route: (
        "blackhole"
        if route.leads_nowhere or (route.instance and route.instance.state == "terminated")
        else "active"
    )
)

# Few types of instances have a topology, and those used here have none.
moto.ec2.responses.EC2Response.describe_instance_topology = lambda _: ActionResult({"Instances": []})


# --- The server.


# Answers of AWS while it refuses: status, code and message.
REFUSALS = {
    "off": ("503 Service Unavailable", None, None),
    "limited": ("503 Service Unavailable", "RequestLimitExceeded", "Request limit exceeded."),
    "locked": (
        "401 Unauthorized",
        "AuthFailure",
        "AWS was not able to validate the provided access credentials",
    ),
}


class Simulation:
    """moto with switches, counts of calls and changes, and an end."""

    def __init__(self):
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.lock = threading.Lock()
        self.refusal = None
        self.is_ready = False
        self.calls = 0
        self.changes = 0
        self.providers = set()

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"].startswith("/control/"):
            return self.control(environ, start_response)
        self.calls += 1
        if refusal := REFUSALS.get(self.refusal):
            return self.refuse(environ, start_response, *refusal)
        time.sleep(LATENCY)
        with self.lock:  # moto's models are not made for calls at one time
            body = self.moto._get_body(environ)
            action = self.moto.get_action_from_body(body) or ""
            if not action.startswith(("Describe", "Get", "List")):
                self.changes += 1
            statuses = []

            def start(status, *args):
                statuses.append(status)
                return start_response(status, *args)

            answer = list(self.moto(environ, start))
            print(time.strftime("%H:%M:%S"), action, *statuses, flush=True)
            return answer

    def refuse(self, environ, start_response, status, code, message):
        error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        if code is None:
            answer = ""
        elif "/ec2/" in environ.get("HTTP_AUTHORIZATION", ""):
            answer = f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>"
        else:
            answer = f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>"
        start_response(status, [("Content-Type", "text/xml"), ("Content-Length", str(len(answer)))])
        return [answer.encode()]

    def blackhole(self, cidr):
        for table in ec2_backends[DEFAULT_ACCOUNT_ID][REGION].route_tables.values():
            for route in table.routes:
                if route.destination_cidr_block == cidr:
                    route.leads_nowhere = True

    def state(self):
        """The parts of load balancers, without the IDs that AWS makes by chance."""
        backends = [ec2_backends, elb_backends, elbv2_backends]
        ec2, classic, network = (all_backends[DEFAULT_ACCOUNT_ID][REGION] for all_backends in backends)
        groups = {group.id: group.name for vpc in ec2.groups.values() for group in vpc.values()}

        def named(group_ids):
            return [groups.get(group, "missing") for group in group_ids]

        def rule(one):
            source = named([one.source_group["GroupId"]]) if one.source_group else one.ip_range
            return [one.ip_protocol, one.from_port, one.to_port, source]

        def listener(one):
            groups = [network.target_groups.get(action.data.get("TargetGroupArn")) for action in one.default_actions]
            return [one.protocol, one.port, [[group.protocol, group.port] if group else "missing" for group in groups]]

        return {
            "security group rule": [
                [group.name, *rule(one)]
                for vpc in ec2.groups.values()
                for group in vpc.values()
                for one in group.ingress_rules
            ],
            "security group": list(groups.values()),
            "classic load balancer": [
                {
                    "name": one.name,
                    "scheme": one.scheme,
                    "listeners": [[at.protocol, at.load_balancer_port, at.instance_port, at.policy_names] for at in one.listeners],
                    "policies": [policy.policy_name for policy in one.policies],
                    "health check": vars(one.health_check),
                    "attributes": one.attributes,
                    "security groups": named(one.security_groups),
                    "instances": one.instance_sparse_ids,
                    "tags": one.tags,
                }
                for one in classic.load_balancers.values()
            ],
            "network load balancer": [
                {
                    "name": one.name,
                    "scheme": one.scheme,
                    "listeners": [listener(at) for at in one.listeners.values()],
                    "attributes": one.attrs,
                    "security groups": named(one.security_groups),
                    "tags": network.tagging_service.list_tags_for_resource(one.arn)["Tags"],
                }
                for one in network.load_balancers.values()
            ],
            "target group": [
                {
                    "port": [one.protocol, one.port, one.target_type],
                    "health check": {key: value for key, value in vars(one).items() if "health" in key or key == "matcher"},
                    "attributes": one.attributes,
                    "targets": list(one.targets.values()),
                    "load balancers": len(one.load_balancer_arns),
                    "tags": network.tagging_service.list_tags_for_resource(one.arn)["Tags"],
                }
                for one in network.target_groups.values()
            ],
        }

    def control(self, environ, start_response):
        query = urllib.parse.parse_qs(environ["QUERY_STRING"])
        answer, status = "", "200 OK"
        match environ["PATH_INFO"].removeprefix("/control/"):
            case _ if not self.is_ready:
                status = "503 Service Unavailable"
            case "provider":
                self.providers.add(int(query["pid"][0]))
            case "on":
                self.refusal = None
            case refusal if refusal in REFUSALS:
                self.refusal = refusal
            case "blackhole":
                with self.lock:
                    self.blackhole(query["cidr"][0])
            case "calls":
                answer = f"{self.calls}\n"
            case "changes":
                answer = f"{self.changes}\n"
            case "state":
                with self.lock:
                    answer = json.dumps(self.state(), default=str)
            case _:
                status = "404 Not Found"
        start_response(status, [("Content-Type", "text/plain")])
        return [answer.encode()]

    def is_used(self):
        return any(os.path.exists(f"/proc/{pid}") for pid in self.providers.copy())


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
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
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
