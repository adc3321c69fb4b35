"""Tokens of ServiceAccounts, as `kubectl create token` asks for them.

A real server signs what a token says; here a token is only a key to what it stands for, for the
cluster is in memory, too.
"""

import secrets
from collections.abc import Callable

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.access.users import User, service_account
from kubedsm_lab.emulator.api.resources import SERVICE_ACCOUNTS
from kubedsm_lab.emulator.api.store import Store

#: whom a token is for that is for this API server
AUDIENCE = "https://kubernetes.default.svc"


@attrs.frozen
class _Issued:
    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    #: seconds since the epoch
    expires: float


@attrs.define
class ServiceAccountTokens:
    store: Store
    clock: Clock
    #: what no other token is, and nobody guesses
    made_up: Callable[[], str] = secrets.token_urlsafe
    _issued: dict[str, _Issued] = attrs.field(factory=dict, init=False)

    def issue(
        self, namespace: str, name: str, uid: str, audiences: tuple[str, ...], seconds: float
    ) -> str:
        """A token that lasts for so many seconds, and no longer than its ServiceAccount."""
        now = self.clock.wall()
        self._issued = {key: held for key, held in self._issued.items() if held.expires > now}
        token = self.made_up()
        self._issued[token] = _Issued(namespace, name, uid, audiences, now + seconds)
        return token

    def user_of(self, token: str) -> User | None:
        """Whose it is; None if it is nobody's, or not for us, or not any more."""
        held = self._issued.get(token)
        if held is None or held.expires <= self.clock.wall() or AUDIENCE not in held.audiences:
            return None
        account = self.store.get(SERVICE_ACCOUNTS, held.namespace, held.name)
        if account is None or account["metadata"]["uid"] != held.uid:
            return None
        return service_account(held.namespace, held.name, held.uid)
