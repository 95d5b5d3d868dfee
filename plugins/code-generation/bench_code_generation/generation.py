"""The code generation task: pseudo-code in, one line of Python out."""

from pathlib import Path

from bench_code_generation.corpus import collection
from bench_code_generation.plugin import CodeGenerationConfig
from bench_translation.api import Parallel, ParallelTask


class CodeGeneration(ParallelTask):
    """Generate a line of Python from pseudo-code; tokens are words separated by white space, or their pieces."""

    config: CodeGenerationConfig

    def parallel(self, data: Path) -> Parallel:
        return collection(self.config.corpus, data)
