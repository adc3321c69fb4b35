"""Recorded responses of a real API server and decisions of a real kube-scheduler."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "recorded"
KUBE_SCHEDULER = FOLDER / "kube-scheduler-1.36.jsonl"
#: dumps on which decisions were found wanting, some with a configuration of the same name
CASES = FOLDER / "cases"
API_SERVER = FOLDER / "kubernetes-1.36.jsonl"
MORE_OF_API_SERVER = FOLDER / "kubernetes-1.35-more.jsonl"
#: requests of people and controllers; of the responses, status, warnings and identifiers
CONTRACT = FOLDER / "kubernetes-1.35-contract.jsonl"


def recorded(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
