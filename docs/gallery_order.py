"""The order in which the pages of the gallery are best read."""

ORDER = (
    "quickstart",
    "does_sharing_help",
    "compare_methods",
    "new_task",
    "streaming",
    "uncertainty",
    "contributions",
    "nonlinear",
)


class ReadingOrder:
    """Sorts the files of the gallery; unknown ones come last, by name."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self):
        return "ReadingOrder()"
