# vit as a service, for CPUs and NVIDIA GPUs: docker build -t vit .
# Smaller, for CPUs alone: docker build -t vit --build-arg TORCH_INDEX=ADDRESS . with the address that
# PyTorch's installation page gives for CPUs.
# Run: docker run --rm -p 8000:8000 -v "$PWD/runs:/runs:ro" --shm-size 1g vit serve /runs/DATA/NETWORK/TIME --host 0.0.0.0
FROM python:3.12.12-slim-trixie

ARG TORCH_INDEX=""

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

WORKDIR /opt/vit
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY vit ./vit
COPY configs ./configs
RUN pip install ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} --constraint constraints.txt torch torchvision \
    && pip install --constraint constraints.txt '.[serve,export]' \
    && useradd --no-log-init --uid 10001 --create-home vit

USER 10001
WORKDIR /home/vit
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# the program is the first process, so that it gets SIGTERM and answers what it has
ENTRYPOINT ["vit"]
CMD ["--help"]
