"""Jobs: what the API server fills in, and what it refuses.

Source: k8s.io/kubernetes/pkg/apis/batch and pkg/registry/batch/job. `completionMode: Indexed` is
not emulated.
"""

from collections.abc import Iterator

from kubedsm_lab.emulator.api.errors import (
    FieldError,
    Verbatim,
    invalid_value,
    not_supported,
    required,
)
from kubedsm_lab.emulator.api.pod_defaults import or_else, template_of
from kubedsm_lab.emulator.api.pod_validation import not_negative, pod_spec_errors
from kubedsm_lab.emulator.api.resources import Object

_PREFIX = "batch.kubernetes.io/"
_COUNTS = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")
_FIXED = ("completions", "selector", "template")


def with_job_defaults(job: Object) -> Object:
    """With a selector of its own pods, who are given the labels for it."""
    spec = job.get("spec") or {}
    alone = spec.get("completions") is None and spec.get("parallelism") is None
    filled = {
        **spec,
        "parallelism": or_else(spec.get("parallelism"), 1),
        **({"completions": 1} if alone else {}),
        "backoffLimit": or_else(spec.get("backoffLimit"), 6),
        "completionMode": spec.get("completionMode") or "NonIndexed",
        "suspend": bool(spec.get("suspend")),
        "podReplacementPolicy": spec.get("podReplacementPolicy") or "TerminatingOrFailed",
        "manualSelector": bool(spec.get("manualSelector")),
        "template": template_of(spec),
    }
    if not filled["manualSelector"]:
        filled |= _own_selector(job["metadata"], filled["template"])
        del filled["manualSelector"]
    return {**job, "spec": filled}


def _own_selector(metadata: Object, template: Object) -> Object:
    mine = {f"{_PREFIX}controller-uid": metadata.get("uid", "")}
    names = {f"{_PREFIX}job-name": metadata.get("name", "")}
    given = template.get("metadata") or {}
    old = {"controller-uid": metadata.get("uid", ""), "job-name": metadata.get("name", "")}
    labels = {**(given.get("labels") or {}), **mine, **names, **old}
    return {
        "selector": {"matchLabels": mine},
        "template": {**template, "metadata": {**given, "labels": labels}},
    }


def job_errors(job: Object) -> Iterator[FieldError]:
    spec = job["spec"]
    yield from not_negative(spec, *_COUNTS)
    if spec["completionMode"] != "NonIndexed":
        yield not_supported("spec.completionMode", spec["completionMode"], ["NonIndexed"])
    template = spec["template"]["spec"]
    yield from pod_spec_errors(template, "spec.template.spec")
    if template["restartPolicy"] not in ("OnFailure", "Never"):
        why = 'valid values: "OnFailure", "Never"'
        yield required("spec.template.spec.restartPolicy", why)


def job_change_errors(job: Object, before: Object) -> Iterator[FieldError]:
    for field in _FIXED:
        if job["spec"].get(field) != before["spec"].get(field):
            yield invalid_value(f"spec.{field}", Verbatim("<...>"), "field is immutable")
