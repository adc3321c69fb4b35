"""Locate the API server from the process environment: kubeconfig, service account, proxies.

Kubeconfig files are chosen as kubectl does (Kubernetes documentation, "Organizing Cluster Access
Using kubeconfig Files"): $KUBECONFIG may name several files, and the first file with a value takes
precedence. Entries of the chosen context must exist; `credentials` reads the contents.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from kubedsm.kube.client.port import CredentialsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: overrides `SERVICE_ACCOUNT`, for processes simulating a pod
SERVICE_ACCOUNT_VARIABLE = "KUBEDSM_SERVICE_ACCOUNT"
#: set in every container of a pod
_HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"


class _Named(msgspec.Struct, frozen=True):
    name: str


N = TypeVar("N", bound=_Named)


class _Server(msgspec.Struct, frozen=True):
    server: str


class _Cluster(_Named, frozen=True):
    cluster: _Server


class _User(_Named, frozen=True):
    user: dict[str, Any] | None = None


class _Reference(msgspec.Struct, frozen=True):
    cluster: str
    user: str | None = None


class _Context(_Named, frozen=True):
    context: _Reference


class _Kubeconfig(msgspec.Struct, frozen=True, rename="kebab"):
    clusters: list[_Cluster] | None = None
    contexts: list[_Context] | None = None
    users: list[_User] | None = None
    current_context: str | None = None


def find_files(path: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the existing kubeconfig files: only `path` if given, else those of $KUBECONFIG or the
    default.

    Raises CredentialsError if there are none.
    """
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    candidates = [path] if path else [Path(part) for part in listed]
    candidates = candidates or [Path(environ.get("HOME") or Path.home()) / ".kube" / "config"]
    present = tuple(file.expanduser() for file in candidates if file.expanduser().exists())
    if not present:
        raise CredentialsError(
            f"kubeconfig {join_paths(candidates)}: no such file;"
            " name one by --kubeconfig or $KUBECONFIG"
        )
    return present


def choose_context(paths: Sequence[Path], name: str | None) -> str:
    """Return the name of the given or current kubeconfig context, after validating its entries.

    Raises CredentialsError.
    """
    configs = [_read_kubeconfig(path) for path in paths]
    where = f"kubeconfig {join_paths(paths)}"
    contexts = _by_name(config.contexts for config in configs)
    name = name or next((c.current_context for c in configs if c.current_context), None)
    if not contexts:
        raise CredentialsError(f"{where}: no contexts in it")
    if name is None:
        raise CredentialsError(
            f"{where}: no current-context; choose one with --context: {_list_names(contexts)}"
        )
    if name not in contexts:
        raise CredentialsError(f"{where}: no context {name!r}, only {_list_names(contexts)}")
    reference = contexts[name].context
    clusters = _by_name(config.clusters for config in configs)
    if reference.cluster not in clusters:
        raise CredentialsError(f"{where}: context {name!r} is of an unknown cluster")
    server = clusters[reference.cluster].cluster.server
    if not is_url(server):
        raise CredentialsError(f"{where}: cluster {reference.cluster!r}: {server!r} is no URL")
    users = _by_name(config.users for config in configs)
    if reference.user and reference.user not in users:
        raise CredentialsError(f"{where}: context {name!r} is of an unknown user")
    if reference.user and (users[reference.user].user or {}).get("as"):
        # Otherwise requests would have the user's own rights, which may be greater.
        raise CredentialsError(f"{where}: user {reference.user!r} impersonates: not supported")
    return name


def join_paths(paths: Iterable[Path]) -> str:
    """Join kubeconfig paths as in $KUBECONFIG, separated by the platform's path separator."""
    return os.pathsep.join(map(str, paths))


def _read_kubeconfig(path: Path) -> _Kubeconfig:
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=_Kubeconfig)
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path}: {error.strerror}") from None
    except msgspec.ValidationError as error:
        raise CredentialsError(f"kubeconfig {path}: {_one_line(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CredentialsError(f"kubeconfig {path}: not YAML: {_one_line(error)}") from None


def _by_name(lists: Iterable[Sequence[N] | None]) -> dict[str, N]:
    """Index kubeconfig entries by name; the first entry with a name has precedence."""
    return {entry.name: entry for entries in reversed(list(lists)) for entry in entries or ()}


def is_url(text: str) -> bool:
    """Return True for an http or https URL with a syntactically valid host and port."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")
        return parts.scheme in ("http", "https") and bool(host) and parts.port != 0
    except ValueError:  # an invalid port, or a host name with an empty or overlong label
        return False


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).replace(' in "<byte string>"', "")


def find_service_account(environ: Mapping[str, str]) -> Path | None:
    """Return the directory with a pod's service account token and ca.crt; None outside a pod."""
    directory = Path(environ.get(SERVICE_ACCOUNT_VARIABLE) or SERVICE_ACCOUNT)
    is_in_pod = bool(environ.get(_HOST_VARIABLE)) and (directory / "token").is_file()
    return directory if is_in_pod else None


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy for a URL from HTTP_PROXY or HTTPS_PROXY, unless NO_PROXY names the host.

    Evaluated once per server: aiohttp would repeat this, and read ~/.netrc, for every request.
    NO_PROXY lists hosts, domains, addresses, each with a port if wanted, and networks such as
    10.0.0.0/8, interpreted as in Go, the language of other cluster components; `*` matches every
    host.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name) or environ.get(name.upper())
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if (
        not proxy
        or is_loopback(host)
        or any(_exempts_server(entry.strip().lower(), parts) for entry in exempt.split(","))
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Return True if the host is a loopback address, reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _exempts_server(entry: str, server: SplitResult) -> bool:
    host, port = server.hostname or "", server.port or (443 if server.scheme == "https" else 80)
    name, colon, number = entry.rpartition(":")
    if colon and number.isdecimal() and (":" not in name or name.endswith("]")):
        if int(number) != port:
            return False
        entry = name.strip("[]")
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = f".{entry.removeprefix('*').removeprefix('.')}"
        return entry in ("*", host) or (len(domain) > 1 and host.endswith(domain))
