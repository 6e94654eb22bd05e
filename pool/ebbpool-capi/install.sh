#!/usr/bin/env bash
# ./install.sh PREFIX [DIRECTORY]
#
# Builds libebbpool and installs libraries, header and ebbpool.pc under PREFIX, such as /usr/local. With DIRECTORY it
# installs the libraries that cargo has built there, and builds nothing. LIBDIR (lib) names the directory for libraries
# under PREFIX, and DESTDIR is put in front of all paths, for packages.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
fi
prefix=$(realpath -m "$1")
built=${2:-}
crate=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
libdir=$prefix/${LIBDIR:-lib}

if [ -z "$built" ]; then
    # In the crate's directory, so that cargo finds the workspace and its settings.
    (cd "$crate" && cargo build --release --locked)
    built=$(cd "$crate" && cargo metadata --format-version 1 --no-deps --offline |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/release
fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$crate/Cargo.toml" "$crate/../../Cargo.toml" 2>/dev/null | head -n 1)

install -d "${DESTDIR:-}$libdir/pkgconfig" "${DESTDIR:-}$prefix/include"
install -m 755 "$built/libebbpool_capi.so" "${DESTDIR:-}$libdir/libebbpool.so.0"
ln -sf libebbpool.so.0 "${DESTDIR:-}$libdir/libebbpool.so"
install -m 644 "$built/libebbpool_capi.a" "${DESTDIR:-}$libdir/libebbpool.a"
install -m 644 "$crate/include/ebbpool.h" "${DESTDIR:-}$prefix/include/ebbpool.h"
# The private libraries are those of `rustc --print native-static-libs`.
cat >"${DESTDIR:-}$libdir/pkgconfig/ebbpool.pc" <<PC
prefix=$prefix
libdir=$libdir
includedir=\${prefix}/include

Name: ebbpool
Description: A buffer pool, and replacement policies that know what a write costs
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lebbpool
Libs.private: -lgcc_s -lutil -lrt -lpthread -lm -ldl
PC
