# Parts of `scripts/release`: how a program, an archive and a Debian package are made. Sourced by it.

# What was left out, and why.
said=()

left_out() { # REASON
    echo "release: $1" >&2
    said+=("$1")
}

have() { # PROGRAM CONSEQUENCE
    command -v "$1" >/dev/null && return
    left_out "$2: there is no $1 (\`scripts/install-tools release\`)"
    return 1
}

# Flags under which no path of this machine gets into a program: neither the sources', nor those of the crates it is built of.
flags() { # SOURCE
    local folder
    printf -- '--remap-path-prefix=%s=/ioweir' "$1"
    for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
        printf -- ' --remap-path-prefix=%s=/crates' "$folder"
    done
}

c_flags() { # SOURCE
    local folder
    printf -- '-ffile-prefix-map=%s=/ioweir' "$1"
    for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
        printf -- ' -ffile-prefix-map=%s=/crates' "$folder"
    done
}

build() { # SOURCE TARGET [C-FLAG]
    (
        cd "$1"
        # The folder that the crates are unpacked into has to be there before it can be named.
        cargo fetch --quiet --locked --target "$2"
        CARGO_TARGET_DIR=$1/target/release-$2 RUSTFLAGS=$(flags "$1") CFLAGS="$(c_flags "$1") ${3-}" \
            cargo build --locked --profile dist --target "$2" -p ioweir
    )
}

# The program that was built for a target.
program_of() { # TARGET
    echo "$root/target/release-$1/$1/dist/ioweir"
}

# A program of this processor, or one of another by qemu.
run_program() { # PROGRAM ARGUMENT...
    local program=$1
    shift
    case $program in
    */aarch64-*) qemu-aarch64 "$program" "$@" ;;
    *) "$program" "$@" ;;
    esac
}

# Puts all files of a package into the folder NAME, and makes its archive in dist/.
make_archive() { # NAME PROGRAM
    local folder=$work/$1 program=$2 document shell own
    # What is the same for every processor is made by the program that runs here.
    own=$(program_of "$target")
    [ -x "$own" ] || own=$program
    rm -rf "$folder"
    document=$folder/share/doc/ioweir
    mkdir -p "$folder"/{bin,share/man/man1,lib/systemd/system,lib/sysusers.d} "$document"/{monitoring,traces} \
        "$folder"/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,elvish/lib,nushell/vendor/autoload,powershell}
    # Names of functions are for profilers: a tenth of it.
    case $program in
    */aarch64-*) install -m 755 --strip --strip-program=aarch64-linux-gnu-strip "$program" "$folder/bin/ioweir" ;;
    *) install -m 755 --strip "$program" "$folder/bin/ioweir" ;;
    esac
    run_program "$own" man "$folder/share/man/man1"
    for shell in bash:bash-completion/completions/ioweir zsh:zsh/site-functions/_ioweir \
        fish:fish/vendor_completions.d/ioweir.fish elvish:elvish/lib/ioweir.elv nushell:nushell/vendor/autoload/ioweir.nu \
        powershell:powershell/ioweir.ps1; do
        run_program "$own" completions "${shell%%:*}" >"$folder/share/${shell#*:}"
    done
    install -m 644 packaging/ioweir@.service packaging/ioweir@.socket packaging/ioweir-govern@.service "$folder/lib/systemd/system"
    install -m 644 packaging/ioweir.sysusers "$folder/lib/sysusers.d/ioweir.conf"
    install -m 644 packaging/Dockerfile "$folder"
    install -m 644 packaging/prometheus-rules.yml packaging/grafana-dashboard.json "$document/monitoring"
    install -m 644 CHANGELOG.md LICENSE-APACHE LICENSE-MIT CITATION.cff SECURITY.md "$document"
    install -m 644 packaging/INSTALL.md "$folder"
    cp -r examples "$document"
    install -m 644 packaging/example.toml "$document/examples/server-of-units.toml"
    install -m 644 traces/fio/mix.iolog.gz traces/hadoop/hdd-emul/terasort.insert.csv.zst "$document/traces"
    scripts/licences --write "$document/THIRD-PARTY"
    chmod -R u=rwX,go=rX "$folder"
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        --directory "$work" "$1" | gzip -9 --no-name >"$dist/$1.tar.gz"
}

# The Debian package, of the folder that an archive was made of.
make_deb() { # FOLDER STAGE ARCHITECTURE
    local from=$1 stage=$2 share=$2/usr/share document=$2/usr/share/doc/ioweir
    rm -rf "$stage"
    mkdir -p "$stage"/{DEBIAN,etc/ioweir,usr}
    cp -r "$from"/{bin,lib,share} "$stage/usr"
    install -m 644 packaging/example.toml "$stage/etc/ioweir/example.toml"
    rm "$document/examples/server-of-units.toml" "$document"/LICENSE-*
    gzip -9 --no-name "$share"/man/man1/*.1 "$document/CHANGELOG.md" "$document/THIRD-PARTY"
    mv "$document/CHANGELOG.md.gz" "$document/changelog.gz"
    {
        echo "The program is under the licence MIT or Apache-2.0, as you choose (Apache-2.0: /usr/share/common-licenses/Apache-2.0)."
        echo "It contains crates of others, whose licences are in THIRD-PARTY.gz beside this file."
        echo
        cat LICENSE-MIT
    } >"$document/copyright"
    cat >"$stage/DEBIAN/control" <<CONTROL
Package: ioweir
Version: $version
Architecture: $3
Maintainer: the maintainers of ioweir
Installed-Size: $(du --summarize --apparent-size --block-size=1K --exclude=DEBIAN "$stage" | cut -f1)
Depends: systemd | systemd-standalone-sysusers, procps
Suggests: fio, libnbd-bin, prometheus
Section: utils
Priority: optional
Description: $(sed -n 's/^description = "\(.*\)"/\1/p' crates/cli/Cargo.toml)
 ioweir decides in which order, on which core, at what price and when
 storage requests are served. It runs published scheduling policies in a
 deterministic simulator, on recorded traces, and in a block server, and
 reports which policy suits a device and a load, by how much, and why a
 request waited.
CONTROL
    echo /etc/ioweir/example.toml >"$stage/DEBIAN/conffiles"
    # A server that runs is left to run: its clients would lose their disk. It is restarted when that suits.
    cat >"$stage/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    systemd-sysusers ioweir.conf
    if [ -d /run/systemd/system ]; then systemctl --system daemon-reload; fi
fi
SCRIPT
    # What a server keeps (/var/lib/ioweir) and its user stay, after a purge too: they are not the package's.
    cat >"$stage/DEBIAN/postrm" <<'SCRIPT'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl --system daemon-reload; fi
SCRIPT
    chmod 755 "$stage/DEBIAN/postinst" "$stage/DEBIAN/postrm"
    (cd "$stage" && find etc usr -type f -print0 | sort --zero-terminated | xargs --null md5sum >DEBIAN/md5sums)
    dpkg-deb --root-owner-group -Zxz --build "$stage" "$dist/ioweir_${version}_$3.deb" >/dev/null
}
