"""Objects of some kinds are read and written in two forms, of which one is stored."""

from kubedsm_lab.emulator.api import autoscaler_forms, event_forms
from kubedsm_lab.emulator.api.resources import Object, Resource


def stored_form(resource: Resource, obj: Object) -> Object:
    """From the form of the request's resource to the one that is kept."""
    if resource.kind == "Event":
        return event_forms.stored_form(resource, obj)
    return autoscaler_forms.stored_form(obj) if resource.alias_of else obj


def requested_form(resource: Resource, obj: Object) -> Object:
    """From the stored form to that of the request's resource; other kinds as they are."""
    if not resource.alias_of:
        return obj
    if resource.kind == "Event":
        return event_forms.requested_form(obj)
    return autoscaler_forms.requested_form(obj)
