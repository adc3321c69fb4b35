"""How the adapter finds and renews its credentials, refuses bad ones, and what they cost."""

import asyncio
import base64
import json
import shutil
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from kubedsm.kube.client import credentials
from kubedsm.kube.client.environment import SERVICE_ACCOUNT_VARIABLE, proxy_for
from kubedsm.kube.client.kubernetes import KubernetesCluster
from kubedsm.kube.client.port import ClusterError, CredentialsError, Request, Unreachable
from support.loopback import POST, Server, config, says, talking
from support.processes import PATIENCE

pytestmark = pytest.mark.http

ONE_CONTEXT = b"current-context: y\ncontexts: [{name: y, context: {cluster: c}}]\n"
ONE_USER = ONE_CONTEXT.replace(b"cluster: c", b"cluster: c, user: u")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no such file"),
        (b"a: [", "not YAML: "),
        (b"\xff\xfe\xff", "not YAML: "),
        (b"", "expected `object`"),
        (b"just text", "expected `object`"),
        (b"contexts: 3", "expected `array | null`"),
        (b"{}", "no contexts in it"),
        (b"current-context: x", "no contexts in it"),
        (b"contexts: [{name: y, context: {cluster: c}}]", "choose one with --context: y"),
        (b"current-context: x\ncontexts: [{name: y, context: {cluster: c}}]", "only y"),
        (b"current-context: y\ncontexts: [{name: y, context: {cluster: c}}]", "unknown cluster"),
        (ONE_CONTEXT + b"clusters: [{name: c, cluster: {}}]", "missing required field `server`"),
        (
            ONE_CONTEXT + b"clusters: [{name: c, cluster: {server: nowhere}}]",
            "cluster 'c': 'nowhere' is no URL",
        ),
        (ONE_CONTEXT + b"clusters: [{name: c, cluster: {server: 'https://a:99999'}}]", "is no URL"),
        (ONE_CONTEXT + b"clusters: [{name: c, cluster: {server: 'https://a..b'}}]", "is no URL"),
        (ONE_USER + b"clusters: [{name: c, cluster: {server: 'https://a'}}]", "unknown user"),
        (
            ONE_USER + b"clusters: [{name: c, cluster: {server: 'https://a'}}]\n"
            b"users: [{name: u, user: {token: t, as: viewer}}]",
            "user 'u' impersonates: not supported",
        ),
    ],
)
async def test_a_bad_kubeconfig_is_told_in_one_line(tmp_path, content, told):
    path = tmp_path / "config"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CredentialsError) as raised:
        await KubernetesCluster.connect(path, environ={})
    assert str(raised.value).startswith(f"kubeconfig {path}: ")
    assert told.lower() in str(raised.value).lower()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ({"exec": {"command": "no-such-plugin", "apiVersion": "v1"}}, "no-such-plugin"),
        ({"exec": {"apiVersion": "v1"}}, "missing key 'command'"),
        ({"exec": {"command": "false", "apiVersion": "v1"}}, "process returned 1"),
        ({"exec": {"command": "echo", "args": ["{}"], "apiVersion": "v1"}}, "missing key"),
        ({"exec": {"command": "echo", "args": ["?"], "apiVersion": "v1"}}, "decode"),
        ({"tokenFile": "no/such/token"}, "no/such/token"),
        ({"client-certificate": "no/such.crt"}, "no/such.crt"),
        ({"client-certificate-data": 7}, "Error"),
        ({"token": "a\r\nImpersonate-User: root"}, "no header may contain"),
    ],
)
async def test_credentials_that_cannot_be_read_are_told_in_one_line(tmp_path, user, told):
    path = config(tmp_path, "https://127.0.0.1:1", user=user)
    with pytest.raises(CredentialsError) as raised:
        await KubernetesCluster.connect(path, environ={})
    assert str(raised.value).startswith(f"kubeconfig {path}, context lab: ")
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("proxy", ["socks5://u:secret@p:1080", "u:secret@p:3128", "http://a..b"])
async def test_a_proxy_that_cannot_be_used_is_told_in_one_line(tmp_path, proxy):
    path = config(tmp_path, "https://127.0.0.1:1", cluster={"proxy-url": proxy})
    with pytest.raises(CredentialsError) as raised:
        await KubernetesCluster.connect(path, environ={})
    assert "proxy-url" in str(raised.value)
    assert "secret" not in str(raised.value)


