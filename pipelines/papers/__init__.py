"""Tables of papers: their rows, the results of finished runs, and the report made of these."""

from pipelines.papers import deep_architectures, dtmt
from pipelines.papers.paper import Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (dtmt.PAPER, deep_architectures.PAPER)}
