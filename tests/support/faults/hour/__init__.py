"""An hour of everything at once, and the unbroken run that it is compared with."""
