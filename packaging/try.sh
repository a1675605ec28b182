# Trials of `scripts/release --check`: every package is installed and used where nothing else of ours is. Sourced by it.

trial=$work/trial
rm -rf "$trial"
mkdir -p "$trial"

# Runs a command in a root: with its own processes, mounts and names, and without a network.
inside() { # ROOT COMMAND...
    local folder=$1
    shift
    mkdir -p "$folder"/{proc,tmp}
    unshare --mount --net --pid --ipc --uts --fork --mount-proc="$folder/proc" chroot "$folder" "$@"
}

fails() { # WHAT
    echo "release --check: $1" >&2
    exit 1
}

# What everyone does first, by the program at PATH in ROOT, whose examples are in the folder DOCUMENT of ROOT.
tasks() { # ROOT DOCUMENT COMMAND...
    local folder=$1 document=$2 said
    shift 2
    said=$(inside "$folder" "$@" --version)
    [ "${said#ioweir "$version" }" != "$said" ] || fails "it says that it is '$said', expected ioweir $version"
    inside "$folder" "$@" demo >"$trial/demo" 2>/dev/null
    grep -q 'mq-deadline' "$trial/demo" || fails "the demonstration compares nothing"
    inside "$folder" "$@" compare "$document/traces/mix.iolog.gz" --load closed:4 --json - >"$trial/compare.json"
    grep -q '"completion_seconds"' "$trial/compare.json" || fails "a comparison has no results"
    inside "$folder" "$@" simulate "$document/examples/noisy-neighbour.toml" >/dev/null
    inside "$folder" "$@" serve --check "$document/examples/two-tenants.toml" | grep 'can be served' >/dev/null ||
        fails "examples/two-tenants.toml cannot be served"
}

# The twenty-five tasks of docs/tasks.md with the program that is installed in ROOT, by the test of the book: its file alone, compiled
# for that program and for a root that has no library of ours.
book() { # ROOT
    local folder=$1
    mkdir -p "$folder/repository"
    git archive HEAD README.md docs examples experiments packaging traces crates/cli/Cargo.toml |
        tar --extract --directory "$folder/repository"
    CARGO_MANIFEST_DIR=/repository/crates/cli CARGO_BIN_EXE_ioweir=/usr/bin/ioweir \
        rustc --edition 2024 --test --target "$target" -o "$folder/tmp/book" crates/cli/tests/book/main.rs
    inside "$folder" env BOOK_ONLY=/docs/tasks.md /tmp/book every_command >"$work/tasks.log" 2>&1 ||
        fails "the installed program does not do what docs/tasks.md says ($work/tasks.log)"
    rm -r "$folder/repository"
}

# A server in ROOT answers its control socket, and ends when it is asked to.
serves() { # ROOT SPEC SOCKET COMMAND...
    local folder=$1 spec=$2 socket=$3
    shift 3
    inside "$folder" "$@" serve "$spec" --quiet 2>"$trial/serve.log" &
    local server=$! turns=0
    until [ -S "$folder$socket" ]; do
        [ $((turns += 1)) -le 200 ] && kill -0 $server 2>/dev/null || fails "a server does not begin to serve $spec"
        sleep 0.05
    done
    chroot "$folder" "$@" ctl "$spec" state --json - | grep '"schema_version"' >/dev/null || fails "a server has no state"
    chroot "$folder" "$@" ctl "$spec" drain >/dev/null
    wait $server || fails "a server that drains ends with $?"
}

