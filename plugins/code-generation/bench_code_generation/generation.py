"""The code generation task: pseudo-code in, one line of Python out."""

from pathlib import Path

from bench_code_generation.corpus import collection
from bench_code_generation.plugin import CodeGenerationConfig
from bench_translation.api import Parallel, ParallelTask


class CodeGeneration(ParallelTask):
    """Pseudo-code and a line of Python; tokens are what white space separates, or pieces of that."""

    config: CodeGenerationConfig

    def parallel(self, data: Path) -> Parallel:
        return collection(self.config.corpus, data)
