"""The order of the tutorials on their page: what a reader looks for first comes first."""

ORDER = [
    # Kinds of data
    *("embeddings", "customers", "topics", "languages", "cells", "sensors"),
    # Judging a result
    *("how_many", "report", "figures", "comparison", "weekly"),
    # Size
    *("million", "gpu", "cluster"),
    # Taking part
    *("baseline", "place"),
]


class ReadingOrder:
    """A sort key of Sphinx-Gallery: scripts by `ORDER`, those that it does not name at the end."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, script: str) -> tuple[int, str]:
        name = script.removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
