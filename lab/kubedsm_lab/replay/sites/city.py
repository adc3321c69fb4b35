"""Edge sites and users of a city: the EUA data set of Melbourne's centre, grouped into sites.

125 base stations and 816 users; the folder `eua` has the data and their licence. Source: Phu Lai et
al., Optimal Edge User Allocation in Edge Computing with Variable Sized Vector Bin Packing, ICSOC
2018 (swinedge/eua-dataset).
"""

import csv
import math
import random
from functools import cache
from importlib.resources import files

import attrs
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STATIONS, _USERS = "sites-melbourne-cbd.csv", "users-melbourne-cbd.csv"
#: metres per degree of latitude
_METRES = 111_320.0
#: seed of the grouping: equal numbers of sites give equal sites
_SEED = 1
_ROUNDS = 100


@attrs.frozen(eq=False)
class City:
    """Sites of a city: groups of base stations by location, from west to east.

    `centres` are metres to the east and north, S x 2; `users` are the numbers of users nearest to
    each site.
    """

    centres: Floats
    users: Ints

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{number:02}" for number in range(1, 1 + len(self.users)))

    @property
    def longitudes(self) -> Floats:
        """Return the position of each site between west (0) and east (1)."""
        east = self.centres[:, 0]
        positions: Floats = (east - east.min()) / (east.max() - east.min())
        return positions


@cache
def group_stations(number: int) -> City:
    """Group the base stations into sites by k-means (Lloyd's algorithm, k-means++ seeding with a
    fixed seed), and assign each user to the nearest site.
    """
    stations, users = _read_places(_STATIONS), _read_places(_USERS)
    centres = _seed_centres(stations, number)
    for _ in range(_ROUNDS):
        nearest = _find_nearest(stations, centres)
        moved = np.array([stations[nearest == site].mean(axis=0) for site in range(number)])
        if np.array_equal(moved, centres):
            break
        centres = moved
    centres = centres[np.argsort(centres[:, 0])]
    return City(centres, np.bincount(_find_nearest(users, centres), minlength=number))


def _read_places(name: str) -> Floats:
    """Return the places of a data file in metres to the east and north of (0, 0), N x 2."""
    text = (files(__package__) / "eua" / name).read_text("utf-8-sig")
    heading, *lines = text.splitlines()
    rows = csv.DictReader(lines, heading.lower().split(","))
    degrees = np.array([[float(row["longitude"]), float(row["latitude"])] for row in rows])
    shrink = math.cos(math.radians(float(degrees[:, 1].mean())))
    metres: Floats = degrees * np.array([_METRES * shrink, _METRES])
    return metres


def _seed_centres(places: Floats, number: int) -> Floats:
    """Draw initial centres by k-means++: each with a chance in proportion to the squared distance
    from the centres before it.
    """
    rng = random.Random(_SEED)
    chosen = [places[int(rng.random() * len(places))]]
    while len(chosen) < number:
        squares = ((places[:, None] - np.array(chosen)) ** 2).sum(axis=2).min(axis=1)
        chosen.append(places[np.searchsorted(squares.cumsum(), rng.random() * squares.sum())])
    return np.array(chosen)


def _find_nearest(places: Floats, centres: Floats) -> Ints:
    """Return the index of the nearest centre of each place."""
    nearest: Ints = ((places[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    return nearest
