# Image of the scheduler, referenced by manifests/. It is in no registry; build it yourself
# (docs/how-to/build-image.md):
#   docker build -t kubedsm:0.1.0 .
# BASE is any image with Python 3.11 or newer, and either pip or ensurepip.
ARG BASE=python:3.13.7-slim-trixie

FROM ${BASE} AS build
# pip is outside of the environment that is copied into the final image.
ENV PATH=/opt/pip/bin:$PATH
RUN python3 -m venv --without-pip /opt/kubedsm \
    && { python3 -m pip --version 2>/dev/null || python3 -m venv /opt/pip; }
WORKDIR /src
# Install exactly the locked packages, verified by their hashes.
COPY requirements.lock requirements-build.lock ./
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    python3 -m venv /opt/build \
    && python3 -m pip --python /opt/build/bin/python install --no-cache-dir --require-hashes \
       -r requirements-build.lock \
    && python3 -m pip --python /opt/kubedsm/bin/python install --no-cache-dir --no-compile \
       --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY kubedsm kubedsm
COPY plans plans
COPY loadgen loadgen
RUN /opt/build/bin/python -m hatchling build -t wheel -d /wheel \
    && python3 -m pip --python /opt/kubedsm/bin/python install --no-cache-dir --no-compile --no-index \
       --no-deps /wheel/*.whl
# Unused dependencies of prometheus-api-client: parsers of natural-language dates.
RUN python3 -m pip --python /opt/kubedsm/bin/python uninstall --yes dateparser pytz regex tzlocal
# Remove tests, type stubs and C headers.
RUN find /opt/kubedsm \( -type d -name tests -o -name '*_test.py' -o -name 'test_*.py' \
    -o -name '*_tests.*.so' -o -name '*.pyi' -o -name '*.h' \) -prune -exec rm -r {} +
# The wheel of highspy has two copies of its library; this one is unused.
RUN find /opt/kubedsm -path '*/highspy/libhighs.so.1.*' -delete
# Credentials are loaded without the 900 generated modules of kubernetes_asyncio, 47 MB
# (kubedsm/kube/client/credential_library.py). Its two outer packages are registered unexecuted, hence
# compiled here.
RUN cd /opt/kubedsm/lib/python3*/site-packages/kubernetes_asyncio \
    && rm -r client/api client/models \
    && /opt/kubedsm/bin/python -m compileall -q __init__.py client/__init__.py

FROM ${BASE}
COPY --from=build /opt/kubedsm /opt/kubedsm
ENV PATH=/opt/kubedsm/bin:$PATH
# Importing all modules compiles them now: a pod's root file system is read-only. CP-SAT and textual
# are not installed. The base image's pip is removed.
RUN cd /opt/kubedsm/lib/python3*/site-packages \
    && find kubedsm plans loadgen -name '*.py' ! -name __main__.py ! -name cp_sat_library.py \
         ! -name watch_app.py \
       | sed 's,/__init__,,; s/\.py$//; s,/,.,g; s/^/import /' | /opt/kubedsm/bin/python - \
    && /opt/kubedsm/bin/python -c 'import prometheus_api_client.prometheus_connect' \
    && rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/bin/pip* \
       /usr/lib/python3/dist-packages/pip* /usr/lib/python3*/ensurepip /usr/share/python-wheels \
       /usr/local/lib/python3*/ensurepip
USER 65532:65532
ENTRYPOINT ["kubedsm"]
