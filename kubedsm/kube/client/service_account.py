"""Whether we run in a pod, and where its service account is then."""

from collections.abc import Mapping
from pathlib import Path

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: another place to look for it, where what runs is like a pod and is none
SERVICE_ACCOUNT_VARIABLE = "KUBEDSM_SERVICE_ACCOUNT"
#: every container of a pod has it
_HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"


def service_account_in(environ: Mapping[str, str]) -> Path:
    """The folder with a pod's token and ca.crt."""
    return Path(environ.get(SERVICE_ACCOUNT_VARIABLE) or SERVICE_ACCOUNT)


def is_in_cluster(environ: Mapping[str, str], service_account: Path) -> bool:
    """Whether a service account is mounted here."""
    return bool(environ.get(_HOST_VARIABLE)) and (service_account / "token").is_file()
