"""`kubedsm replay --preset judgement`: the scenes under KubeDSM, without migrations, and under
kube-scheduler's rules.
"""

from collections.abc import Sequence
from itertools import product, starmap

import attrs

from kubedsm_lab.baselines.registry import KUBEDSM
from kubedsm_lab.replay.findings import model_preset, select_trials
from kubedsm_lab.replay.judgement.scene import Outcome, Trial, judge
from kubedsm_lab.replay.judgement.scenes import SCENES
from kubedsm_lab.replay.presets import REFERENCE
from kubedsm_lab.replay.tables import Table, mean, number

METHOD = "The schedulers ran on an emulated cluster in virtual time"
STILL = "no-migration"
CONTENDERS = (KUBEDSM, STILL, REFERENCE)


@attrs.frozen
class Plan:
    seeds: int

    def list_trials(self) -> list[Trial]:
        return list(starmap(Trial, product(SCENES, CONTENDERS, range(1, self.seeds + 1))))


def play(trial: Trial) -> Outcome:
    return judge(trial, SCENES[trial.scene])


def answer(outcomes: Sequence[Outcome]) -> str:
    ours = select_trials(outcomes, contender=KUBEDSM)
    scenes = {each.trial.scene for each in ours}
    met = scenes - {each.trial.scene for each in ours if each.unmet}
    return f"KubeDSM does what an operator expects in {len(met)} of {len(scenes)} scenes."


def _tabulate_scenes(outcomes: Sequence[Outcome]) -> Table:
    lines = []
    for scene in dict.fromkeys(each.trial.scene for each in outcomes):
        here = [each for each in outcomes if each.trial.scene == scene]
        ours, still, theirs = (select_trials(here, contender=name) for name in CONTENDERS)
        made = mean(each.migrations for each in ours) or 0.0
        gained = _mean_pod_seconds(ours) - _mean_pod_seconds(still)
        unmet = dict.fromkeys(text for each in ours for text in each.unmet)
        lines.append(
            [
                scene,
                "; ".join(f"not: {text}" for text in unmet) or "as expected",
                *(number(mean(o.edge_share for o in each), 2) for each in (ours, still, theirs)),
                number(made, 0 if made == round(made) else 1),
                number(gained / 60 / made if made else None, 1),
            ]
        )
    shares = (f"share, {name}" for name in CONTENDERS)
    return ["scene", "course", *shares, "migrations", "gain"], lines


def _mean_pod_seconds(outcomes: Sequence[Outcome]) -> float:
    return mean(each.target_pod_seconds for each in outcomes) or 0.0


def _tabulate_expectations(outcomes: Sequence[Outcome]) -> Table:
    names = dict.fromkeys(each.trial.scene for each in outcomes)
    return ["scene", "events", "expected"], [
        [name, SCENES[name].story, "; ".join(each.text for each in SCENES[name].expected)]
        for name in names
    ]


TABLES = {"Scenes": _tabulate_scenes, "Expectations": _tabulate_expectations}
PRESET = model_preset(
    "judgement",
    Plan(seeds=1),
    Plan(seeds=5),
    Plan.list_trials,
    play,
    list,
    method=lambda plan: f"{METHOD}; seeds: {plan.seeds}",
    answer=answer,
    tables=TABLES,
)
