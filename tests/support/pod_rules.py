"""Affinity and spread of pods on an emulated cluster."""

HOST = "kubernetes.io/hostname"


def term(app, key="zone", **more):
    selector = {"matchLabels": {"app": app}}
    return {"labelSelector": selector, "topologyKey": key, **more}


def near(*terms, kind="podAffinity"):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    return {"affinity": {kind: required}}


def apart(*terms):
    return near(*terms, kind="podAntiAffinity")


def spread(app, skew=1, key="zone"):
    constraint = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}
