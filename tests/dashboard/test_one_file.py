"""The page with films in it: one file, which refers to nothing outside itself."""

import base64
import gzip
import hashlib
import json
import re
from urllib.parse import unquote

import pytest

from kubedsm.dashboard.server.app import read_static_files
from kubedsm.dashboard.single_file import Recorded, one_file

FILMS = [Recorded("KubeDSM", b'{"a": "</script>"}\n{"b": 1}'), Recorded("<other> & more", b"{}")]


@pytest.fixture(scope="module")
def written():
    return one_file("one & <all>", 'said of "it"', FILMS)


def scripts(written, kind):
    found = re.findall(rf'<script type="{kind}"([^>]*)>(.*?)</script>', written, re.DOTALL)
    return dict(enumerate(found)).values()


def modules(written):
    [(_, imports)] = scripts(written, "importmap")
    found = json.loads(imports)["imports"].items()
    return {name: unquote(url.partition(",")[2]) for name, url in found}


def test_films_are_in_it_whole_and_the_same_films_are_the_same_file(written):
    found = [
        gzip.decompress(base64.b64decode(data)) for _, data in scripts(written, "application/gzip")
    ]
    assert found == [film for _, film in FILMS]
    assert 'data-title="&lt;other&gt; &amp; more"' in written
    assert one_file("one & <all>", 'said of "it"', FILMS) == written
    # Nor does the time of day, in seconds, get into what is packed.
    packed = [base64.b64decode(data) for _, data in scripts(written, "application/gzip")]
    assert {each[4:8] for each in packed} == {b"\0" * 4}


def test_modules_are_those_that_are_served_and_find_each_other_by_name(written):
    files = read_static_files()
    for name, text in modules(written).items():
        served = files[name.removeprefix("page/")].decode()
        assert text.replace('"page/', '"./') == served.replace('"page/', '"./')
        imported = re.findall(r'^(?:import|\})[^;"]*\bfrom "([^"]+)"', text, re.MULTILINE)
        assert set(imported) <= modules(written).keys()
    assert {"page/recorded.js", "page/page.js", "page/vendor/htm-preact.js"} <= set(
        modules(written)
    )
    assert "page/live.js" not in modules(written)


def test_what_is_run_is_what_the_policy_lets_run(written):
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', written)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    inline = [text for kind in ("importmap", "module") for _, text in scripts(written, kind)]
    [sheet] = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    for text in (*inline, sheet):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    # It holds for what comes after it.
    assert written.index(policy) < written.index("<style>") < written.index("<script")


def test_nothing_is_referred_to_that_is_not_in_it(written):
    head = written.replace("data-title", "")
    referred = re.findall(r'(?:src|href)="([^"]*)"', head)
    assert all(each.startswith("data:") for each in referred)
    assert "<title>one &amp; &lt;all&gt;</title>" in written
    [sheet] = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    assert "url(" not in sheet
    assert "@import" not in sheet
