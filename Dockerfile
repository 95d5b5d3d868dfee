# bench with every plugin of this repository except those for clusters.
#
#   docker build --tag bench .
#   docker run --rm --volume "$PWD/results:/results" bench run /bench/suites/quickstart.yaml
#
# For GPUs, start from an image with CUDA, and run with --gpus all:
#
#   docker build --tag bench-cuda --build-arg BASE=nvidia/cuda:13.0.1-runtime-ubuntu24.04 .
ARG BASE=python:3.12-slim
FROM ${BASE}

# the URL of PyTorch's index of CPU builds; without it, Linux gets the CUDA builds
ARG TORCH_INDEX=""

RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && (command -v python3 || apt-get install --yes --no-install-recommends python3) \
    && (python3 -c "import ensurepip" || apt-get install --yes --no-install-recommends python3-venv) \
    && rm -rf /var/lib/apt/lists/*

COPY . /bench
RUN cd /bench \
    && PIP_NO_CACHE_DIR=1 PIP_EXTRA_INDEX_URL="${TORCH_INDEX}" make setup \
    && useradd --create-home bench \
    && mkdir /results \
    && ln -s /bench/suites /results/suites \
    && chown bench /results

USER bench
WORKDIR /results
ENV PATH="/bench/.venv/bin:${PATH}"
ENTRYPOINT ["bench"]
