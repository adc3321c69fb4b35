"""Authentication and authorization of an emulated API server."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
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
    denied,
    service_account,
    service_account_name,
)
from kubedsm_lab.emulator.api.api_server import ApiServer
from kubedsm_lab.emulator.api.errors import unauthorized
from kubedsm_lab.emulator.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Object,
)
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


_SERVICE_ACCOUNT = re.compile(service_account_name("([^:]+)", "([^:]+)"))


@attrs.frozen
class _Stored:
    """The roles and bindings in a store."""

    store: Store

    def bindings(self, namespace: str) -> Iterable[Object]:
        if namespace:
            return self.store.list(ROLE_BINDINGS, namespace)
        return self.store.list(CLUSTER_ROLE_BINDINGS)

    def role(self, namespace: str, name: str) -> Object | None:
        return self.store.get(ROLES if namespace else CLUSTER_ROLES, namespace, name)


@attrs.frozen
class Access:
    """`users`, by their tokens; without any, everybody is let in, and may do everything.

    `anonymous`: whether one who shows no token is let in as system:anonymous.
    """

    tokens: ServiceAccountTokens
    users: Mapping[str, User] | None = None
    anonymous: bool = True

    @classmethod
    def open(cls, api: ApiServer) -> Self:
        """For everybody."""
        return cls(ServiceAccountTokens(api.store, api.clock))

    @classmethod
    def enforced(cls, api: ApiServer, token: str) -> Self:
        """For its administrator, who has that token, and for those to whom roles are bound.

        What a new cluster allows is bound already.
        """
        bootstrap.install(api)
        return cls(ServiceAccountTokens(api.store, api.clock), {token: ADMIN})

    @property
    def is_enforced(self) -> bool:
        return self.users is not None

    def user_of(self, token: str | None) -> User:
        """Raises ApiError (401) for a token that is nobody's."""
        if self.users is None:
            return ANONYMOUS
        if token is None:
            user = ANONYMOUS if self.anonymous else None
        else:
            user = self.users.get(token) or self.tokens.user_of(token)
        if user is None:
            raise unauthorized()
        return user

    def decide(self, user: User, asked: Attributes) -> Decision:
        if self.users is None:
            return Decision(allowed=True)
        return rbac.decide(user, asked, _Stored(self.tokens.store))

    def check(self, user: User, asked: Attributes) -> None:
        """Raises ApiError (403) unless the user may do that."""
        decision = self.decide(user, asked)
        if not decision.allowed:
            raise denied(user, asked, decision)

    def impersonated(self, user: User, name: str, groups: tuple[str, ...]) -> User:
        """Whom the user asks to be taken for. Raises ApiError (403)."""
        account = _SERVICE_ACCOUNT.fullmatch(name)
        if account is None:
            self.check(user, Attributes("impersonate", resource="users", name=name))
            taken_for = User(name, groups=(*groups, AUTHENTICATED))
        else:
            of = {"namespace": account[1], "name": account[2]}
            self.check(user, Attributes("impersonate", resource="serviceaccounts", **of))
            taken_for = service_account(**of, uid="")
        for group in groups:
            self.check(user, Attributes("impersonate", resource="groups", name=group))
        return taken_for

    def rules_of(self, user: User, namespace: str) -> list[Object]:
        """All that the user may do in the namespace."""
        if self.users is None:
            return list(bootstrap.EVERYTHING)
        return rbac.rules_of(user, namespace, _Stored(self.tokens.store))
