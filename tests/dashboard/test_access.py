"""Access to the page; its files: few bytes, whole without anybody else, colours that stand out."""

import base64
import gzip
import re
from itertools import combinations
from math import dist

import pytest

from kubedsm.dashboard.server.access import HEADERS, Access, TokenFile, TokenFileError
from kubedsm.dashboard.server.app import read_static_files
from kubedsm_lab.replay.plots import COLOURS
from kubedsm_lab.replay.single_file import one_file


def test_addresses_localhost_and_given_names_are_known_and_no_name_of_somebody_else():
    access = Access(names=["kubedsm.example"])
    for host in (
        *("localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:10270", "10.0.0.7"),
        *("[::1]:10270", "kubedsm.example:443"),
    ):
        assert access.host_is_known(host), host
    for host in (
        *("", "evil.example", "evil.example:10270", "localhost.evil.example", "a@localhost"),
        "1.2.3",
    ):
        assert not access.host_is_known(host), host


def test_a_token_that_changes_holds_at_once_and_without_one_nobody_is_let_in(tmp_path):
    path = tmp_path / "token"
    path.write_text("first\n")
    tokens = TokenFile(path)
    assert tokens.holds("first")
    assert not tokens.holds("firs")
    # As a header is read that is no text.
    assert not tokens.holds("\udcff")

    path.write_text("the second")
    assert not tokens.holds("first")
    assert tokens.holds("the second")
    path.write_text("the newest")  # in place, with as many characters
    assert not tokens.holds("the second")
    assert tokens.holds("the newest")
    path.write_text("\n")
    assert not tokens.holds("the newest")
    assert not tokens.holds("")
    path.unlink()
    assert not tokens.holds("the newest")


def test_a_file_without_a_token_is_told_in_a_line(tmp_path):
    path = tmp_path / "token"
    with pytest.raises(TokenFileError, match="No such file"):
        TokenFile(path)
    path.write_text(" \n")
    with pytest.raises(TokenFileError, match="empty"):
        TokenFile(path)


def test_nothing_inline_and_nothing_from_elsewhere_may_run():
    assert HEADERS["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


FILES = {name: content.decode() for name, content in read_static_files().items()}
OURS = {name: text for name, text in FILES.items() if not name.startswith("vendor/")}
#: bytes of all of it, licences apart: as it is sent, and as it lies there
SENT, ROOM = 80_000, 180_000
#: what XML calls SVG, and nobody asks for
NAMESPACES = "http://www.w3.org/"


def found(pattern, texts):
    return [
        (name, at) for name, text in texts.items() for at in re.findall(pattern, text, re.MULTILINE)
    ]


def test_files_are_small_name_nobody_else_and_have_no_handlers():
    contents = [text.encode() for name, text in FILES.items() if "LICENSE" not in name]
    assert sum(len(gzip.compress(content)) for content in contents) < SENT
    assert sum(map(len, contents)) < ROOM
    urls = found(r"https?://[^\s\"'`)]*|url\(\s*[\"']?//", OURS)
    assert [(name, url) for name, url in urls if not url.startswith(NAMESPACES)] == []
    assert found(r"<[a-z][^>]*\s(?:on[a-z]+|style)=[\"']", OURS) == []


def test_workloads_have_the_colours_that_charts_have_light_and_dark():
    looks = [re.findall(rf"--w{index}: (#\w+);", FILES["page.css"]) for index in range(10)]
    assert [tuple(look) for look in looks if look] == list(COLOURS)


#: what eyes see that lack red, green or blue, in linear light (Machado and others, 2009)
EYES = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "no green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "no blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
#: least distance in Oklab; about three times what is seen side by side
APART = 0.06


def linear(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def contrast(one, other):
    low, high = sorted(times([(0.2126, 0.7152, 0.0722)], linear(each))[0] for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(light):
    cones = times(
        ((0.4122, 0.5363, 0.0514), (0.2119, 0.6807, 0.1074), (0.0883, 0.2817, 0.6300)), light
    )
    return times(
        ((0.2105, 0.7936, -0.0041), (1.9780, -2.4286, 0.4506), (0.0259, 0.7828, -0.8087)),
        [cone ** (1 / 3) for cone in cones],
    )


@pytest.mark.parametrize("dark", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_what_they_are_on_and_from_each_other_to_all_eyes(dark):
    css = read_static_files()["page.css"].decode()
    for name in ("ground", "raised"):
        below = re.findall(rf"--{name}: (#\w+);", css)[dark]
        assert [each[dark] for each in COLOURS if contrast(each[dark], below) < 3] == []
    for lacking in EYES.values():
        seen = [
            oklab([min(1, max(0, part)) for part in times(lacking, linear(each[dark]))])
            for each in COLOURS
        ]
        assert [pair for pair in combinations(seen, 2) if dist(*pair) < APART] == []


FILMS = {"KubeDSM": b'{"a": "</script>"}\n{"b": 1}', "<other> & more": b"{}"}


def test_films_are_in_it_whole_and_the_same_films_are_the_same_file():
    written = one_file("one & <all>", 'said of "it"', FILMS)
    found = re.findall(r'<script type="application/gzip"[^>]*>(.*?)</script>', written)
    packed = list(map(base64.b64decode, found))
    assert list(map(gzip.decompress, packed)) == list(FILMS.values())
    assert 'data-title="&lt;other&gt; &amp; more"' in written
    assert "<title>one &amp; &lt;all&gt;</title>" in written
    # A browser shows that what is there may run, and that nothing else is requested.
    assert "unsafe" not in written.partition("<style>")[0]
    assert one_file("one & <all>", 'said of "it"', FILMS) == written
    # Nor does the time of day, in seconds, get into what is packed.
    assert {each[4:8] for each in packed} == {b"\0" * 4}
