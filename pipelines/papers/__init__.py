"""The tables of papers: rows, records of finished runs, and the report made of them."""

from pipelines.papers import dtmt
from pipelines.papers.paper import Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (dtmt.PAPER,)}
