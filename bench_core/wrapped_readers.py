"""What the state of a stage needs to know of imports; keys of stages have this module's name."""

from process_watch import imports

after_imports, being_imported = imports.after, imports.current
