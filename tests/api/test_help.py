"""What a user sees at the prompt: help(), dir(), completion, and a snippet that runs in every docstring."""

from __future__ import annotations

import doctest
import inspect
import pydoc
import re
import rlcompleter
import subprocess
import sys

import pytest

import jensen
from api.test_signatures import is_method, members


def named(name):
    return getattr(jensen, name)


CLASSES = [name for name in jensen.__all__ if inspect.isclass(named(name))]


@pytest.mark.parametrize("name", jensen.__all__)
def test_every_name_has_a_snippet_that_runs(name):
    """pytest runs the snippets as doctests; here each must call something and show what it returns."""
    examples = doctest.DocTestParser().get_examples(named(name).__doc__ or "")
    assert any("jensen" in example.source for example in examples)
    assert any(example.want for example in examples), f"the snippet of {name} shows no result"


@pytest.mark.parametrize("name", jensen.__all__)
def test_every_argument_is_described(name):
    described = re.findall(r"^ {8}(\w+(?:, \w+)*): ", named(name).__doc__ or "", re.MULTILINE)
    arguments = set(inspect.signature(named(name)).parameters)
    assert arguments - {one for entry in described for one in entry.split(", ")} == set()


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_is_described(name):
    value = named(name)
    methods = [one for one in members(value) if is_method(getattr(value, one))]
    properties = [one for one, member in members(value).items() if isinstance(member, property)]
    silent = [one for one in methods if not inspect.getdoc(getattr(value, one))]
    assert [*silent, *(one for one in properties if not members(value)[one].__doc__)] == []


def test_completion_finds_the_names_before_they_are_loaded():
    script = (
        "import sys, rlcompleter, jensen\n"
        "words = rlcompleter.Completer({'jensen': jensen})\n"
        "found = {words.complete('jensen.Gau', i) for i in range(2)}\n"
        "assert {one.split('(')[0] for one in found} == {'jensen.Gaussian', 'jensen.GaussianMixture'}, found\n"
        "assert set(jensen.__all__) <= set(dir(jensen))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_methods_of_a_model_are_completed():
    words = rlcompleter.Completer({"model": jensen.GaussianMixture(2)})
    assert words.complete("model.score_s", 0).startswith("model.score_samples(")


def test_help_of_the_package_lists_its_names():
    text = pydoc.plain(pydoc.render_doc(jensen))
    assert "one contract" in text
    assert "class GaussianMixture(" in text
    assert "compare(" in text


def test_help_of_a_class_begins_with_what_it_is():
    text = pydoc.plain(pydoc.render_doc(jensen.GaussianMixture))
    head = text.partition("Method resolution order")[0]
    assert "A mixture of K Gaussians" in head
    assert "covariance_type: " in head
    assert ">>> model = GaussianMixture(" in head
    assert "score_samples(self, X" in text
