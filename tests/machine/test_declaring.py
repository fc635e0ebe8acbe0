"""Parameters that are declared once."""

import inspect
from numbers import Real

import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from docstrings import entries, sections
from omcal import OCAL, OMCAL
from omcal.cli import parameters as options
from omcal.machine.declaring import Range, declared, parameter
from omcal.model.fitting import AnchorClusterer
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


def test_a_further_parameter_is_one_declaration():
    made = WithOneMore(3, warmth=0.25)
    assert made.warmth == clone(made).warmth == 0.25
    assert inspect.signature(WithOneMore).parameters["warmth"].default == 0.5
    documented = entries(sections(WithOneMore)["Parameters"])
    assert documented["warmth"] == "Warmth of the start; more is warmer."
    with pytest.raises(InvalidParameterError, match=r"'warmth' .* range \[0\.0, 1\.0\]"):
        made.set_params(warmth=2.0)._validate_params()
    option = options._of(declared(WithOneMore)["warmth"])
    assert option == ("--warmth", float, "Warmth of the start.", "0.5", None)


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
