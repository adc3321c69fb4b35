"""All that is measured at the sizes asked for."""

from collections.abc import Iterator, Sequence

from kubedsm.bench.scale.deciding import decided
from kubedsm.bench.scale.paired import ScaleResult
from kubedsm.bench.scale.reading import read
from kubedsm.bench.scale.world import Size


def run(sizes: Sequence[Size], *, rounds: int, suggestions: int) -> Iterator[ScaleResult]:
    """One size after the other; of suggestions there are fewer rounds, for they take long.

    Not to be called from a running event loop. Raises DisagreementError.
    """
    for size in sizes:
        pairs = (*read(size, rounds), *decided(size, rounds, suggestions))
        yield ScaleResult(size, pairs)
