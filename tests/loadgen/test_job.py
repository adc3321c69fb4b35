"""manifests/loadgen-job.yaml: a scenario that loads, a Job that finds it."""

from loadgen.scenario import loads
from loadgen.urls import url_problem
from support.manifests import BASE, MANIFESTS, documents

CONFIG_MAP, JOB = documents(MANIFESTS / "loadgen-job.yaml")
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_the_scenario_loads_the_example_workload():
    scenario = loads(CONFIG_MAP["data"]["scenario.json"])
    *_, service = documents(MANIFESTS / "example-workload.yaml")
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert [api.endpoint for api in scenario.apis] == [f"http://{name}.{namespace}/"]
    assert url_problem(scenario.apis[0].endpoint) is None
    assert [scenario.rate(name, seconds) for seconds in (0, 90, 180)] == [5, 25, 10]


def test_the_job_runs_the_mounted_scenario_restricted_and_once():
    assert JOB["metadata"]["namespace"] == CONFIG_MAP["metadata"]["namespace"]
    (mount,) = CONTAINER["volumeMounts"]
    (volume,) = POD["volumes"]
    assert volume == {"name": mount["name"], "configMap": {"name": CONFIG_MAP["metadata"]["name"]}}
    (key,) = CONFIG_MAP["data"]
    assert CONTAINER["command"] == ["loadgen"]
    assert CONTAINER["args"] == ["run", f"{mount['mountPath']}/{key}", "--output", "json"]
    (deployment,) = documents(BASE / "deployment.yaml")
    scheduler = deployment["spec"]["template"]["spec"]
    assert POD["securityContext"] == scheduler["securityContext"]
    assert CONTAINER["securityContext"] == scheduler["containers"][0]["securityContext"]
    assert CONTAINER["image"] == scheduler["containers"][0]["image"]
    assert POD["restartPolicy"] == "Never"
    assert JOB["spec"]["backoffLimit"] == 0
    assert "schedulerName" not in POD
