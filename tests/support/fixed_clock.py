"""Clock that advances only when told to."""

import attrs

EPOCH = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@attrs.define
class FixedClock:
    seconds: float = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return EPOCH + self.seconds

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here sleeps, least of all {seconds} s")
