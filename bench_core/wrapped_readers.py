"""Access to the imports of this process, for `process_state`. The name of this module is part of stage keys."""

from process_watch import imports

after_imports, being_imported = imports.after, imports.current
