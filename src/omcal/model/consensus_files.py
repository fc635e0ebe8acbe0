"""The joint fit and the runs of a Consensus as parts of a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine.archive import Archive
from omcal.machine.arrays import Array
from omcal.method.new_samples import GraphModel, Predictor
from omcal.method.rows import Assignment
from omcal.method.solver import Solution
from omcal.method.updates import ConsensusGraph
from omcal.model import doubts
from omcal.model.header import flag, integer, names, number, optional_integer
from omcal.model.numbering import read_matches
from omcal.model.run_files import read_stream, stream_arrays, stream_values
from omcal.model.runs import Run, certainty, run_table


def parts_of(model: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of the joint fit and of the runs; they share their scalings."""
    arrays = {"joint.labels": model.labels_, "joint.objective": model.objective_}
    arrays |= _graph_arrays("joint", model._rule.consensus)
    for b, (rule, run) in enumerate(zip(model._rule.runs, model.runs_, strict=True)):
        arrays |= {f"run.{b}.labels": run.labels, f"run.{b}.weights": run.view_weights}
        arrays |= _graph_arrays(f"run.{b}", rule.consensus)
        arrays |= {f"run.{b}.anchors.{v}": A for v, A in enumerate(rule.learned.anchors)}
    header = {
        "n_runs": model.n_runs,
        "random_state": model.random_state if isinstance(model.random_state, int) else None,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "n_undecided": model.n_undecided_,
        "doubts": doubts.written(model.doubts_),
        "matched": list(map(list, model.matched_)),
        "cluster_names": model._cluster_names,
        "runs": [[run.solution.converged, run.objective] for run in model.runs_],
        **stream_values(model),
    }
    # Of a fit that other processes shared, the labels do not tell them.
    if any(found.sum() != len(model.labels_) for found in model._tables):
        header["tables"] = [found.tolist() for found in model._tables]
    return header, arrays | stream_arrays(model, "joint.")


def read_consensus(kind: Any, inner: Any, header: dict[str, Any], archive: Archive) -> Any:
    """Return a model of this kind, from the run that was read already and `parts_of` a model."""
    n, c, V = len(inner.labels_), inner.n_clusters_, len(inner.view_weights_)
    m, gamma = len(inner.basis_), inner._rule.consensus.gamma
    rules, runs = [], []
    for b, (converged, objective) in enumerate(header["runs"]):
        labels = archive.take(f"run.{b}.labels", (n,), "u")
        weights = archive.take(f"run.{b}.weights", (V,))
        anchors = [
            archive.take(f"run.{b}.anchors.{v}", A.shape) for v, A in enumerate(inner.anchors_)
        ]
        Z = _graph(f"run.{b}", archive, (V, m, c), gamma)
        if n and labels.max() >= c:
            raise ValueError("the labels of a run are not those of a model")
        learned = GraphModel(inner._rule.learned.scalings, anchors, inner.n_neighbors)
        rules.append(Predictor(learned, Z))
        history = [number(objective, "the objective of a run")]
        runs.append(Run(labels, Solution(weights, Z, history, flag(converged))))
    n_runs, seed = integer(header["n_runs"]), optional_integer(header["random_state"])
    model = kind(inner, n_runs=n_runs, random_state=seed)
    model._validate_params()
    model.n_clusters_ = c
    history = archive.take("joint.objective", (integer(header["n_iter"], least=1),)).tolist()
    labels = archive.take("joint.labels", (n,), "i")
    if n and not 0 <= labels.min() <= labels.max() < c:
        raise ValueError("the labels are not those of a model")
    tables = _tables(header, runs, labels, c)
    Z = _graph("joint", archive, (1, len(runs) * c, c), gamma)
    model._publish(
        rules,
        runs,
        tables,
        Solution(np.ones(1), Z, history, flag(header["converged"])),
        Assignment(labels, integer(header["n_undecided"])),
        certainty([run.labels for run in runs], labels, tables),
    )
    model._keep_most_similar(inner)
    model.doubts_ = doubts.read(header["doubts"])
    model.structure_, model.outlier_threshold_ = inner.structure_, inner.outlier_threshold_
    model.matched_ = read_matches(header.get("matched", []))
    model._cluster_names = names(header.get("cluster_names"), c)
    read_stream(model, header, archive, "joint.")
    return model


def _tables(header: dict[str, Any], runs: list[Run], labels: Array, c: int) -> list[Array]:
    """Samples by cluster of each run and of the result: as stored, or from the labels."""
    if "tables" not in header:
        return [run_table(run.labels, labels, c) for run in runs]
    tables = [np.array(found, dtype=np.int64) for found in header["tables"]]
    sound = all(found.shape == (c, c) and found.min() >= 0 for found in tables)
    if len(tables) != len(runs) or not sound:
        raise ValueError("the tables of the runs are not those of a model")
    return tables


def _graph_arrays(name: str, Z: ConsensusGraph) -> dict[str, Array]:
    return {f"{name}.alpha": Z.alpha, f"{name}.basis": Z.G, f"{name}.threshold": Z.T}


def _graph(
    name: str, archive: Archive, shape: tuple[int, int, int], gamma: float
) -> ConsensusGraph:
    V, m, c = shape
    Z = ConsensusGraph(
        archive.take(f"{name}.alpha", (V,)),
        archive.take(f"{name}.basis", (m, c)),
        archive.take(f"{name}.threshold", (m, m)),
        gamma,
    )
    if not Z.sound:
        raise ValueError("the weights or the basis of a run are not those of a model")
    return Z
