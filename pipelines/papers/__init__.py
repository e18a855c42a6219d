"""Tables of papers: their rows, the results of finished runs, and the report made of these."""

from pipelines.papers import deep_architectures, dtmt, lau, recurrence
from pipelines.papers.paper import Paper

PAPERS: dict[str, Paper] = {
    module.PAPER.name: module.PAPER for module in (dtmt, deep_architectures, recurrence, lau)
}
