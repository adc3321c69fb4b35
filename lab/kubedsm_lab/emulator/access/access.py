"""Authentication by bearer token, and RBAC authorization, of an emulated API server."""

import re
import secrets
from collections.abc import Mapping
from typing import Self

import attrs

from kubedsm.process.clock import Clock
from kubedsm_lab.emulator.access import bootstrap, rbac
from kubedsm_lab.emulator.access.rbac import (
    ADMIN,
    ANONYMOUS,
    AUTHENTICATED,
    Attributes,
    Decision,
    User,
    service_account,
    service_account_name,
)
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import ApiError
from kubedsm_lab.emulator.api.resources import SERVICE_ACCOUNTS
from kubedsm_lab.emulator.api.store import Store

#: audience of tokens for this API server
AUDIENCE = "https://kubernetes.default.svc"
_SERVICE_ACCOUNT = re.compile(service_account_name("([^:]+)", "([^:]+)"))


@attrs.frozen
class _Issued:
    namespace: str
    name: str
    uid: str
    audiences: tuple[str, ...]
    #: Unix timestamp in seconds
    expires: float


@attrs.define
class ServiceAccountTokens:
    """Issuer of ServiceAccount tokens, as `kubectl create token` requests them.

    A real server signs the claims of a token; here a token is an in-memory key of the claims.
    """

    store: Store
    clock: Clock
    _issued: dict[str, _Issued] = attrs.field(factory=dict, init=False)

    def issue(
        self, namespace: str, name: str, uid: str, audiences: tuple[str, ...], seconds: float
    ) -> str:
        """Issue a token that is valid for `seconds`, while the ServiceAccount exists."""
        now = self.clock.wall()
        self._issued = {key: held for key, held in self._issued.items() if held.expires > now}
        token = secrets.token_urlsafe()
        self._issued[token] = _Issued(namespace, name, uid, audiences, now + seconds)
        return token

    def user_of(self, token: str) -> User | None:
        """Return the user of a bearer token; None for an unknown, expired or foreign token."""
        held = self._issued.get(token)
        if held is None or held.expires <= self.clock.wall() or AUDIENCE not in held.audiences:
            return None
        account = self.store.get(SERVICE_ACCOUNTS, held.namespace, held.name)
        if account is None or account["metadata"]["uid"] != held.uid:
            return None
        return service_account(held.namespace, held.name, held.uid)


@attrs.frozen
class Access:
    """Authenticator and authorizer of API requests; `users=None` allows every request.

    With `anonymous`, requests without a token are those of system:anonymous.
    """

    tokens: ServiceAccountTokens
    users: Mapping[str, User] | None = None
    anonymous: bool = True

    @classmethod
    def open(cls, api: ApiServer) -> Self:
        return cls(ServiceAccountTokens(api.store, api.clock))

    @classmethod
    def enforced(cls, api: ApiServer, token: str) -> Self:
        """Create the bootstrap roles of a new cluster, and return an Access that authorizes every
        request by RBAC.

        The bearer of `token` is the cluster administrator.
        """
        bootstrap.install(api)
        return cls(ServiceAccountTokens(api.store, api.clock), {token: ADMIN})

    @property
    def is_enforced(self) -> bool:
        return self.users is not None

    def user_of(self, token: str | None) -> User:
        """Return the user of a request's token. Raises ApiError (401) for an invalid token."""
        if self.users is None:
            return ANONYMOUS
        if token is None:
            user = ANONYMOUS if self.anonymous else None
        else:
            user = self.users.get(token) or self.tokens.user_of(token)
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user

    def decide(self, user: User, request: Attributes) -> Decision:
        if self.users is None:
            return Decision(allowed=True)
        return rbac.decide(user, request, self.tokens.store)

    def check(self, user: User, request: Attributes) -> None:
        """Authorize a request by RBAC. Raises ApiError (403) if it is not allowed."""
        if not self.decide(user, request).allowed:
            raise rbac.refusal(user, request)

    def impersonate(self, user: User, name: str, groups: tuple[str, ...]) -> User:
        """Return the user that `user` may impersonate by name and groups. Raises ApiError (403)."""
        account = _SERVICE_ACCOUNT.fullmatch(name)
        if account is None:
            self.check(user, Attributes("impersonate", resource="users", name=name))
            impersonated = User(name, groups=(*groups, AUTHENTICATED))
        else:
            identity = {"namespace": account[1], "name": account[2]}
            self.check(user, Attributes("impersonate", resource="serviceaccounts", **identity))
            impersonated = service_account(**identity, uid="")
        for group in groups:
            self.check(user, Attributes("impersonate", resource="groups", name=group))
        return impersonated