async def test_certificates_that_are_none_are_told_in_one_line(tmp_path):
    authority = {"certificate-authority-data": base64.b64encode(b"none").decode()}
    path = config(tmp_path, "https://127.0.0.1:1", cluster=authority)
    cluster = await KubernetesCluster.connect(path, environ={})
    with pytest.raises(CredentialsError, match="certificates: "):
        await cluster.__aenter__()


async def test_a_context_can_be_chosen_and_files_are_merged(tmp_path):
    one = config(tmp_path, "http://127.0.0.1:1", name="one")
    two = tmp_path / "two"
    two.write_text(one.read_text().replace("lab", "prod").replace(":1", ":2").replace('"c"', '"d"'))
    environ = {"KUBECONFIG": f"{one}:{two}:{tmp_path / 'missing'}"}
    assert (await KubernetesCluster.connect(environ=environ)).server == "http://127.0.0.1:1"
    chosen = await KubernetesCluster.connect(None, "prod", environ=environ)
    assert chosen.server == "http://127.0.0.1:2"
    with pytest.raises(CredentialsError, match="no context 'dev', only lab, prod"):
        await KubernetesCluster.connect(None, "dev", environ=environ)


async def test_without_a_kubeconfig_the_usual_one_counts(tmp_path):
    with pytest.raises(CredentialsError, match=r"\.kube/config: no such file"):
        await KubernetesCluster.connect(environ={"HOME": str(tmp_path)})
    (tmp_path / ".kube").mkdir()
    config(tmp_path / ".kube", "http://127.0.0.1:3")
    connected = await KubernetesCluster.connect(environ={"HOME": str(tmp_path)})
    assert connected.server == "http://127.0.0.1:3"


def service_account(tmp_path):
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("a certificate")
    return {
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "6443",
        SERVICE_ACCOUNT_VARIABLE: str(tmp_path),
    }


async def test_in_a_pod_its_service_account_counts_unless_a_kubeconfig_is_given(tmp_path):
    environ = service_account(tmp_path)
    mounted = await KubernetesCluster.connect(environ=environ)
    assert mounted.server == "https://[fd00::1]:6443"
    assert mounted.in_pod
    path = config(tmp_path, "http://127.0.0.1:1")
    given = await KubernetesCluster.connect(path, environ=environ)
    assert given.server == "http://127.0.0.1:1"
    assert not given.in_pod
    environ["KUBECONFIG"] = str(path)
    named = await KubernetesCluster.connect(environ=environ)
    assert named.server == "http://127.0.0.1:1"


async def test_a_token_file_is_read_again_when_its_token_is_no_longer_accepted(tmp_path):
    (tmp_path / "token").write_text("first\n")
    seen = []

    async def handler(request):
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer second" else 401)

    async with talking(tmp_path, handler, user={"tokenFile": "token"}) as (cluster, _):
        (tmp_path / "token").write_text("second\n")
        statuses = [(await cluster.request(POST, timeout=PATIENCE)).status for _ in range(3)]
    assert statuses == [401, 200, 200]
    assert seen == ["Bearer first", "Bearer second", "Bearer second"]


async def test_a_rejection_of_a_token_that_is_replaced_by_now_renews_nothing(tmp_path):
    """Two requests with one token are rejected; the second rejection comes after the renewal."""
    token = tmp_path / "token"
    token.write_text("first\n")
    path = config(tmp_path, "http://127.0.0.1:1", user={"tokenFile": "token"})
    known = await credentials.from_kubeconfig(path, None, {})
    first = await known.authorization()
    token.write_text("second\n")
    known.note_rejection(first)
    assert await known.authorization() == "Bearer second"
    token.write_text("third\n")
    known.note_rejection(first)
    assert await known.authorization() == "Bearer second"
    known.note_rejection("Bearer second")
    assert await known.authorization() == "Bearer third"


PLUGIN = """
import json, pathlib, sys
count = pathlib.Path(sys.argv[1])
runs = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(runs))
status = {"token": f"token-{runs}", **json.loads(sys.argv[2])}
print(json.dumps({"kind": "ExecCredential", "apiVersion": "v1", "status": status}))
"""


