# docker build -t tilewave --build-arg COMMIT=$(git rev-parse HEAD) .
# docker run --rm -v "$PWD:/work" tilewave report --kernels my_kernels
# With a GPU: --gpus all, and --cap-add=SYS_ADMIN for counters; Nsight Compute is not in the image.
FROM python:3.12-slim-bookworm

# The locked packages first: they change seldom.
COPY requirements/build.txt requirements/base.txt /tmp/
RUN pip install --no-cache-dir --require-hashes -r /tmp/build.txt \
    && pip install --no-cache-dir --no-build-isolation --require-hashes -r /tmp/base.txt
ARG GPU=0
COPY requirements/gpu.txt /tmp/gpu.txt
RUN if [ "$GPU" = 1 ]; then pip install --no-cache-dir --require-hashes -r /tmp/gpu.txt; fi

COPY . /tmp/tilewave
RUN pip install --no-cache-dir --no-deps /tmp/tilewave && rm -rf /tmp/tilewave
ARG COMMIT=""
ENV TILEWAVE_COMMIT=$COMMIT TILEWAVE_CACHE=/var/cache/tilewave
WORKDIR /work
ENTRYPOINT ["tilewave"]
