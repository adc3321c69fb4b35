"""Whatever a server answers, asking it gives a vector, or a failure in one line."""

import asyncio
import gzip
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from kubedsm.app import prometheus
from kubedsm.app.load_monitor import BYTES
from kubedsm.app.prometheus import Failure, InAThread, Sample
from kubedsm.config.load_aware import LoadAware
from kubedsm_lab.emulator.http.server import server_tls
from support.processes import free_port

pytestmark = pytest.mark.http

UP = Sample({"instance": "n1:9100"}, 1.5, 1000.0)


def answer(result):
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


def series(value="1.5", at=1000.0, metric=None):
    return answer([{"metric": metric or UP.labels, "value": [at, value]}])


GOOD = series()


class Requests(list):
    """Those that came; `ca` by which the server is known."""

    ca = b""


@contextmanager
def serving(reply, *, tls=False):
    """`reply(request)` gives status, headers and body; the requests that came."""
    came = Requests()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            came.append(self)
            status, headers, body = reply(self)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in [body] if isinstance(body, bytes) else body:
                try:
                    self.wfile.write(part)
                except OSError:
                    return  # it has heard enough

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            pass  # who does not trust us hangs up

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            secured = server_tls(["127.0.0.1"])
            came.ca = secured.ca
            server.socket = secured.context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http{'s' * tls}://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()


async def asked(url, seconds=60.0, queries=("up",), most=BYTES, credentials=Path("/nowhere")):
    whom = LoadAware(prometheus=url)
    names = {name: name for name in queries}
    return await InAThread(credentials).ask(whom, names, seconds, most, dict)


async def heard(status, body, **headers):
    """What one answer comes to; the other query is answered well."""
    body = body if isinstance(body, bytes) else body.encode()

    def reply(request):
        query = parse_qs(urlsplit(request.path).query)["query"]
        return (status, headers, body) if query == ["up"] else (200, {}, GOOD.encode())

    with serving(reply) as (url, _):
        found = await asked(url, queries=("up", "other"))
    assert found["other"] == (UP,)
    return found["up"]


async def test_a_vector_is_read_and_the_query_is_asked_as_it_is():
    with serving(lambda _: (200, {}, GOOD.encode())) as (url, came):
        assert await asked(f"{url}/prefix/", queries=('a{b=~"c|d"}[5m] + 1',)) == {
            'a{b=~"c|d"}[5m] + 1': (UP,)
        }
    [request] = came
    assert urlsplit(request.path).path == "/prefix/api/v1/query"
    assert parse_qs(urlsplit(request.path).query)["query"] == ['a{b=~"c|d"}[5m] + 1']
    assert "Authorization" not in request.headers


PROBLEM = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error:\n here"})


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (422, PROBLEM, "422 parse error: here"),
        (401, "Unauthorized", "401"),
        (503, "<html>starting</html>", "503"),
        (500, b"\xff\xfe", "500"),
        (422, '{"error": ["x"]}', "422 ['x']"),
        (422, '{"error": "%s"}' % ("x" * 10_000), f"422 {'x' * 300}"),
        (200, "<html><body>Log in</body></html>", "the response is not JSON"),
        (200, b"", "the response is not JSON"),
        (200, b"\xff\xfe\x00", "the response is not JSON"),
        (200, '{"status": "success"', "the response is not JSON"),
        (200, "[" * 100_000, "the response has no vector"),
        (200, "[]", "the response has no vector"),
        (200, "null", "the response has no vector"),
        (200, '{"data": {"result": null}}', "the response has no vector"),
        (200, '{"data": {"result": {"a": 1}}}', "the response has no vector"),
        (200, answer([1000.0, "1.5"]), "the response has no vector"),
        (200, answer([{"metric": {}, "values": [[1, "1"]]}]), "the response has no vector"),
        (200, answer([{"metric": [], "value": [1, "1"]}]), "the response has no vector"),
        (200, answer([{"metric": {}, "value": [1, "one"]}]), "the response has no vector"),
        (200, answer([{"metric": {}, "value": [1]}]), "the response has no vector"),
        (200, answer([{"metric": {}, "value": [1, 2]}]), "the response has no vector"),
        (200, answer([{"metric": {}, "value": [None, "1"]}]), "the response has no vector"),
    ],
)  # fmt: skip
async def test_what_is_no_vector_fails_in_a_line_and_the_next_query_is_asked(status, body, why):
    assert await heard(status, body) == Failure(why)


