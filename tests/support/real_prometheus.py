"""Debian's Prometheus and node-exporter as processes."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from support.processes import PATIENCE, free_port

PROGRAMS = ("prometheus", "prometheus-node-exporter")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
real = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (Debian's)")


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def instances(target):
    """Yield scrape configurations of a target: itself, or one per instance name."""
    address, names = (target, ()) if isinstance(target, str) else target
    for name in names:
        yield {"targets": [address], "labels": {"instance": name}}
    if not names:
        yield {"targets": [address]}


class Program:
    def __init__(self, *arguments):
        self.arguments = list(map(str, arguments))
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Prometheus(Program):
    """Prometheus process; `targets` has by job an address, optionally with instance names."""

    def __init__(self, folder, targets, rules=None):
        self.url = f"http://127.0.0.1:{free_port()}"
        rule_file, config = folder / "rules.yaml", folder / "prometheus.yaml"
        rule_file.write_text(yaml.safe_dump(rules or {}))
        jobs = [
            {"job_name": job, "honor_labels": True, "static_configs": list(instances(target))}
            for job, target in targets.items()
        ]
        every = {"scrape_interval": "250ms", "evaluation_interval": "250ms"}
        files = {"rule_files": [str(rule_file)], "scrape_configs": jobs}
        config.write_text(yaml.safe_dump({"global": every, **files}))
        super().__init__(
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        )

    def ask(self, query):
        try:
            text = get(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}")[2]
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 503:
                    raise urllib.error.URLError("it starts") from None
                pytest.fail(f"{query}: {error.read().decode()}")
        return json.loads(text)["data"]["result"]

    def until(self, query, holds):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = self.ask(query)
            except urllib.error.URLError:
                found = None  # it has not begun to listen, or to serve
            if found is not None and holds(found):
                return found
            assert time.monotonic() < deadline, f"{query}: {found}"
            time.sleep(0.1)
