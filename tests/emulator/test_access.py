"""Who is let in by an emulated API server that enforces access, and to do what."""

import attrs
import orjson
import pytest

from kubedsm_lab.emulator.access.access import Access
from kubedsm_lab.emulator.access.rbac import Attributes, Decision, User, decide, service_account
from kubedsm_lab.emulator.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from kubedsm_lab.emulator.http.routes import ApiRequest, Routes
from support.api_cases import asked
from support.rights import ADMIN_TOKEN

ANN = User("ann", groups=("devs", "system:authenticated"))
BOT = service_account("shop", "bot", "u1")
SUBJECTS = {
    "user": ({"kind": "User", "name": "ann"}, ANN),
    "group": ({"kind": "Group", "name": "devs"}, ANN),
    "service account": ({"kind": "ServiceAccount", "name": "bot", "namespace": "shop"}, BOT),
    "one of the binding's namespace": ({"kind": "ServiceAccount", "name": "bot"}, BOT),
    "all service accounts": ({"kind": "Group", "name": "system:serviceaccounts"}, BOT),
    "those of a namespace": ({"kind": "Group", "name": "system:serviceaccounts:shop"}, BOT),
    "all who are known": ({"kind": "Group", "name": "system:authenticated"}, BOT),
}
LIST_PODS = Attributes("list", "", "pods", namespace="shop")


def rule(verbs="get list", groups="", resources="pods", **more):
    return {
        "verbs": verbs.split(),
        "apiGroups": groups.split(" "),
        "resources": resources.split(),
        **more,
    }


def allow(api, *rules, subject, namespace):
    """Create a role with these rules, and bind it to a subject in the namespace, or everywhere."""
    kind, roles, bindings = "ClusterRole", CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS
    if namespace:
        kind, roles, bindings = "Role", ROLES, ROLE_BINDINGS
    metadata, reference = {"name": "r"}, {"kind": kind, "name": "r"}
    api.create(roles, {"metadata": metadata, "rules": list(rules)}, namespace=namespace)
    bound = {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
    api.create(bindings, bound, namespace=namespace)


#: rule, what is asked, whether it is allowed
RULES = {
    "named": (rule(), LIST_PODS, True),
    "another verb": (rule(), attrs.evolve(LIST_PODS, verb="watch"), False),
    "any verb": (rule("*"), attrs.evolve(LIST_PODS, verb="watch"), True),
    "another resource": (rule(), attrs.evolve(LIST_PODS, resource="nodes"), False),
    "any resource": (rule(resources="*"), attrs.evolve(LIST_PODS, resource="nodes"), True),
    "another group": (rule(), attrs.evolve(LIST_PODS, group="apps"), False),
    "any group": (rule(groups="*"), attrs.evolve(LIST_PODS, group="apps"), True),
    "a part": (rule("create", resources="pods/binding"), Attributes(
        "create", "", "pods", "binding", "shop", "a"), True),
    "not its parts": (rule("*"), Attributes("create", "", "pods", "binding", "shop", "a"), False),
    "not the whole": (rule("*", resources="pods/status"), LIST_PODS, False),
    "that part of any": (rule("*", resources="*/scale"), Attributes(
        "get", "", "pods", "scale", "shop", "a"), True),
    "any, and its parts": (rule("*", resources="*"), Attributes(
        "create", "", "pods", "binding", "shop", "a"), True),
    "by name": (rule("get", resourceNames=["a"]), Attributes(
        "get", "", "pods", namespace="shop", name="a"), True),
    "another name": (rule("get", resourceNames=["a"]), Attributes(
        "get", "", "pods", namespace="shop", name="b"), False),
    "no name": (rule(resourceNames=["a"]), LIST_PODS, False),
    "a path": ({"verbs": ["get"], "nonResourceURLs": ["/apis/*", "/version"]}, Attributes(
        "get", path="/apis/apps"), True),
    "another path": ({"verbs": ["get"], "nonResourceURLs": ["/apis/*", "/version"]}, Attributes(
        "get", path="/versions"), False),
    "no path by resources": (rule("*", "*", "*"), Attributes("get", path="/version"), False),
}  # fmt: skip


@pytest.mark.parametrize("case", RULES.values(), ids=RULES)
def test_what_a_rule_allows(api, case):
    given, asked, allowed = case
    allow(api, given, subject={"kind": "User", "name": "ann"}, namespace="")
    assert decide(ANN, asked, api.store).allowed is allowed


@pytest.mark.parametrize("case", SUBJECTS.values(), ids=SUBJECTS)
def test_who_a_subject_is(api, case):
    subject, user = case
    allow(api, rule(), subject=subject, namespace="shop")
    assert decide(user, LIST_PODS, api.store).allowed
    assert not decide(User("eve", groups=("others",)), LIST_PODS, api.store).allowed


def test_a_role_does_not_reach_beyond_its_namespace(api):
    allow(api, rule(), subject={"kind": "User", "name": "ann"}, namespace="shop")
    assert decide(ANN, LIST_PODS, api.store).allowed
    for where in ("", "other"):
        asked = attrs.evolve(LIST_PODS, namespace=where)
        assert decide(ANN, asked, api.store) == Decision(False)


@attrs.define
class Client:
    routes: Routes
    token: str | None = None

    def __call__(self, method, path, body=None, **query):
        return asked(self.routes, method, path, body, query=query, token=self.token)


@pytest.fixture
def admin(api):
    return Client(Routes(api, Access.enforced(api, ADMIN_TOKEN)), ADMIN_TOKEN)


@pytest.fixture
def bot(api, admin):
    """A ServiceAccount, and what asks with its token."""
    api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "bot"}}, namespace="default")
    return Client(admin.routes, requested(admin)["token"])