async def test_an_answer_that_is_too_large_is_not_read_to_its_end_and_the_next_one_is_read():
    sent = []

    def endless():
        while len(sent) < 1000:
            sent.append(1)
            yield b" " * 2**16

    def reply(request):
        return 200, {}, endless() if "up" in request.path else GOOD.encode()

    with serving(reply) as (url, _):
        found = await asked(url, queries=("up", "other"), most=2**20)
    assert found["up"].reason.startswith("the responses exceed 1 MiB: aggregate this query")
    assert found["other"] == (UP,)
    assert len(sent) < 200


async def test_a_compressed_answer_is_not_unpacked():
    found = await heard(200, gzip.compress(b" " * 2**24), **{"Content-Encoding": "gzip"})
    assert found == Failure("an unrequested compressed response")


async def test_while_as_many_series_are_parsed_as_may_be_the_event_loop_gets_its_turn():
    one = '{"metric":{"namespace":"shop","pod":"cart-7f9c5d8b6d-%05d"},"value":[1000.5,"12.345"]}'
    series = ",".join(one % number for number in range(BYTES // 95))
    head = '{"status":"success","data":{"resultType":"vector","result":['
    body, spent = f"{head}{series}]}}}}".encode(), []
    with serving(lambda _: (200, {}, body)) as (url, _):
        # The first imports much, and a thread that waits for a processor looks late, too.
        while len(spent) < 4 and min(spent, default=1.0) >= 0.05:
            asking = asyncio.create_task(asked(url, most=BYTES))
            longest, before = 0.0, time.process_time()
            while not asking.done():
                await asyncio.sleep(0)
                now = time.process_time()
                longest, before = max(longest, now - before), now
            spent.append(longest)
            assert len((await asking)["up"]) == BYTES // 95
    assert min(spent) < 0.05, "seconds of CPU between two turns"


@pytest.fixture
def credentials(tmp_path):
    """A directory as the kubelet makes one of a Secret: files are links into one that is dated."""
    directory, dated = tmp_path / "prometheus", tmp_path / "prometheus" / "..2026_01_01"
    dated.mkdir(parents=True)
    (directory / "..data").symlink_to(dated.name)

    def put(**contents):
        for name, content in contents.items():
            (dated / name).write_bytes(content)
            if not (directory / name).is_symlink():
                (directory / name).symlink_to(f"..data/{name}")
        return directory

    return put


async def test_a_token_is_sent_to_its_server_and_never_told(credentials):
    with serving(lambda _: (401, {}, b""), tls=True) as (url, came):
        known = {"server": url.encode(), "ca.crt": came.ca}
        directory = credentials(token=b"very-secret\n", **known)
        assert await asked(url, credentials=directory) == {"up": Failure("401")}
        assert came[0].headers["Authorization"] == "Bearer very-secret"
        for text in ("very secret", "very\nsecret", "", "ö-secret"):
            credentials(token=text.encode())
            found = (await asked(url, credentials=directory))["up"]
            assert found.unreachable
            assert found.reason.startswith(f"credentials in {directory}: ")
            assert "secret" not in found.reason
    assert len(came) == 1


OTHER = "is not at the address in the file server"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (b"{url}", "a token is sent over https only"),
        (b"https://127.0.0.1:1", OTHER),
        (b"https://prometheus.monitoring", OTHER),
        (b"https://[", "the file server has no address"),
        (b"", "a token is sent over https only"),
        (None, "the file server is missing"),
    ],
)
async def test_a_token_goes_nowhere_else_and_nothing_is_asked(credentials, server, why):
    with serving(lambda _: (200, {}, GOOD.encode())) as (url, came):
        there = {} if server is None else {"server": server.replace(b"{url}", url.encode())}
        directory = credentials(token=b"very-secret", **there)
        found = (await asked(url, credentials=directory))["up"]
    assert why in found.reason
    assert not came


