"""Imports of the process, by which its state is defined. Keys of stages contain the name of this module."""

from process_watch import imports

after_imports, being_imported = imports.after, imports.current
