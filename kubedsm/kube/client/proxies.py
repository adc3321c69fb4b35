"""Whether a proxy of the environment stands between us and a server.

Looked up once for a server, where aiohttp would do it, and read ~/.netrc, for every request.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """HTTP_PROXY or HTTPS_PROXY, unless NO_PROXY names the host.

    NO_PROXY lists hosts, domains, addresses, and networks such as 10.0.0.0/8, as Go reads it,
    and so as the cluster's other components do; `*` is every host.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name) or environ.get(name.upper())
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if (
        not proxy
        or is_loopback(host)
        or any(_names(entry.strip(), host) for entry in exempt.split(","))
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_loopback(host: str) -> bool:
    """Whether it is only this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(entry: str, host: str) -> bool:
    if not entry:
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        domain = entry.lower().removeprefix("*").removeprefix(".")
        return entry == "*" or host == domain or host.endswith(f".{domain}")
