"""Who sends a request, in the words of k8s.io/apiserver/pkg/authentication/user."""

import attrs

from kubedsm_lab.emulator.api.resources import Object

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNTS = "system:serviceaccounts"


@attrs.frozen
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()

    @property
    def info(self) -> Object:
        """As authentication.k8s.io/v1 UserInfo."""
        return {
            **({"username": self.name} if self.name else {}),
            **({"uid": self.uid} if self.uid else {}),
            **({"groups": list(self.groups)} if self.groups else {}),
        }


#: may do everything, whatever is bound
ADMIN = User("admin", "admin", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", "", (UNAUTHENTICATED,))


def service_account_name(namespace: str, name: str) -> str:
    """What a ServiceAccount is called as a user."""
    return f"system:serviceaccount:{namespace}:{name}"


def service_account(namespace: str, name: str, uid: str) -> User:
    groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(service_account_name(namespace, name), uid, groups)
