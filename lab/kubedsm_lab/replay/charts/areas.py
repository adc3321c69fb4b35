"""Pods over time: a row a service, those on the edge fully, those in the cloud faintly above."""

from collections.abc import Mapping, Sequence

from kubedsm_lab.replay.charts.looks import Look
from kubedsm_lab.replay.charts.panel import WIDTH, Panel, shown, width
from kubedsm_lab.replay.charts.scales import figure, ticks

#: from when on there were how many on the edge, and in all
Changes = Sequence[Sequence[float]]
#: a title that leaves room beside it
_SHORT = 180.0
_ROW, _APART, _RIGHT = 44.0, 10.0, 8.0


def areas(
    title: str, services: Mapping[str, Changes], end: float, most: float, look: Look
) -> Panel:
    """most: pods at the top of a row."""
    panel = Panel(title)
    left = 30 + max(map(width, services), default=0)
    across = WIDTH - left - _RIGHT
    if width(title) < _SHORT:
        panel.text(WIDTH - _RIGHT, 14, "pods, over seconds", "small faint end")
    y = panel.height + 6
    for service, changes in services.items():
        floor = y + _ROW
        panel.text(0, floor - _ROW / 2 + 4, service)
        panel.text(left - 6, y + 8, figure(most), "small faint end")
        panel.text(left - 6, floor, "0", "small faint end")
        moments = [left + across * min(change[0], end) / end for change in changes]
        for which, kind in ((2, "pale"), (1, "")):
            levels = [floor - _ROW * change[which] / most for change in changes]
            area = _area(moments, levels, left + across, floor)
            panel.path(f"f{look.colour} {kind}".strip(), area)
            if not kind:
                panel.hatched(area, look)
        panel.path("rule", f"M{shown(left)} {shown(floor)}h{shown(across)}")
        y = floor + _APART
    for moment in ticks(end, 4):
        if moment <= end:
            at = left + across * moment / end
            panel.text(at, y + 6, figure(moment), "small faint middle")
    panel.height = y + 12
    return panel


def _area(moments: Sequence[float], levels: Sequence[float], end: float, floor: float) -> str:
    steps = (f"H{shown(x)}V{shown(y)}" for x, y in zip(moments, levels, strict=True))
    return f"M{shown(moments[0])} {shown(floor)}{''.join(steps)}H{shown(end)}V{shown(floor)}Z"
