"""Small reports of an evaluation, worked out by hand, and the lines of their tables."""

from kubedsm_lab.replay.evaluation import sections
from kubedsm_lab.replay.tables import render_sections


def row(policy, scenario="1.5-.4", *, ratio=0.5, times=None, shares=None, **more):
    """times: the mean response time by service; half of it is the network's."""
    latencies = {
        name: {"mean": mean, "p95": 2 * mean, "network": mean / 2}
        for name, mean in (times or {"a": 100.0}).items()
    }
    return {
        "scenario": scenario,
        "policy": policy,
        "seeds": 2,
        "edgeRatio": ratio,
        "optimumShare": 0.9,
        "std": 0.1,
        "shares": shares or dict.fromkeys("abcd", ratio),
        "latencyMs": latencies,
        "overallLatencyMs": latencies["a"],
        "migrations": 3.0,
        "youngMigrations": 1.0,
        "takenBack": 0.0,
        "lostPodSeconds": 0.0,
        "pendingSeconds": {"mean": 0.1, "p95": 0.2},
        "onOneNode": {"services": 1.25, "avoidable": 0.5},
    } | more


def lines_of(title, *rows, runs=()):
    return lines_in(render_sections(sections({"means": rows, "runs": runs})), title)


def lines_in(text, title):
    """Return the lines of a section's tables, without their rules."""
    (found,) = [part for part in text.split("## ") if part.startswith(f"{title}\n")]
    return [line for line in found.splitlines() if line.startswith("| ") and "---" not in line]
