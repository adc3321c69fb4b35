"""What a watch of the emulated API server shows, and where it begins and ends."""

import orjson

from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.resources import CONFIGMAPS, PODS
from kubedsm_lab.emulator.http.routes import Routes
from support.api_cases import pod
from support.api_requests import watching


async def test_leaving_a_selection_is_a_deletion(routes: Routes, api: ApiServer) -> None:
    stream = watching(routes, labelSelector="app=web")
    merge = "application/merge-patch+json"
    api.create(PODS, pod("a"))
    api.create(PODS, pod("other", metadata={"labels": {"app": "api"}}))
    for app in ("api", "db", "web"):
        patch = {"metadata": {"labels": {"app": app}}}
        api.patch(PODS, "default", "a", patch, merge)
    lines = [orjson.loads(await anext(stream)) for _ in range(stream.waiting)]
    assert [line["type"] for line in lines] == ["ADDED", "DELETED", "ADDED"]
    # as it last was in the selection, at the revision at which it left
    left = lines[1]["object"]["metadata"]
    assert left["labels"]["app"] == "web"
    assert int(left["resourceVersion"]) > int(lines[0]["object"]["metadata"]["resourceVersion"])


async def test_a_reader_that_does_not_keep_up_loses_its_watch(
    routes: Routes, api: ApiServer
) -> None:
    stream = watching(routes, "/api/v1/namespaces/default/configmaps")
    api.create(CONFIGMAPS, {"metadata": {"name": "c"}})
    for turn in range(10_100):
        api.update(
            CONFIGMAPS,
            {"metadata": {"name": "c", "namespace": "default"}, "data": {"turn": str(turn)}},
        )
    assert len([line async for line in stream]) == 10_001
