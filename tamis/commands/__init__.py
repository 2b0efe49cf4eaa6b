"""Commands: each file has HELP, EXAMPLES, add_arguments and run."""


class UsageError(Exception):
    """Something that the person at the keyboard can put right; its message is one line."""
