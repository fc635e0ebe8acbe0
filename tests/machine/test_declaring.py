"""Parameters that are declared once."""

import inspect
from numbers import Integral, Real
from typing import Annotated, Literal, get_args

import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from docstrings import entries, sections
from omcal import OCAL, OMCAL
from omcal.cli import options
from omcal.machine.declaring import (
    Declares,
    Natural,
    Positive,
    Range,
    Words,
    constraint_of,
    declared,
    parameter,
)
from omcal.model.estimators import AnchorClusterer
from omcal.model.parameters import MultiViewParameters, SharedParameters


class WithOneMore(MultiViewParameters, AnchorClusterer):
    """An estimator.

    Parameters
    ----------
    {parameters}
    """

    warmth: float = parameter(
        default=0.5,
        constraint=(Range(Real, 0, 1, "both"),),
        kind="float",
        help="Warmth of the start; more is warmer.",
        option="--warmth",
    )


def test_a_further_parameter_is_one_declaration(monkeypatch):
    made = WithOneMore(3, warmth=0.25)
    assert made.warmth == clone(made).warmth == 0.25
    assert inspect.signature(WithOneMore).parameters["warmth"].default == 0.5
    documented = entries(sections(WithOneMore)["Parameters"])
    assert documented["warmth"] == "Warmth of the start; more is warmer."
    with pytest.raises(InvalidParameterError, match=r"'warmth' .* range \[0\.0, 1\.0\]"):
        made.set_params(warmth=2.0)._validate_params()
    monkeypatch.setitem(options.PARAMETERS, "warmth", declared(WithOneMore)["warmth"])
    monkeypatch.setitem(options._OPTIONS, "warmth", "--warmth")
    kind, option = get_args(options._annotation("warmth"))
    # Typer takes the first name of an annotated option as its default.
    assert kind == float | None and (option.default, *option.param_decls) == ("--warmth",)
    assert (option.help, option.show_default) == ("Warmth of the start.", "0.5")


@pytest.mark.parametrize("estimator", [OMCAL, OCAL])
def test_signature_documentation_and_constraints_are_those_of_the_declarations(estimator):
    names = list(declared(estimator))
    assert list(inspect.signature(estimator).parameters) == names
    assert list(entries(sections(estimator)["Parameters"])) == names
    assert list(estimator._parameter_constraints) == names
    assert "{" not in sections(estimator)["Attributes"]
    estimator()._validate_params()
    for name in names:
        assert not hasattr(estimator, name)


def test_ocal_has_all_parameters_but_those_of_several_views():
    assert set(declared(OMCAL)) - set(declared(OCAL)) == {"weighting", "views"}
    assert declared(OCAL) == declared(SharedParameters)


def test_arguments_that_are_not_declared_are_refused():
    for call in (lambda: OMCAL(3, 5), lambda: OMCAL(colour=1), lambda: OCAL(weighting="uniform")):
        with pytest.raises(TypeError):
            call()


def test_a_subclass_may_have_an_init_of_its_own():
    class Mine(OMCAL):
        def __init__(self, n_clusters=2, *, extra=1):
            super().__init__(n_clusters)
            self.extra = extra

    class Further(Mine):
        pass

    assert (Further(4).n_clusters, Further().extra) == (4, 1)
    assert set(Further().get_params()) == {"n_clusters", "extra"}


@pytest.mark.parametrize(
    ("hint", "constraint"),
    [
        (int, (Range(Integral, 1),)),
        (int | None, (Range(Integral, 1), None)),
        (float, (Range(Real, 0),)),
        (Positive | None, (Range(Real, 0, None, "neither"), None)),
        (Natural, (Range(Integral, 0),)),
        (bool, ("boolean",)),
        (Literal["a", "b"], (Words(("a", "b")),)),
        (Literal["a"] | None, (Words(("a",)), None)),
        (Annotated[float, Range(Real, 0, 1, "both")], (Range(Real, 0, 1, "both"),)),
    ],
)
def test_a_type_implies_its_constraint(hint, constraint):
    assert constraint_of(hint) == constraint


def test_a_type_without_a_known_constraint_is_refused():
    with pytest.raises(KeyError):
        constraint_of(dict)


class Shared(Declares):
    """A base class."""

    first: "int" = parameter(default=8, help="Number of parts.", kw_only=False)
    last: "Natural" = parameter(default=0, help="Number of rests.", late=True)


class Bare(Shared):
    """A class with defaults alone.

    Parameters
    ----------
    {first}
    rounds : int, default=30
        Most rounds.
    share : float, optional
        A part.
    {last}
    """

    rounds: "int" = 30
    share: float | None = None
    _private: "int" = 3


def test_a_default_alone_declares_a_parameter():
    assert list(declared(Bare)) == ["first", "rounds", "share", "last"]
    assert list(inspect.signature(Bare).parameters) == ["first", "rounds", "share", "last"]
    assert list(entries(sections(Bare)["Parameters"])) == ["first", "rounds", "share", "last"]
    assert declared(Bare)["rounds"].constraint == (Range(Integral, 1),)
    made = Bare(2, rounds=4)
    assert (made.first, made.rounds, made.last, Bare._private) == (2, 4, 0, 3)
    assert not hasattr(Bare, "rounds")


def test_the_kind_of_a_parameter_is_the_name_of_its_type():
    assert "first : int, default=8\n        Number of parts." in Bare.__doc__
    assert "last : int, default=0\n        Number of rests." in Bare.__doc__
