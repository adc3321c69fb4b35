"""Which columns a resource has; here those of everything that is neither pod nor workload."""

from typing import Any

from kubedsm_lab.emulator.api import resources
from kubedsm_lab.emulator.api.resources import Object, Resource
from kubedsm_lab.emulator.http.durations import age
from kubedsm_lab.emulator.http.pod_columns import POD_PRINTER
from kubedsm_lab.emulator.http.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age_of,
    equalities,
    joined,
)
from kubedsm_lab.emulator.http.workload_columns import (
    AUTOSCALER_PRINTER,
    DEPLOYMENT_PRINTER,
    DISRUPTION_BUDGET_PRINTER,
    JOB_PRINTER,
    REPLICA_SET_PRINTER,
    STATEFUL_SET_PRINTER,
)

_ENDPOINTS_SHOWN = 3


def printer_of(resource: Resource) -> Printer:
    """The resource's own columns, or name and age."""
    return _PRINTERS.get(resource, _PLAIN)


def _plain(obj: Object, now: float) -> list[Any]:
    return [obj["metadata"]["name"], age_of(obj, now)]


def _node(node: Object, now: float) -> list[Any]:
    status = node.get("status", {})
    info = status.get("nodeInfo", {})
    addresses = {a["type"]: a["address"] for a in reversed(status.get("addresses", ()))}
    return [
        node["metadata"]["name"],
        _node_status(node),
        _node_roles(node["metadata"].get("labels", {})),
        age_of(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(node: Object) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions", ())}
    words = {"True": "Ready", None: "Unknown"}
    word = words.get(conditions.get("Ready"), "NotReady")
    return f"{word},SchedulingDisabled" if node["spec"].get("unschedulable") else word


def _node_roles(labels: dict[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if old_form := labels.get("kubernetes.io/role"):
        roles.add(old_form)
    return joined(sorted(role for role in roles if role))


def _service(service: Object, now: float) -> list[Any]:
    spec = service["spec"]
    return [
        service["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        _external_addresses(service),
        joined([_port(port) for port in spec.get("ports", ())]),
        age_of(service, now),
        equalities(spec.get("selector")),
    ]


def _external_addresses(service: Object) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    if spec.get("type") != "LoadBalancer":
        return joined(spec.get("externalIPs", []))
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    addresses = [i.get("ip") or i.get("hostname", "") for i in ingress]
    addresses += spec.get("externalIPs", [])
    return joined(addresses) if addresses else "<pending>"


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}"


def _endpoints(endpoints: Object, now: float) -> list[Any]:
    shown = [
        f"{address['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports", ())
        for address in subset.get("addresses", ())
    ]
    name = endpoints["metadata"]["name"]
    return [name, joined(shown, _ENDPOINTS_SHOWN), age_of(endpoints, now)]


def _event(event: Object, now: float) -> list[Any]:
    """A row of either API's events; events.k8s.io calls the same fields by other names."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingController") or ""
    series = event.get("series") or {}
    event_time = event.get("eventTime")
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event_time
    last = event.get("lastTimestamp") or event.get("deprecatedLastTimestamp") or first
    return [
        age(series.get("lastObservedTime") or last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(filter(None, (component, source.get("host")))),
        (event.get("message") or event.get("note") or "").strip(),
        age(first, now),
        series.get("count") or event.get("count") or event.get("deprecatedCount") or 1,
        event["metadata"]["name"],
    ]


def _config_map(config_map: Object, now: float) -> list[Any]:
    entries = len(config_map.get("data") or ()) + len(config_map.get("binaryData") or ())
    return [config_map["metadata"]["name"], entries, age_of(config_map, now)]


def _lease(lease: Object, now: float) -> list[Any]:
    holder = lease.get("spec", {}).get("holderIdentity", "")
    return [lease["metadata"]["name"], holder, age_of(lease, now)]


def _priority_class(priority_class: Object, now: float) -> list[Any]:
    return [
        priority_class["metadata"]["name"],
        priority_class.get("value", 0),
        priority_class.get("globalDefault", False),
        age_of(priority_class, now),
        priority_class.get("preemptionPolicy", ""),
    ]


def _namespace(namespace: Object, now: float) -> list[Any]:
    phase = namespace.get("status", {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, age_of(namespace, now)]


def _quota(quota: Object, now: float) -> list[Any]:
    hard = quota.get("status", {}).get("hard", {})
    used = quota.get("status", {}).get("used", {})
    shown = {key: f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard)}
    return [
        quota["metadata"]["name"],
        ", ".join(text for key, text in shown.items() if not key.startswith("limits.")),
        ", ".join(text for key, text in shown.items() if key.startswith("limits.")),
        age_of(quota, now),
    ]


def _role(role: Object, now: float) -> list[Any]:  # noqa: ARG001 - the table's
    return [role["metadata"]["name"], role["metadata"].get("creationTimestamp", UNKNOWN)]


def _role_binding(binding: Object, now: float) -> list[Any]:
    reference, subjects = binding.get("roleRef") or {}, binding.get("subjects") or ()
    of = {kind: [s["name"] for s in subjects if s["kind"] == kind] for kind in ("User", "Group")}
    accounts = [
        f"{s.get('namespace', '')}/{s['name']}" for s in subjects if s["kind"] == "ServiceAccount"
    ]
    return [
        binding["metadata"]["name"],
        f"{reference.get('kind', '')}/{reference.get('name', '')}",
        age_of(binding, now),
        ", ".join(of["User"]),
        ", ".join(of["Group"]),
        ", ".join(accounts),
    ]


_PLAIN = Printer((NAME, AGE), _plain)
_EVENT_PRINTER = Printer(
    (
        Column("Last Seen", description="Since it was last observed."), Column("Type"),
        Column("Reason"), Column("Object", description="What it is about."),
        Column("Subobject", wide=True), Column("Source", wide=True, description="By what."),
        Column("Message"), Column("First Seen", wide=True), Column("Count", "integer", wide=True),
        Column("Name", wide=True),
    ),
    _event,
)  # fmt: skip
_ROLE_PRINTER = Printer((NAME, Column("Created At")), _role)
_ROLE_BINDING_PRINTER = Printer(
    (
        NAME, Column("Role"), AGE, Column("Users", wide=True), Column("Groups", wide=True),
        Column("ServiceAccounts", wide=True),
    ),
    _role_binding,
)  # fmt: skip

_PRINTERS = {
    resources.ROLES: _ROLE_PRINTER,
    resources.CLUSTER_ROLES: _ROLE_PRINTER,
    resources.ROLE_BINDINGS: _ROLE_BINDING_PRINTER,
    resources.CLUSTER_ROLE_BINDINGS: _ROLE_BINDING_PRINTER,
    resources.PODS: POD_PRINTER,
    resources.DEPLOYMENTS: DEPLOYMENT_PRINTER,
    resources.REPLICA_SETS: REPLICA_SET_PRINTER,
    resources.STATEFUL_SETS: STATEFUL_SET_PRINTER,
    resources.HORIZONTAL_POD_AUTOSCALERS: AUTOSCALER_PRINTER,
    resources.OLD_AUTOSCALERS: AUTOSCALER_PRINTER,
    resources.JOBS: JOB_PRINTER,
    resources.POD_DISRUPTION_BUDGETS: DISRUPTION_BUDGET_PRINTER,
    resources.EVENTS: _EVENT_PRINTER,
    resources.NEW_EVENTS: _EVENT_PRINTER,
    resources.NODES: Printer(
        (
            NAME, Column("Status", description="Ready or not, and whether it takes new pods."),
            Column("Roles"), AGE, Column("Version", description="The kubelet's."),
            Column("Internal-IP", wide=True), Column("External-IP", wide=True),
            Column("OS-Image", wide=True), Column("Kernel-Version", wide=True),
            Column("Container-Runtime", wide=True),
        ),
        _node,
    ),
    resources.SERVICES: Printer(
        (
            NAME, Column("Type"), Column("Cluster-IP"), Column("External-IP"), Column("Port(s)"),
            AGE, Column("Selector", wide=True, description="The pods that it routes to."),
        ),
        _service,
    ),
    resources.ENDPOINTS: Printer((NAME, Column("Endpoints"), AGE), _endpoints),
    resources.CONFIGMAPS: Printer(
        (NAME, Column("Data", description="How many entries it has."), AGE), _config_map
    ),
    resources.LEASES: Printer((NAME, Column("Holder"), AGE), _lease),
    resources.PRIORITY_CLASSES: Printer(
        (
            NAME, Column("Value", "integer", description="The priority of its pods."),
            Column("Global-Default", "boolean", description="That of pods without a class."),
            AGE, Column("PreemptionPolicy", description="Whether its pods may take others' room."),
        ),
        _priority_class,
    ),
    resources.NAMESPACES: Printer((NAME, Column("Status"), AGE), _namespace),
    resources.RESOURCE_QUOTAS: Printer(
        (NAME, Column("Request"), Column("Limit"), AGE), _quota
    ),
}  # fmt: skip
