# The command, built from the sources and put alone into an empty image:
#   docker build --tag lsparse . && docker run --rm --volume "$PWD:/data" lsparse demo --quiet
# Without a network: `cargo vendor` first, as its output says (.cargo/config.toml), and give an image with Rust and gcc by
# --build-arg RUST=...; the build then asks for nothing (--build-arg CARGO_NET_OFFLINE=true).
ARG RUST=rust:1
FROM ${RUST} AS build
ARG CARGO_NET_OFFLINE=false
ENV CARGO_NET_OFFLINE=${CARGO_NET_OFFLINE}
WORKDIR /source
COPY . .
# All of the C library is put into it. The target is named so that programs which run while it is built are not static too.
RUN target=$(rustc -vV | sed -n 's/^host: //p') \
    && RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$target" --package lsparse-cli \
    && cp "target/$target/release/lsparse" /lsparse

FROM scratch
COPY --from=build /lsparse /lsparse
WORKDIR /data
ENTRYPOINT ["/lsparse"]
