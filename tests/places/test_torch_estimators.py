"""The estimators on tensors and devices give what they give on arrays."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from omcal import OCAL, OMCAL, load
from omcal.method.anchors import choose_for_runs
from omcal.method.scaling import Scaling
from torch_cases import DEVICES, host_views, torch, two_views

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

VARIANTS = {
    "paper": {},
    "agreement": {"weighting": "agreement"},
    "uniform": {"weighting": "uniform"},
    "weights": {"weighting": [0.2, 0.8]},
    "sample": {"scale": "sample"},
    "view": {"scale": "view"},
    "unscaled": {"scale": None},
    "random anchors": {"anchors": "random"},
    "several starts": {"n_init": 3},
    "accelerated": {"accelerate": True},
    "many neighbours": {"n_neighbors": 9},
}


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def tensors(arrays, device):
    return [torch.from_numpy(array).to(device) for array in arrays]


def model(**options):
    return OMCAL(4, **{"n_anchors": 12, "random_state": 1, "max_iter": 20, **options})


def on_host(values):
    return values.cpu().numpy() if torch.is_tensor(values) else values


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_a_fit_to_tensors_is_that_to_arrays(device, variant):
    arrays = two_views(2, n=500)
    expected = model(**VARIANTS[variant]).fit(arrays)
    found = model(**VARIANTS[variant]).fit(tensors(arrays, device))
    assert found.labels_.device.type == device
    np.testing.assert_array_equal(on_host(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-9)
    np.testing.assert_allclose(found.view_weights_, expected.view_weights_, atol=1e-7)
    for a, b in zip(found.anchors_, expected.anchors_, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
    assert found.n_iter_ == expected.n_iter_
    assert found.n_features_in_ == 15


@pytest.mark.parametrize("accelerate", [True, False])
def test_a_fit_to_wide_tensors_is_that_to_arrays(device, accelerate):
    rng = np.random.default_rng(3)
    groups = rng.integers(4, size=1100)
    arrays = [rng.normal(size=(4, d))[groups] * 2 + rng.normal(size=(1100, d)) for d in (60, 90)]
    here = model(accelerate=accelerate).fit(arrays)
    there = model(accelerate=accelerate).fit(tensors(arrays, device))
    np.testing.assert_array_equal(on_host(there.labels_), here.labels_)
    for mine, other in zip(there.anchors_, here.anchors_, strict=True):
        np.testing.assert_allclose(on_host(mine), other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["tensors", "arrays"])
def test_results_come_back_as_what_was_passed_in(device, kind):
    arrays = two_views(2, n=300)
    X = tensors(arrays, device) if kind == "tensors" else arrays
    wanted = torch.Tensor if kind == "tensors" else np.ndarray
    found = model(device=device).fit(X)
    expected = model().fit(arrays)
    for name in ("labels_", "predict", "transform", "fit_predict"):
        got, right = (getattr(fitted, name) for fitted in (found, expected))
        if callable(got):
            got, right = got(X), right(arrays)
        assert isinstance(got, wanted)
        np.testing.assert_allclose(on_host(got), right, atol=1e-7)
    # A model that was fitted to one kind predicts for the other.
    np.testing.assert_array_equal(found.predict(arrays), expected.predict(arrays))
    other = expected.predict(tensors(arrays, device))
    np.testing.assert_array_equal(on_host(other), expected.predict(arrays))


@pytest.mark.parametrize("kind", ["tensors", "arrays"])
def test_labels_are_written_where_they_are_wanted(device, kind):
    arrays = two_views(2, n=300)
    X = tensors(arrays, device) if kind == "tensors" else arrays
    found = model(device=device).fit(X)
    expected = model().fit(arrays).predict(arrays)
    for out in (np.full(300, -1), torch.full((300,), -1))[: 2 if kind == "tensors" else 1]:
        assert found.predict(X, out=out) is out
        np.testing.assert_array_equal(on_host(out), expected)
    with pytest.raises(ValueError, match=r"out has shape \(300,\); X has 10 samples"):
        found.predict([x[:10] for x in X], out=out)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_labels_of_narrow_types_are_those_of_the_cpu(device, dtype):
    given = [x.to(getattr(torch, dtype)) for x in tensors(two_views(2, n=2000), device)]
    arrays = [x.float().cpu().numpy() for x in given]
    views = host_views(arrays)
    scalings = [Scaling.fit(view, "feature") for view in views]
    anchors = choose_for_runs(views, scalings, 12, "kmeans", [np.random.RandomState(0)])[0]
    init = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 4)))[0]
    expected = model(anchors=anchors, init=init).fit(arrays)
    found = model(anchors=anchors, init=init).fit(given)
    assert (on_host(found.labels_) == expected.labels_).mean() >= 0.9999
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-6)
    assert found.transform(given).dtype == torch.float32


def test_one_view_and_columns_of_a_table(device):
    (X,) = two_views(1, n=300, widths=(8,))
    (T,) = tensors([X], device)
    options = {"n_clusters": 4, "n_anchors": 10, "random_state": 0}
    np.testing.assert_array_equal(
        on_host(OCAL(**options).fit(T).labels_), OCAL(**options).fit(X).labels_
    )
    split = {"a": slice(0, 5), "b": [5, 6, 7]}
    found, expected = (OMCAL(**options, views=split).fit(x) for x in (T, X))
    assert found.view_names_ == ["a", "b"]
    np.testing.assert_array_equal(on_host(found.labels_), expected.labels_)


def test_a_model_fitted_to_tensors_is_saved_without_them(device, tmp_path):
    X = tensors(two_views(2, n=200), device)
    fitted = model().fit(X)
    fitted.save(tmp_path / "model.omcal")
    found = load(tmp_path / "model.omcal").predict(X)
    np.testing.assert_array_equal(on_host(found), on_host(fitted.predict(X)))


def test_warnings_are_those_of_the_cpu(device):
    X = tensors(two_views(2, n=100), device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning, match="after max_iter=1 iterations"):
            model(max_iter=1).fit(X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_without_cuda_a_model_says_so():
    with pytest.raises(RuntimeError, match="device='cuda' needs CUDA"):
        model(device="cuda").fit(two_views())
    with pytest.raises(ValueError, match="device='gpu' is not known"):
        model(device="gpu").fit(two_views())


def test_samples_absent_from_views_are_stood_in_for(device):
    arrays = two_views(2, n=100)
    masks = [np.arange(100) > 5, None]
    expected = model().fit([np.where(masks[0][:, None], arrays[0], np.nan), arrays[1]])
    found = model().fit(tensors(arrays, device), present=masks)
    np.testing.assert_array_equal(on_host(found.labels_), expected.labels_)
    arrays[0][:6] = np.nan
    found = model().fit(tensors(arrays, device))
    np.testing.assert_array_equal(on_host(found.labels_), expected.labels_)