# The units of the package in ROOT under a systemd of its own, which is process 1 there.
under_systemd() { # ROOT
    local folder=$1
    install packaging/under-systemd.sh "$folder/"
    mkdir -p "$folder/host"
    printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n[Service]\nType=oneshot\nExecStart=/under-systemd.sh\n' \
        >"$folder/etc/systemd/system/trial.service"
    # It ends by itself; the limit is for one that hangs.
    # shellcheck disable=SC2016
    timeout --kill-after=10 300 unshare --mount --net --pid --ipc --uts --cgroup --fork --kill-child /bin/bash -ec '
        mount --make-rprivate /
        mount --bind "$1" "$1"
        cd "$1"
        mount -t proc proc proc
        mount -t sysfs -o ro sysfs sys
        mount -t cgroup2 cgroup2 sys/fs/cgroup
        mount -t tmpfs -o mode=755 tmpfs dev
        for node in null zero full random urandom; do cp -a "/dev/$node" dev; done
        ln -s /proc/self/fd dev/fd
        mount -t tmpfs tmpfs run
        pivot_root . host
        umount -l /host
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=trial \
            /lib/systemd/systemd --unit=trial.service --log-target=journal --show-status=no' _ "$folder" ||
        fails "under systemd: $(cat "$folder/trial.result" 2>/dev/null || echo "it does not start") ($folder/trial.log)"
    [ "$(cat "$folder/trial.result")" = ok ] || fails "under systemd: $(cat "$folder/trial.result") ($folder/trial.log)"
    rm -r "$folder"/{under-systemd.sh,trial.result,host,etc/systemd/system/trial.service}
}

try_archive() {
    local folder=$trial/empty first
    first=$(sha256sum "$dist/$name.tar.gz")
    make_archive "$name" "$(program_of "$target")"
    [ "$first" = "$(sha256sum "$dist/$name.tar.gz")" ] || fails "packed twice, the archive differs"
    mkdir -p "$folder"
    tar --extract --directory "$folder" --strip-components=1 --file "$dist/$name.tar.gz"
    tasks "$folder" /share/doc/ioweir /bin/ioweir
    serves "$folder" /share/doc/ioweir/examples/two-tenants.toml /tmp/ioweir.control /bin/ioweir
    ! have man "manual pages are not read" || for page in "$folder"/share/man/man1/*; do
        [ -z "$(man --warnings --local-file "$page" 2>&1 >/dev/null)" ] || fails "man has something against $page"
    done
    for shell in bash:bash-completion/completions/ioweir zsh:zsh/site-functions/_ioweir \
        fish:fish/vendor_completions.d/ioweir.fish; do
        ! have "${shell%%:*}" "its completions are not read" || "${shell%%:*}" -n "$folder/share/${shell#*:}"
    done
}

# A fresh Debian of this machine's release, made once.
debian() {
    have debootstrap "nothing is tried in a fresh Debian" || return 1
    local base=$root/target/release-debian
    if [ ! -e "$base/made" ]; then
        rm -rf "$base"
        # shellcheck disable=SC1091
        debootstrap --variant=minbase --include=dbus,procps,python3-venv,systemd "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$base" \
            >"$work/debootstrap.log" 2>&1 || {
            left_out "nothing is tried in a fresh Debian: debootstrap fails ($work/debootstrap.log)"
            return 1
        }
        touch "$base/made"
    fi
    [ -d "$trial/debian" ] || cp -a "$base" "$trial/debian"
}

try_deb() {
    local folder=$trial/debian first package=$dist/ioweir_${version}_amd64.deb
    [ -e "$package" ] && debian || return 0
    first=$(sha256sum "$package")
    make_deb "$work/$name" "$work/deb" amd64
    [ "$first" = "$(sha256sum "$package")" ] || fails "packed twice, the Debian package differs"
    cp "$package" "$folder/tmp"
    inside "$folder" dpkg --install "/tmp/${package##*/}" >/dev/null
    [ -z "$(inside "$folder" dpkg --verify ioweir)" ] || fails "files of the Debian package are not as it says"
    tasks "$folder" /usr/share/doc/ioweir ioweir
    book "$folder"
    inside "$folder" id ioweir >/dev/null
    inside "$folder" install -d -o ioweir -g ioweir /run/ioweir
    local as_user=(setpriv --reuid=ioweir --regid=ioweir --clear-groups ioweir)
    inside "$folder" "${as_user[@]}" serve --check /etc/ioweir/example.toml >/dev/null
    # In a root without a network there is no loopback to watch it on.
    sed -i '/^watch = /d' "$folder/etc/ioweir/example.toml"
    serves "$folder" /etc/ioweir/example.toml /run/ioweir/example.control "${as_user[@]}"
    local unit
    for unit in ioweir@example.service ioweir@example.socket ioweir-govern@example.service; do
        inside "$folder" systemd-analyze verify --recursive-errors=no "/usr/lib/systemd/system/$unit"
    done
    # Of ten, where the average service of a Debian has more than nine; this one has sockets, and files that a spec names.
    inside "$folder" systemd-analyze security --offline=yes --threshold=25 ioweir@example.service >"$work/security.txt" ||
        fails "the unit of the server is not hardened as it was ($work/security.txt)"
    under_systemd "$folder"
    # A file that was changed is kept when a newer package is installed, and nothing but that is left when it is removed.
    inside "$folder" dpkg --install "/tmp/${package##*/}" >/dev/null
    ! grep -q '^watch = ' "$folder/etc/ioweir/example.toml" || fails "a configuration that was changed was overwritten"
    inside "$folder" dpkg --remove ioweir >/dev/null
    [ -e "$folder/etc/ioweir/example.toml" ] && [ ! -e "$folder/usr/bin/ioweir" ] || fails "removing the package removes the wrong files"
    inside "$folder" dpkg --purge ioweir >/dev/null
    [ ! -e "$folder/etc/ioweir" ] || fails "purging the package leaves its configuration"
}

