"""Pages: the report of a run, the comparison, the live page and its review API."""
