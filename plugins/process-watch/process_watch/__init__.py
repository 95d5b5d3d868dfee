"""Watches blocks of code in a process: the inputs that they read, and the changes that they leave behind.

`observe` records the files, folders, variables and modules that a block reads: `input_events` uses audit events,
`wrapped_readers` wraps functions without events. `whose_code` distinguishes user code from libraries, and
`observed_inputs` stores the inputs. `Watch` compares the code (`replaced_code`, `replacements`, `held_contents`,
`own_variables`) and the settings (`watched_settings`) of the process before and after a block, and restores them;
`threads` finds threads that outlive a block. `host` describes the program that runs blocks. The host decides which
inputs matter, and what happens to a block that left changes.
"""

from process_watch.host import Host, Refused
from process_watch.importing import imports
from process_watch.observed_inputs import Input, Reading, earlier, observe, reads, remember
from process_watch.replaced_code import Watch
from process_watch.wrapped_readers import install, unobserved

__all__ = [
    "Host",
    "Input",
    "Reading",
    "Refused",
    "Watch",
    "earlier",
    "imports",
    "install",
    "observe",
    "reads",
    "remember",
    "unobserved",
]