FAR, PAST = "2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("expiry", "accepted", "tokens"),
    [
        ({}, "token-", [1, 1, 1]),
        ({"expirationTimestamp": FAR}, "token-", [1, 1, 1]),
        # about to expire: renewed before every request; the first time while connecting
        ({"expirationTimestamp": PAST}, "token-", [2, 3, 4]),
        # lives for less than other tokens are renewed before their end
        ({"expirationTimestamp": timedelta(seconds=240)}, "token-", [1, 1, 1]),
        # refused: renewed before the next one
        ({}, "token-2", [1, 2, 2]),
        ({"expirationTimestamp": FAR}, "token-2", [1, 2, 2]),
    ],
)
async def test_a_plugins_token_is_renewed(tmp_path, expiry, accepted, tokens):
    seen = []

    async def handler(request):
        seen.append(request.headers["Authorization"].removeprefix("Bearer "))
        return web.Response(status=200 if seen[-1].startswith(accepted) else 401)

    issued = json.dumps(expiry, default=lambda life: (datetime.now(UTC) + life).isoformat())
    arguments = ["-c", PLUGIN, str(tmp_path / "runs"), issued]
    plugin = {"exec": {"command": sys.executable, "apiVersion": "v1", "args": arguments}}
    async with talking(tmp_path, handler, user=plugin) as (cluster, _):
        for _ in tokens:
            await cluster.request(POST, timeout=PATIENCE)
    assert seen == [f"token-{token}" for token in tokens]


async def test_a_plugin_that_hangs_keeps_all_waiting_for_the_same_time(monkeypatch):
    async def load():
        await asyncio.sleep(60)

    monkeypatch.setattr(credentials, "LOAD_TIMEOUT", 2.0)
    known, begun = credentials.Credentials("plugin", load), time.monotonic()
    waiting = (known.authorization() for _ in range(3))
    failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert list(map(str, failures)) == ["plugin: no answer within 2 s"] * 3
    assert time.monotonic() - begun < 5.5


@pytest.mark.parametrize("asked", [POST, Request("GET", "/version")])
async def test_a_request_waits_no_longer_for_credentials_than_it_may_take(asked):
    async def load():
        await asyncio.sleep(60)

    async with KubernetesCluster(credentials.Credentials("plugin", load)) as cluster:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"plugin: no answer within 2 s"):
            await cluster.request(asked, timeout=4.0)
        assert time.monotonic() - begun < 4.0


