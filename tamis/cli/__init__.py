"""The command line: one file for each command, with HELP, EXAMPLES, add_arguments and run.

`main` imports all of them to build the parser. So that help and usage errors are quick, they import
torch, and whatever imports it, only inside `run`; types go under `TYPE_CHECKING`. A test checks it.
"""
