# The local engine, without Java. With Spark: docker build --build-arg EXTRAS='[spark,java]' -t xmlpunct .
FROM python:3.13 AS build
ARG EXTRAS=
WORKDIR /build
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE pyspark_xmlpunct.py ./
COPY man man
COPY xmlpunct xmlpunct
RUN XMLPUNCT_REQUIRE_EXTENSION=1 pip wheel --quiet --wheel-dir wheels ".${EXTRAS}"

FROM python:3.13-slim
WORKDIR /install
COPY --from=build /build/wheels wheels
RUN pip install --quiet --no-index --no-cache-dir wheels/*.whl && rm -r wheels
WORKDIR /data
USER nobody
ENTRYPOINT ["xmlpunct"]
