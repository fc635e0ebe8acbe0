"""A program that starts ranks by an engine, or is started as one: started_fits.py ENGINE FOLDER."""

import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np

from large_fits import overlapping

N = 3000
GIVEN = {"n_clusters": 4, "random_state": 0}
LONG = {"tol": 0, "max_iter": 60}


def fit_own_rows(folder, **more):
    """Fit this rank's rows in the default group, and leave the labels in the folder."""
    import torch.distributed as dist

    from omcal import OMCAL

    rank, size = dist.get_rank(), dist.get_world_size()
    rows = slice(rank * N // size, (rank + 1) * N // size)
    X = [view[rows] for view in overlapping(N)]
    model = OMCAL(**GIVEN, group="world", **more).fit(X)
    np.save(Path(folder) / f"{rank}.npy", model.labels_)
    return model.n_iter_


def by_torchrun(folder):
    import torch.distributed as dist

    dist.init_process_group("gloo")
    fit_own_rows(folder)


def by_torchrun_again(folder):
    """The second rank is killed in the midst of the first attempt."""
    import torch.distributed as dist

    from omcal.places.memory import MemoryRows
    from omcal.places.ranks import start_group

    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    plain, sweeps = MemoryRows.sweep, []

    def sweep(self, *step):
        sweeps.append(None)
        if first and dist.get_rank() == 1 and len(sweeps) == 43:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, *step)

    start_group()
    path = Path(folder) / "fit.checkpoint"
    resumed = path.exists()
    with patch.object(MemoryRows, "sweep", sweep):
        n_iter = fit_own_rows(folder, checkpoint=path, init="random", **LONG)
    print(f"first={first} resumed={resumed} sweeps={len(sweeps)} n_iter={n_iter}", flush=True)


def _on_a_gpu(backend):
    """Arrays that are sent to the GPU and tensors on it: as one process does it there."""
    import torch
    import torch.distributed as dist

    from omcal import OMCAL

    torch.cuda.set_device(0)
    dist.init_process_group(backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = slice(rank * N // size, (rank + 1) * N // size)
    views = overlapping(N)
    expected = OMCAL(**GIVEN, device="cuda").fit(views)
    for own in (
        [view[rows] for view in views],
        [torch.from_numpy(view[rows]).cuda() for view in views],
    ):
        model = OMCAL(**GIVEN, device="cuda", group="world").fit(own)
        labels = torch.as_tensor(model.labels_).cpu().numpy()
        np.testing.assert_array_equal(labels, expected.labels_[rows])
        np.testing.assert_allclose(model.objective_, expected.objective_, rtol=1e-6)
    print(f"{backend}: the same on {size} ranks", flush=True)
    dist.destroy_process_group()


def by_nccl_on_a_gpu(folder):
    _on_a_gpu("nccl")


def by_gloo_on_a_gpu(folder):
    _on_a_gpu("gloo")


def by_ray(folder):
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(num_cpus=2, include_dashboard=False)
    TorchTrainer(
        lambda config: fit_own_rows(config["folder"]),
        train_loop_config={"folder": str(folder)},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(storage_path=str(folder)),
    ).fit()


def by_spark(folder):
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    TorchDistributor(num_processes=2, local_mode=True, use_gpu=False).run(by_torchrun, str(folder))
    spark.stop()


if __name__ == "__main__":
    globals()[f"by_{sys.argv[1]}"](sys.argv[2])