async def test_a_link_out_of_the_directory_is_refused(credentials, tmp_path):
    (tmp_path / "service-account").write_text("very-secret")
    with serving(lambda _: (200, {}, GOOD.encode()), tls=True) as (url, came):
        directory = credentials(server=url.encode(), **{"ca.crt": came.ca})
        (directory / "token").symlink_to(tmp_path / "service-account")
        found = (await asked(url, credentials=directory))["up"]
    assert "the file token is a symbolic link out of the directory" in found.reason
    assert not came


async def test_a_server_with_a_strange_certificate_gets_neither_token_nor_query(credentials):
    with serving(lambda _: (200, {}, GOOD.encode()), tls=True) as (url, came):
        directory = credentials(token=b"very-secret", server=url.encode())
        found = (await asked(url, credentials=directory))["up"]
        assert found.unreachable
        assert "CERTIFICATE_VERIFY_FAILED" in found.reason or "certificate" in found.reason
        assert not came


async def test_a_redirect_does_not_carry_the_token(credentials):
    with serving(lambda _: (200, {}, GOOD.encode())) as (elsewhere, there):
        moved = (307, {"Location": f"{elsewhere}/api/v1/query"}, b"")
        # Another spelling of the path: the adapter that refuses redirects is used all the same.
        with serving(lambda _: moved, tls=True) as (url, came):
            known = {"server": url.encode(), "ca.crt": came.ca}
            directory = credentials(token=b"very-secret", **known)
            found = await asked(f"{url}/%41", credentials=directory)
    assert found == {"up": Failure("307, a redirect, which is not followed")}
    assert not there


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:{port}", "Connection refused"),
        ("http://nowhere.invalid:{port}", "nowhere.invalid"),
        ("https://127.0.0.1:{port}", "Connection refused"),
        ("http://" + "x" * 300 + ":{port}", ""),
    ],
)
async def test_when_nobody_answers_that_is_said_of_all_queries(url, why):
    found = await asked(url.format(port=free_port()), queries=("a", "b"))
    assert found["a"] == found["b"]
    assert found["a"].unreachable
    assert why in found["a"].reason
    assert len(found["a"].reason) <= 300
    assert "0x" not in found["a"].reason


async def test_environment_and_files_of_whoever_started_us_are_not_used(monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(lambda _: (200, {}, GOOD.encode())) as (url, came):
        assert await asked(url) == {"up": (UP,)}
    assert "Authorization" not in came[0].headers


@contextmanager
def silent():
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_one_that_says_nothing_is_given_up_in_time_for_all_queries():
    with silent() as url:
        found = await asked(url, seconds=0.2, queries=("a", "b", "c"))
    assert found == dict.fromkeys(
        "abc", Failure("no response before the deadline", unreachable=True)
    )


async def test_while_one_thread_hangs_nothing_is_asked_and_nobody_waits(monkeypatch):
    """As when a name takes minutes to be looked up, which no timeout of ours ends."""
    let_go, begun = threading.Event(), []

    def hang(whom, queries, *_):
        begun.append(1)
        let_go.wait(60)
        return dict.fromkeys(queries, ())

    monkeypatch.setattr(prometheus, "ask_all", hang)
    monkeypatch.setattr(prometheus, "GRACE", 0.0)
    asker, whom = InAThread(), LoadAware(prometheus="http://p")
    first = await asker.ask(whom, {"a": "a"}, 0.05, BYTES, dict)
    assert first == {"a": Failure("no answer within 0.05 s", unreachable=True)}
    second = await asker.ask(whom, {"a": "a"}, 0.05, BYTES, dict)
    assert second["a"].reason == "the previous queries are still in progress"
    assert len(begun) == 1
    [thread] = [t for t in threading.enumerate() if t.name == "prometheus"]
    assert thread.daemon
    let_go.set()
    thread.join()
    assert await asker.ask(whom, {"a": "a"}, 5, BYTES, dict) == {"a": ()}