try_image() {
    [ -e "$dist/ioweir-$version-image.tar" ] || return 0
    local folder container buildah=(buildah --storage-driver vfs --root "$work/images")
    container=$("${buildah[@]}" from "oci-archive:$dist/ioweir-$version-image.tar" 2>/dev/null)
    folder=$("${buildah[@]}" mount "$container")
    # As the user that the image names, in its folder and its environment, with nothing but it.
    local as_user=(unshare --mount --net --pid --ipc --uts --fork chroot --userspec=65532:65532 "$folder"
        /bin/ioweir)
    TMPDIR=/data "${as_user[@]}" demo >"$trial/demo-image" 2>/dev/null
    grep -q 'mq-deadline' "$trial/demo-image" || fails "the demonstration compares nothing in the image"
    "${buildah[@]}" run --isolation chroot "$container" -- /bin/ioweir simulate noisy-neighbour.toml --json result.json >/dev/null
    "${buildah[@]}" inspect --format '{{.OCIv1.Config.Entrypoint}}' "$container" | grep -q /bin/ioweir ||
        fails "the image does not start the program"
    "${buildah[@]}" rm "$container" >/dev/null
}

try_wheel() {
    debian || return 0
    local folder=$trial/debian
    cp "$dist"/ioweir-*.whl "$folder/tmp"
    inside "$folder" python3 -m venv /opt/ioweir
    inside "$folder" /bin/sh -c '/opt/ioweir/bin/pip install --quiet --no-index /tmp/ioweir-*.whl'
    cp traces/fio/mix.iolog.gz "$folder/tmp"
    inside "$folder" /opt/ioweir/bin/python -c \
        'import ioweir; print(ioweir.compare(traces="/tmp/mix.iolog.gz", loads="closed:4"))' >/dev/null
    inside "$folder" /opt/ioweir/bin/ioweir demo >/dev/null 2>&1
}

try_arm() {
    [ -e "$dist/$arm_name.tar.gz" ] || return 0
    have qemu-aarch64 "the program for ARM is not tried" || return 0
    local program
    program=$(program_of "$arm_target")
    run_program "$program" --version >/dev/null
    (cd "$trial" && run_program "$program" demo >"$trial/demo-arm" 2>/dev/null)
    # The same input gives the same numbers, whatever the processor.
    [ ! -e "$trial/demo" ] || cmp "$trial/demo" "$trial/demo-arm" || fails "the demonstration says something else on ARM"
    run_program "$program" serve --check examples/two-tenants.toml | grep 'can be served' >/dev/null || fails "ARM cannot serve an example"
}