def requested(client, **spec):
    path = "/api/v1/namespaces/default/serviceaccounts/bot/token"
    status, answer = client("POST", path, {"spec": spec})
    assert status == 201, answer
    return answer["status"]


def test_a_token_lasts_as_long_as_it_says_and_no_longer_than_its_account(api, admin, bot, clock):
    assert bot("GET", "/version")[0] == 200
    clock.seconds += 3599
    assert bot("GET", "/version")[0] == 200
    clock.seconds += 1
    assert bot("GET", "/version")[0] == 401
    bot.token = requested(admin, expirationSeconds=600)["token"]
    assert bot("GET", "/version")[0] == 200
    api.delete(SERVICE_ACCOUNTS, "default", "bot")
    assert bot("GET", "/version")[0] == 401
    api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "bot"}}, namespace="default")
    assert bot("GET", "/version")[0] == 401


def test_to_list_one_object_can_be_allowed_by_its_name(api, bot):
    mine = rule("get list watch", resources="configmaps", resourceNames=["mine"])
    account = {"kind": "ServiceAccount", "name": "bot"}
    allow(api, mine, subject=account, namespace="default")
    path = "/api/v1/namespaces/default/configmaps"
    assert bot("GET", path, fieldSelector="metadata.name=mine")[0] == 200
    assert bot("GET", path, fieldSelector="metadata.name=other")[0] == 403
    assert bot("GET", path)[0] == 403


def test_the_administrator_can_ask_as_another_and_others_need_the_right_to(admin, bot):
    as_bot = {"as_user": "system:serviceaccount:default:bot"}
    as_ann = {"as_user": "ann", "as_groups": ("devs",)}
    for token, who, status, said in (
        (ADMIN_TOKEN, as_bot, 403, 'User "system:serviceaccount:default:bot" cannot list'),
        (ADMIN_TOKEN, as_ann, 403, 'User "ann" cannot list'),
        (bot.token, as_ann, 403, 'cannot impersonate resource "users"'),
    ):
        answer = admin.routes.handle(ApiRequest("GET", "/api/v1/nodes", token=token, **who))
        assert answer.status == status
        assert said in orjson.loads(answer.body)["message"]
    asked = ApiRequest("GET", "/version", token=ADMIN_TOKEN, **as_bot)
    assert admin.routes.handle(asked).status == 200
