"""The certificates of an https front: a CA of its own, and what it signed for the server.

trustme makes them, which is not needed for anything else: see the extra `tls` in pyproject.toml.
"""

import ssl
from collections.abc import Sequence

import attrs

from kubedsm.terminal.problems import Problem


class CertificateError(Problem):
    """No certificate can be made."""


@attrs.frozen
class ServerTls:
    context: ssl.SSLContext
    #: PEM of the CA by which clients know the server
    ca: bytes


def server_tls(names: Sequence[str]) -> ServerTls:
    """For a server under these names and addresses. Raises CertificateError."""
    import trustme  # noqa: PLC0415 - an extra: only https needs it

    ca = trustme.CA(organization_name="kubedsm emulate")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        ca.issue_cert(*dict.fromkeys(names)).configure_cert(context)
    except ValueError as error:
        raise CertificateError(f"certificate for {', '.join(names)}: {error}") from None
    return ServerTls(context, ca.cert_pem.bytes())
