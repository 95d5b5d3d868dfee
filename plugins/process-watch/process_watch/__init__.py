"""Watches the blocks of code that a process performs: what they read, and what they leave behind.

`observe` notes the files, folders, variables and modules that a block reads: `input_events` by audit events,
`wrapped_readers` where there are none; `whose_code` tells users' code from libraries, `observed_inputs` keeps what
was read. `Watch` compares the code (`replaced_code`, `replacements`, `held_contents`, `own_variables`) and the
settings (`watched_settings`) of the process before and after a block, and restores them; `threads` finds those that
outlive a block. `host` is what the program that performs blocks says of itself. Not here: which inputs matter, and
what becomes of a block that left changes.
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
