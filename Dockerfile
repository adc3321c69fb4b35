# The image that manifests/deployment.yaml names. No registry serves it; build it yourself:
#   docker build -t kubedsm:0.1.0 .
FROM python:3.11-slim

WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY kubedsm kubedsm
COPY plans plans
COPY loadgen loadgen
RUN pip install --no-cache-dir . && rm -rf /src

WORKDIR /
USER 65532:65532
ENTRYPOINT ["kubedsm"]
