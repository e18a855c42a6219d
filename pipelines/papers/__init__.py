"""The tables of papers: rows, records of finished runs, and the report made of them."""
