"""Small faults written into the library one at a time; the tests must notice each."""
