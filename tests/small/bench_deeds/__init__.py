"""A plugin of clean parts and of parts that do something to them: to their code, their data or their process."""
