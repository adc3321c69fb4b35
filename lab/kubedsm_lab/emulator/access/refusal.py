"""What somebody hears who may not do what they ask for."""

from kubedsm_lab.emulator.access.rbac import Attributes, Decision
from kubedsm_lab.emulator.access.users import User
from kubedsm_lab.emulator.api.errors import ApiError, forbidden
from kubedsm_lab.emulator.api.resources import Resource


def denied(user: User, asked: Attributes, decision: Decision) -> ApiError:
    """The 403 in a real server's words."""
    why = f": {decision.reason}" if decision.reason else ""
    who = f'User "{user.name}" cannot {asked.verb}'
    if asked.path:
        return ApiError(403, "Forbidden", f'forbidden: {who} path "{asked.path}"{why}', {})
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    text = f'{who} resource "{asked.described}" in API group "{asked.group}" {where}{why}'
    resource = Resource(asked.group, "", asked.resource, "", "")
    return forbidden(resource, asked.name, text)
