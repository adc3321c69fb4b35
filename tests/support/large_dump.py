"""python -m support.large_dump: the CPU time that reading a large dump takes, YAML and JSON."""

import random
import sys
import time

import orjson
import yaml

from kubedsm.kube.wire import dump as dumps
from kubedsm_lab.bench.watched_pods import watch_line
from support.dumps import node

PODS = 2500


class _AsKubectl(yaml.CSafeDumper):
    """Whatever is there twice is written twice."""

    def ignore_aliases(self, _):
        return True


def large_dump(pods):
    """What `kubectl get nodes,pods -A` prints."""
    rng = random.Random(1)
    items = [orjson.loads(watch_line(rng))["object"] | {"kind": "Pod"} for _ in range(pods)]
    for number, item in enumerate(items):
        item["metadata"]["name"] += f"-{number}"
    nodes = [node(f"n{number}", "edge") for number in range(50)]
    return {"apiVersion": "v1", "items": nodes + items, "kind": "List"}


def main():
    dump = large_dump(PODS)
    as_yaml = yaml.dump(dump, Dumper=_AsKubectl, default_flow_style=False, width=10**6).encode()
    for name, text in (("YAML", as_yaml), ("JSON", orjson.dumps(dump))):
        before = time.process_time()
        dumps.read(text, name)
        seconds = time.process_time() - before
        sys.stdout.write(f"{name}: {len(text) / 1e6:.1f} MB, {seconds:.2f} s of CPU\n")


if __name__ == "__main__":
    main()
