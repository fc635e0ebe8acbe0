"""
Comparing methods for a paper
=============================

A table of methods belongs in most papers about clustering, and most ways to get it wrong are
boring: one seed, other data for one method, a run that died and was left out, times measured
beside other work. This page makes the table so that none of these can happen, and ends with the
file to include.
"""

# %%
# The data and the methods
# ------------------------
# Every third of the digits of scikit-learn, four views, to keep this page short; take all of yours.
# ``omcal.experiments.methods()`` lists the methods: OMCAL, joined runs, and the baselines of the
# package, each written from its paper (:doc:`baselines </baselines>`).

import tempfile
from pathlib import Path

from omcal.datasets import load_digits_views
from omcal.experiments import compare, methods

digits = load_digits_views()
views = {name: view[::3] for name, view in digits.views.items()}
classes = digits.labels[::3]
chosen = ["omcal", "consensus", "fsmsc", "concat-kmeans"]

# %%
# The comparison
# --------------
# Each run is a process of its own with a limit of time and memory, so that one method cannot harm
# another, and a method that takes too long is reported as such. Python starts such processes by
# importing the script that asks for them; hence the line ``if __name__ == "__main__":``, which
# every such script needs.
#
# ``records`` names a file in which every run is kept as soon as it has ended. Interrupt the
# comparison and call it again: it continues where it stopped. Three seeds are enough for a page
# like this one; take ten or more for a paper.

if __name__ == "__main__":
    print("there are", ", ".join(methods()))
    folder = Path(tempfile.mkdtemp())
    found = compare(views, 10, chosen, y=classes, seeds=3, records=folder / "records.jsonl")
    print(found)

# %%
# How to read it
# --------------
# *Mean(standard deviation)* over the seeds: a difference that is smaller than the deviations is
# none. Methods without a random start have a deviation of 0, which does not make them better, only
# deterministic. *Rank* is the mean place over the six scores, which measure nearly the same thing
# six times: it is one piece of evidence, not six. *NMI* is divided by the larger entropy, as in
# the paper of OMCAL; scikit-learn divides by the mean, and its values are larger. The note below
# the table has the versions and the load of the machine; where the load is above the number of
# cores, do not print the seconds.
#
# The picture shows the runs themselves. Draw them: three dots that lie apart say more than a mean.

if __name__ == "__main__":
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    titles = [methods()[name].title for name in chosen]
    for row, name in enumerate(chosen):
        accuracies = [r["scores"]["ACC"] for r in found.records if r["method"] == name]
        ax.plot(accuracies, [row] * len(accuracies), "o", alpha=0.6)
    ax.set_yticks(range(len(chosen)), titles)
    ax.set(xlabel="accuracy of each run", ylim=(-0.5, len(chosen) - 0.5))
    ax.invert_yaxis()
    ax.grid(axis="x", linewidth=0.5, alpha=0.4)
    ax.spines[["top", "right"]].set_visible(False)

# %%
# Into the paper
# --------------
# The ending of the name sets the format: ``.tex``, ``.md``, ``.csv`` or ``.html``. The LaTeX table
# needs only booktabs. It includes the notes, which record the runs.

if __name__ == "__main__":
    found.write(folder / "comparison.tex")
    print((folder / "comparison.tex").read_text(encoding="utf-8"))

# %%
# Without classes
# ---------------
# Real data have none. Then the same call has other columns: how *stable* the clusters are from
# seed to seed, and how far they *agree* with each view (whether the neighbours of a sample there
# are in its cluster). Neither knows what you are looking for; a method that splits one cluster by
# an irrelevant feature can do so stably.

if __name__ == "__main__":
    print(compare(views, 10, ["omcal", "concat-kmeans"], seeds=2).table.markdown())

# %%
# These numbers do not replace classes: by the neighbours, k-means agrees with the views as well as
# OMCAL or better, although it is far behind by the classes above.
#
# From the shell
# --------------
# ::
#
#     omcal compare digits.npz --clusters 10 --methods omcal,consensus,fsmsc --out table.tex
#
# Fair play
# ---------
# * Every method runs here with its defaults, OMCAL too. Tuning one of them on the classes and not
#   the others is the commonest way to win.
# * If you tune, tune without labels (``omcal.select.tune_without_labels``) or on other data.
# * Report every set you ran. On 17 sets OMCAL with its defaults is better than k-means on 16, and
#   worse than FSMSC on 5 (``benchmarks/results/defaults.md``): with three selected sets a paper can
#   show anything.

if __name__ == "__main__":
    plt.show()
