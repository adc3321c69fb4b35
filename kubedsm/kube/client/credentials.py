"""Credentials of an API server, from a kubeconfig or a pod's service account.

kubernetes_asyncio loads credentials. This module converts failures to one-line messages, and renews
tokens: of service accounts each minute, of exec plugins shortly before expiry, and after a
rejection by the server. Client certificates are read again after a rejection.

Import this module lazily: commands that connect to no cluster need no credentials.
"""

import asyncio
import logging
import math
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import attrs

from kubedsm.kube.client import environment
from kubedsm.kube.client.credential_library import (
    ConfigException,
    Configuration,
    InClusterConfigLoader,
    KubeConfigLoader,
    load_kube_config,
)
from kubedsm.kube.client.port import CredentialsError

#: seconds for reading credentials; exec plugins may query a cloud provider
LOAD_TIMEOUT = 30.0
#: seconds before its expiry from which a plugin's token is renewed, unless it lives for less
EARLY = 300.0
#: Exceptions of kubernetes_asyncio for invalid credentials: ConfigException, exceptions from files,
#: base64, JSON and plugins, and, for values of unexpected types, from library code.
_FAILURES = (
    ConfigException, OSError, ValueError, RuntimeError, TimeoutError,
    AssertionError, AttributeError, KeyError, TypeError,
)  # fmt: skip

# The library logs a failing exec plugin in addition to raising: suppress duplicate messages.
logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())


@attrs.frozen(slots=True)
class _Loaded:
    configuration: Configuration
    kubeconfig: KubeConfigLoader | None = None


class Credentials:
    def __init__(
        self, source: str, load: Callable[[], Awaitable[_Loaded]], context: str = ""
    ) -> None:
        self._source = source
        #: name of the kubeconfig's context; empty for a service account
        self.context = context
        self._load = load
        self._loaded = _Loaded(Configuration())
        self._rejected = True
        #: for new connections
        self._tls: ssl.SSLContext | None = None
        #: latest renewal, with its failure as result
        self._renewal: asyncio.Task[Exception | None] | None = None
        self._header: str | None = None
        #: seconds from the last renewal to the token's expiry
        self._lifetime = math.inf

    @property
    def server(self) -> str:
        """Return the API server's URL, without a trailing slash."""
        return str(self._loaded.configuration.host).rstrip("/")

    @property
    def server_name(self) -> str | None:
        """Return the host name in the server's certificate, if different from the URL's host."""
        return self._loaded.configuration.tls_server_name or None

    @property
    def proxy(self) -> str | None:
        return self._loaded.configuration.proxy or None

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context for the server.

        Raises CredentialsError if a certificate or key cannot be used.
        """
        configuration = self._loaded.configuration
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            # Clusters' own CAs often lack extensions that Python 3.13 began to insist on.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            self._use_certificate(context)
        except OSError as error:
            raise CredentialsError(f"{self._source}: certificates: {error}") from error
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._tls = context
        return context

    def _use_certificate(self, context: ssl.SSLContext) -> None:
        """Use the client certificate, if any, for new connections. Raises OSError."""
        configuration = self._loaded.configuration
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file)

    async def authorization(self, within: float | None = None) -> str | None:
        """Return the current Authorization header for API requests, if any.

        A token that is valid for some minutes is returned while it is renewed. Raises
        CredentialsError if a necessary renewal fails, or takes more than `within` seconds.
        """
        try:
            if self._rejected or self._is_expiring():
                renewal = self._begin_renewal()
                if self._rejected or self._time_left() <= 0:
                    done, _ = await asyncio.wait([renewal], timeout=within)
                    if not done:
                        raise CredentialsError(f"{self._source}: no answer within {within:g} s")
                    if failure := renewal.result():
                        raise failure
            header = await self._loaded.configuration.get_api_key_with_prefix("BearerToken")
        except _FAILURES as error:
            raise CredentialsError(f"{self._source}: {_error_message(error)}") from error
        self._header = header.strip() if header else None
        if self._header and not self._header.isprintable():
            raise CredentialsError(
                f"{self._source}: the token has characters that no header may contain"
            )
        return self._header

    def note_rejection(self, header: str | None) -> None:
        """Record that the server rejected the credentials: reload before the next request."""
        if header == self._header:
            self._rejected = True

    async def aclose(self) -> None:
        """End the renewal in progress, if any."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    def _begin_renewal(self) -> asyncio.Task[Exception | None]:
        """Return the renewal in progress, or a new one: callers share it, and may give up waiting
        without ending it.
        """
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew_token())
        return self._renewal

    async def _renew_token(self) -> Exception | None:
        try:
            async with asyncio.timeout(LOAD_TIMEOUT):
                loader = self._loaded.kubeconfig
                if self._rejected or loader is None:
                    self._loaded = await self._load()
                    if self._tls is not None:
                        self._use_certificate(self._tls)
                    self._rejected = False
                else:
                    await loader.load_from_exec_plugin()
                    self._loaded.configuration.api_key["BearerToken"] = loader.token
        except _FAILURES as error:
            return error
        self._lifetime = self._time_left()
        return None

    def _is_expiring(self) -> bool:
        """Return True for a plugin's token in its last minutes, or in the last half of its life."""
        return self._time_left() < min(EARLY, self._lifetime / 2)

    def _time_left(self) -> float:
        expiry = getattr(self._loaded.kubeconfig, "exec_plugin_expiry", None)
        return math.inf if expiry is None else expiry.timestamp() - time.time()


async def from_kubeconfig(
    path: Path | None, context: str | None, environ: Mapping[str, str]
) -> Credentials:
    """Load credentials of a kubeconfig context: of the given file, $KUBECONFIG or ~/.kube/config.

    Raises CredentialsError.
    """
    files = environment.find_files(path, environ)
    chosen = environment.choose_context(files, context)

    async def load() -> _Loaded:
        configuration = Configuration()
        loader = await load_kube_config(
            environment.join_paths(files), chosen, configuration, persist_config=False
        )
        return _Loaded(configuration, loader)

    source = f"kubeconfig {environment.join_paths(files)}, context {chosen}"
    credentials = Credentials(source, load, chosen)
    await credentials.authorization()
    return credentials


async def in_cluster(environ: Mapping[str, str], service_account: Path) -> Credentials:
    """Load the credentials of the pod's service account. Raises CredentialsError."""

    async def load() -> _Loaded:
        configuration = Configuration()
        InClusterConfigLoader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=dict(environ),
        ).load_and_set(configuration)
        return _Loaded(configuration)

    credentials = Credentials("service account", load)
    await credentials.authorization()
    return credentials


def _error_message(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {LOAD_TIMEOUT:g} s"
    text = " ".join(str(error).split())
    expected = isinstance(error, ConfigException | OSError)
    return text if text and expected else f"{type(error).__name__} {text}".strip()
