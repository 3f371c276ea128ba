#!/usr/bin/env python3
"""Writes the Grafana dashboards of the chart, or with --check says which of them is stale.

The tables below are the source: a dashboard has rows, a row has panels of equal width, and a panel has queries in PromQL.
`$in` in a query stands for the selection of job and instance, `$all` for the same with a comma behind it.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "chart/outrigger/files/dashboards"
IN = 'job=~"$job",instance=~"$instance"'


def panel(title, unit, meaning, *queries, kind="timeseries"):
    """queries: (PromQL, legend)."""
    return {"title": title, "unit": unit, "meaning": meaning, "queries": queries, "kind": kind}


def rate(metric, by, select=""):
    return f"sum by ({by}) (rate({metric}{{$in{select}}}[$__rate_interval]))"


def quantile(q, metric, by="", select=""):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{{$in{select}}}[$__rate_interval])))"


def quantiles(metric, select=""):
    return [(quantile(q, metric, select=select), f"p{round(q * 100)}") for q in (0.5, 0.99)]


def leading(query):
    """On replicas that lead: keys wait in the queues of a standby, too."""
    return f"{query} and on (job, instance) (max by (job, instance) (running_managed_controllers{{$in}}) == 1)"


def stat(title, unit, meaning, *queries, **more):
    return panel(title, unit, meaning, *queries, kind="stat", **more)


DASHBOARDS = {
    "overview": ("Outrigger / Overview", [
        ("Leader and provider", [
            stat("Leaders", "none", "Replicas that hold the Lease: 1. None means that nothing is done; see the readiness of each replica.",
                 ("sum(leader_election_master_status{$in})", "leaders")),
            stat("Replicas", "none", "Replicas that Prometheus reads.",
                 ("count(outrigger_provider_connected{$in})", "replicas")),
            stat("Provider", "none", "State of each replica's provider. `down`: see the logs of the container provider.",
                 ("outrigger_provider_state{$in} == 1", "{{instance}} {{state}}")),
            stat("Cluster's UID", "none", "`known` is right. With `unknown` and `contradicted` nothing in the cloud is changed.",
                 ("outrigger_cluster_uid{$in} == 1", "{{instance}} {{state}}")),
            stat("Loops", "none", "Loops that run on the leader.",
                 ("sum by (name) (running_managed_controllers{$in}) > 0", "{{name}}")),
        ]),
        ("Work", [
            panel("Waiting keys", "none", "Keys that wait for a worker of the leader. A rise without an end: the provider is slow, paused or down.",
                  (f"sum by (name) ({leading('workqueue_depth{$in}')})", "{{name}}")),
            panel("Oldest waiting key", "s", "How long the oldest key has waited, those that wait for a bulk call apart. /debug/queues names it.",
                  (f"max by (name) ({leading('outrigger_workqueue_oldest_seconds{$in}')})", "{{name}}")),
            panel("Keys retried", "ops", "Runs after which a key is to run again later. The log names each with its error.",
                  (rate("workqueue_retries_total", "name"), "{{name}}")),
        ]),
        ("Calls", [
            panel("Calls to the provider", "reqps", "By RPC; the dashboard of the provider has latencies and errors.",
                  (rate("outrigger_provider_rpc_duration_seconds_count", "rpc"), "{{rpc}}")),
            panel("Requests to the API server", "reqps", "By HTTP code. 403: a right is missing. 409: objects change at the same time. 429: the API server has too much to do.",
                  (rate("rest_client_requests_total", "code"), "{{code}}")),
            panel("Latency of the API server", "s", "The 99th percentile by verb, watches aside.",
                  (quantile(0.99, "rest_client_request_duration_seconds", "verb"), "{{verb}}")),
        ]),
        ("Watches and events", [
            panel("Objects in memory", "none", "What the watches have shown.",
                  ("sum by (instance, resource) (outrigger_store_objects{$in})", "{{instance}} {{resource}}")),
            panel("Watches started again", "ops", "`ended` every few minutes is usual. `error` and `silent`: look at the way to the API server.",
                  (rate("outrigger_watch_restarts_total", "resource, reason"), "{{resource}} {{reason}}")),
            panel("Events", "ops", "Events written to the API server, and those that were dropped or refused.",
                  (rate("outrigger_events_written_total", "reason"), "{{reason}}"),
                  (rate("outrigger_events_dropped_total", "reason"), "dropped: {{reason}}"),
                  (rate("outrigger_events_failed_total", "reason"), "failed: {{reason}}")),
        ]),
        ("Process", [
            panel("Memory", "bytes", "Resident memory. It grows with the number of objects, not with time.",
                  ("process_resident_memory_bytes{$in}", "{{instance}}")),
            panel("CPU", "none", "Cores in use.",
                  ("rate(process_cpu_seconds_total{$in}[$__rate_interval])", "{{instance}}")),
            panel("File descriptors", "none", "Descriptors that are open. A steady rise is a leak: report it.",
                  ("process_open_fds{$in}", "{{instance}}")),
        ]),
    ]),
    "nodes": ("Outrigger / Nodes", [
        ("From creation to use", [
            panel("Time to the end of initialisation", "s", "From a Node's creation. A rise: see the calls to the provider and the waiting keys.",
                  *quantiles("node_controller_initial_node_sync_delay_seconds")),
            panel("Time to the end of the taint", "s", "From a Node's creation until Pods may be scheduled to it.",
                  *quantiles("node_controller_cloud_provider_taint_removal_delay_seconds")),
            panel("Failures", "ops", "Tries to initialise or refresh a Node that failed, by class of error. kubectl describe node shows the reason.",
                  (rate("outrigger_node_sync_failures_total", "class"), "{{class}}")),
        ]),
        ("Calls about instances", [
            panel("Duration of a refresh", "s", "How long it took to look at all Nodes once, pauses included.",
                  *quantiles("outrigger_node_refresh_duration_seconds")),
        ]),
        ("Nodes that go", [
            panel("Deleted", "ops", "Nodes without an instance that were deleted, by what released them.",
                  (rate("outrigger_node_deletions_total", "release"), "{{release}}")),
            panel("Kept", "ops", "Nodes without an instance that were kept, by reason. `limit_exceeded`: too many are absent together.",
                  (rate("outrigger_node_deletions_withheld_total", "reason"), "{{reason}}")),
            panel("Limit of deletions", "none", "Absent and deleted Nodes beside the limit. Above it nothing is deleted before a second look, and while more than half are absent before an operator confirms.",
                  ("max by (state) (outrigger_node_deletion_limit_nodes{$in})", "{{state}}"),
                  ("max(outrigger_node_deletion_limit{$in})", "limit")),
            panel("Doubt", "ops", "Answers about Nodes that are not ready which prove nothing, by reason.",
                  (rate("outrigger_node_checks_doubted_total", "reason"), "{{reason}}")),
        ]),
        ("Nodes whose machine is stopped, with --out-of-service-after", [
            panel("Stopped", "none", "What counts before a stopped Node is taken out of service.",
                  ("max by (state) (outrigger_node_out_of_service_limit_nodes{$in})", "{{state}}")),
            panel("Taken out of service", "ops", "Nodes whose Pods and volumes move.",
                  ("sum(rate(outrigger_node_out_of_service_total{$in}[$__rate_interval]))", "nodes")),
            panel("Kept in service", "ops", "Stopped Nodes that were kept in service, by reason. `limit_exceeded`: too many are stopped together.",
                  (rate("outrigger_node_out_of_service_withheld_total", "reason"), "{{reason}}")),
        ]),
        ("Serving certificates of kubelets, with the loop kubelet-serving-approving", [
            panel("Requests", "ops", "Requests that were approved or left alone, by the check that failed, and tries that failed. kubectl describe csr says more.",
                  (rate("outrigger_kubelet_serving_requests_total", "result, reason"), "{{result}} {{reason}}")),
        ]),
        ("Pod CIDRs", [
            panel("In use", "percentunit", "Fraction of the Pod CIDRs that are in use. At 100 % new Nodes get none.",
                  ("max by (clusterCIDR) (node_ipam_controller_cidrset_usage_cidrs{$in})", "{{clusterCIDR}}")),
            panel("Allocated and released", "ops", "Pod CIDRs that Nodes got, and that became free.",
                  (rate("node_ipam_controller_cidrset_cidrs_allocations_total", "clusterCIDR"), "allocated {{clusterCIDR}}"),
                  (rate("node_ipam_controller_cidrset_cidrs_releases_total", "clusterCIDR"), "released {{clusterCIDR}}")),
            panel("Problems", "ops", "Pod CIDRs of Nodes that are reported. The events of the Node say which.",
                  (rate("outrigger_node_ipam_problems_total", "reason"), "{{reason}}")),
        ]),
    ]),
    "services": ("Outrigger / Services", [
        ("Load balancers", [
            panel("Services by state", "none", "Services that want a load balancer. `failed`: kubectl describe service shows the reason.",
                  ("max by (state) (outrigger_service_load_balancers{$in})", "{{state}}")),
            panel("Time until ready", "s", "From the first sight of a Service until its load balancer serves: mostly the cloud's own time.",
                  *quantiles("outrigger_service_time_to_ready_seconds")),
            stat("Orphans", "none", "Load balancers of this cluster without a Service. They cost money, and the log names them.",
                 ("max(outrigger_service_orphaned_load_balancers{$in})", "orphans")),
        ]),
        ("Calls", [
            panel("Ensures by cause", "ops", "Why load balancers were made or changed. Many `drift`: another client of the cloud changes them.",
                  (rate("outrigger_service_load_balancer_ensures_total", "cause"), "{{cause}}")),
            panel("Ensures by result", "ops", "How these calls ended: `ready`, `in_progress`, or a class of error.",
                  (rate("outrigger_service_load_balancer_ensures_total", "result"), "{{result}}")),
            panel("Deletions by result", "ops", "How calls to delete a load balancer ended.",
                  (rate("outrigger_service_load_balancer_deletes_total", "result"), "{{result}}")),
            panel("Drift", "ops", "Load balancers that were found to be others than was left.",
                  ("sum(rate(outrigger_service_drift_total{$in}[$__rate_interval]))", "drift")),
        ]),
        ("Targets", [
            panel("Targets", "none", "Nodes that load balancers send to.",
                  ("max(outrigger_service_targets{$in})", "targets")),
            panel("Time to roll out", "s", "From the first update with other targets until every load balancer has them.",
                  *quantiles("outrigger_service_target_rollout_seconds")),
            panel("Updates", "ops", "Load balancers that were to get new targets, and how often that failed.",
                  ("sum(rate(service_controller_loadbalancer_sync_total{$in}[$__rate_interval]))", "updates"),
                  ("sum(rate(service_controller_nodesync_error_total{$in}[$__rate_interval]))", "failures")),
            stat("Targets held", "none", "1: no Node would be a target though Nodes exist, and the last ones are kept.",
                 ("max(outrigger_service_targets_held{$in})", "held")),
        ]),
    ]),
    "routes": ("Outrigger / Routes", [
        ("Routes", [
            panel("Routes", "none", "Routes of the cluster in the cloud. One for each Pod CIDR of a Node is right.",
                  ("max(outrigger_node_route_routes{$in})", "routes")),
            panel("Age of the last list", "s", "Since the last complete list of routes. It grows up to the period of reconciliation.",
                  ("time() - max(outrigger_node_route_last_list_timestamp_seconds{$in} > 0)", "age")),
            panel("Syncs", "ops", "Lists of all routes and changes of Nodes, and how they ended.",
                  (rate("route_controller_route_sync_total", "trigger, outcome"), "{{trigger}} {{outcome}}")),
        ]),
        ("Calls", [
            panel("Failures", "ops", "Calls about routes that failed. Pods of such Nodes may not reach each other.",
                  (rate("outrigger_node_route_failures_total", "operation, class"), "{{operation}} {{class}}")),
            panel("Latency", "s", "The 99th percentile of each call about routes.",
                  (quantile(0.99, "outrigger_provider_rpc_duration_seconds", "rpc", ',rpc=~".*Routes?"'), "{{rpc}}")),
        ]),
        ("Problems", [
            panel("Pod CIDRs without a route", "ops", "Pod CIDRs of Nodes that are outside of the cluster's, or another Node's too.",
                  (rate("outrigger_node_route_problems_total", "reason"), "{{reason}}")),
        ]),
    ]),
    "provider": ("Outrigger / Provider", [
        ("Provider", [
            stat("State", "none", "`degraded` serves, and says that something is wrong: see /debug/provider.",
                 ("outrigger_provider_state{$in} == 1", "{{instance}} {{state}}")),
            stat("Version", "none", "Name, version, and the minor of the contract.",
                 ("outrigger_provider_info{$in}", "{{name}} {{version}}, minor {{minor}}")),
            panel("Handshakes", "ops", "One for each connection. A steady rate: the provider restarts over and over.",
                  ('sum by (instance) (rate(outrigger_provider_rpc_duration_seconds_count{$in,rpc="Handshake"}[$__rate_interval]))', "{{instance}}")),
        ]),
        ("Calls", [
            panel("Calls", "reqps", "By RPC.", (rate("outrigger_provider_rpc_duration_seconds_count", "rpc"), "{{rpc}}")),
            panel("Latency", "s", "The 99th percentile by RPC. The cloud's own time is in it.",
                  (quantile(0.99, "outrigger_provider_rpc_duration_seconds", "rpc"), "{{rpc}}")),
            panel("Errors", "reqps", "By RPC, gRPC code and the contract's reason; proto/cloudprovider says what the controller does about each.",
                  (rate("outrigger_provider_rpc_duration_seconds_count", "rpc, code, reason", ',code!="OK"'), "{{rpc}} {{code}} {{reason}}")),
            panel("In flight", "none", "Calls that have not ended. As many as the provider's limit: it is the bottleneck.",
                  ("sum by (rpc) (outrigger_provider_rpc_in_flight{$in})", "{{rpc}}")),
        ]),
        ("Limits of the cloud", [
            panel("Pauses", "percentunit", "Fraction of the time that a class of calls pauses since the provider's errors ask for it.",
                  (rate("outrigger_provider_class_paused_seconds_total", "class, reason"), "{{class}} {{reason}}")),
            panel("Quota left", "percentunit", "Of each quota that the provider reports.",
                  ("outrigger_provider_quota_remaining{$in} / outrigger_provider_quota_limit{$in}", "{{quota}}")),
        ]),
        ("Volumes", [
            panel("Lookups", "ops", "Lookups of volumes, by gRPC code.",
                  (rate("outrigger_provider_rpc_duration_seconds_count", "code", ',rpc="GetVolume"'), "{{code}}")),
            panel("Admission", "reqps", "Requests to the webhook, by HTTP code; a refusal of a volume is a 200.",
                  (rate("cloud_provider_webhook_request_total", "webhook, code"), "{{webhook}} {{code}}")),
        ]),
        ("Answers that are left alone", [
            panel("Effects dropped", "ops", "Events, annotations and conditions of the provider outside its prefixes, too many, or not legal.",
                  ("sum(rate(outrigger_node_effects_dropped_total{$in}[$__rate_interval]))", "Nodes"),
                  ("sum(rate(outrigger_service_effects_dropped_total{$in}[$__rate_interval]))", "Services")),
        ]),
    ]),
}

SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def variable(name, query):
    return {
        "name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "definition": query,
        "includeAll": True, "multi": True, "allValue": ".+", "refresh": 2, "sort": 1, "current": {"text": ["All"], "value": ["$__all"]},
    }


def target(number, expr, legend):
    return {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expr.replace("$in", IN), "legendFormat": legend}


def grafana(uid, title, rows):
    panels, top = [], 0
    for name, row in rows:
        panels.append({"type": "row", "title": name, "collapsed": False, "gridPos": {"h": 1, "w": 24, "x": 0, "y": top}})
        width, height = 24 // len(row), 4 if all(one["kind"] == "stat" for one in row) else 8
        for column, one in enumerate(row):
            options = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
            if one["kind"] == "stat":
                options = {"textMode": "value_and_name", "colorMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
            panels.append({
                "type": one["kind"], "title": one["title"], "description": one["meaning"], "datasource": SOURCE,
                "gridPos": {"h": height, "w": width, "x": column * width, "y": top + 1},
                "fieldConfig": {"defaults": {"unit": one["unit"], "min": 0}, "overrides": []}, "options": options,
                "targets": [target(number, *query) for number, query in enumerate(one["queries"])],
            })
        top += 1 + height
    for number, one in enumerate(panels, 1):
        one["id"] = number
    return {
        "uid": f"outrigger-{uid}", "title": title, "tags": ["outrigger", "kubernetes"], "schemaVersion": 39, "editable": True,
        "graphTooltip": 1, "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "timezone": "utc",
        "links": [{"type": "dashboards", "title": "Outrigger", "tags": ["outrigger"], "asDropdown": True, "keepTime": True, "includeVars": True}],
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "current": {}},
            variable("job", "label_values(outrigger_provider_connected, job)"),
            variable("instance", 'label_values(outrigger_provider_connected{job=~"$job"}, instance)'),
        ]},
        "panels": panels,
    }


def main():
    stale = []
    for uid, (title, rows) in DASHBOARDS.items():
        path = FOLDER / f"{uid}.json"
        text = json.dumps(grafana(uid, title, rows), indent=1, ensure_ascii=False) + "\n"
        if path.exists() and path.read_text() == text:
            continue
        if sys.argv[1:] == ["--check"]:
            stale.append(str(path.relative_to(FOLDER.parents[4])))
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if stale:
        sys.exit("stale, run deploy/monitoring/dashboards.py: " + ", ".join(stale))


if __name__ == "__main__":
    main()
