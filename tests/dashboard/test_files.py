"""The page's files: few bytes, whole without anybody else, and nothing that its policy forbids."""

import gzip
import re

from kubedsm.dashboard.server.app import read_static_files
from kubedsm_lab.replay.plots import COLOURS

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


def test_all_of_it_is_small():
    contents = [text.encode() for name, text in FILES.items() if "LICENSE" not in name]
    assert sum(len(gzip.compress(content)) for content in contents) < SENT
    assert sum(map(len, contents)) < ROOM


def test_it_names_nobody_else():
    urls = found(r"https?://[^\s\"'`)]*|url\(\s*[\"']?//", OURS)
    assert [(name, url) for name, url in urls if not url.startswith(NAMESPACES)] == []


def test_markup_has_no_handlers_nor_styles_of_its_own():
    assert found(r"<[a-z][^>]*\s(?:on[a-z]+|style)=[\"']", OURS) == []


def test_modules_import_what_is_there_and_nothing_else():
    imported = found(r"^(?:import|export|\})[^;\"]*\bfrom\s+[\"']([^\"']+)", OURS)
    assert len(imported) > 10
    assert [each for each in imported if not each[1].startswith("./")] == []
    assert [each for each in imported if each[1].removeprefix("./") not in FILES] == []


def test_workloads_have_the_colours_that_charts_have_light_and_dark():
    looks = [re.findall(rf"--w{index}: (#\w+);", FILES["page.css"]) for index in range(10)]
    assert [tuple(look) for look in looks if look] == list(COLOURS)