async def test_no_renewal_outlives_the_connection_to_the_server():
    async def load():
        await asyncio.sleep(60)

    async with KubernetesCluster(credentials.Credentials("plugin", load)) as cluster:
        with pytest.raises(ClusterError):
            await cluster.request(POST, timeout=0.1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_token_counts_to_its_end_while_its_renewal_fails(tmp_path, monkeypatch):
    end, runs, wall = datetime.now(UTC) + timedelta(minutes=20), tmp_path / "runs", time.time
    issued = json.dumps({"expirationTimestamp": end.isoformat()})
    arguments = ["-c", f"{PLUGIN}sys.exit(runs > 1)", str(runs), issued]
    plugin = {"exec": {"command": sys.executable, "apiVersion": "v1", "args": arguments}}
    path = config(tmp_path, "http://127.0.0.1:1", user=plugin)
    known = await credentials.from_kubeconfig(path, None, {})
    monkeypatch.setattr(time, "time", lambda: wall() + 16 * 60)
    monkeypatch.setattr("kubernetes_asyncio.config.kube_config._is_expired", lambda _: True)
    assert await known.authorization() == "Bearer token-1"
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert await known.authorization() == "Bearer token-1"
    await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
    assert runs.read_text() == "3"
    monkeypatch.setattr(time, "time", lambda: wall() + 21 * 60)
    with pytest.raises(CredentialsError, match="process returned 1"):
        await known.authorization()


def certify(directory):
    """A certificate for the name `lab` and its key, good for server and client."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates with")
    directory.mkdir(exist_ok=True)
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=lab", "-addext", "subjectAltName=DNS:lab",
            "-keyout", directory / "key.pem", "-out", directory / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return directory / "cert.pem", directory / "key.pem"


@pytest.fixture
def authority(tmp_path):
    return certify(tmp_path)


async def test_tls_with_a_clusters_own_authority_and_a_client_certificate(tmp_path, authority):
    certificate, key = authority
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate)
    tls.load_cert_chain(certificate, key)
    tls.verify_mode = ssl.CERT_REQUIRED
    encoded = {"certificate-authority-data": base64.b64encode(certificate.read_bytes()).decode()}
    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    async with Server(says(200, "{}"), tls) as server:

        async def status(cluster, user=user):
            path = config(tmp_path, server.url, cluster=cluster, user=user)
            async with await KubernetesCluster.connect(path, environ={}) as connected:
                return (await connected.request(POST, timeout=PATIENCE)).status

        assert await status({**encoded, "tls-server-name": "lab"}) == 200
        assert await status({"insecure-skip-tls-verify": True}) == 200
        with pytest.raises(Unreachable, match=r"not accepted: IP address mismatch, .*127\.0"):
            await status(encoded)
        with pytest.raises(Unreachable, match="not accepted: self-signed certificate; check"):
            await status({"tls-server-name": "lab"})


async def test_a_client_certificate_is_read_again_when_it_is_no_longer_accepted(
    tmp_path, authority
):
    """As an API server, the server refuses an expired certificate with each request."""
    renewed = certify(tmp_path / "renewed")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*authority)
    for certificate, _ in (authority, renewed):
        tls.load_verify_locations(certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    refused = set()

    async def handler(request):
        number = request.transport.get_extra_info("peercert")["serialNumber"]
        if not refused:
            refused.add(number)
        return web.Response(status=401 if number in refused else 200, text="{}")

    user = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    async with Server(handler, tls) as server:
        path = config(tmp_path, server.url, cluster={"insecure-skip-tls-verify": True}, user=user)
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            for asked in (POST, Request("GET", "/version")) * 2:
                assert (await cluster.request(asked, timeout=PATIENCE)).status == 401
            for new, old in zip(renewed, authority, strict=True):
                shutil.copy(new, old)
            for asked in (POST, Request("GET", "/version")):
                found = [(await cluster.request(asked, timeout=PATIENCE)).status for _ in range(3)]
                assert found[1:] == [200, 200]


async def test_tls_to_a_server_without_it_is_unreachable(tmp_path):
    async with Server(says(200, "{}")) as server:
        path = config(tmp_path, server.url.replace("http:", "https:"))
        async with await KubernetesCluster.connect(path, environ={}) as cluster:
            with pytest.raises(Unreachable, match=r": no TLS: .*; check the URL"):
                await cluster.request(POST, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://10.96.0.1:443", {}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://10.96.0.1:443", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("http://10.96.0.1:443", {"HTTPS_PROXY": "http://p:3128"}, None),
        ("https://10.96.0.1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a, 10.96.0.0/12"}, None),
        ("https://10.96.0.1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.96.0.1"}, None),
        ("https://api.lab.internal", {"HTTPS_PROXY": "http://p", "no_proxy": ".internal"}, None),
        ("https://api.lab.internal", {"HTTPS_PROXY": "http://p", "no_proxy": "lab.internal"}, None),
        ("https://notlab.internal", {"HTTPS_PROXY": "http://p", "no_proxy": "lab.internal"}, "http://p"),
        ("https://lab.internal", {"HTTPS_PROXY": "http://p", "no_proxy": ".lab.internal"}, "http://p"),
        ("https://api.lab.internal", {"HTTPS_PROXY": "http://p", "no_proxy": "*.Internal"}, None),
        ("https://api.lab.internal", {"HTTPS_PROXY": "http://p", "no_proxy": "*"}, None),
        ("https://10.0.0.1:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.1:6443"}, None),
        ("https://10.0.0.1:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.1:443"}, "http://p"),
        ("https://10.0.0.1", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.1:443"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "[fd00::1]:6443"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "fd00::1"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "fd00::6443,:6443"}, "http://p"),
        ("https://api.lab:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "lab:6443"}, None),
        ("https://api.lab:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "lab:80"}, "http://p"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p"}, None),
    ],
)  # fmt: skip
def test_proxies_of_the_environment(url, environ, proxy):
    assert proxy_for(url, environ) == proxy


SCRIPT = """
import sys
import kubedsm.kube.client.credentials
before = len(sys.modules)
assert "kubernetes_asyncio.client.models" not in sys.modules
import kubernetes_asyncio
from kubernetes_asyncio.client import ApiClient, Configuration, models
assert kubernetes_asyncio.client.ApiClient is ApiClient
assert kubernetes_asyncio.config.ConfigException is kubedsm.kube.client.credentials.ConfigException
assert kubernetes_asyncio.watch.Watch and models.V1Pod and Configuration
assert len(sys.modules) > before + 500
print("as usual")
"""


def test_models_are_loaded_by_those_that_use_them_only():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "as usual\n", done.stderr
