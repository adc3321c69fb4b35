"""A ValidatingAdmissionPolicy, evaluated as an API server does: by what it says in CEL."""

import celpy
import yaml


class Policy:
    """The policy in a file. Errors deny, as failurePolicy Fail has it."""

    def __init__(self, path):
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        policy = next(d for d in documents if d["kind"] == "ValidatingAdmissionPolicy")
        self.spec = policy["spec"]
        assert self.spec["failurePolicy"] == "Fail"
        environment = celpy.Environment()

        def program(text):
            return environment.program(environment.compile(text))

        self._conditions = [program(c["expression"]) for c in self.spec["matchConditions"]]
        self._variables = {v["name"]: program(v["expression"]) for v in self.spec["variables"]}
        self._validations = [
            (program(v["expression"]), " ".join(v["message"].split()))
            for v in self.spec["validations"]
        ]

    def denials(self, before, after, user):
        """Why the update is denied; nothing if it is let through, or not looked at."""
        known = {
            "object": celpy.json_to_cel(after),
            "oldObject": celpy.json_to_cel(before),
            "request": celpy.json_to_cel({"userInfo": {"username": user}}),
        }
        if not all(condition.evaluate(known) for condition in self._conditions):
            return []
        variables = {}
        for name, program in self._variables.items():
            variables[name] = program.evaluate({**known, "variables": _mapped(variables)})
        known["variables"] = _mapped(variables)
        return [message for program, message in self._validations if not _holds(program, known)]


def _mapped(variables):
    return celpy.celtypes.MapType({celpy.celtypes.StringType(k): v for k, v in variables.items()})


def _holds(program, known):
    try:
        return bool(program.evaluate(known))
    except celpy.CELEvalError:
        return False
